//! Listening sockets that share a port, and taking connections from them.

use std::io;
use std::net::SocketAddr;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, acceptfrom_with, bind, getsockname, listen,
    socket_with, sockopt,
};

/// Connections that the kernel keeps until they are taken; it cuts this to its own maximum.
const BACKLOG: i32 = 16_384;

/// Opens a listening socket. Every socket of a server is opened with the same address.
pub(crate) fn open(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = stream(address)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    // Inherited by the connections: answers are written whole, waiting for more is of no use.
    sockopt::set_tcp_nodelay(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Fails when somebody listens on the address already. Sockets that share a port would not
/// notice, and the two servers would each get a part of the connections.
pub(crate) fn check_free(address: SocketAddr) -> io::Result<()> {
    bind(stream(address)?, &address)?;
    Ok(())
}

/// The address that a socket is bound to.
pub(crate) fn address(socket: &OwnedFd) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(getsockname(socket)?)?)
}

/// Takes a connection; `Ok(None)` when none is there.
pub(crate) fn accept(listener: &OwnedFd) -> Result<Option<(OwnedFd, SocketAddr)>, Errno> {
    match acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok((socket, peer)) => {
            let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
            Ok(peer.map(|peer| (socket, peer)))
        }
        Err(Errno::AGAIN) => Ok(None),
        Err(error) => Err(error),
    }
}

fn stream(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(
        family,
        SocketType::STREAM,
        SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
        None,
    )?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    Ok(socket)
}

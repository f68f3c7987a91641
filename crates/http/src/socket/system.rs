//! Sockets that never block: the calls that differ between systems.

use std::io;

use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrAny, SocketFlags, SocketType, acceptfrom_with, socket_with,
};

/// The flags of a send: a client that has gone is an error and no signal. On Apple's systems that is
/// a setting of the socket.
#[cfg(not(target_vendor = "apple"))]
pub(crate) const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL;
#[cfg(target_vendor = "apple")]
pub(crate) const SEND_FLAGS: SendFlags = SendFlags::empty();

/// The flags of a new socket: it does not block, and programs that the process starts do not get it.
#[cfg(not(target_vendor = "apple"))]
const SOCKET_FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);
#[cfg(target_vendor = "apple")]
const SOCKET_FLAGS: SocketFlags = SocketFlags::empty();

/// Returns a new socket.
pub(crate) fn new_socket(family: AddressFamily, kind: SocketType) -> io::Result<OwnedFd> {
    let socket = socket_with(family, kind, SOCKET_FLAGS, None)?;
    complete(&socket)?;
    Ok(socket)
}

/// Accepts a connection, with the address of its peer.
pub(crate) fn accept(listener: impl AsFd) -> Result<(OwnedFd, Option<SocketAddrAny>), Errno> {
    let (socket, peer) = acceptfrom_with(listener, SOCKET_FLAGS)?;
    complete(&socket)?;
    Ok((socket, peer))
}

/// Sets what [`SOCKET_FLAGS`] and [`SEND_FLAGS`] cannot express on this system.
#[cfg(not(target_vendor = "apple"))]
#[allow(clippy::unnecessary_wraps, reason = "it can fail on other systems")]
const fn complete(_: &OwnedFd) -> Result<(), Errno> {
    Ok(())
}

#[cfg(target_vendor = "apple")]
fn complete(socket: &OwnedFd) -> Result<(), Errno> {
    use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionbio};
    ioctl_fionbio(socket, true)?;
    fcntl_setfd(socket, FdFlags::CLOEXEC)?;
    socket2::SockRef::from(socket)
        .set_nosigpipe(true)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
}

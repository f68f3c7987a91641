//! Connecting sockets to a server: Unix sockets, and TCP from a local address.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};

/// The idle time after which TCP keepalive probes a server. A server that does not respond for the
/// same time counts as gone: its machine may have failed without closing the connection.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Connects to a Unix socket: a path, or `@` and a name in the abstract namespace.
///
/// # Errors
/// [`ErrorKind::Refused`] if no server listens there, [`ErrorKind::Denied`] without permission.
pub(crate) fn connect_unix(name: &str) -> Result<UnixStream> {
    unix_stream(name).map_err(|error| unreachable_at(name, error))
}

fn unix_stream(name: &str) -> io::Result<UnixStream> {
    #[cfg(target_os = "linux")]
    if let Some(name) = name.strip_prefix('@') {
        use std::os::linux::net::SocketAddrExt;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        return UnixStream::connect_addr(&address);
    }
    UnixStream::connect(name)
}

/// Connects to a host and port by TCP, before the instant `until`.
///
/// # Errors
/// [`ErrorKind::Refused`] if no server listens there, [`ErrorKind::Denied`] without permission.
pub(crate) fn connect_tcp(host: &str, local: Option<IpAddr>, until: Instant) -> Result<TcpStream> {
    let stream = tcp_stream(host, local, until).map_err(|error| unreachable_at(host, error))?;
    stream.set_nodelay(true)?;
    keep_alive(&stream).map_err(io::Error::from)?;
    Ok(stream)
}

fn keep_alive(stream: &TcpStream) -> rustix::io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENCE_MAX)?;
    sockopt::set_tcp_keepintvl(stream, SILENCE_MAX / 4)?;
    sockopt::set_tcp_keepcnt(stream, 4)
}

fn tcp_stream(host: &str, local: Option<IpAddr>, until: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for address in host.to_socket_addrs()? {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let connected = match local {
            Some(local) => connect_from(local, address, until),
            None => TcpStream::connect_timeout(&address, left),
        };
        match connected {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// As `TcpStream::connect_timeout`, with a local address.
fn connect_from(local: IpAddr, to: SocketAddr, until: Instant) -> io::Result<TcpStream> {
    if local.is_ipv4() != to.is_ipv4() {
        let text = format!("{local} and {to} must both be IPv4 or both be IPv6 addresses");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddr::new(local, 0)).map_err(|error| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("cannot connect from {local}: {error}"))
    })?;
    match connect(&socket, &to) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            let mut on = [PollFd::new(&socket, PollFlags::OUT)];
            loop {
                let left = until.saturating_duration_since(Instant::now());
                match poll(&mut on, Timespec::try_from(left).ok().as_ref()) {
                    Ok(0) if left.is_zero() => return Err(io::ErrorKind::TimedOut.into()),
                    Ok(0) | Err(Errno::INTR) => {}
                    Ok(_) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            sockopt::socket_error(&socket)??;
        }
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

#[cold]
fn unreachable_at(name: &str, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied => ErrorKind::Denied,
        _ => ErrorKind::Refused,
    };
    let message = format!("cannot connect to a Marmota server at {name}: {error}");
    Error::new(kind, message).with_source(error)
}

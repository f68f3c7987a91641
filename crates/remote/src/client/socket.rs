//! A Unix or network socket to the HTTP server, on which the protocol has
//! taken over from HTTP.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, bind, connect, send, socket_with, sockopt,
};

use super::wire::{Source, Wire};

/// Bytes of an answer's head at most.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const READ_BYTES: usize = 64 * 1024;

/// Where a server is.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    /// The path of a Unix socket; a name in the abstract namespace behind `@`.
    Unix(String),
    /// A host and port, as in URLs.
    Net(String),
}

/// What is asked for instead of HTTP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upgrade<'a> {
    pub(crate) protocol: &'a str,
    pub(crate) path: &'a str,
    /// What to say where there is none: `no store is served`.
    pub(crate) served: &'a str,
}

pub(crate) struct Socket {
    source: Source,
}

impl Socket {
    /// Connects, has the protocol changed and sends a first packet behind the
    /// request for that; also gives what has come behind the answer. A connection
    /// of the network comes from `local`, if that is set.
    pub(crate) fn connect(
        address: &Address,
        local: Option<IpAddr>,
        to: Upgrade<'_>,
        credential: &[u8],
        first: &[u8],
        within: Duration,
    ) -> Result<(Self, Vec<u8>)> {
        let until = Instant::now() + within;
        match address {
            Address::Unix(name) => {
                let stream = connect_unix(name).map_err(|error| unreachable_at(name, error))?;
                let come = upgrade(&stream, "localhost", to, credential, first, until)?;
                stream.set_nonblocking(true)?;
                Ok((Self::new(stream.into()), come))
            }
            Address::Net(host) => {
                let stream =
                    connect_net(host, local, until).map_err(|error| unreachable_at(host, error))?;
                stream.set_nodelay(true)?;
                let come = upgrade(&stream, host, to, credential, first, until)?;
                stream.set_nonblocking(true)?;
                Ok((Self::new(stream.into()), come))
            }
        }
    }

    fn new(socket: OwnedFd) -> Self {
        Self { source: Arc::new(socket) }
    }
}

fn connect_unix(name: &str) -> io::Result<UnixStream> {
    #[cfg(target_os = "linux")]
    if let Some(name) = name.strip_prefix('@') {
        use std::os::linux::net::SocketAddrExt;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        return UnixStream::connect_addr(&address);
    }
    UnixStream::connect(name)
}

fn connect_net(host: &str, local: Option<IpAddr>, until: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
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

/// As `TcpStream::connect_timeout`, from an address of this machine.
fn connect_from(local: IpAddr, to: SocketAddr, until: Instant) -> io::Result<TcpStream> {
    if local.is_ipv4() != to.is_ipv4() {
        let text = format!("{local} and {to} are addresses of two kinds");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddr::new(local, 0)).map_err(|error| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("no connection can come from {local}: {error}"))
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
    let message = format!("no server of Marmota can be reached at {name}: {error}");
    Error::new(kind, message).with_source(error)
}

/// What a socket of either family can do.
trait Stream: AsFd {
    fn time_out(&self, after: Duration) -> io::Result<()>;
}

impl Stream for UnixStream {
    fn time_out(&self, after: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(after))?;
        self.set_write_timeout(Some(after))
    }
}

impl Stream for TcpStream {
    fn time_out(&self, after: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(after))?;
        self.set_write_timeout(Some(after))
    }
}

fn upgrade<S: Stream>(
    stream: &S,
    host: &str,
    to: Upgrade<'_>,
    credential: &[u8],
    first: &[u8],
    until: Instant,
) -> Result<Vec<u8>>
where
    for<'s> &'s S: Read + Write,
{
    let Upgrade { protocol, path, served } = to;
    let mut request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n"
    )
    .into_bytes();
    if !credential.is_empty() && credential.iter().all(u8::is_ascii_graphic) {
        request.extend_from_slice(b"Authorization: Bearer ");
        request.extend_from_slice(credential);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    request.extend_from_slice(first);
    let greeted = greet(stream, &request, until);
    let come = greeted.map_err(|error| {
        let kind = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ErrorKind::Timeout,
            _ => ErrorKind::Refused,
        };
        let message = format!("the server at {host} did not answer the greeting: {error}");
        Error::new(kind, message).with_source(error)
    })?;
    let end = end_of_head(&come).unwrap_or_default();
    let head = String::from_utf8_lossy(&come[..end]);
    let status = head.split(' ').nth(1).unwrap_or_default();
    let kind = match status {
        "101" => return Ok(come[end..].to_vec()),
        "401" | "403" => ErrorKind::Denied,
        "503" => ErrorKind::Busy,
        _ => ErrorKind::Protocol,
    };
    let line = marmota_model::text::excerpt(head.lines().next().unwrap_or_default());
    let message = format!(
        "{served} at {host} under {path}, it says {line:?}: give the server its router, and the \
         URL the same prefix"
    );
    Err(Error::new(kind, message))
}

/// Sends the request and reads the head of the answer, perhaps with more.
fn greet<S: Stream>(stream: &S, request: &[u8], until: Instant) -> io::Result<Vec<u8>>
where
    for<'s> &'s S: Read + Write,
{
    let mut stream_io = stream;
    stream
        .time_out(until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)))?;
    stream_io.write_all(request)?;
    let (mut come, mut piece) = (Vec::new(), [0; 4096]);
    while end_of_head(&come).is_none() {
        if come.len() > HEAD_BYTES_MAX {
            return Err(io::Error::other("the head of its answer does not end"));
        }
        let left = until.saturating_duration_since(Instant::now());
        stream.time_out(left.max(Duration::from_millis(1)))?;
        match stream_io.read(&mut piece) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => come.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(come)
}

fn end_of_head(come: &[u8]) -> Option<usize> {
    come.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

impl Wire for Socket {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match send(self.source.as_fd(), bytes, SendFlags::NOSIGNAL) {
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            sent => Ok(sent?),
        }
    }

    fn receive(&mut self, inbox: &mut Vec<u8>, _: &mut Context<'_>) -> io::Result<usize> {
        inbox.reserve(READ_BYTES);
        match read(&self.source, spare_capacity(inbox)) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            come => Ok(come?),
        }
    }

    fn source(&self) -> Option<&Source> {
        Some(&self.source)
    }
}

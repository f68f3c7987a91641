//! Connecting to a server, and upgrading the connection from HTTP to another protocol.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use tungstenite::handshake::client::generate_key;
use tungstenite::handshake::derive_accept_key;

use super::socket::Socket;
#[cfg(feature = "tls")]
use super::tls::Secured;
use super::web_socket::WebSocket;
use super::wire::Wire;

/// The maximum size of a response head.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The idle time after which TCP keepalive probes a server. A server that does not respond for the
/// same time counts as gone: its machine may have failed without closing the connection.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The address of a server and its transport.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// The path of a Unix socket, or `@` and a name in the abstract namespace.
    Unix(String),
    /// A host and port, as in URLs.
    Net(Host),
    /// A host and port, through a WebSocket.
    WebSocket(Host),
}

/// A server on the network.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// The name with the port.
    pub(crate) name: String,
    /// True if it uses TLS.
    pub(crate) is_secure: bool,
}

/// The parameters of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Route<'a> {
    pub(crate) address: &'a Address,
    /// The local address of network connections, if it is set.
    pub(crate) local: Option<IpAddr>,
    /// The PEM file of CA certificates; the system's CA store if it is not set.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "nobody is asked for it"))]
    pub(crate) ca_file: Option<&'a Path>,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(name) => write!(f, "unix:{name}"),
            Self::Net(Host { name, is_secure: false }) => write!(f, "http://{name}"),
            Self::Net(Host { name, is_secure: true }) => write!(f, "https://{name}"),
            Self::WebSocket(Host { name, is_secure: false }) => write!(f, "ws://{name}"),
            Self::WebSocket(Host { name, is_secure: true }) => write!(f, "wss://{name}"),
        }
    }
}

/// The protocol to upgrade to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upgrade<'a> {
    pub(crate) protocol: &'a str,
    pub(crate) path: &'a str,
    /// The message if it is not served: `no store is served`.
    pub(crate) served: &'a str,
    /// The client's credential; empty for none.
    pub(crate) credential: &'a [u8],
}

/// Connects, upgrades the protocol and sends a first packet, together with the upgrade request if
/// possible. Also returns the bytes received after the response.
pub(crate) fn reach(
    route: Route<'_>,
    to: Upgrade<'_>,
    first: &[u8],
    within: Duration,
) -> Result<(Box<dyn Wire>, Vec<u8>)> {
    let until = Instant::now() + within;
    match route.address {
        Address::Unix(name) => {
            let stream = connect_unix(name).map_err(|error| unreachable_at(name, error))?;
            let (_, come) =
                to.ask(&stream, "localhost", &[("Upgrade", to.protocol)], first, until)?;
            stream.set_nonblocking(true)?;
            Ok((Box::new(Socket::new(stream.into())), come))
        }
        Address::Net(host) => {
            let stream = connect_net(&host.name, route.local, until)?;
            let headers = [("Upgrade", to.protocol)];
            #[cfg(feature = "tls")]
            if host.is_secure {
                let stream = Secured::new(stream, &host.name, route.ca_file)?;
                let (_, come) = to.ask(&stream, &host.name, &headers, first, until)?;
                return Ok((Box::new(stream.into_wire()?), come));
            }
            let (_, come) = to.ask(&stream, &host.name, &headers, first, until)?;
            stream.set_nonblocking(true)?;
            Ok((Box::new(Socket::new(stream.into())), come))
        }
        Address::WebSocket(host) => {
            let stream = connect_net(&host.name, route.local, until)?;
            #[cfg(feature = "tls")]
            if host.is_secure {
                let stream = Secured::new(stream, &host.name, route.ca_file)?;
                let come = to.ask_web_socket(&stream, &host.name, until)?;
                let socket = WebSocket::secure(stream.into_wire()?, come);
                return greeted(socket, &host.name, first);
            }
            let come = to.ask_web_socket(&stream, &host.name, until)?;
            stream.set_nonblocking(true)?;
            greeted(WebSocket::new(stream, come), &host.name, first)
        }
    }
}

/// Sends the first packet on a WebSocket: it is smaller than the system's buffers, which are empty.
fn greeted(mut socket: WebSocket, host: &str, first: &[u8]) -> Result<(Box<dyn Wire>, Vec<u8>)> {
    if socket.send(first)? < first.len() {
        let message = format!("the server at {host} did not take the greeting");
        return Err(Error::new(ErrorKind::Timeout, message));
    }
    Ok((Box::new(socket), Vec::new()))
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

fn connect_net(host: &str, local: Option<IpAddr>, until: Instant) -> Result<TcpStream> {
    let stream = first_of(host, local, until).map_err(|error| unreachable_at(host, error))?;
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

fn first_of(host: &str, local: Option<IpAddr>, until: Instant) -> io::Result<TcpStream> {
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

/// As `TcpStream::connect_timeout`, with a local address.
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

/// A Unix or TCP socket.
pub(super) trait Stream: AsFd {
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

impl Upgrade<'_> {
    /// Upgrades to a WebSocket, and returns the bytes received after the response.
    fn ask_web_socket<S: Stream>(&self, stream: &S, host: &str, until: Instant) -> Result<Vec<u8>>
    where
        for<'s> &'s S: Read + Write,
    {
        let key = generate_key();
        let headers = [
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", &key),
            ("Sec-WebSocket-Protocol", self.protocol),
        ];
        let (head, come) = self.ask(stream, host, &headers, b"", until)?;
        let accepted = header(&head, "sec-websocket-accept");
        let is_ours = accepted == Some(&derive_accept_key(key.as_bytes()))
            && header(&head, "sec-websocket-protocol") == Some(self.protocol);
        match is_ours {
            true => Ok(come),
            false => Err(self.refused(host, "it opens a WebSocket for something else")),
        }
    }

    /// Sends the upgrade request; returns the head of the response and the bytes received after it.
    fn ask<S: Stream>(
        &self,
        stream: &S,
        host: &str,
        headers: &[(&str, &str)],
        first: &[u8],
        until: Instant,
    ) -> Result<(String, Vec<u8>)>
    where
        for<'s> &'s S: Read + Write,
    {
        let mut request =
            format!("GET {} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\n", self.path);
        for (name, value) in headers {
            request.extend([name, ": ", value, "\r\n"]);
        }
        let mut request = request.into_bytes();
        let credential = self.credential;
        if !credential.is_empty() && credential.iter().all(u8::is_ascii_graphic) {
            request.extend_from_slice(b"Authorization: Bearer ");
            request.extend_from_slice(credential);
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(first);
        let greeted = greet(stream, &request, until);
        let mut come = greeted.map_err(|error| {
            #[cfg(feature = "tls")]
            if let Some(fault) = super::tls::fault(host, &error) {
                return fault;
            }
            let kind = match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ErrorKind::Timeout,
                _ => ErrorKind::Refused,
            };
            let message = format!("the server at {host} did not answer the greeting: {error}");
            Error::new(kind, message).with_source(error)
        })?;
        let end = end_of_head(&come).unwrap_or_default();
        let rest = come.split_off(end);
        let head = String::from_utf8_lossy(&come).into_owned();
        let status = head.split(' ').nth(1).unwrap_or_default();
        let kind = match status {
            "101" => return Ok((head, rest)),
            "401" | "403" => ErrorKind::Denied,
            "503" => ErrorKind::Busy,
            _ => ErrorKind::Protocol,
        };
        let line = marmota_model::text::excerpt(head.lines().next().unwrap_or_default());
        let message = self.refused(host, &format!("it answered {line:?}")).message().to_owned();
        Err(Error::new(kind, message))
    }

    #[cold]
    fn refused(&self, host: &str, reason: &str) -> Error {
        let Self { served, path, .. } = self;
        let message = format!(
            "{served} at {host} under {path}, {reason}: give the server its router, and the URL the \
             same prefix"
        );
        Error::new(ErrorKind::Protocol, message)
    }
}

/// Returns the value of a header in a head.
fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// Sends the request and reads the head of the response, possibly with more bytes.
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

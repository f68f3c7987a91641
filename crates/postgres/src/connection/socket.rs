//! Bytes to and from a server: TCP or a Unix socket, plain or with TLS.
//!
//! A socket is blocking while the connection is established (`connector.rs`), and non-blocking
//! afterwards.

mod tls;

use std::io::{self, ErrorKind as Io, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConnection;

use crate::options::{Host, PostgresOptions, TlsMode};
use crate::wire::frontend;

/// A stream that can be waited for.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Stream {
    fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => { stream }.read(bytes),
            Self::Unix(stream) => { stream }.read(bytes),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => { stream }.write(bytes),
            Self::Unix(stream) => { stream }.write(bytes),
        }
    }

    fn blocks_for(&self, timeout: Duration) -> io::Result<()> {
        let timeout = Some(timeout.max(Duration::from_millis(1)));
        match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(timeout).and_then(|()| stream.set_write_timeout(timeout))
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(timeout).and_then(|()| stream.set_write_timeout(timeout))
            }
        }
    }
}

/// [`Stream`] as `io::Read` and `io::Write` for TLS.
struct Ends<'s>(&'s Stream);

impl io::Read for Ends<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl io::Write for Ends<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket, plain or with TLS.
pub(crate) struct Socket {
    stream: Arc<Stream>,
    tls: Option<Box<ClientConnection>>,
}

impl Socket {
    /// Returns true if received data is not buffered between the socket and its reader.
    pub(crate) const fn is_plain(&self) -> bool {
        self.tls.is_none()
    }

    /// Connects, with TLS if it is requested and available.
    ///
    /// # Errors
    /// The reason why it failed.
    pub(crate) fn connect(options: &PostgresOptions, until: Instant) -> io::Result<Self> {
        let mut socket = Self { stream: Arc::new(reach(options, until)?), tls: None };
        let is_local = matches!(options.host, Host::Unix(_));
        socket.stream.blocks_for(until.saturating_duration_since(Instant::now()))?;
        // Like libpq, connections within the machine are not encrypted.
        if !is_local && options.tls_mode != TlsMode::Disable {
            socket.ask_for_tls(options)?;
        }
        Ok(socket)
    }

    fn ask_for_tls(&mut self, options: &PostgresOptions) -> io::Result<()> {
        let mut request = Vec::new();
        frontend::tls_request(&mut request);
        self.write_all(&request)?;
        // Only one byte is read: later ones would not be encrypted.
        let mut answer = [0];
        if self.stream.read(&mut answer)? == 0 {
            return Err(io::Error::new(
                Io::UnexpectedEof,
                "the server closed the connection when TLS was requested",
            ));
        }
        match (answer, options.tls_mode) {
            ([b'S'], _) => {
                let mut tls = tls::client(options)?;
                let mut ends = Ends(&self.stream);
                while tls.is_handshaking() {
                    tls.complete_io(&mut ends)?;
                }
                self.tls = Some(Box::new(tls));
                Ok(())
            }
            ([b'N'], TlsMode::Prefer) => Ok(()),
            ([b'N'], _) => Err(io::Error::new(
                Io::PermissionDenied,
                "the server does not support TLS: enable TLS there (ssl = on), or use \
                 sslmode=disable",
            )),
            _ => Err(io::Error::new(Io::InvalidData, "the server there is not PostgreSQL")),
        }
    }

    /// Makes the socket non-blocking.
    pub(crate) fn never_blocks(&self) -> io::Result<()> {
        match &*self.stream {
            Stream::Tcp(stream) => stream.set_nonblocking(true),
            Stream::Unix(stream) => stream.set_nonblocking(true),
        }
    }

    /// Returns the address of the server if it runs on this machine: if it is reached over a Unix
    /// socket, the loopback interface, or an address of this machine itself.
    pub(crate) fn local_server(&self) -> Option<String> {
        match &*self.stream {
            Stream::Tcp(stream) => {
                let (own, peer) = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
                let is_local = peer.ip().to_canonical().is_loopback() || peer.ip() == own.ip();
                is_local.then(|| peer.to_string())
            }
            Stream::Unix(stream) => {
                let address = stream.peer_addr().ok()?;
                let path = address.as_pathname().map(|path| path.display().to_string());
                Some(path.unwrap_or_else(|| "a Unix socket".to_owned()))
            }
        }
    }

    /// Returns the stream to wait for.
    pub(crate) const fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Reads some bytes; 0 at the end.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return retry(|| self.stream.read(bytes)) };
        loop {
            match tls.reader().read(bytes) {
                Err(error) if error.kind() == Io::WouldBlock => {}
                // An end without a TLS close message counts as an end.
                Err(error) if error.kind() == Io::UnexpectedEof => return Ok(0),
                read => return read,
            }
            if retry(|| tls.read_tls(&mut Ends(&self.stream)))? == 0 {
                return Ok(0);
            }
            tls.process_new_packets().map_err(|error| io::Error::new(Io::InvalidData, error))?;
        }
    }

    /// Accepts some bytes to send.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => retry(|| self.stream.write(bytes)),
            Some(tls) => {
                let taken = tls.writer().write(bytes)?;
                self.flush()?;
                if taken == 0 { Err(Io::WouldBlock.into()) } else { Ok(taken) }
            }
        }
    }

    /// Sends bytes that TLS has buffered. Returns true if nothing is left.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        while tls.wants_write() {
            match retry(|| tls.write_tls(&mut Ends(&self.stream))) {
                Ok(_) => {}
                Err(error) if error.kind() == Io::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Writes everything, while the socket is still blocking.
    pub(crate) fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = self.write(bytes)?;
            bytes = &bytes[taken..];
        }
        self.flush().map(|_| ())
    }
}

fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == Io::Interrupted => {}
            done => return done,
        }
    }
}

/// Connects to the first address that answers.
fn reach(options: &PostgresOptions, until: Instant) -> io::Result<Stream> {
    let name = match &options.host {
        Host::Unix(folder) => {
            let path = folder.join(format!(".s.PGSQL.{}", options.port));
            return UnixStream::connect(path).map(Stream::Unix);
        }
        Host::Tcp(name) => name,
    };
    let mut failure = io::Error::new(Io::NotFound, "the host name has no address");
    for address in (name.as_str(), options.port).to_socket_addrs()? {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(Io::TimedOut, "the server did not answer in time"));
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                notice_silence(&stream)?;
                return Ok(Stream::Tcp(stream));
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Lets the system end the connection to a server that it cannot reach any more: after 15 s without
/// data it sends a probe each 5 s, and data that is not received counts as lost after 30 s.
fn notice_silence(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(15))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    sockopt::set_tcp_user_timeout(stream, 30_000)?;
    Ok(())
}

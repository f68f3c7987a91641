//! TLS sockets of clients. All of the cryptography is that of rustls with ring, as in the server.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use super::blocking::BlockingStream;
use super::trust::trusting;
use super::{Source, Transport};

/// The maximum number of bytes that wait to be encrypted and sent.
const UNSENT_BYTES_MAX: usize = 256 * 1024;
const READ_BYTES: usize = 16 * 1024;

/// A TLS socket that blocks.
pub(crate) struct TlsStream {
    socket: TcpStream,
    connection: ClientConnection,
}

impl TlsStream {
    /// Creates the socket. The handshake runs at the first byte that is written or read.
    pub(crate) fn new(socket: TcpStream, host: &str, ca_file: Option<&Path>) -> Result<Self> {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        let invalid = |error: &dyn std::fmt::Display| {
            let message = format!("{host} is not a valid host name for a certificate: {error}");
            Error::new(ErrorKind::Invalid, message)
        };
        let name = ServerName::try_from(name).map_err(|error| invalid(&error))?;
        let connection = ClientConnection::new(trusting(ca_file)?, name);
        let mut connection = connection.map_err(|error| invalid(&error))?;
        connection.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        Ok(Self { socket, connection })
    }

    /// Returns the same socket in non-blocking mode.
    pub(crate) fn into_transport(self) -> io::Result<TlsSocket> {
        self.socket.set_nonblocking(true)?;
        let socket = Arc::new(self.socket);
        let source: Source = Arc::<TcpStream>::clone(&socket);
        Ok(TlsSocket { source, socket, connection: self.connection })
    }
}

impl BlockingStream for TlsStream {
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.socket.set_timeout(timeout)
    }
}

impl Read for TlsStream {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        rustls::Stream::new(&mut self.connection, &mut self.socket).read(room)
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        rustls::Stream::new(&mut self.connection, &mut self.socket).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        rustls::Stream::new(&mut self.connection, &mut self.socket).flush()
    }
}

/// A non-blocking TLS socket.
pub(crate) struct TlsSocket {
    source: Source,
    socket: Arc<TcpStream>,
    connection: ClientConnection,
}

impl TlsSocket {
    /// Reads and decrypts more bytes; returns false if none are available.
    fn take(&mut self) -> io::Result<bool> {
        match self.connection.read_tls(&mut &*self.socket) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {
                self.connection.process_new_packets().map_err(io::Error::other)?;
                Ok(true)
            }
            Err(error) if would_block(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads decrypted bytes.
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(room) {
                // The server has closed the TLS connection.
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            if !self.take()? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
    }
}

impl Transport for TlsSocket {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        while sent < bytes.len() {
            let taken = self.connection.writer().write(&bytes[sent..])?;
            sent += taken;
            if !self.flush()? || taken == 0 {
                break;
            }
        }
        Ok(sent)
    }

    fn flush(&mut self) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut &*self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if would_block(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn receive(&mut self, inbox: &mut Vec<u8>, _: &mut Context<'_>) -> io::Result<usize> {
        let before = inbox.len();
        let mut piece = [0; READ_BYTES];
        loop {
            match self.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => inbox.extend_from_slice(&piece[..count]),
                Err(error) if would_block(&error) => break,
                // Bytes received before the end are returned first; the end is reported again.
                Err(_) if inbox.len() > before => break,
                Err(error) => return Err(error),
            }
        }
        // The server may have requested a key update, which is answered.
        self.flush()?;
        Ok(inbox.len() - before)
    }

    fn source(&self) -> Option<&Source> {
        Some(&self.source)
    }
}

fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

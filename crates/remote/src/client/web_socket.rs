//! A WebSocket to the HTTP server: packets as binary messages. `tungstenite` encodes and decodes
//! the frames on a non-blocking socket.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::task::Context;

use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Bytes, Error, Message};

#[cfg(feature = "tls")]
use super::tls::SecureSocket;
use super::wire::{Source, Wire};

/// The maximum size of a message, because servers limit it.
const PIECE_BYTES_MAX: usize = 256 * 1024;
const READ_BYTES: usize = 64 * 1024;

pub(crate) struct WebSocket {
    source: Source,
    socket: tungstenite::WebSocket<Stream>,
    /// True if not all written bytes were sent.
    has_unsent: bool,
}

/// The socket. It is read only while it may have data.
enum Stream {
    Plain {
        socket: Arc<TcpStream>,
        may_have_more: bool,
    },
    #[cfg(feature = "tls")]
    Secure(Box<SecureSocket>),
}

impl WebSocket {
    /// Creates a WebSocket after the upgrade, with the bytes received after the response.
    pub(crate) fn new(socket: TcpStream, come: Vec<u8>) -> Self {
        let socket = Arc::new(socket);
        let source: Source = Arc::<TcpStream>::clone(&socket);
        Self::of(source, Stream::Plain { socket, may_have_more: true }, come)
    }

    /// Creates a WebSocket over TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn secure(socket: SecureSocket, come: Vec<u8>) -> Self {
        Self::of(Arc::clone(socket.of_socket()), Stream::Secure(Box::new(socket)), come)
    }

    fn of(source: Source, stream: Stream, come: Vec<u8>) -> Self {
        // Messages are flushed by this module; the server sends them in pieces of 1 MiB.
        let config = WebSocketConfig::default().read_buffer_size(READ_BYTES);
        let (role, config) = (Role::Client, Some(config));
        let socket = tungstenite::WebSocket::from_partially_read(stream, come, role, config);
        Self { source, socket, has_unsent: false }
    }
}

impl Wire for WebSocket {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        for piece in bytes.chunks(PIECE_BYTES_MAX) {
            if !self.flush()? {
                break;
            }
            self.has_unsent = true;
            match self.socket.write(Message::Binary(Bytes::copy_from_slice(piece))) {
                // It is kept, and sent by the next flush.
                Ok(()) => sent += piece.len(),
                Err(error) if would_block(&error) => sent += piece.len(),
                Err(error) => return Err(ended(error)),
            }
        }
        self.flush()?;
        Ok(sent)
    }

    fn flush(&mut self) -> io::Result<bool> {
        if self.has_unsent {
            match self.socket.flush() {
                Ok(()) => self.has_unsent = false,
                Err(error) if would_block(&error) => {}
                Err(error) => return Err(ended(error)),
            }
        }
        Ok(!self.has_unsent)
    }

    fn receive(&mut self, inbox: &mut Vec<u8>, _: &mut Context<'_>) -> io::Result<usize> {
        let before = inbox.len();
        match self.socket.get_mut() {
            Stream::Plain { may_have_more, .. } => *may_have_more = true,
            #[cfg(feature = "tls")]
            Stream::Secure(_) => {}
        }
        loop {
            match self.socket.read() {
                Ok(Message::Binary(bytes)) => inbox.extend_from_slice(&bytes),
                Ok(_) => {}
                Err(error) if would_block(&error) => break,
                // Bytes received before the end are returned first; the end is reported again.
                Err(_) if inbox.len() > before => break,
                Err(error) => return Err(ended(error)),
            }
        }
        Ok(inbox.len() - before)
    }

    fn source(&self) -> Option<&Source> {
        Some(&self.source)
    }
}

fn would_block(error: &Error) -> bool {
    matches!(error, Error::Io(error) if error.kind() == io::ErrorKind::WouldBlock)
}

#[cold]
fn ended(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        Error::ConnectionClosed | Error::AlreadyClosed => io::ErrorKind::UnexpectedEof.into(),
        error => io::Error::other(error),
    }
}

impl Read for Stream {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let (socket, may_have_more) = match self {
            Self::Plain { socket, may_have_more } => (socket, may_have_more),
            #[cfg(feature = "tls")]
            Self::Secure(socket) => return socket.read(room),
        };
        if !*may_have_more {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let read = match (&**socket).read(room) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            read => read?,
        };
        // A short read has emptied the socket; the end of the stream is reported again by the
        // source.
        *may_have_more = read == room.len() || read == 0;
        Ok(read)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain { socket, .. } => (&**socket).write(bytes),
            #[cfg(feature = "tls")]
            Self::Secure(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain { .. } => Ok(()),
            #[cfg(feature = "tls")]
            Self::Secure(socket) => Write::flush(&mut **socket),
        }
    }
}

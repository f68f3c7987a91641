//! A Unix or TCP socket to the HTTP server, after the upgrade from HTTP.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::Context;

use rustix::buffer::spare_capacity;
use rustix::io::{Errno, read};
use rustix::net::{SendFlags, send};

use super::{Source, Transport};

const READ_BYTES: usize = 64 * 1024;

/// A non-blocking socket.
pub(crate) struct Socket {
    source: Source,
}

impl Socket {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { source: Arc::new(socket) }
    }
}

impl Transport for Socket {
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

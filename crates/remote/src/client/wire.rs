//! The transport of packets to a server and back.

use std::io;
use std::task::Context;

/// A source that a thread can sleep on until data arrives.
pub(crate) use marmota_store::engine::Source;

/// A non-blocking connection.
pub(crate) trait Wire: Send {
    /// Sends a prefix of these bytes; returns its length.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Sends bytes that it has accepted and still holds; returns true if all were sent.
    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    /// Appends received bytes and returns their number, 0 if there are none. A wire without a
    /// source wakes `context` for more.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the peer is gone.
    fn receive(&mut self, inbox: &mut Vec<u8>, context: &mut Context<'_>) -> io::Result<usize>;

    /// Returns the source to sleep on, if there is one.
    fn source(&self) -> Option<&Source>;
}

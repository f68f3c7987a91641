//! Transports: non-blocking connections that carry bytes.

pub(crate) mod blocking;
pub(crate) mod dial;
pub(crate) mod in_process;
pub(crate) mod socket;
#[cfg(feature = "tls")]
pub(crate) mod tls;
#[cfg(feature = "tls")]
pub(crate) mod trust;
pub(crate) mod web_socket;

use std::io;
use std::task::Context;

/// A source that a thread can sleep on until data arrives.
pub use marmota_store::engine::Source;

/// A non-blocking connection.
pub trait Transport: Send {
    /// Sends a prefix of these bytes; returns its length.
    ///
    /// # Errors
    /// An error if the connection has ended.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Sends bytes that it has accepted and still holds; returns true if all were sent.
    ///
    /// # Errors
    /// An error if the connection has ended.
    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    /// Appends received bytes and returns their number, 0 if there are none. A transport without a
    /// source wakes `context` for more.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the peer is gone.
    fn receive(&mut self, inbox: &mut Vec<u8>, context: &mut Context<'_>) -> io::Result<usize>;

    /// Returns the source to sleep on, if there is one.
    fn source(&self) -> Option<&Source>;
}

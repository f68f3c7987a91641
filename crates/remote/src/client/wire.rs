//! What carries packets to a server and back.

use std::io;
use std::task::Context;

/// What a thread can sleep on until something comes.
pub(crate) use marmota_store::engine::Source;

/// A connection. Nothing here waits.
pub(crate) trait Wire: Send {
    /// Sends the front of these bytes; gives how many.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Sends what it has taken and still holds; true if that was all.
    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    /// Appends what has come; how many bytes, 0 if none have. `context` is
    /// woken for more by a wire that has no source.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when the other side has gone.
    fn receive(&mut self, inbox: &mut Vec<u8>, context: &mut Context<'_>) -> io::Result<usize>;

    /// What to sleep on.
    fn source(&self) -> Option<&Source>;
}

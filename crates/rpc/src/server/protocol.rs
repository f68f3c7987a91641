//! [`ServerProtocol`]: the protocol of one connection, as functions on bytes.

use std::task::Context;
use std::time::Instant;

/// A protocol as a server runs it on one connection: bytes in, bytes out. It owns no socket and no
/// thread; what carries the bytes calls it.
pub trait ServerProtocol {
    /// Processes received bytes as far as possible, and appends bytes to send. Returns how many of
    /// the received bytes were used; the others come again with the next call.
    ///
    /// Called when bytes have come and when `context` was woken, also without bytes.
    fn run(&mut self, input: &[u8], output: &mut Vec<u8>, context: &mut Context<'_>) -> usize;

    /// Returns the end of the connection, once the protocol has ended. The output is sent first.
    fn end(&self) -> Option<ConnectionEnd>;

    /// Returns true if it accepts more bytes now. The server reads from the client only then.
    fn is_hungry(&self) -> bool;

    /// Returns true if nothing is running, so that the connection may end when the server shuts
    /// down.
    fn is_idle(&self) -> bool;

    /// Ends the connection because the server shuts down or replaces its routes, while nothing is
    /// running. Appends a notice to the client, if the protocol has one, and processes no further
    /// bytes. Default: no notice.
    fn leave(&mut self, output: &mut Vec<u8>) {
        let _ = output;
    }

    /// Returns true if it must be called again once its output is sent. Default: false.
    fn has_more(&self) -> bool {
        false
    }

    /// Returns the time at which it must be called even without new bytes.
    fn deadline(&self) -> Option<Instant>;
}

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// The server ends it. Bytes of the client are discarded for a while, so that the client reads
    /// the last output.
    Refused,
    /// The client has ended it.
    Left,
}

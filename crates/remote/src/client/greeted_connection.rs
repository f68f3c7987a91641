//! A connection whose server has answered the greeting.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use marmota_model::Table;
use marmota_rpc::Connection;

use crate::codec::contract::Welcome;

/// A connection after its greeting.
pub(crate) struct GreetedConnection {
    pub(super) inner: Connection,
    /// The tables of the greeting, which operations name by their places.
    pub(super) tables: Arc<[Arc<Table>]>,
    pub(super) welcome: Welcome,
    /// When the last packet was sent.
    pub(super) used: Instant,
}

impl GreetedConnection {
    /// Sends a packet, or as much of it as possible, and queues the rest.
    pub(super) fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        self.used = Instant::now();
        self.inner.send(packet)
    }
}

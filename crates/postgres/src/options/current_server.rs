//! [`CurrentServer`]: the server of a cluster that is used, and the connections to it.

use std::fmt;
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};

use marmota_sql::LastServer;
use marmota_store::engine::Source;
use parking_lot::Mutex;
use rustix::net::{Shutdown, shutdown};

/// The socket of a connection, while it is open.
type OpenSocket = Weak<dyn AsFd + Send + Sync>;

/// The server of a cluster that is used. Clones share it.
///
/// Once another server is the primary, the connections to the one before are closed. It may run
/// still: its answers would be old, or never come.
#[derive(Clone, Default)]
pub(crate) struct CurrentServer {
    last: LastServer,
    connections: Arc<Mutex<Vec<(usize, OpenSocket)>>>,
}

impl CurrentServer {
    /// Returns the numbers of this many servers in the order in which they are tried: first the one
    /// that was connected last.
    pub(crate) fn order(&self, servers: usize) -> impl Iterator<Item = usize> + use<> {
        self.last.order(servers)
    }

    /// Records a connection to a server, also one that is still being established.
    pub(crate) fn watch(&self, server: usize, connection: &Source) {
        let mut connections = self.connections.lock();
        connections.retain(|(_, connection)| connection.strong_count() > 0);
        connections.push((server, Arc::downgrade(connection)));
    }

    /// Makes a server the one that is used. The connections to others are closed if only one server
    /// can be the right one.
    pub(crate) fn set(&self, server: usize, is_only: bool) {
        self.last.set(server);
        if !is_only {
            return;
        }
        self.keep(|of| of == server);
    }

    /// Closes all connections.
    pub(crate) fn close_all(&self) {
        self.keep(|_| false);
    }

    /// Closes the connections to other servers than those that are kept.
    fn keep(&self, is_kept: impl Fn(usize) -> bool) {
        self.connections.lock().retain(|(of, connection)| {
            let is_kept = is_kept(*of);
            if !is_kept && let Some(connection) = connection.upgrade() {
                // An operation that waits for it finds its end. It may have ended before.
                let _ = shutdown(&*connection, Shutdown::Both);
            }
            is_kept
        });
    }
}

/// Not an option of the user, so all are equal.
impl PartialEq for CurrentServer {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for CurrentServer {}

impl fmt::Debug for CurrentServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CurrentServer")
    }
}

//! The names of an engine's own connections at the server, so that [`crate::changes::listener`] can exclude
//! the engine's own writes from the feed of the store's cache.
//!
//! A connection counts as own as long as the store learns the result of each of its writes. After
//! one was abandoned, or the connection was lost, its further writes are reported as well.
//!
//! The server's processes of the open connections distinguish those of other programs.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashSet;
use parking_lot::Mutex;

/// The setting with a connection's name.
pub(crate) const SETTING: &str = "marmota.connection";

/// The setting that selects how triggers record the changes of a statement. Other programs do not
/// have it; the server notifies of their commits.
pub(crate) const FEED_SETTING: &str = "marmota.feed";
/// Its value for statements that are a commit each.
pub(crate) const DIRECT: &str = "direct";
/// Its value for the statements of a transaction.
pub(crate) const PENDING: &str = "pending";
/// The setting with the actor of the next writes.
pub(crate) const ACTOR_SETTING: &str = "marmota.actor";

/// The code of the message with the number of a commit, which triggers send.
pub(crate) const COMMIT_CODE: &str = "MF001";

/// The own connections of an engine.
#[derive(Clone, Default)]
pub(crate) struct OwnConnections(Arc<Inside>);

struct Inside {
    /// A name that no other engine in any process has.
    engine: String,
    counted: Mutex<HashSet<u64>>,
    /// The server's processes of open connections.
    processes: Mutex<Vec<i32>>,
    /// True if its statements may have effects unknown to the store.
    has_effects: AtomicBool,
    /// True if the engine records changes.
    records: AtomicBool,
}

impl Default for Inside {
    fn default() -> Self {
        let number = || RandomState::new().hash_one(std::process::id());
        Self {
            engine: format!("{:016x}{:016x}", number(), number()),
            counted: Mutex::default(),
            processes: Mutex::default(),
            has_effects: AtomicBool::new(false),
            records: AtomicBool::new(false),
        }
    }
}

/// Counts a connection as own until this is dropped.
pub(crate) struct Counted {
    own: OwnConnections,
    number: u64,
}

/// The server's process of an open connection, until this is dropped.
pub(crate) struct OwnProcess {
    own: OwnConnections,
    process: i32,
}

impl Drop for OwnProcess {
    fn drop(&mut self) {
        let mut processes = self.own.0.processes.lock();
        if let Some(place) = processes.iter().position(|process| *process == self.process) {
            processes.swap_remove(place);
        }
    }
}

impl OwnConnections {
    /// Records the server's process of a connection.
    pub(crate) fn add_process(&self, process: i32) -> OwnProcess {
        self.0.processes.lock().push(process);
        OwnProcess { own: self.clone(), process }
    }

    /// Returns true if a process of the server belongs to an open connection.
    pub(crate) fn has_process(&self, process: i32) -> bool {
        self.0.processes.lock().contains(&process)
    }

    /// Returns the name of a connection.
    pub(crate) fn name(&self, number: u64) -> String {
        format!("{}.{number}", self.0.engine)
    }

    /// Counts a connection as the engine's own.
    pub(crate) fn count(&self, number: u64) -> Counted {
        self.0.counted.lock().insert(number);
        Counted { own: self.clone(), number }
    }

    /// Sets whether writes have effects in the database that are unknown to the store (e.g. by
    /// triggers): then its own writes are reported too.
    pub(crate) fn have_effects(&self, has_effects: bool) {
        self.0.has_effects.store(has_effects, Ordering::SeqCst);
    }

    /// Lets later connections record changes.
    pub(crate) fn record(&self) {
        self.0.records.store(true, Ordering::SeqCst);
    }

    /// Returns true if connections record changes.
    pub(crate) fn records(&self) -> bool {
        self.0.records.load(Ordering::SeqCst)
    }

    /// Returns true if the writes of the connection with this name are already known.
    pub(crate) fn knows(&self, name: &str) -> bool {
        let number = name.strip_prefix(&*self.0.engine).and_then(|rest| rest.strip_prefix('.'));
        let Some(number) = number.and_then(|number| number.parse::<u64>().ok()) else {
            return false;
        };
        self.0.counted.lock().contains(&number) && !self.0.has_effects.load(Ordering::SeqCst)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.own.0.counted.lock().remove(&self.number);
    }
}

/// Not an option of the user, so all are equal.
impl PartialEq for OwnConnections {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for OwnConnections {}

impl std::fmt::Debug for OwnConnections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OwnConnections")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_known_while_they_are_counted() {
        let (own, other) = (OwnConnections::default(), OwnConnections::default());
        let counted = own.count(7);
        assert!(own.knows(&own.name(7)));
        assert!(!own.knows(&own.name(8)) && !own.knows(&other.name(7)) && !own.knows(""));
        own.have_effects(true);
        assert!(!own.knows(&own.name(7)));
        own.have_effects(false);
        drop(counted);
        assert!(!own.knows(&own.name(7)));
    }
}

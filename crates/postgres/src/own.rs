//! An engine's own connections, by the names that they give themselves at the
//! server: so that [`crate::listener`] can leave its own writes out of what it reports to the
//! store's cache.
//!
//! A connection is counted as long as the store is told how each of its writes
//! ended. Once one was given up, or the connection is lost, what it still does
//! is reported as well.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashSet;
use parking_lot::Mutex;

/// The setting of a connection that has its name.
pub(crate) const SETTING: &str = "marmota.connection";

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct Own(Arc<Inside>);

struct Inside {
    /// What no other engine is called, of any process.
    engine: String,
    counted: Mutex<HashSet<u64>>,
    /// What its statements do beside themselves is not known to the store.
    has_effects: AtomicBool,
}

impl Default for Inside {
    fn default() -> Self {
        let number = || RandomState::new().hash_one(std::process::id());
        Self {
            engine: format!("{:016x}{:016x}", number(), number()),
            counted: Mutex::default(),
            has_effects: AtomicBool::new(false),
        }
    }
}

/// A connection that is counted, until this is dropped.
pub(crate) struct Counted {
    own: Own,
    number: u64,
}

impl Own {
    /// What a connection calls itself.
    pub(crate) fn name(&self, number: u64) -> String {
        format!("{}.{number}", self.0.engine)
    }

    /// Counts a connection among the engine's own.
    pub(crate) fn count(&self, number: u64) -> Counted {
        self.0.counted.lock().insert(number);
        Counted { own: self.clone(), number }
    }

    /// Says whether the database makes more of a write than the store knows
    /// (by triggers, say): then its own writes are reported too.
    pub(crate) fn have_effects(&self, has_effects: bool) {
        self.0.has_effects.store(has_effects, Ordering::SeqCst);
    }

    /// True if what a connection of this name has written is known already.
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

/// It is no option: all are alike.
impl PartialEq for Own {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Own {}

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Own")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_known_while_they_are_counted() {
        let (own, other) = (Own::default(), Own::default());
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

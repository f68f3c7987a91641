//! Executes operations of a scope whose store has a cache; [`crate::layers::cache`] explains
//! the protocol.

use marmota_model::{Result, RowSink};

use super::lending::Lending;
use super::thread_slot::slot_number;
use super::{Place, Progress, Scope};
use crate::contract::durability::Durability;
use crate::contract::operation::{Operation, Outcome};
use crate::layers::cache::{Cache, Copying, Writing};

/// Announced writes. They end when this value is dropped, unless it is disarmed, also when a sink
/// or a source of rows panics.
struct Announced<'c> {
    cache: &'c Cache,
    writing: Writing,
    succeeded: bool,
}

impl Announced<'_> {
    fn disarm(mut self) -> Writing {
        std::mem::take(&mut self.writing)
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.cache.ended(std::mem::take(&mut self.writing), self.succeeded);
    }
}

impl Scope {
    /// [`Scope::submit`] with a cache.
    pub(super) fn submit_cached(
        &self,
        cache: &Cache,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Progress> {
        let writing = match (&self.place, &*operation) {
            (Place::Threads, Operation::Get { .. }) => {
                return self.get_cached(cache, operation, sink, outcome);
            }
            (Place::Threads, operation) if operation.is_write() => cache.write(operation),
            (Place::Held { written, .. }, Operation::Commit) => {
                let mut writing = std::mem::take(&mut *written.lock());
                cache.announce(&mut writing);
                writing
            }
            (Place::Held { written, .. }, step) => {
                cache.note(&mut written.lock(), step);
                return self.pass_by(durability, operation, sink, outcome);
            }
            _ => return self.pass_by(durability, operation, sink, outcome),
        };
        let mut announced = Announced { cache, writing, succeeded: false };
        let mut progress = self.pass_by(durability, operation, sink, outcome)?;
        announced.succeeded = true;
        if let Progress::Pending(pending) = &mut progress {
            pending.writing = announced.disarm();
        }
        Ok(progress)
    }

    /// Executes an operation without the cache.
    fn pass_by(
        &self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Progress> {
        self.submit_to_session(durability, operation, sink, outcome).map(Progress::of)
    }

    /// Executes a read by key, outside of a transaction.
    fn get_cached(
        &self,
        cache: &Cache,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Progress> {
        let lookup = match operation {
            Operation::Get { table, key, fields } => cache.lookup(table, *key, *fields),
            _ => None,
        };
        let Some(lookup) = lookup else {
            return self.pass_by(None, operation, sink, outcome);
        };
        {
            let _lending = Lending::begin(&self.shared)?;
            self.shared.check_open()?;
            if cache.lend(&lookup, slot_number(), sink) {
                outcome.rows = 1;
                return Ok(Progress::Done);
            }
        }
        if !lookup.is_whole() {
            return self.pass_by(None, operation, sink, outcome);
        }
        let mut copying = Copying { sink, copy: None };
        let mut progress = self.pass_by(None, operation, &mut copying, outcome)?;
        match (&mut progress, copying.copy) {
            (Progress::Done, Some(copy)) => cache.keep(&lookup, copy),
            (Progress::Pending(pending), None) => pending.fetch = Some(lookup.fetch()),
            _ => {}
        }
        Ok(progress)
    }
}

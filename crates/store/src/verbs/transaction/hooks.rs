//! Functions that a transaction calls once it is committed.

use parking_lot::Mutex;

/// A step of a transaction after its begin.
#[derive(Clone, Copy)]
pub(super) enum TransactionStep {
    Commit,
    Rollback,
    Savepoint(u32),
    Release(u32),
    RollbackTo(u32),
}

/// The hooks of [`Transaction::after_commit`](crate::Transaction::after_commit), each with the
/// number of savepoints set before.
#[derive(Default)]
pub(super) struct Hooks(Mutex<Vec<(u32, Hook)>>);

pub(super) type Hook = Box<dyn FnOnce() + Send>;

impl Hooks {
    /// Adds a hook; `savepoints` have been set before it. A rollback to one of them removes it.
    pub(super) fn add(&self, savepoints: u32, hook: Hook) {
        self.0.lock().push((savepoints, hook));
    }

    /// Runs or removes hooks, by the step that has succeeded.
    pub(super) fn step_succeeded(&self, step: TransactionStep) {
        match step {
            TransactionStep::Commit => {
                // The hooks are moved out first, so that a slow hook does not hold the lock.
                let hooks = std::mem::take(&mut *self.0.lock());
                hooks.into_iter().for_each(|(_, hook)| hook());
            }
            TransactionStep::RollbackTo(number) => {
                self.0.lock().retain(|(before, _)| *before < number);
            }
            TransactionStep::Rollback => self.0.lock().clear(),
            TransactionStep::Savepoint(_) | TransactionStep::Release(_) => {}
        }
    }
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} hooks", self.0.lock().len())
    }
}

//! How the changes of an operation are recorded for the change feed.

use std::sync::Arc;

use marmota_store::operation::{OnConflict, Operation};

/// How the changes of an operation are recorded.
#[derive(Debug)]
pub(crate) struct Recording {
    /// The actor of the write.
    pub(crate) actor: Option<Arc<str>>,
    /// True if the operation changes rows by one statement, each of whose triggers finds all
    /// changes.
    pub(crate) is_simple: bool,
    /// True if the connection's setting makes each statement a commit.
    pub(crate) is_on_direct: bool,
    /// True if an earlier operation of the transaction has set an actor.
    pub(crate) replaces_actor: bool,
}

impl Recording {
    /// Returns true if the settings of the connection have to be changed for a statement that is a
    /// commit (`is_direct`), or part of one.
    pub(crate) const fn is_set(&self, is_direct: bool) -> bool {
        self.actor.is_some() || self.replaces_actor || self.is_on_direct && !is_direct
    }

    /// Returns true for an operation whose changes are found by one trigger, if it is executed by
    /// one statement. An insert with a conflict action inserts and updates; raw SQL may do anything.
    pub(crate) const fn is_simple(operation: &Operation<'_>) -> bool {
        match operation {
            Operation::Insert { on_conflict, .. } | Operation::InsertMany { on_conflict, .. } => {
                matches!(on_conflict, OnConflict::Refuse)
            }
            Operation::Update { .. }
            | Operation::UpdateMany { .. }
            | Operation::Increment { .. }
            | Operation::Delete { .. }
            | Operation::DeleteWhere { .. } => true,
            _ => false,
        }
    }
}

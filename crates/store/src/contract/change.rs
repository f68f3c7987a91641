//! Changes: the rows that a commit has inserted, updated and deleted.
//!
//! An engine with a [`ChangeRecorder`] collects the changes of each transaction in a
//! [`ChangeBuffer`], and writes them as one row of an internal table in the same transaction. The
//! key of that row is the number of the commit. Readers get [`Commit`]s in the order of their
//! numbers ([`Store::changes`](crate::Store::changes)).
//!
//! Reason and alternatives: `docs/design/044-change-feed.md`.

pub(crate) mod buffer;
pub(crate) mod position;
pub(crate) mod recorded_rows;
pub(crate) mod recorder;
pub(crate) mod replica_read;

use std::sync::Arc;

use marmota_model::{FieldSet, Table, Timestamp, Value};

pub use self::buffer::{ChangeBuffer, ChangeMark, RowEncoder};
pub use self::position::Position;
pub use self::recorded_rows::{ChangedRows, EncodedRow, RecordedRows};
pub use self::recorder::{ChangeRecorder, RecordedTable};
pub use self::replica_read::ReplicaRead;

/// The changes of one transaction.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The position of this commit in the feed.
    pub position: Position,
    /// The time of the commit, by the clock of the process that made it.
    pub at: Timestamp,
    /// The changes, in the order in which they were made. A row can be in it several times.
    pub changes: Vec<Change>,
}

/// The change of one row.
///
/// `before` and `after` have a value for each field of the table, in the order of the schema.
/// Blobs are [`Value::Absent`] in both: the feed has no copies of them.
#[derive(Clone, Debug)]
pub struct Change {
    /// The table of the row.
    pub table: Arc<Table>,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The row before the change; `None` for an insert.
    pub before: Option<Vec<Value>>,
    /// The row after the change; `None` for a delete.
    pub after: Option<Vec<Value>>,
    /// The fields with another value than before; all fields for an insert or a delete.
    pub changed: FieldSet,
    /// The actor of the write, if it had one ([`Store::with_actor`](crate::Store::with_actor)).
    pub actor: Option<Arc<str>>,
}

/// The kind of a [`Change`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// The row was inserted.
    Insert,
    /// Fields of the row have other values.
    Update,
    /// The row was deleted.
    Delete,
}

impl ChangeKind {
    /// Returns its name: `insert`, `update` or `delete`.
    ///
    /// ```
    /// use marmota_store::change::ChangeKind;
    /// assert_eq!(ChangeKind::Update.name(), "update");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

impl Change {
    /// Returns the key of the row. An update never changes it.
    #[must_use]
    pub fn key(&self) -> &Value {
        let row = self.after.as_ref().or(self.before.as_ref());
        row.and_then(|row| row.get(self.table.key())).unwrap_or(&Value::Absent)
    }
}

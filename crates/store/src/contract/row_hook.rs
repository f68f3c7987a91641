//! Hooks that are called before a row is written (`batch_machine/machine/hooks.rs`): the change that
//! a hook gets, and what it returns. Default expressions and computed fields are evaluated in the same place.
//!
//! The store attaches [`WriteHooks`] to each write of a table with hooks, and to writes that evaluate
//! expressions ([`Write::Hooked`]); engines pass it on without reading it.
//!
//! [`Write::Hooked`]: crate::operation::Write::Hooked

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use marmota_model::{Result, Table, Value};

use crate::contract::change::ChangeKind;

/// The change of a row that is about to be written.
///
/// Both rows have a value for each field of the table. Blobs that were not written are absent.
#[derive(Clone, Debug)]
pub(crate) struct RowChange {
    pub(crate) kind: ChangeKind,
    /// The stored row; `None` for an insert.
    pub(crate) before: Option<Vec<Value>>,
    /// The row as it will be; `None` for a delete.
    pub(crate) after: Option<Vec<Value>>,
}

/// The fields that a hook has changed in the row after the change, with their new values.
pub(crate) type AssignedFields = Vec<(usize, Value)>;

/// A hook in progress.
pub(crate) type RunningHook = Pin<Box<dyn Future<Output = Result<AssignedFields>> + Send>>;

/// The call of a hook.
pub(crate) enum HookCall {
    /// The hook has returned.
    Done(Result<AssignedFields>),
    /// The hook is asynchronous.
    Running(RunningHook),
}

/// The hooks of one table, for the writes of one operation.
pub(crate) trait RowHooks: Send + Sync {
    /// Returns the values of the default expressions of a new row, and its computed fields.
    ///
    /// # Errors
    /// Those of [`Table::fill_defaults`] and [`Table::compute`].
    fn complete(&self, table: &Table, row: &[Value]) -> Result<AssignedFields>;

    /// Returns true if no hook is called.
    fn is_empty(&self) -> bool;

    /// Calls the hook with this index; `None` after the last one.
    fn call(&self, index: usize, change: &RowChange) -> Option<HookCall>;

    /// Returns how long one call of an asynchronous hook may take.
    fn deadline(&self) -> Duration;
}

/// The hooks of a table that are called before a write.
#[derive(Clone)]
pub struct WriteHooks(pub(crate) Arc<dyn RowHooks>);

impl fmt::Debug for WriteHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WriteHooks")
    }
}

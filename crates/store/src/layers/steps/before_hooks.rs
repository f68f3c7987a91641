//! The hooks of a store that are called before writes, by table, and their calls for the writes of
//! one operation. Expressions are evaluated with them.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use marmota_model::{Error, ErrorKind, Result, Scratch, Table, Value, ValueRef};
use parking_lot::Mutex;

use super::evaluation::Evaluation;
use crate::batch_machine::computed::{self, Computing};
use crate::contract::operation::{Operation, Write};
use crate::contract::row_hook::{AssignedFields, HookCall, RowChange, RowHooks, WriteHooks};
use crate::layers::handle::HandleContext;
use crate::rows::cascades::CascadePlan;

/// How deep hooks may be nested: the writes of a hook call the hooks of their tables.
const DEPTH_MAX: u8 = 8;

/// A hook that is called before each write of a row of one table.
pub(crate) trait BeforeHook: Send + Sync {
    /// Returns true if the hook may wait, and gets a handle to the transaction.
    fn is_async(&self) -> bool;

    /// Calls the hook. `handle` is the context of its operations, if it is asynchronous; otherwise
    /// only its actor is used.
    fn call(&self, handle: &HandleContext, change: &RowChange) -> HookCall;
}

/// The hooks of a store.
#[derive(Default)]
pub(crate) struct BeforeHooks {
    tables: HashMap<String, Arc<TableHooks>>,
    deadline: Duration,
}

/// The hooks of one table, in the order of their calls.
#[derive(Default)]
struct TableHooks {
    hooks: Vec<Box<dyn BeforeHook>>,
    is_async: bool,
}

impl BeforeHooks {
    /// Creates the hooks of a store without any. `deadline` limits each call of an asynchronous
    /// hook.
    pub(crate) fn new(deadline: Duration) -> Self {
        Self { tables: HashMap::new(), deadline }
    }

    /// Adds a hook of a table, which is called after those that the table has.
    pub(crate) fn add(&mut self, table: &str, hook: Box<dyn BeforeHook>) {
        let hooks = self.tables.entry(table.to_owned()).or_default();
        if let Some(hooks) = Arc::get_mut(hooks) {
            hooks.is_async |= hook.is_async();
            hooks.hooks.push(hook);
        }
    }

    /// Adds a table with default expressions or computed fields.
    pub(crate) fn add_expressions(&mut self, table: &str) {
        self.tables.entry(table.to_owned()).or_default();
    }

    /// Returns true if a table has hooks.
    pub(crate) fn has(&self, table: &Table) -> bool {
        self.tables.get(table.name()).is_some_and(|hooks| !hooks.hooks.is_empty())
    }

    /// Returns which hooks an operation calls, which deletes by these plans.
    ///
    /// # Errors
    /// [`ErrorKind::Bug`] if hooks are nested too deeply.
    pub(super) fn of(
        &self,
        handle: &HandleContext,
        operation: &Operation<'_>,
        cascading: &[&CascadePlan],
    ) -> Result<Hooked> {
        let mut hooked = Hooked::default();
        let mut add = |table: &Table| {
            let Some(hooks) = self.tables.get(table.name()) else { return };
            hooked.any |= !hooks.hooks.is_empty();
            hooked.any_async |= hooks.is_async;
            if handle.hook_depth >= DEPTH_MAX && !hooks.hooks.is_empty() {
                hooked.too_deep = Some(table.name().to_owned());
            }
        };
        operation.each_table_written(&mut add);
        cascading.iter().flat_map(|plan| &plan.tables).for_each(|reached| add(&reached.table));
        hooked.any |= cascading
            .iter()
            .flat_map(|plan| &plan.tables)
            .any(|reached| !reached.table.computed_fields().is_empty());
        match operation {
            Operation::Batch { writes, .. } => {
                hooked.any_evaluated = writes.iter().any(is_evaluated);
                hooked.any |= hooked.any_evaluated;
            }
            Operation::Insert { table, .. } | Operation::InsertMany { table, .. } => {
                hooked.any_evaluated = table.has_expressions();
            }
            operation => {
                hooked.any_evaluated = computed::of_operation(operation) != Computing::Nothing;
            }
        }
        hooked.any |= computed::of_operation(operation) == Computing::OfStored;
        match hooked.too_deep {
            None => Ok(hooked),
            Some(table) => {
                let message = format!(
                    "hooks are nested more than {DEPTH_MAX} deep at a write to `{table}`: a hook \
                     writes to its own table, or hooks write to the tables of each other; let a \
                     hook write only if a value has to change"
                );
                Err(Error::new(ErrorKind::Bug, message))
            }
        }
    }

    /// Returns the hooks that are called before a write to a table, in this place; `evaluates` is
    /// true for a write that evaluates expressions.
    pub(super) fn of_table(
        &self,
        table: &Table,
        evaluates: bool,
        place: &Arc<HookPlace>,
    ) -> Option<WriteHooks> {
        let hooks = self.tables.get(table.name())?;
        if !evaluates && hooks.hooks.is_empty() {
            return None;
        }
        let (hooks, place, deadline) = (Arc::clone(hooks), Arc::clone(place), self.deadline);
        Some(WriteHooks(Arc::new(PlacedHooks { hooks, place, deadline })))
    }
}

/// Returns true if a write evaluates expressions.
pub(super) fn is_evaluated(write: &Write) -> bool {
    let is_insert = matches!(write.bare(), Write::Insert { .. });
    (is_insert && write.table().has_expressions())
        || computed::of_write(write) != Computing::Nothing
}

/// Which hooks an operation calls.
#[derive(Default)]
pub(super) struct Hooked {
    /// True if the operation has to be a batch for them.
    pub(super) any: bool,
    /// True if expressions are evaluated.
    pub(super) any_evaluated: bool,
    pub(super) any_async: bool,
    too_deep: Option<String>,
}

/// Where the operations of hooks are executed: in a transaction, which is another one when the
/// write is repeated.
pub(super) struct HookPlace {
    handle: Mutex<HandleContext>,
    evaluation: Evaluation,
}

impl HookPlace {
    /// Creates the place of hooks that are called for an operation of a handle.
    pub(super) fn new(handle: HandleContext) -> Self {
        let evaluation = Evaluation::of(&handle);
        Self { handle: Mutex::new(handle), evaluation }
    }

    /// Sets the context of the hooks' operations.
    pub(super) fn set(&self, handle: HandleContext) {
        *self.handle.lock() = handle;
    }
}

struct PlacedHooks {
    hooks: Arc<TableHooks>,
    place: Arc<HookPlace>,
    deadline: Duration,
}

impl RowHooks for PlacedHooks {
    fn complete(&self, table: &Table, row: &[Value]) -> Result<AssignedFields> {
        let scratch = Scratch::new();
        let mut row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
        let completed = self.place.evaluation.complete(table, &mut row, &scratch)?;
        Ok(completed.iter().map(|field| (field, row[field].to_value())).collect())
    }

    fn is_empty(&self) -> bool {
        self.hooks.hooks.is_empty()
    }

    fn call(&self, index: usize, change: &RowChange) -> Option<HookCall> {
        let hook = self.hooks.hooks.get(index)?;
        let handle = self.place.handle.lock().clone();
        Some(hook.call(&handle, change))
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}

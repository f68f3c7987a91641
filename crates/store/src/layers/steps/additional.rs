//! The additional steps of a write, by its table, its fields and its caller's rights.
//!
//! A step is data: a [`Write`] within another one. The order of the steps is that of the [batch
//! machine](crate::operation::BatchMachine).

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, FilterExpr, Result, Table, Timestamp};
use smallvec::SmallVec;

use super::before_hooks::{BeforeHooks, HookPlace, Hooked, is_evaluated};
use crate::batch_machine::before;
use crate::contract::audit::{Audit, AuditLog};
use crate::contract::operation::{Cascade, OnConflict, Operation, Write};
use crate::contract::row_hook::WriteHooks;
use crate::layers::handle::HandleContext;
use crate::rights::Rights;
use crate::rows::cascades::{CascadePlan, Cascades};
use crate::rows::history::HISTORY_TABLE;

/// The additional steps of the writes of one operation.
pub(super) struct Steps<'s> {
    /// The data of history entries, if the store has a history.
    audit: Option<Audit>,
    /// The rights of the caller, if they are limited.
    rights: Option<&'s Arc<Rights>>,
    /// The hooks, and where their operations are executed, if a table of the operation has hooks.
    hooks: Option<(&'s BeforeHooks, Arc<HookPlace>)>,
    /// True if a hook may wait, so that the writes need a transaction of the store.
    waits: bool,
    /// What deletes do to the rows that refer to the deleted ones.
    cascades: &'s Cascades,
    /// The time of the writes that they make.
    at: Timestamp,
}

impl<'s> Steps<'s> {
    /// Returns the steps of an operation; `None` if it takes no additional ones.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] for a write to the history itself; [`ErrorKind::Bug`] if hooks are
    /// nested too deeply.
    #[inline]
    pub(super) fn of(
        audit_log: Option<&Arc<AuditLog>>,
        before_hooks: Option<&'s BeforeHooks>,
        cascades: &'s Cascades,
        handle: &'s HandleContext,
        operation: &Operation<'_>,
    ) -> Result<Option<Self>> {
        let cascading = cascading(cascades, operation)?;
        let hooked = match before_hooks {
            Some(hooks) => hooks.of(handle, operation, &cascading)?,
            None => Hooked::default(),
        };
        let rights = handle.rights.as_ref();
        let takes_steps = is_audited(audit_log, operation)?
            || hooked.any
            || !cascading.is_empty()
            || is_compared(operation)
            || rights.is_some_and(|rights| is_guarded(rights, operation));
        Ok(takes_steps.then(|| {
            let audit = audit_log.map(|audit_log| Audit {
                audit_log: Arc::clone(audit_log),
                actor: handle.actor.clone(),
                at: handle.time(),
            });
            let place = || Arc::new(HookPlace::new(handle.clone()));
            let has_hooks = hooked.any || hooked.any_evaluated;
            let hooks = before_hooks.filter(|_| has_hooks).map(|hooks| (hooks, place()));
            let waits = hooked.any_async;
            Self { audit, rights, hooks, waits, cascades, at: handle.time() }
        }))
    }

    /// Returns where the operations of hooks are executed, if there are hooks that may wait.
    pub(super) fn place_of_waiting_hooks(&self) -> Option<&Arc<HookPlace>> {
        self.hooks.as_ref().filter(|_| self.waits).map(|(_, place)| place)
    }

    /// Returns a write with its steps: the write itself, if it takes none.
    pub(super) fn wrap(&self, write: Write) -> Write {
        let guard = self.rights.filter(|rights| rights.guard(&write));
        let hooks = self.hooks_of(write.table(), is_evaluated(&write));
        let write = match self.cascade_of(&write) {
            Some(cascade) => Write::Cascading { write: Box::new(write), cascade },
            None => write,
        };
        let write = match before::compares(&write) {
            true => Write::Compared { write: Box::new(write) },
            false => write,
        };
        let write = write.with_audit(self.audit.as_ref());
        let write = match guard {
            Some(rights) => Write::Guarded { write: Box::new(write), rights: Arc::clone(rights) },
            None => write,
        };
        write.with_hooks(hooks)
    }

    /// Returns the hooks of a table, for a write that evaluates expressions or not.
    fn hooks_of(&self, table: &Table, evaluates: bool) -> Option<WriteHooks> {
        self.hooks.as_ref().and_then(|(hooks, place)| hooks.of_table(table, evaluates, place))
    }

    /// Returns what a write does to the rows that refer to those that it deletes.
    fn cascade_of(&self, write: &Write) -> Option<Cascade> {
        let (Write::Delete { table, .. } | Write::DeleteWhere { table, .. }) = write else {
            return None;
        };
        let plan = self.cascades.of(table)?;
        let is_audited = plan.tables.iter().any(|reached| reached.table.schema().audit);
        let hooks = match &self.hooks {
            Some(_) => {
                let reached = plan.tables.iter();
                let evaluates = |table: &Table| !table.computed_fields().is_empty();
                reached
                    .map(|reached| self.hooks_of(&reached.table, evaluates(&reached.table)))
                    .collect()
            }
            None => Vec::new(),
        };
        let audit = self.audit.clone().filter(|_| is_audited);
        Some(Cascade { plan: Arc::clone(plan), audit, hooks, at: self.at })
    }

    /// Returns a write of a batch with its steps. A delete by filter only deletes what the caller
    /// may delete; outside of a batch, it was narrowed before.
    pub(super) fn wrap_in_batch(&self, write: &Write) -> Write {
        self.wrap(match (write, self.rights) {
            (Write::DeleteWhere { table, filter }, Some(rights)) => {
                let filter: Option<FilterExpr> = rights.narrow_delete(table, filter.as_ref());
                Write::DeleteWhere { filter, table: Arc::clone(table) }
            }
            (write, _) => write.clone(),
        })
    }
}

/// Returns the plans of the tables from which an operation deletes rows that others may refer to
/// with an action.
///
/// # Errors
/// [`ErrorKind::Invalid`] for an insert that would replace such rows: its deletes would take the
/// referring rows with them, although the row exists afterwards.
fn cascading<'s>(
    cascades: &'s Cascades,
    operation: &Operation<'_>,
) -> Result<SmallVec<[&'s CascadePlan; 2]>> {
    let mut plans = SmallVec::new();
    if cascades.is_empty() {
        return Ok(plans);
    }
    let mut add = |table: &Table, replaces: bool| {
        let Some(plan) = cascades.of(table) else { return Ok(()) };
        if replaces {
            let message = format!(
                "a row of `{}` cannot be replaced, since other rows refer to it with an action of a \
                 delete (`on_delete`): update the row if it exists",
                table.name()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        plans.push(&**plan);
        Ok(())
    };
    let replaces = |on_conflict: &OnConflict| *on_conflict == OnConflict::Replace;
    match operation {
        Operation::Delete { table, .. } | Operation::DeleteWhere { table, .. } => {
            add(table, false)?;
        }
        Operation::Insert { table, on_conflict, .. }
        | Operation::InsertMany { table, on_conflict, .. }
            if replaces(on_conflict) =>
        {
            add(table, true)?;
        }
        Operation::Batch { writes, .. } => {
            for write in *writes {
                match write.bare() {
                    Write::Delete { table, .. } | Write::DeleteWhere { table, .. } => {
                        add(table, false)?;
                    }
                    Write::Insert { table, on_conflict, .. } if replaces(on_conflict) => {
                        add(table, true)?;
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
    Ok(plans)
}

/// Returns true if an operation writes to an audited table.
fn is_audited(audit_log: Option<&Arc<AuditLog>>, operation: &Operation<'_>) -> Result<bool> {
    let (mut is_audited, mut is_history) = (false, false);
    if let Some(audit_log) = audit_log {
        operation.each_table_written(|table: &Table| {
            is_audited |= table.schema().audit;
            is_history |= table.name() == audit_log.table.name();
        });
    }
    if is_history {
        let message = format!("`{HISTORY_TABLE}` can only be written by the store");
        return Err(Error::new(ErrorKind::Denied, message));
    }
    Ok(is_audited)
}

/// Returns true if an operation may change immutable fields, or has values for generated columns.
fn is_compared(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Batch { writes, .. } => writes.iter().any(before::compares),
        operation => before::operation_compares(operation),
    }
}

/// Returns true if rows have to be checked for the caller's rights, or a delete by filter of a
/// batch has to be narrowed.
fn is_guarded(rights: &Rights, operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Batch { writes, .. } => writes
            .iter()
            .any(|write| rights.guard(write) || matches!(write, Write::DeleteWhere { .. })),
        operation => rights.guards(operation),
    }
}

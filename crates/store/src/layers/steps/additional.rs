//! The additional steps of a write, by its table, its fields and its caller's rights.
//!
//! A step is data: a [`Write`] within another one. The order of the steps is that of the [batch
//! machine](crate::operation::BatchMachine).

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, FilterExpr, Result, Table};

use super::before_hooks::{BeforeHooks, HookPlace, Hooked};
use crate::batch_machine::before;
use crate::contract::audit::{Audit, AuditLog};
use crate::contract::operation::{Operation, Write};
use crate::layers::handle::HandleContext;
use crate::rights::Rights;
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
        handle: &'s HandleContext,
        operation: &Operation<'_>,
    ) -> Result<Option<Self>> {
        let hooked = match before_hooks {
            Some(hooks) => hooks.of(handle, operation)?,
            None => Hooked::default(),
        };
        let rights = handle.rights.as_ref();
        let takes_steps = is_audited(audit_log, operation)?
            || hooked.any
            || is_compared(operation)
            || rights.is_some_and(|rights| is_guarded(rights, operation));
        Ok(takes_steps.then(|| {
            let audit = audit_log.map(|audit_log| Audit {
                audit_log: Arc::clone(audit_log),
                actor: handle.actor.clone(),
                at: handle.time(),
            });
            let place = || Arc::new(HookPlace::new(handle.clone()));
            let hooks = before_hooks.filter(|_| hooked.any).map(|hooks| (hooks, place()));
            Self { audit, rights, hooks, waits: hooked.any_async }
        }))
    }

    /// Returns where the operations of hooks are executed, if there are hooks that may wait.
    pub(super) fn place_of_waiting_hooks(&self) -> Option<&Arc<HookPlace>> {
        self.hooks.as_ref().filter(|_| self.waits).map(|(_, place)| place)
    }

    /// Returns a write with its steps: the write itself, if it takes none.
    pub(super) fn wrap(&self, write: Write) -> Write {
        let guard = self.rights.filter(|rights| rights.guard(&write));
        let write = match before::compares(&write) {
            true => Write::Compared { write: Box::new(write) },
            false => write,
        };
        let write = match &self.audit {
            Some(audit) if write.table().schema().audit => {
                Write::Audited { write: Box::new(write), audit: audit.clone() }
            }
            _ => write,
        };
        let write = match guard {
            Some(rights) => Write::Guarded { write: Box::new(write), rights: Arc::clone(rights) },
            None => write,
        };
        let hooks = self.hooks.as_ref();
        match hooks.and_then(|(hooks, place)| hooks.of_table(write.table(), place)) {
            Some(hooks) => Write::Hooked { write: Box::new(write), hooks },
            None => write,
        }
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

/// Returns true if an operation may change immutable fields.
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

//! What a delete does to the rows that refer to the deleted ones, with the data for the steps of
//! these writes: history entries and hooks.

use std::sync::Arc;

use marmota_model::{Table, Timestamp};

use super::write::Write;
use crate::contract::audit::Audit;
use crate::contract::row_hook::WriteHooks;
use crate::rows::cascades::CascadePlan;

/// What a delete does to the rows that refer to the deleted ones.
///
/// The store attaches it to deletes ([`Write::Cascading`]); engines pass it on, and lock its tables
/// if they have to before a batch begins.
#[derive(Clone, Debug)]
pub struct Cascade {
    pub(crate) plan: Arc<CascadePlan>,
    /// The data of history entries, if a table of the plan is audited.
    pub(crate) audit: Option<Audit>,
    /// The hooks of each table of the plan; empty if none has hooks.
    pub(crate) hooks: Vec<Option<WriteHooks>>,
    /// The time of the writes.
    pub(crate) at: Timestamp,
}

impl Cascade {
    /// Returns every table that the delete may write to in addition to its own, the history's
    /// included. A table may come several times.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        let reached = self.plan.tables[1..].iter().map(|reached| &reached.table);
        reached.chain(self.audit.as_ref().map(Audit::table))
    }

    /// Returns true if the delete may write history entries for other rows.
    pub(crate) const fn is_audited(&self) -> bool {
        self.audit.is_some()
    }

    /// Returns true if writes to the table of the plan with this index have history entries or call
    /// hooks.
    pub(crate) fn has_steps(&self, table: usize) -> bool {
        let is_audited = self.audit.is_some() && self.plan.tables[table].table.schema().audit;
        is_audited || self.hooks.get(table).is_some_and(Option::is_some)
    }

    /// Returns a write to the table of the plan with this index, with its steps.
    pub(crate) fn with_steps(&self, table: usize, write: Write) -> Write {
        let hooks = self.hooks.get(table).cloned().flatten();
        write.with_audit(self.audit.as_ref()).with_hooks(hooks)
    }
}

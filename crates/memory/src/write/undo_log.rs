//! The undo log of a statement, batch or transaction.

use marmota_model::{FieldSet, Result, Value, ValueRef};
use marmota_store::refusal;

use crate::catalog::locked_tables::LockedTables;
use crate::table::table_rows::Values;

/// One undo step.
pub(crate) enum Undo {
    Insert { table: u32, row: u32 },
    Update { table: u32, row: u32, old: Box<[Value]> },
    Remove { table: u32, row: u32, old: Box<[Value]> },
}

impl Undo {
    /// Returns the table and the row.
    pub(crate) const fn place(&self) -> (u32, u32) {
        match *self {
            Self::Insert { table, row }
            | Self::Update { table, row, .. }
            | Self::Remove { table, row, .. } => (table, row),
        }
    }
}

/// The undo steps; the last one is executed first.
#[derive(Default)]
pub(crate) struct UndoLog {
    steps: Vec<Undo>,
    /// False if nothing will ever be undone: for a single write that makes all its checks before
    /// its first change.
    pub(crate) keeping: bool,
    savepoints: Vec<(u32, usize)>,
}

impl UndoLog {
    /// Creates the log of a transaction.
    pub(crate) fn of_transaction() -> Self {
        Self { keeping: true, ..Self::default() }
    }

    /// Removes all steps and savepoints, and keeps the memory for some of them.
    pub(crate) fn clear(&mut self) {
        /// The most steps for which memory is kept.
        const KEPT_MAX: usize = 1024;
        self.steps.clear();
        self.steps.shrink_to(KEPT_MAX);
        self.savepoints.clear();
    }

    pub(crate) fn inserted(&mut self, table: u32, row: u32) {
        if self.keeping {
            self.steps.push(Undo::Insert { table, row });
        }
    }

    /// Adds a step; called before the fields `changed` of a row are written.
    pub(crate) fn updating(
        &mut self,
        locked: &LockedTables<'_>,
        table: u32,
        row: u32,
        changed: FieldSet,
    ) -> Result<()> {
        if self.keeping {
            let old = locked.rows(table)?.copy(row, changed);
            self.steps.push(Undo::Update { table, row, old });
        }
        Ok(())
    }

    /// Adds a step; called before a row is removed.
    pub(crate) fn removing(
        &mut self,
        locked: &LockedTables<'_>,
        table: u32,
        row: u32,
    ) -> Result<()> {
        if self.keeping {
            let rows = locked.rows(table)?;
            let old = rows.copy(row, rows.table.all());
            self.steps.push(Undo::Remove { table, row, old });
        }
        Ok(())
    }

    /// Returns the steps, in order.
    pub(crate) fn steps(&self) -> &[Undo] {
        &self.steps
    }

    /// Returns the number of steps for which it has memory.
    #[cfg(test)]
    pub(crate) const fn capacity(&self) -> usize {
        self.steps.capacity()
    }

    /// Returns the number of steps, as a mark for [`Self::undo_to`].
    pub(crate) fn mark(&self) -> usize {
        self.steps.len()
    }

    /// Undoes the steps after a mark.
    pub(crate) fn undo_to(&mut self, mark: usize, locked: &mut LockedTables<'_>) -> Result<()> {
        while self.steps.len() > mark {
            let Some(step) = self.steps.pop() else { break };
            match step {
                Undo::Insert { table, row } => locked.rows_mut(table)?.remove(row),
                Undo::Update { table, row, old } => {
                    let old: Values<'_> = old.iter().map(Value::as_ref).collect();
                    locked.rows_mut(table)?.update(row, &old);
                }
                Undo::Remove { table, row, old } => locked.rows_mut(table)?.restore(row, &old),
            }
        }
        Ok(())
    }

    /// Sets a savepoint.
    pub(crate) fn save(&mut self, name: u32) {
        self.savepoints.push((name, self.steps.len()));
    }

    fn savepoint(&self, name: u32) -> Result<usize> {
        self.savepoints
            .iter()
            .rposition(|&(other, _)| other == name)
            .ok_or_else(refusal::no_savepoint)
    }

    /// Removes a savepoint and those set after it.
    pub(crate) fn release(&mut self, name: u32) -> Result<()> {
        let at = self.savepoint(name)?;
        self.savepoints.truncate(at);
        Ok(())
    }

    /// Undoes the steps since a savepoint, which stays.
    pub(crate) fn undo_to_savepoint(
        &mut self,
        name: u32,
        locked: &mut LockedTables<'_>,
    ) -> Result<()> {
        let at = self.savepoint(name)?;
        self.savepoints.truncate(at + 1);
        self.undo_to(self.savepoints[at].1, locked)
    }
}

/// A statement of several steps. It is undone if it is dropped before [`Statement::keep`], because
/// of an error or because the source of its rows panics.
pub(crate) struct Statement<'s, 'c> {
    pub(crate) locked: &'s mut LockedTables<'c>,
    pub(crate) log: &'s mut UndoLog,
    mark: usize,
    savepoints: usize,
    was_keeping: bool,
    kept: bool,
}

impl<'s, 'c> Statement<'s, 'c> {
    pub(crate) fn new(locked: &'s mut LockedTables<'c>, log: &'s mut UndoLog) -> Self {
        let (mark, savepoints) = (log.mark(), log.savepoints.len());
        let was_keeping = std::mem::replace(&mut log.keeping, true);
        Self { locked, log, mark, savepoints, was_keeping, kept: false }
    }

    /// Keeps the changes.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Statement<'_, '_> {
    fn drop(&mut self) {
        if !self.kept {
            // The tables of the steps are those that the statement has locked.
            let undone = self.log.undo_to(self.mark, self.locked);
            debug_assert!(undone.is_ok());
        }
        self.log.savepoints.truncate(self.savepoints);
        self.log.keeping = self.was_keeping;
        if !self.was_keeping {
            self.log.steps.clear();
        }
    }
}

/// Returns the row's values without those of `fields`.
pub(crate) fn without<'a>(row: &[ValueRef<'a>], fields: &[usize]) -> Values<'a> {
    let mut values: Values<'a> = row.iter().copied().collect();
    for &field in fields {
        values[field] = ValueRef::Absent;
    }
    values
}

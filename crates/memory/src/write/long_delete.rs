//! A delete by filter that takes more than its first turn.

use marmota_model::{FilterExpr, Result};
use marmota_store::predicate::Predicate;

use crate::catalog::Catalog;
use crate::catalog::locked_tables::{LockedTables, Needs, NotNow};
use crate::read::long_scan::Budget;
use crate::read::row_set::RowSet;
use crate::write::references::check_referrers;
use crate::write::undo_log::UndoLog;

/// A delete by filter that takes more than its first turn: it finds the rows, then removes them,
/// each in turns of two milliseconds.
///
/// Outside of a transaction it acts as one: it holds the gate, and owns the tables that it needs.
/// So the rows it has found stay unchanged. Other sessions can read the table until the first row
/// is removed, and wait from then on, so that they see the rows either before or after the whole
/// delete. In a session's transaction it writes to the transaction's log, and the session's other
/// operations wait.
pub(crate) struct LongDelete {
    /// The owner of the tables: the session of the transaction, or a separate number.
    owner: u64,
    needs: Needs,
    filter: Option<FilterExpr>,
    /// The rows that it still has to check, from `at` on.
    rows: Vec<u32>,
    at: usize,
    found: RowSet,
    /// Found rows with lower numbers have no references from rows that stay.
    checked_below: u32,
    /// Found rows with lower numbers are removed.
    removed_below: u32,
    /// The log of a delete that is a transaction itself.
    own: Option<UndoLog>,
}

/// The state after a turn.
pub(crate) enum DeleteTurn {
    Done,
    Over,
    /// It has to wait for the end of a long statement that reads the table.
    Kept,
}

impl LongDelete {
    pub(crate) fn new(
        (owner, own): (u64, Option<UndoLog>),
        needs: Needs,
        filter: Option<FilterExpr>,
        found: RowSet,
        rows: Vec<u32>,
    ) -> Box<Self> {
        let (at, checked_below, removed_below) = (0, 0, 0);
        Box::new(Self { owner, needs, filter, rows, at, found, checked_below, removed_below, own })
    }

    /// Returns true if it is a part of the session's transaction.
    pub(crate) const fn is_in_transaction(&self) -> bool {
        self.own.is_none()
    }

    /// Returns true once a row is removed: from then on the delete is executed to its end.
    pub(crate) const fn has_begun(&self) -> bool {
        self.removed_below > 0
    }

    /// Returns the number of rows that it removes.
    pub(crate) fn count(&self) -> u64 {
        self.found.len() as u64
    }

    /// Returns the tables that it owns.
    pub(crate) fn tables(&self) -> impl Iterator<Item = u32> {
        self.needs.tables().iter().map(|&(number, _)| number)
    }

    /// Returns the log of a delete that is a transaction itself.
    pub(crate) const fn own_log(&mut self) -> Option<&mut UndoLog> {
        self.own.as_mut()
    }

    /// Continues for one turn; `log` is that of the session's transaction.
    pub(crate) fn turn(
        &mut self,
        catalog: &Catalog,
        log: Option<&mut UndoLog>,
    ) -> Result<DeleteTurn> {
        let mut budget = Budget::next();
        let table = self.needs.table;
        if self.at < self.rows.len() {
            let rows = catalog.slots[table as usize].rows.read();
            let predicate = self.filter.as_ref();
            let predicate = predicate
                .map(|filter| Predicate::new(filter, &rows.table, &rows.pages.layout.columns))
                .transpose()?;
            while let Some(&number) = self.rows.get(self.at) {
                if budget.is_over() {
                    return Ok(DeleteTurn::Over);
                }
                self.at += 1;
                if predicate.as_ref().is_none_or(|one| one.selects(rows.pages.row(number))) {
                    self.found.insert(number);
                }
            }
            // This frees memory that is no longer needed.
            (self.rows, self.at) = (Vec::new(), 0);
        }
        let mut locked = match LockedTables::new(catalog, &self.needs, self.owner) {
            Ok(locked) => locked,
            // No session changes the tables of an engine while the gate is taken.
            Err(NotNow::Owned | NotNow::Retired) => return Ok(DeleteTurn::Kept),
        };
        if !locked.slot(table).referred.is_empty() {
            while let Some(number) = self.found.next(self.checked_below) {
                if budget.check_clock() {
                    return Ok(DeleteTurn::Over);
                }
                check_referrers(&locked, table, number, |source, row| {
                    source == table && self.found.contains(row)
                })?;
                self.checked_below = number + 1;
            }
        }
        let Some(log) = self.own.as_mut().or(log) else { return Ok(DeleteTurn::Done) };
        locked.rows_mut(table)?.changed = true;
        while let Some(number) = self.found.next(self.removed_below) {
            if budget.is_over() {
                return Ok(DeleteTurn::Over);
            }
            log.removing(&locked, table, number)?;
            locked.rows_mut(table)?.remove(number);
            self.removed_below = number + 1;
        }
        Ok(DeleteTurn::Done)
    }
}

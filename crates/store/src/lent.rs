//! Tables that one engine lends to the SQL of another in the same store: locked
//! for one statement, found by key and index, read field by field where they
//! lie.
//!
//! All tables of a statement are locked before its first step and given back
//! after its last, in an order that every operation of their engine keeps: so a
//! statement sees one state of all of them and does not wait while it runs.
//!
//! An engine that lends tables declares
//! [`AttachSource::Rows`](crate::engine::AttachSource::Rows) and implements
//! [`Session::lend`](crate::engine::Session::lend).

use std::fmt::Debug;
use std::sync::Arc;

use marmota_model::{Table, ValueRef};
use smallvec::SmallVec;

/// A table that does not change as long as this lives.
pub trait LentTable: Debug + Send + Sync {
    /// The table.
    fn table(&self) -> &Arc<Table>;

    /// True if a statement may keep the table for long: no open transaction has
    /// changed it, whose end would wait for the statement.
    fn can_be_kept(&self) -> bool;

    /// Keeps the table for a statement that continues on another thread: writes
    /// to it wait without their threads until this is dropped.
    fn keep(&self);

    /// The row with this key.
    fn by_key(&self, key: ValueRef<'_>) -> RowNumbers;

    /// The rows whose keys lie between two ends, in the order of keys or
    /// against it.
    fn by_keys(&self, low: RangeEnd<'_>, high: RangeEnd<'_>, reverse: bool) -> RowNumbers;

    /// The row that has these values in the fields of a unique index
    /// ([`Table::indexes`]); none if the index is not unique.
    fn by_unique(&self, index: usize, values: &[ValueRef<'_>]) -> RowNumbers;

    /// The rows that have these values in the first fields of an index, and
    /// one between two ends in the next, in the order of the index or against
    /// it. Each value is of its field's kind.
    fn by_index(
        &self,
        index: usize,
        values: &[ValueRef<'_>],
        low: RangeEnd<'_>,
        high: RangeEnd<'_>,
        reverse: bool,
    ) -> RowNumbers;

    /// All rows, in the order of some fields and then the key: for what no
    /// index gives. They are sorted here and now; none once `stop` is true, which
    /// is called every few thousand rows.
    fn sorted(
        &self,
        fields: &[usize],
        reverse: bool,
        stop: &dyn Fn() -> bool,
    ) -> Option<RowNumbers>;

    /// Takes some rows from the front of a range, or from its back if it is
    /// reversed, and moves that end. No row: the range has none left.
    fn draw(&self, range: &mut RowRange, rows: &mut Vec<u32>);

    /// Reads fields of a row that was drawn from this table to where their
    /// values are wanted.
    fn read<'t>(&'t self, row: u32, fields: &[usize], to: &mut [ValueRef<'t>]);

    /// The value of a field of a row that was drawn from this table.
    fn value(&self, row: u32, field: usize) -> ValueRef<'_>;
}

/// Tables lent together: most statements read one or two.
pub type LentTables = SmallVec<[Arc<dyn LentTable>; 4]>;

/// One end of a range of values, and whether the value is in it.
pub type RangeEnd<'v> = Option<(ValueRef<'v>, bool)>;

/// A part of the order of a table's keys, or of one of its indexes.
#[derive(Clone, Copy, Debug)]
pub struct RowRange {
    /// The index; `None` for the keys.
    pub index: Option<usize>,
    /// The first place. Only the table that made it knows what the numbers mean.
    pub from: [usize; 2],
    /// The place after the last.
    pub to: [usize; 2],
    /// True if rows are drawn from the end.
    pub reverse: bool,
}

/// Row numbers of a lent table, to be drawn one by one.
#[derive(Debug)]
pub struct RowNumbers {
    left: Option<RowRange>,
    /// The only one, where there is at most one.
    one: Option<u32>,
    /// Those drawn from the table and not yet given, the next one last.
    block: Vec<u32>,
}

impl RowNumbers {
    /// No row.
    #[must_use]
    pub const fn none() -> Self {
        Self::one(None)
    }

    /// One row at most.
    #[must_use]
    pub const fn one(row: Option<u32>) -> Self {
        Self { left: None, one: row, block: Vec::new() }
    }

    /// The rows of a range, which [`LentTable::draw`] takes as they are needed.
    #[must_use]
    pub const fn range(range: RowRange) -> Self {
        Self { left: Some(range), one: None, block: Vec::new() }
    }

    /// These rows, in their order.
    #[must_use]
    pub fn list(mut rows: Vec<u32>) -> Self {
        rows.reverse();
        Self { left: None, one: None, block: rows }
    }

    /// The next row; `table` is the one that the numbers are of.
    #[inline]
    pub fn next(&mut self, table: &dyn LentTable) -> Option<u32> {
        match self.one.take().or_else(|| self.block.pop()) {
            Some(row) => Some(row),
            None => self.draw(table),
        }
    }

    fn draw(&mut self, table: &dyn LentTable) -> Option<u32> {
        table.draw(self.left.as_mut()?, &mut self.block);
        self.block.reverse();
        self.block.pop()
    }
}

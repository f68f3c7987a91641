//! Tables that one engine lends to the SQL of another in the same store. They are locked for one
//! statement; their rows are found by key and index and read field by field in place.
//!
//! All tables of a statement are locked before its first step and returned after its last, in an
//! order that every operation of their engine keeps. So a statement sees one state of all of them
//! and does not wait while it runs.
//!
//! An engine that lends tables declares
//! [`AttachSource::Rows`](crate::engine::AttachSource::Rows) and implements
//! [`Session::lend`](crate::engine::Session::lend).

use std::fmt::Debug;
use std::sync::Arc;

use marmota_model::{Table, ValueRef};
use smallvec::SmallVec;

/// A table that does not change as long as this value lives.
///
/// The engine that lends owns the lock: it is taken by
/// [`Session::lend`](crate::engine::Session::lend) and released when the last clone of the `Arc` is
/// dropped. Row numbers are valid as long as this value. A method never waits.
pub trait BorrowedTable: Debug + Send + Sync {
    /// The table.
    fn table(&self) -> &Arc<Table>;

    /// Returns true if a statement may keep the table for long: no open transaction has changed it,
    /// whose end would wait for the statement.
    fn can_be_kept(&self) -> bool;

    /// Keeps the table for a statement that continues on another thread: writes
    /// to it wait without their threads until this is dropped.
    fn keep(&self);

    /// The row with this key.
    fn by_key(&self, key: ValueRef<'_>) -> RowNumbers;

    /// The rows whose keys lie between two ends, in the order of keys or reversed.
    fn by_keys(&self, low: RangeEnd<'_>, high: RangeEnd<'_>, reverse: bool) -> RowNumbers;

    /// The row that has these values in the fields of a unique index ([`Table::indexes`]); no row
    /// if the index is not unique.
    fn by_unique(&self, index: usize, values: &[ValueRef<'_>]) -> RowNumbers;

    /// The rows that have these values in the first fields of an index, and a value between two
    /// ends in the next, in the order of the index or reversed. Each value is of its field's kind.
    fn by_index(
        &self,
        index: usize,
        values: &[ValueRef<'_>],
        low: RangeEnd<'_>,
        high: RangeEnd<'_>,
        reverse: bool,
    ) -> RowNumbers;

    /// All rows, in the order of some fields and then the key, for an order without an index. They
    /// are sorted by this call. `stop` is called every few thousand rows; once it returns true, the
    /// result is `None`.
    fn sorted(
        &self,
        fields: &[usize],
        reverse: bool,
        stop: &dyn Fn() -> bool,
    ) -> Option<RowNumbers>;

    /// Moves some rows from the front of a range to `rows`, or from its back if it is reversed. If
    /// it adds no row, the range is empty.
    fn draw(&self, range: &mut RowRange, rows: &mut Vec<u32>);

    /// Reads fields of a row that was drawn from this table into `to`.
    fn read<'t>(&'t self, row: u32, fields: &[usize], to: &mut [ValueRef<'t>]);

    /// Returns the value of a field of a row that was drawn from this table.
    fn value(&self, row: u32, field: usize) -> ValueRef<'_>;
}

/// Tables lent together: most statements read one or two.
pub type BorrowedTables = SmallVec<[Arc<dyn BorrowedTable>; 4]>;

/// One end of a range of values, and true if the value itself is in the range.
pub type RangeEnd<'v> = Option<(ValueRef<'v>, bool)>;

/// A part of the order of a table's keys, or of one of its indexes.
#[derive(Clone, Copy, Debug)]
pub struct RowRange {
    /// The index; `None` for the keys.
    pub index: Option<usize>,
    /// The first place. Only the table that made the range knows the meaning of the numbers.
    pub from: [usize; 2],
    /// The place after the last.
    pub to: [usize; 2],
    /// True if rows are drawn from the end.
    pub reverse: bool,
}

/// Row numbers of a lent table, read one by one.
///
/// Rows of a range are drawn in blocks, so that a statement that stops early does not pay for all.
///
/// ```
/// use marmota_store::borrowed_table::RowNumbers;
/// // A list or a single row needs no table to draw from.
/// let rows = RowNumbers::list(vec![4, 2, 7]);
/// let none = RowNumbers::none();
/// assert!(format!("{rows:?}").contains("[7, 2, 4]"), "the next one is last");
/// assert!(format!("{none:?}").contains("one: None"));
/// ```
#[derive(Debug)]
pub struct RowNumbers {
    /// The range that is not drawn yet; `None` for a list or a single row.
    left: Option<RowRange>,
    /// The only row, if there is at most one.
    one: Option<u32>,
    /// The rows drawn from the table but not yet returned, the next one last.
    block: Vec<u32>,
}

impl RowNumbers {
    /// No row.
    #[must_use]
    pub const fn none() -> Self {
        Self::one(None)
    }

    /// At most one row.
    #[must_use]
    pub const fn one(row: Option<u32>) -> Self {
        Self { left: None, one: row, block: Vec::new() }
    }

    /// The rows of a range, which [`BorrowedTable::draw`] reads as they are needed.
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

    /// Returns the next row; `table` is the table of the row numbers.
    #[inline]
    pub fn next(&mut self, table: &dyn BorrowedTable) -> Option<u32> {
        match self.one.take().or_else(|| self.block.pop()) {
            Some(row) => Some(row),
            None => self.draw(table),
        }
    }

    /// Draws the next block of the range, and returns its first row.
    fn draw(&mut self, table: &dyn BorrowedTable) -> Option<u32> {
        table.draw(self.left.as_mut()?, &mut self.block);
        self.block.reverse();
        self.block.pop()
    }
}

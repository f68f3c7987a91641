//! Tables lent to the SQL of another engine: locked for one statement, found
//! by key and index, read field by field where they lie.
//!
//! All tables of a statement are locked before its first step and given back
//! after its last, in the order of their numbers as every operation does it:
//! so a statement sees one moment of all of them, waits for nobody while it
//! runs, and writers wait for its end: in place while it is short, without
//! their thread once it is long ([`LentTable::keep`]).

use std::sync::Arc;

use marmota_model::{Table, ValueRef};
use parking_lot::{ArcRwLockReadGuard, RawRwLock};
use smallvec::SmallVec;

use super::compare;
use super::key_index::KeyRange;
use super::long_reads::LongRead;
use super::ordered::Position;
use super::plan::Search;
use super::table_rows::TableRows;

/// How many row numbers are looked up at once.
const BLOCK_ROWS: usize = 256;
/// How many rows are sorted between two looks at whether to stop.
const SORT_ROWS: usize = 2_048;

/// A table that does not change as long as this lives.
pub struct LentTable {
    // Given back before the long read ends, so that who waits for that finds it free.
    rows: ArcRwLockReadGuard<RawRwLock, TableRows>,
    long: Option<LongRead>,
}

/// Tables lent together: most statements read one or two.
pub type LentTables = SmallVec<[LentTable; 4]>;

/// One end of a range of values, and whether the value is in it.
pub type RangeEnd<'v> = Option<(ValueRef<'v>, bool)>;

/// Row numbers of a lent table, to be drawn one by one.
#[derive(Debug)]
pub struct RowNumbers {
    left: Left,
    reverse: bool,
    /// The only one, where there is at most one.
    one: Option<u32>,
    /// Those drawn from the table and not yet given, the next one last.
    block: Vec<u32>,
}

#[derive(Debug)]
enum Left {
    Nothing,
    Keys(KeyRange),
    Index(usize, Position, Position),
}

impl RowNumbers {
    /// No row.
    #[must_use]
    pub const fn none() -> Self {
        Self::of(Left::Nothing, false)
    }

    const fn of(left: Left, reverse: bool) -> Self {
        Self { left, reverse, one: None, block: Vec::new() }
    }

    fn one(row: Option<u32>) -> Self {
        Self { one: row, ..Self::none() }
    }
}

impl LentTable {
    pub(super) const fn new(rows: ArcRwLockReadGuard<RawRwLock, TableRows>) -> Self {
        Self { rows, long: None }
    }

    /// Keeps the table for a statement that continues on another thread: writes
    /// to it wait without their threads until this is dropped.
    pub fn keep(&mut self) {
        if self.long.is_none() {
            self.long = Some(self.rows.long_reads.begin());
        }
    }

    /// True unless an open transaction has changed the table: its end takes the
    /// lock in place, so a long statement must not have it.
    #[must_use]
    pub fn can_be_kept(&self) -> bool {
        !self.rows.changed
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.rows.table
    }

    /// The row with this key.
    #[must_use]
    pub fn by_key(&self, key: ValueRef<'_>) -> RowNumbers {
        RowNumbers::one(self.rows.keys.find(&self.rows.pages, key))
    }

    /// The rows whose keys lie between two ends, in the order of keys or
    /// against it.
    #[must_use]
    pub fn by_keys(&self, low: RangeEnd<'_>, high: RangeEnd<'_>, reverse: bool) -> RowNumbers {
        let range = self.rows.keys.range(&self.rows.pages, low, high);
        RowNumbers::of(Left::Keys(range), reverse)
    }

    /// The row that has these values in the fields of a unique index
    /// ([`Table::indexes`]); none if the index is not unique.
    #[must_use]
    pub fn by_unique(&self, index: usize, values: &[ValueRef<'_>]) -> RowNumbers {
        let unique = self.rows.indexes.get(index).and_then(|index| index.unique.as_ref());
        let found = unique.and_then(|unique| {
            let value = |field: usize| {
                let place = unique.fields().iter().position(|&other| other == field);
                place.and_then(|place| values.get(place)).copied().unwrap_or(ValueRef::Null)
            };
            unique.find(&self.rows.pages, value)
        });
        RowNumbers::one(found)
    }

    /// The rows that have these values in the first fields of an index, and
    /// one between two ends in the next, in the order of the index or against
    /// it. Each value is of its field's kind.
    #[must_use]
    pub fn by_index(
        &self,
        index: usize,
        values: &[ValueRef<'_>],
        low: RangeEnd<'_>,
        high: RangeEnd<'_>,
        reverse: bool,
    ) -> RowNumbers {
        let Some(of_rows) = self.rows.indexes.get(index) else { return RowNumbers::none() };
        let search = Search { rows: &self.rows, index: of_rows };
        let (from, to) = search.between(values, low, high);
        RowNumbers::of(Left::Index(index, from, to), reverse)
    }

    /// All rows, in the order of some fields and then the key: for what no
    /// index gives. They are sorted here and now; none once `stop` is true, which
    /// is called every few thousand rows.
    #[must_use]
    pub fn sorted(
        &self,
        fields: &[usize],
        reverse: bool,
        stop: &dyn Fn() -> bool,
    ) -> Option<RowNumbers> {
        let mut all = self.by_keys(None, None, false);
        let mut block = Vec::new();
        while let Some(row) = self.next(&mut all) {
            block.push(row);
            if block.len().is_multiple_of(SORT_ROWS) && stop() {
                return None;
            }
        }
        let pages = &self.rows.pages;
        let columns = &pages.layout.columns;
        let compare = |&a: &u32, &b: &u32| {
            let (a, b) = (pages.row(a), pages.row(b));
            let by_field = fields.iter().map(|&field| {
                let column = &columns[field];
                compare::order(column.collation, a.value(column), b.value(column))
            });
            by_field.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        };
        // Stable, so that the key decides where the fields do not. Two sorted
        // halves are merged by it.
        let mut width = SORT_ROWS;
        loop {
            for part in block.chunks_mut(width) {
                part.sort_by(compare);
                if stop() {
                    return None;
                }
            }
            if width >= block.len() {
                break;
            }
            width *= 2;
        }
        // The next one is drawn from the end.
        if !reverse {
            block.reverse();
        }
        Some(RowNumbers { block, ..RowNumbers::of(Left::Nothing, reverse) })
    }

    /// The next row.
    #[inline]
    pub fn next(&self, numbers: &mut RowNumbers) -> Option<u32> {
        match numbers.one.take().or_else(|| numbers.block.pop()) {
            Some(row) => Some(row),
            None => self.draw(numbers),
        }
    }

    fn draw(&self, numbers: &mut RowNumbers) -> Option<u32> {
        let RowNumbers { left, reverse, block, .. } = numbers;
        match left {
            Left::Nothing => return None,
            Left::Keys(range) => self.rows.keys.draw(range, *reverse, BLOCK_ROWS, block),
            Left::Index(index, from, to) => {
                self.rows.indexes[*index].ordered.draw(from, to, *reverse, BLOCK_ROWS, block);
            }
        }
        block.reverse();
        block.pop()
    }

    /// Reads fields of a row that was drawn from this table to where their
    /// values are wanted.
    #[inline]
    pub fn read<'t>(&'t self, row: u32, fields: &[usize], to: &mut [ValueRef<'t>]) {
        let pages = &self.rows.pages;
        let stored = pages.row(row);
        for (value, field) in to.iter_mut().zip(fields) {
            match pages.layout.columns.get(*field) {
                Some(column) => stored.read(column, value),
                None => *value = ValueRef::Null,
            }
        }
    }

    /// The value of a field of a row that was drawn from this table.
    #[inline(always)]
    #[must_use]
    pub fn value(&self, row: u32, field: usize) -> ValueRef<'_> {
        let pages = &self.rows.pages;
        match pages.layout.columns.get(field) {
            Some(column) => pages.row(row).value_in_place(column),
            None => ValueRef::Null,
        }
    }
}

impl std::fmt::Debug for LentTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "lent table `{}`", self.rows.table.name())
    }
}

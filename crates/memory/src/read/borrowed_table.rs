//! The tables that this engine lends to the SQL of another one.
//!
//! All tables of a statement are locked before its first step and released after its last, in the
//! order of their numbers, like in every operation. Writers wait for its end: they block while it
//! is short, and wait without their thread once it is long ([`BorrowedTable::keep`]).

use std::sync::{Arc, OnceLock};

use marmota_model::{Table, ValueRef};
use marmota_store::borrowed_table::{BorrowedTable, RangeEnd, RowNumbers, RowRange};
use parking_lot::{ArcRwLockReadGuard, RawRwLock};

use crate::lock::long_reads::LongRead;
use crate::read::read_plan::Search;
use crate::table::ordered_index::Position;
use crate::table::table_rows::TableRows;

/// The number of row numbers that are looked up at once.
const BLOCK_ROWS: usize = 256;
/// The number of rows that are sorted between two checks for a stop.
const SORT_ROWS: usize = 2_048;

/// A table that is locked for a statement.
pub(crate) struct LockedTable {
    // Released before the long read ends, so that a writer that waits for that end finds it free.
    rows: ArcRwLockReadGuard<RawRwLock, TableRows>,
    long: OnceLock<LongRead>,
}

impl LockedTable {
    pub(crate) fn lend(rows: ArcRwLockReadGuard<RawRwLock, TableRows>) -> Arc<dyn BorrowedTable> {
        Arc::new(Self { rows, long: OnceLock::new() })
    }
}

impl BorrowedTable for LockedTable {
    fn keep(&self) {
        self.long.get_or_init(|| self.rows.long_reads.begin());
    }

    fn can_be_kept(&self) -> bool {
        !self.rows.changed
    }

    fn table(&self) -> &Arc<Table> {
        &self.rows.table
    }

    fn by_key(&self, key: ValueRef<'_>) -> RowNumbers {
        RowNumbers::one(self.rows.keys.find(&self.rows.pages, key))
    }

    fn by_keys(&self, low: RangeEnd<'_>, high: RangeEnd<'_>, reverse: bool) -> RowNumbers {
        let range = self.rows.keys.range(&self.rows.pages, low, high);
        let (from, to) = range.ends();
        RowNumbers::range(RowRange { index: None, from, to, reverse })
    }

    fn by_unique(&self, index: usize, values: &[ValueRef<'_>]) -> RowNumbers {
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

    fn by_index(
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
        let (from, to) = (from.into(), to.into());
        RowNumbers::range(RowRange { index: Some(index), from, to, reverse })
    }

    fn sorted(
        &self,
        fields: &[usize],
        reverse: bool,
        stop: &dyn Fn() -> bool,
    ) -> Option<RowNumbers> {
        let mut all = self.by_keys(None, None, false);
        let mut block = Vec::new();
        while let Some(row) = all.next(self) {
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
                column.collation.order(a.value(column), b.value(column))
            });
            by_field.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        };
        // The sort is stable, so that the key decides if the fields are equal. It also merges two
        // sorted halves.
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
        if reverse {
            block.reverse();
        }
        Some(RowNumbers::list(block))
    }

    fn draw(&self, range: &mut RowRange, rows: &mut Vec<u32>) {
        match range.index {
            None => {
                let mut keys = self.rows.keys.between(range.from, range.to);
                self.rows.keys.draw(&mut keys, range.reverse, BLOCK_ROWS, rows);
                (range.from, range.to) = keys.ends();
            }
            Some(index) => {
                let (mut from, mut to) = (Position::from(range.from), Position::from(range.to));
                let ordered = &self.rows.indexes[index].ordered;
                ordered.draw(&mut from, &mut to, range.reverse, BLOCK_ROWS, rows);
                (range.from, range.to) = (from.into(), to.into());
            }
        }
    }

    #[inline]
    fn read<'t>(&'t self, row: u32, fields: &[usize], to: &mut [ValueRef<'t>]) {
        let pages = &self.rows.pages;
        let stored = pages.row(row);
        for (value, field) in to.iter_mut().zip(fields) {
            match pages.layout.columns.get(*field) {
                Some(column) => stored.read(column, value),
                None => *value = ValueRef::Null,
            }
        }
    }

    #[inline]
    fn value(&self, row: u32, field: usize) -> ValueRef<'_> {
        let pages = &self.rows.pages;
        match pages.layout.columns.get(field) {
            Some(column) => pages.row(row).value_in_place(column),
            None => ValueRef::Null,
        }
    }
}

impl std::fmt::Debug for LockedTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "lent table `{}`", self.rows.table.name())
    }
}

//! Carries out a plan: lends the numbers of the rows that a filter selects,
//! in the order asked for.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use marmota_model::{FieldSet, Filter, Order, Query, Result, RowSink, ValueRef};
use smallvec::{SmallVec, smallvec};

use super::compare;
use super::layout::Column;
use super::plan::{Access, Plan, Wanted};
use super::predicate::Predicate;
use super::table_rows::{TableRows, Values};

/// The most rows that room is made for at once.
const ROOM_ROWS_MAX: usize = 4096;
/// Rows of at most this many fields need no allocation to be lent.
const ROW_FIELDS_FEW: usize = 16;

impl TableRows {
    /// Lends the row with a key; gives how many there are.
    #[inline]
    pub(super) fn get(&self, key: ValueRef<'_>, fields: FieldSet, sink: &mut dyn RowSink) -> u64 {
        let Some(number) = self.keys.find(&self.pages, key) else { return 0 };
        let columns = &self.pages.layout.columns;
        let (mut few, mut many);
        let row = if columns.len() <= ROW_FIELDS_FEW {
            few = [ValueRef::Absent; ROW_FIELDS_FEW];
            &mut few[..columns.len()]
        } else {
            many = vec![ValueRef::Absent; columns.len()];
            &mut many[..]
        };
        let stored = self.pages.row(number);
        let all = fields == self.table.all();
        for (field, (value, column)) in row.iter_mut().zip(columns).enumerate() {
            if all || fields.contains(field) {
                stored.read(column, value);
            }
        }
        let _ = sink.row(row);
        1
    }

    /// Lends the rows that a query selects; gives how many.
    pub(super) fn list(&self, query: &Query, sink: &mut dyn RowSink) -> Result<u64> {
        let with_after;
        let filter = if query.after.is_some() {
            with_after = query.filter_with_after(&self.table);
            with_after.as_ref()
        } else {
            query.filter.as_ref()
        };
        let order = query.order_with_key(&self.table);
        let after = query.after.as_deref();
        let wanted = Wanted { filter, order: &order, limit: query.limit, after };
        let fields = query.fields.unwrap_or_else(|| self.table.read_by_default());
        let columns: SmallVec<[(usize, Column); 16]> = self
            .pages
            .layout
            .columns
            .iter()
            .copied()
            .enumerate()
            .filter(|&(field, _)| fields.contains(field))
            .collect();
        let mut row: Values<'_> = smallvec![ValueRef::Absent; self.table.fields().len()];
        let mut lent = 0;
        self.select(&wanted, |number| {
            let stored = self.pages.row(number);
            for (field, column) in &columns {
                row[*field] = stored.value_in_place(column);
            }
            lent += 1;
            sink.row(&row)
        })?;
        Ok(lent)
    }

    /// How many rows a filter selects.
    pub(super) fn count(&self, filter: Option<&Filter>) -> Result<u64> {
        if filter.is_none() {
            return Ok(self.keys.len() as u64);
        }
        let mut count = 0;
        self.select(&Wanted { filter, order: &[], limit: None, after: None }, |_| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    /// The rows that a filter selects.
    pub(super) fn numbers(&self, filter: Option<&Filter>) -> Result<Vec<u32>> {
        let mut numbers = Vec::new();
        self.select(&Wanted { filter, order: &[], limit: None, after: None }, |number| {
            numbers.push(number);
            ControlFlow::Continue(())
        })?;
        Ok(numbers)
    }

    fn select(
        &self,
        wanted: &Wanted<'_>,
        mut lend: impl FnMut(u32) -> ControlFlow<()>,
    ) -> Result<()> {
        let predicate = wanted
            .filter
            .map(|filter| Predicate::new(filter, &self.table, &self.pages.layout))
            .transpose()?;
        let mut left = wanted.limit.unwrap_or(u64::MAX);
        if left == 0 {
            return Ok(());
        }
        let plan = Plan::new(self, wanted);
        let mut lend_some = |number: u32| {
            left -= 1;
            lend(number)?;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        if plan.sorted {
            self.walk(&plan, predicate.as_ref(), lend_some);
            return Ok(());
        }
        let mut sorter = Sorter::new(self, wanted.order, wanted.limit);
        self.walk(&plan, predicate.as_ref(), |number| {
            sorter.add(number);
            ControlFlow::Continue(())
        });
        let _ = sorter.sorted().into_iter().try_for_each(|(_, number)| lend_some(number));
        Ok(())
    }

    #[inline]
    fn walk(
        &self,
        plan: &Plan,
        predicate: Option<&Predicate<'_>>,
        mut lend: impl FnMut(u32) -> ControlFlow<()>,
    ) {
        let lend = |number: u32| match predicate {
            Some(predicate) if !predicate.selects(self.pages.row(number)) => {
                ControlFlow::Continue(())
            }
            _ => lend(number),
        };
        let _ = match &plan.access {
            Access::Rows(rows) => rows.iter().copied().try_for_each(lend),
            Access::Keys(range) => self.keys.walk(*range, plan.reverse, lend),
            Access::Index(number, from, to) => {
                self.indexes[*number].ordered.walk(*from, *to, plan.reverse, lend)
            }
        };
    }
}

/// Sorts rows, and keeps no more of them than are asked for.
struct Sorter<'s> {
    rows: &'s TableRows,
    order: &'s [Order],
    keep: usize,
    /// The rows so far, each with the prefix of its first value.
    found: Vec<(u64, u32)>,
}

impl<'s> Sorter<'s> {
    fn new(rows: &'s TableRows, order: &'s [Order], limit: Option<u64>) -> Self {
        let keep = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let found = Vec::with_capacity(keep.saturating_mul(2).min(ROOM_ROWS_MAX));
        Self { rows, order, keep, found }
    }

    fn add(&mut self, number: u32) {
        let by = self.order[0];
        let collation = self.rows.pages.layout.columns[by.field].collation;
        let prefix = compare::prefix(collation, self.rows.pages.value(number, by.field));
        self.found.push((if by.descending { !prefix } else { prefix }, number));
        // Twice as many as are kept, then down to those: each row is moved
        // a bounded number of times, as in a heap, but without its jumps.
        if self.found.len() / 2 >= self.keep.max(64) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let (rows, order) = (self.rows, self.order);
        self.found.select_nth_unstable_by(self.keep - 1, |a, b| compare_rows(rows, order, *a, *b));
        self.found.truncate(self.keep);
    }

    fn sorted(mut self) -> Vec<(u64, u32)> {
        if self.found.len() > self.keep {
            self.cut();
        }
        let (rows, order) = (self.rows, self.order);
        self.found.sort_unstable_by(|a, b| compare_rows(rows, order, *a, *b));
        self.found
    }
}

fn compare_rows(rows: &TableRows, order: &[Order], a: (u64, u32), b: (u64, u32)) -> Ordering {
    a.0.cmp(&b.0).then_with(|| {
        let (a, b) = (rows.pages.row(a.1), rows.pages.row(b.1));
        for by in order {
            let column = &rows.pages.layout.columns[by.field];
            let order = compare::order(column.collation, a.value(column), b.value(column));
            if order.is_ne() {
                return if by.descending { order.reverse() } else { order };
            }
        }
        Ordering::Equal
    })
}

//! Executes a read plan: lends the numbers of the rows that a filter selects, in the requested
//! order.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use marmota_model::{FieldSet, FilterExpr, Result, RowQuery, RowSink, SortKey, ValueRef};
use marmota_store::predicate::Predicate;
use smallvec::{SmallVec, smallvec};

use crate::read::long_scan::{Budget, LongScan, RUN_ROWS, ReadRequest, Rest};
use crate::read::read_plan::{Access, Plan, Wanted};
use crate::read::row_set::RowSet;
use crate::table::layout::Column;
use crate::table::sort_prefix as compare;
use crate::table::sort_prefix::SortPrefix;
use crate::table::table_rows::{TableRows, Values};

/// The state of a list or count after its first turn.
pub(crate) enum Read {
    /// It is done, with the number of rows lent or counted.
    Done(u64),
    /// It needs more turns.
    Over(Box<LongScan>),
}

/// Rows that are to be removed.
pub(crate) enum RowsFound {
    /// Few enough rows to be removed in one turn.
    All(Vec<u32>),
    /// More rows, and those that were not checked yet.
    Some { found: RowSet, left: Vec<u32> },
}

/// The maximum number of rows for which memory is reserved at once.
const ROOM_ROWS_MAX: usize = 4096;
/// Rows with at most this many fields are lent without an allocation.
const ROW_FIELDS_FEW: usize = 16;

impl TableRows {
    /// Lends the row with a key; returns the number of rows.
    #[inline]
    pub(crate) fn get(&self, key: ValueRef<'_>, fields: FieldSet, sink: &mut dyn RowSink) -> u64 {
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

    /// Lends the rows that a query selects, for one turn.
    pub(crate) fn list(&self, query: &RowQuery, sink: &mut dyn RowSink) -> Result<Read> {
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
        let mut budget = Budget::first();
        let rest = self.select(&wanted, Some(&mut budget), |number| {
            let stored = self.pages.row(number);
            for (field, column) in &columns {
                row[*field] = stored.value_in_place(column);
            }
            lent += 1;
            sink.row(&row)
        })?;
        let Some(rest) = rest else { return Ok(Read::Done(lent)) };
        let filter = filter.cloned();
        let asked = ReadRequest { filter, order: order.clone(), fields, counts: false };
        Ok(Read::Over(LongScan::open(self, asked, Rest { lent, ..rest })))
    }

    /// Counts the rows that a filter selects, for one turn.
    pub(crate) fn count(&self, filter: Option<&FilterExpr>) -> Result<Read> {
        if filter.is_none() {
            return Ok(Read::Done(self.keys.len() as u64));
        }
        let mut lent = 0;
        let wanted = Wanted { filter, order: &[], limit: None, after: None };
        let mut budget = Budget::first();
        let rest = self.select(&wanted, Some(&mut budget), |_| {
            lent += 1;
            ControlFlow::Continue(())
        })?;
        let Some(rest) = rest else { return Ok(Read::Done(lent)) };
        let (filter, order, fields) = (filter.cloned(), Vec::new(), FieldSet::EMPTY);
        let asked = ReadRequest { filter, order, fields, counts: true };
        Ok(Read::Over(LongScan::open(self, asked, Rest { lent, ..rest })))
    }

    /// Finds the rows that a filter selects, for one turn, as long as they are few enough to be
    /// removed in another.
    pub(crate) fn find(&self, filter: Option<&FilterExpr>) -> Result<RowsFound> {
        let (mut found, mut budget) = (Vec::new(), Budget::first());
        let wanted = Wanted { filter, order: &[], limit: None, after: None };
        let rest = self.select(&wanted, Some(&mut budget), |number| {
            found.push(number);
            ControlFlow::Continue(())
        })?;
        Ok(match rest {
            None if found.len() <= RUN_ROWS => RowsFound::All(found),
            rest => {
                let mut set = RowSet::below(self.pages.end());
                found.into_iter().for_each(|number| set.insert(number));
                RowsFound::Some { found: set, left: rest.map(|rest| rest.rows).unwrap_or_default() }
            }
        })
    }

    /// Returns the rows that a filter selects.
    pub(crate) fn numbers(&self, filter: Option<&FilterExpr>) -> Result<Vec<u32>> {
        let mut numbers = Vec::new();
        let wanted = Wanted { filter, order: &[], limit: None, after: None };
        self.select(&wanted, None, |number| {
            numbers.push(number);
            ControlFlow::Continue(())
        })?;
        Ok(numbers)
    }

    /// Lends the numbers of rows; returns the remaining work when the budget is used up.
    fn select(
        &self,
        wanted: &Wanted<'_>,
        mut budget: Option<&mut Budget>,
        mut lend: impl FnMut(u32) -> ControlFlow<()>,
    ) -> Result<Option<Rest>> {
        let predicate = wanted
            .filter
            .map(|filter| Predicate::new(filter, &self.table, &self.pages.layout.columns))
            .transpose()?;
        let mut left = wanted.limit.unwrap_or(u64::MAX);
        if left == 0 {
            return Ok(None);
        }
        let plan = Plan::new(self, wanted);
        let mut lend_some = |number: u32| {
            left -= 1;
            lend(number)?;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        if plan.sorted {
            let looked_at = self.walk(&plan, predicate.as_ref(), budget, lend_some);
            return Ok(looked_at.map(|looked_at| {
                let (rows, lent) = (self.rest(&plan, looked_at), 0);
                Rest { rows, found: None, left, lent }
            }));
        }
        let mut sorter = Sorter::new(self, wanted.order, wanted.limit);
        let looked_at = self.walk(&plan, predicate.as_ref(), budget.as_deref_mut(), |number| {
            sorter.add(number);
            ControlFlow::Continue(())
        });
        if budget.is_some() && (looked_at.is_some() || sorter.found.len() > 4 * RUN_ROWS) {
            let rows = looked_at.map(|looked_at| self.rest(&plan, looked_at)).unwrap_or_default();
            return Ok(Some(Rest { rows, found: Some(sorter.found), left, lent: 0 }));
        }
        let _ = sorter.sorted().into_iter().try_for_each(|(_, number)| lend_some(number));
        Ok(None)
    }

    /// Returns the rows of a walk after the first `looked_at`.
    #[cold]
    fn rest(&self, plan: &Plan, looked_at: usize) -> Vec<u32> {
        match &plan.access {
            Access::Rows(rows) => rows[looked_at..].to_vec(),
            Access::Keys(range) => self.keys.rows_behind(*range, plan.reverse, looked_at),
            Access::Index(number, from, to) => {
                self.indexes[*number].ordered.rows_behind(*from, *to, plan.reverse, looked_at)
            }
        }
    }

    /// Lends the rows of a plan; returns the number of visited rows if the budget was used up.
    #[inline]
    fn walk(
        &self,
        plan: &Plan,
        predicate: Option<&Predicate<'_, Column>>,
        mut budget: Option<&mut Budget>,
        mut lend: impl FnMut(u32) -> ControlFlow<()>,
    ) -> Option<usize> {
        let (mut looked_at, mut is_over) = (0, false);
        let lend = |number: u32| {
            if let Some(budget) = &mut budget
                && budget.is_over()
            {
                is_over = true;
                return ControlFlow::Break(());
            }
            looked_at += 1;
            match predicate {
                Some(predicate) if !predicate.selects(self.pages.row(number)) => {
                    ControlFlow::Continue(())
                }
                _ => lend(number),
            }
        };
        let _ = match &plan.access {
            Access::Rows(rows) => rows.iter().copied().try_for_each(lend),
            Access::Keys(range) => self.keys.walk(*range, plan.reverse, lend),
            Access::Index(number, from, to) => {
                self.indexes[*number].ordered.walk(*from, *to, plan.reverse, lend)
            }
        };
        is_over.then_some(looked_at)
    }
}

/// Sorts rows, and keeps only as many as the query needs.
struct Sorter<'s> {
    rows: &'s TableRows,
    order: &'s [SortKey],
    keep: usize,
    /// The rows so far, each with the prefix of its first value.
    found: Vec<(SortPrefix, u32)>,
}

impl<'s> Sorter<'s> {
    fn new(rows: &'s TableRows, order: &'s [SortKey], limit: Option<u64>) -> Self {
        let keep = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let found = Vec::with_capacity(keep.saturating_mul(2).min(ROOM_ROWS_MAX));
        Self { rows, order, keep, found }
    }

    fn add(&mut self, number: u32) {
        let by = self.order[0];
        let collation = self.rows.pages.layout.columns[by.field].collation;
        let value = self.rows.pages.value(number, by.field);
        self.found.push((compare::sort_prefix(collation, value, by.descending), number));
        // Twice as many rows as needed are collected, then reduced to those: each row is moved a
        // bounded number of times, as in a heap, but without random access.
        if self.found.len() / 2 >= self.keep.max(64) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let (rows, order) = (self.rows, self.order);
        self.found.select_nth_unstable_by(self.keep - 1, |a, b| compare_rows(rows, order, *a, *b));
        self.found.truncate(self.keep);
    }

    fn sorted(mut self) -> Vec<(SortPrefix, u32)> {
        if self.found.len() > self.keep {
            self.cut();
        }
        let (rows, order) = (self.rows, self.order);
        self.found.sort_unstable_by(|a, b| compare_rows(rows, order, *a, *b));
        self.found
    }
}

fn compare_rows(
    rows: &TableRows,
    order: &[SortKey],
    a: (SortPrefix, u32),
    b: (SortPrefix, u32),
) -> Ordering {
    a.0.cmp(&b.0).then_with(|| {
        let (a, b) = (rows.pages.row(a.1), rows.pages.row(b.1));
        for by in order {
            let column = &rows.pages.layout.columns[by.field];
            let order = column.collation.order(a.value(column), b.value(column));
            if order.is_ne() {
                return if by.descending { order.reverse() } else { order };
            }
        }
        Ordering::Equal
    })
}

//! A list or count with conditions on related rows that takes more than its first turn: first the
//! list of joining values of each condition is made in turns, then the rows are read in turns.
//!
//! All tables are seen as they were when the first turn ended: of each, it has the numbers of the
//! rows, and copies of those that are changed meanwhile ([`crate::table::scan_copies`]).

use std::sync::Arc;

use marmota_model::{FilterExpr, RelatedFilter, Result, Table};
use marmota_store::predicate::Predicate;
use marmota_store::related_values::JoiningValues;
use parking_lot::{Mutex, RwLock};

use crate::catalog::locked_tables::{LockedTables, Needs};
use crate::read::long_scan::{Budget, LongScan, ReadRequest, Rest, View};
use crate::table::scan_copies::Copies;
use crate::table::table_rows::TableRows;

/// Such a read before its rows are read.
pub(crate) struct LongRelated {
    /// The tables, the one that is read first.
    tables: Vec<Snapshot>,
    request: ReadRequest,
    limit: u64,
    /// The conditions that have become lists, in the order in which they are needed.
    lists: Vec<FilterExpr>,
    /// The list that is being made.
    current: Option<ListScan>,
}

/// A table at the moment at which the read began.
struct Snapshot {
    table: Arc<Table>,
    rows: Arc<RwLock<TableRows>>,
    copies: Arc<Mutex<Copies>>,
    numbers: Vec<u32>,
}

/// The list of a condition, while its table is read.
struct ListScan {
    /// The index of the related table.
    table: usize,
    /// The table of the condition, and the condition.
    of: Arc<Table>,
    related: RelatedFilter,
    /// The condition's filter without further conditions.
    filter: Option<FilterExpr>,
    /// The number of rows that were checked.
    at: usize,
    /// The values so far, with the number of rows of each.
    values: JoiningValues,
}

impl LongRelated {
    /// Begins a read of the locked tables, as they are now.
    pub(crate) fn open(
        locked: &LockedTables<'_>,
        needs: &Needs,
        request: ReadRequest,
        limit: Option<u64>,
    ) -> Result<Box<Self>> {
        let others = needs.tables().iter().map(|&(number, _)| number);
        let numbers = [needs.table].into_iter().chain(others.filter(|&other| other != needs.table));
        let snapshot = |number: u32| {
            let (slot, rows) = (locked.slot(number), locked.rows(number)?);
            let all = rows.keys.range(&rows.pages, None, None);
            Ok(Snapshot {
                table: Arc::clone(&slot.table),
                rows: Arc::clone(&slot.rows),
                copies: rows.scans.open(),
                numbers: rows.keys.rows_behind(all, false, 0),
            })
        };
        let tables = numbers.map(snapshot).collect::<Result<Vec<Snapshot>>>()?;
        let limit = limit.unwrap_or(u64::MAX);
        Ok(Box::new(Self { tables, request, limit, lists: Vec::new(), current: None }))
    }

    /// Continues for one turn. Returns the read of the rows, and their table, once all conditions
    /// are lists.
    #[allow(clippy::type_complexity, reason = "the two parts go to different owners")]
    pub(crate) fn turn(&mut self) -> Result<Option<(Box<LongScan>, Arc<RwLock<TableRows>>)>> {
        let mut budget = Budget::next();
        loop {
            if let Some(mut scan) = self.current.take() {
                if !scan.turn(&self.tables[scan.table], &mut budget)? {
                    self.current = Some(scan);
                    return Ok(None);
                }
                self.lists.push(scan.finish());
            }
            let (mut place, mut next) = (0, None);
            let Some(filter) = &self.request.filter else { break };
            let resolved = self.resolve(&self.tables[0].table, filter, &mut place, &mut next)?;
            if next.is_none() {
                self.request.filter = Some(resolved);
                break;
            }
            self.current = next;
        }
        let mut outer = self.tables.swap_remove(0);
        let by = self.request.order.first().copied();
        let is_by_key = by.is_none_or(|by| by.field == outer.table.key());
        if is_by_key && by.is_some_and(|by| by.descending) {
            outer.numbers.reverse();
        }
        let found = (!is_by_key).then(Vec::new);
        let rows = if self.limit == 0 { Vec::new() } else { outer.numbers };
        let rest = Rest { rows, found, left: self.limit, lent: 0 };
        let request = std::mem::take(&mut self.request);
        Ok(Some((LongScan::of_moment(request, outer.copies, rest), outer.rows)))
    }

    /// Returns the filter with lists in place of the conditions, or `next` is the first condition
    /// that is no list yet: then the filter is of no use. `place` counts the conditions.
    fn resolve(
        &self,
        table: &Arc<Table>,
        filter: &FilterExpr,
        place: &mut usize,
        next: &mut Option<ListScan>,
    ) -> Result<FilterExpr> {
        filter.replace_related(table, &mut |_, related| {
            if next.is_some() {
                return Ok(FilterExpr::ALL);
            }
            let target = table.step_target(&related.step)?;
            let filter = match related.filter == FilterExpr::ALL {
                true => None,
                false => Some(self.resolve(&target, &related.filter, place, next)?),
            };
            if next.is_some() {
                return Ok(FilterExpr::ALL);
            }
            *place += 1;
            if let Some(list) = self.lists.get(*place - 1) {
                return Ok(list.clone());
            }
            let is_target = |known: &Snapshot| known.table.name() == target.name();
            *next = Some(ListScan {
                table: self.tables.iter().position(is_target).unwrap_or_default(),
                of: Arc::clone(table),
                related: related.clone(),
                filter,
                at: 0,
                values: JoiningValues::default(),
            });
            Ok(FilterExpr::ALL)
        })
    }
}

impl ListScan {
    /// Continues for one turn; returns true after the last row.
    fn turn(&mut self, snapshot: &Snapshot, budget: &mut Budget) -> Result<bool> {
        let rows = snapshot.rows.read();
        let copies = snapshot.copies.lock();
        let view = View::of(&rows, &copies)?;
        let predicate = self.filter.as_ref();
        let predicate = predicate
            .map(|filter| Predicate::new(filter, &rows.table, &rows.pages.layout.columns))
            .transpose()?;
        let column = &rows.pages.layout.columns[self.related.step.target];
        while let Some(&number) = snapshot.numbers.get(self.at) {
            if budget.is_over() {
                return Ok(false);
            }
            self.at += 1;
            if predicate.as_ref().is_some_and(|predicate| !view.selects(number, predicate)) {
                continue;
            }
            self.values.add(view.value(number, column));
        }
        Ok(true)
    }

    /// Returns the condition as a list.
    fn finish(self) -> FilterExpr {
        self.values.condition(&self.of, &self.related)
    }
}

//! A list or count that takes more than its first budget. It continues in turns, each of which
//! locks the table for two milliseconds at most.
//!
//! It sees the table at the moment at which its first turn ended. It keeps the numbers of the
//! remaining rows, in the order of the walk. Each row that is changed or removed meanwhile is
//! copied before, once ([`crate::table::scan_copies::Scans::keep`]). So writers only have this cost
//! while a scan is open, and unchanged rows are read in place.
//!
//! A sort collects the rows first, then sorts short runs of them, then merges the runs: each part
//! can stop at any row.

use std::cmp::Ordering;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use marmota_model::{
    Error, ErrorKind, FieldSet, FilterExpr, Result, RowSink, SortKey, Value, ValueRef,
};
use marmota_store::predicate::Predicate;
use parking_lot::{Mutex, RwLock};
use smallvec::{SmallVec, smallvec};

use crate::table::layout::Column;
use crate::table::pages::Pages;
use crate::table::scan_copies::{COPIES_BYTES_MAX, Copies};
use crate::table::sort_prefix as compare;
use crate::table::sort_prefix::SortPrefix;
use crate::table::table_rows::{TableRows, Values};

/// The maximum time of one turn of a read.
const TURN: Duration = Duration::from_millis(2);
/// The number of rows between two reads of the clock.
const LOOK_ROWS: u32 = 256;
/// The number of rows that are sorted without a read of the clock.
pub(crate) const RUN_ROWS: usize = 2_048;
/// A sort whose limit is at most this number of rows drops the others as it goes.
const KEEP_FEW: usize = 4_096;

/// The time of a turn. The clock is not read before many rows, so that it costs a short read
/// nothing.
pub(crate) struct Budget {
    rows: u32,
    until: Option<Instant>,
}

impl Budget {
    /// The budget of a first turn, which begins after some rows.
    pub(crate) const fn first() -> Self {
        Self { rows: 0, until: None }
    }

    /// The budget of a turn that begins now.
    pub(crate) fn next() -> Self {
        Self { rows: 0, until: Some(Instant::now() + TURN) }
    }

    /// Called for each row; returns true if the turn is over.
    #[inline]
    pub(crate) fn is_over(&mut self) -> bool {
        self.rows += 1;
        self.rows.is_multiple_of(LOOK_ROWS) && self.check_clock()
    }

    /// Reads the clock; returns true if the turn is over.
    #[cold]
    pub(crate) fn check_clock(&mut self) -> bool {
        let now = Instant::now();
        now >= *self.until.get_or_insert(now + TURN)
    }
}

/// The remaining work of a read after its first turn.
pub(crate) struct Rest {
    /// The rows that it still has to check, in the order of the walk.
    pub(crate) rows: Vec<u32>,
    /// The rows that it has found but not lent, each with the prefix of its first value; `None` for
    /// a read without a sort.
    pub(crate) found: Option<Vec<(SortPrefix, u32)>>,
    /// The number of rows that it may still lend.
    pub(crate) left: u64,
    /// The number of rows that it has lent or counted.
    pub(crate) lent: u64,
}

/// The request of a read.
#[derive(Default)]
pub(crate) struct ReadRequest {
    pub(crate) filter: Option<FilterExpr>,
    pub(crate) order: Vec<SortKey>,
    pub(crate) fields: FieldSet,
    /// True if it counts rows and lends none.
    pub(crate) counts: bool,
}

/// A read that needs more turns.
pub(crate) struct LongScan {
    asked: ReadRequest,
    copies: Arc<Mutex<Copies>>,
    rest: Rest,
    /// The number of the remaining rows that were checked.
    at: usize,
    runs: Vec<Range<usize>>,
    /// The number of found rows that are in sorted runs.
    sorted: usize,
    /// The runs with remaining rows; the run with the next row is on top.
    heap: Option<Vec<usize>>,
}

/// The state after a turn.
pub(crate) enum Turn {
    /// It is done, with the total number of rows lent or counted.
    Done(u64),
    Over,
}

impl LongScan {
    /// Opens a scan of the current rows of a table.
    pub(crate) fn open(rows: &TableRows, asked: ReadRequest, rest: Rest) -> Box<Self> {
        Self::of_moment(asked, rows.scans.open(), rest)
    }

    /// Opens a scan of a table as it was when `copies` were opened.
    pub(crate) fn of_moment(
        asked: ReadRequest,
        copies: Arc<Mutex<Copies>>,
        mut rest: Rest,
    ) -> Box<Self> {
        let (runs, heap) = (Vec::new(), None);
        if let Some(found) = &mut rest.found
            && rest.left > KEEP_FEW as u64
        {
            // Growing would copy all rows within one turn; the reserved memory is only used as it
            // is filled.
            found.reserve(rest.rows.len());
        }
        Box::new(Self { asked, copies, rest, at: 0, runs, sorted: 0, heap })
    }

    /// Continues for one turn, with the table locked.
    pub(crate) fn turn(
        &mut self,
        table: &RwLock<TableRows>,
        sink: &mut dyn RowSink,
    ) -> Result<Turn> {
        self.turn_on(&table.read(), sink)
    }

    /// Reads to the end, inside of a batch that has locked the table.
    pub(crate) fn finish(mut self, table: &TableRows, sink: &mut dyn RowSink) -> Result<u64> {
        loop {
            if let Turn::Done(rows) = self.turn_on(table, sink)? {
                return Ok(rows);
            }
        }
    }

    fn turn_on(&mut self, table: &TableRows, sink: &mut dyn RowSink) -> Result<Turn> {
        let copies = Arc::clone(&self.copies);
        let copies = copies.lock();
        let view = View::of(table, &copies)?;
        let mut budget = Budget::next();
        let asked = &self.asked;
        let mut lender = Lender::new(table, asked);
        let predicate = asked.filter.as_ref();
        let predicate = predicate
            .map(|filter| Predicate::new(filter, &table.table, &table.pages.layout.columns))
            .transpose()?;
        let mut found = self.rest.found.take();
        while let Some(&number) = self.rest.rows.get(self.at) {
            if budget.is_over() {
                self.rest.found = found;
                return Ok(Turn::Over);
            }
            self.at += 1;
            if predicate.as_ref().is_some_and(|predicate| !view.selects(number, predicate)) {
                continue;
            }
            match &mut found {
                Some(found) => {
                    found.push((view.prefix(number, self.asked.order[0]), number));
                    self.cut(&view, found);
                }
                None => {
                    self.rest.lent += 1;
                    if !self.asked.counts && lender.lend(&view, number, sink).is_break() {
                        return Ok(Turn::Done(self.rest.lent));
                    }
                    self.rest.left -= 1;
                    if self.rest.left == 0 {
                        return Ok(Turn::Done(self.rest.lent));
                    }
                }
            }
        }
        let Some(mut found) = found else { return Ok(Turn::Done(self.rest.lent)) };
        // This frees memory that is no longer needed.
        self.rest.rows = Vec::new();
        self.at = 0;
        let turn = self.lend_sorted(&view, &mut found, &mut budget, &mut lender, sink);
        self.rest.found = Some(found);
        Ok(turn)
    }

    /// Drops found rows that are not among the first.
    fn cut(&self, view: &View<'_>, found: &mut Vec<(SortPrefix, u32)>) {
        let keep = usize::try_from(self.rest.left).unwrap_or(usize::MAX);
        if keep <= KEEP_FEW && found.len() / 2 >= keep.max(64) {
            let order = &self.asked.order;
            found.select_nth_unstable_by(keep - 1, |a, b| view.compare(order, *a, *b));
            found.truncate(keep);
        }
    }

    fn lend_sorted<'t>(
        &mut self,
        view: &View<'t>,
        found: &mut [(SortPrefix, u32)],
        budget: &mut Budget,
        lender: &mut Lender<'t>,
        sink: &mut dyn RowSink,
    ) -> Turn {
        let order = &self.asked.order;
        while self.sorted < found.len() {
            if budget.check_clock() {
                return Turn::Over;
            }
            let end = found.len().min(self.sorted + RUN_ROWS);
            let run = self.sorted..end;
            found[run.clone()].sort_unstable_by(|a, b| view.compare(order, *a, *b));
            self.runs.push(run);
            self.sorted = end;
        }
        let runs = &mut self.runs;
        let is_before = |runs: &[Range<usize>], a: usize, b: usize| {
            view.compare(order, found[runs[a].start], found[runs[b].start]).is_lt()
        };
        let heap = self.heap.get_or_insert_with(|| {
            let mut heap: Vec<usize> = (0..runs.len()).collect();
            for at in (0..heap.len() / 2).rev() {
                sift_down(&mut heap, at, |a, b| is_before(runs, a, b));
            }
            heap
        });
        while let Some(&run) = heap.first() {
            if budget.is_over() {
                return Turn::Over;
            }
            let (_, number) = found[runs[run].start];
            self.rest.lent += 1;
            self.rest.left -= 1;
            if lender.lend(view, number, sink).is_break() || self.rest.left == 0 {
                break;
            }
            runs[run].start += 1;
            if runs[run].is_empty() {
                heap.swap_remove(0);
            }
            sift_down(heap, 0, |a, b| is_before(runs, a, b));
        }
        Turn::Done(self.rest.lent)
    }
}

/// Moves an entry of a heap down to its place.
fn sift_down(heap: &mut [usize], mut at: usize, is_before: impl Fn(usize, usize) -> bool) {
    loop {
        let mut first = at;
        for child in [2 * at + 1, 2 * at + 2] {
            if child < heap.len() && is_before(heap[child], heap[first]) {
                first = child;
            }
        }
        if first == at {
            return;
        }
        heap.swap(at, first);
        at = first;
    }
}

/// The rows as they were when the scan began.
pub(crate) struct View<'t> {
    pages: &'t Pages,
    copies: &'t HashMap<u32, Box<[Value]>>,
}

impl<'t> View<'t> {
    /// # Errors
    /// [`ErrorKind::Busy`] if the table was replaced, or too many rows were changed.
    pub(crate) fn of(table: &'t TableRows, copies: &'t Copies) -> Result<Self> {
        if table.retired {
            let message = "the table was changed while it was read; read the rows again";
            return Err(Error::new(ErrorKind::Busy, message));
        }
        match copies.bytes > COPIES_BYTES_MAX {
            true => Err(changed_too_much(table)),
            false => Ok(Self { pages: &table.pages, copies: &copies.rows }),
        }
    }

    #[inline]
    fn copy(&self, number: u32) -> Option<&'t [Value]> {
        if self.copies.is_empty() {
            return None;
        }
        self.copies.get(&number).map(|row| &**row)
    }

    #[inline]
    pub(crate) fn value(&self, number: u32, column: &Column) -> ValueRef<'_> {
        match self.copy(number) {
            None => self.pages.row(number).value(column),
            Some(row) => row[usize::from(column.field)].as_ref(),
        }
    }

    #[inline]
    pub(crate) fn selects(&self, number: u32, predicate: &Predicate<'_, Column>) -> bool {
        match self.copy(number) {
            None => predicate.selects(self.pages.row(number)),
            Some(row) => {
                let row: Values<'_> = row.iter().map(Value::as_ref).collect();
                predicate.selects(&row[..])
            }
        }
    }

    fn prefix(&self, number: u32, by: SortKey) -> SortPrefix {
        let column = &self.pages.layout.columns[by.field];
        compare::sort_prefix(column.collation, self.value(number, column), by.descending)
    }

    fn compare(&self, order: &[SortKey], a: (SortPrefix, u32), b: (SortPrefix, u32)) -> Ordering {
        a.0.cmp(&b.0).then_with(|| {
            for by in order {
                let column = &self.pages.layout.columns[by.field];
                let (a, b) = (self.value(a.1, column), self.value(b.1, column));
                let order = column.collation.order(a, b);
                if order.is_ne() {
                    return if by.descending { order.reverse() } else { order };
                }
            }
            Ordering::Equal
        })
    }
}

/// Lends rows with the requested fields.
struct Lender<'t> {
    columns: SmallVec<[Column; 16]>,
    row: Values<'t>,
}

impl<'t> Lender<'t> {
    fn new(table: &'t TableRows, asked: &ReadRequest) -> Self {
        let columns = table.pages.layout.columns.iter().copied().enumerate();
        let columns = columns.filter(|&(field, _)| asked.fields.contains(field));
        Self {
            columns: columns.map(|(_, column)| column).collect(),
            row: smallvec![ValueRef::Absent; table.table.fields().len()],
        }
    }

    fn lend(&mut self, view: &View<'t>, number: u32, sink: &mut dyn RowSink) -> ControlFlow<()> {
        match view.copy(number) {
            None => {
                let stored = view.pages.row(number);
                for column in &self.columns {
                    self.row[usize::from(column.field)] = stored.value_in_place(column);
                }
            }
            Some(row) => {
                for column in &self.columns {
                    let field = usize::from(column.field);
                    self.row[field] = row[field].as_ref();
                }
            }
        }
        sink.row(&self.row)
    }
}

#[cold]
fn changed_too_much(table: &TableRows) -> Error {
    let message = format!(
        "while `{}` was read, rows of more than {COPIES_BYTES_MAX} bytes were changed: read fewer \
         rows at once, or try again",
        table.table.name()
    );
    Error::new(ErrorKind::Busy, message)
}

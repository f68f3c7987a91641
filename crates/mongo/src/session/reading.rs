//! A read in progress: documents arrive from the engine's thread, one message at a time, and are
//! passed to the sink on the caller's thread.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use marmota_model::{FieldSet, FilterExpr, Result, RowSink, SortKey, Table, Value, ValueRef};
use marmota_store::predicate::Condition;
use mongodb::raw_batch_cursor::RawBatch;
use tokio::runtime::Handle;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;

use crate::database::each_document;
use crate::filter::order_rows;
use crate::shape::{Lender, Shape};
use crate::shared::counts::Counts;

/// The time after which a poll that passes rows yields to others.
pub(crate) const TURN: Duration = Duration::from_millis(2);
const ROWS_BETWEEN_LOOKS: u64 = 64;
/// The most bytes of rows that the engine sorts itself.
const SORT_BYTES_MAX: usize = 64 << 20;

/// The state of a read, and how its documents are processed.
pub(crate) struct Reading {
    pub(crate) batches: Receiver<Result<RawBatch>>,
    shape: Arc<Shape>,
    lender: Lender,
    /// The requested fields; others were read for the filter and the order.
    wanted: FieldSet,
    read: FieldSet,
    /// Checked for each row if the server cannot evaluate the filter.
    condition: Option<Condition>,
    /// The number of rows left to return.
    left: u64,
    rows: u64,
    sorting: Option<Sorting>,
    sorted: Option<SortedRows>,
    handle: Handle,
    /// True if rows are counted instead of returned.
    counts: bool,
    engine: Arc<Counts>,
}

/// Rows that the engine sorts because the server cannot.
struct Sorting {
    order: Vec<SortKey>,
    rows: Vec<Vec<Value>>,
    bytes: usize,
}

/// Rows that a thread of the engine sorts or has sorted.
enum SortedRows {
    Soon(JoinHandle<Vec<Vec<Value>>>),
    Loaded(std::vec::IntoIter<Vec<Value>>),
}

/// The parameters of a read.
pub(crate) struct Wanted {
    pub(crate) fields: FieldSet,
    /// The whole filter, if the server's is not exact.
    pub(crate) filter: Option<FilterExpr>,
    /// The order, if the server cannot sort.
    pub(crate) order: Option<Vec<SortKey>>,
    pub(crate) limit: Option<u64>,
    pub(crate) counts: bool,
}

impl Wanted {
    /// Returns the fields that must be read.
    pub(crate) fn read(&self, table: &Table) -> FieldSet {
        let asked = self.filter.as_ref();
        let asked = asked.map_or(FieldSet::EMPTY, |filter| filter.fields(table));
        let order = self.order.iter().flatten().map(|by| by.field);
        order.fold(self.fields.union(asked), FieldSet::with)
    }
}

impl Reading {
    pub(crate) fn new(
        shape: &Arc<Shape>,
        wanted: Wanted,
        batches: Receiver<Result<RawBatch>>,
        handle: &Handle,
        counts: &Arc<Counts>,
    ) -> Self {
        let read = wanted.read(&shape.table);
        Self {
            batches,
            lender: Lender::new(shape, read),
            wanted: wanted.fields,
            read,
            condition: wanted.filter.map(|filter| Condition::new(filter, &shape.table)),
            left: wanted.limit.unwrap_or(u64::MAX),
            rows: 0,
            sorting: wanted.order.map(|order| Sorting { order, rows: Vec::new(), bytes: 0 }),
            sorted: None,
            handle: handle.clone(),
            counts: wanted.counts,
            engine: Arc::clone(counts),
            shape: Arc::clone(shape),
        }
    }

    /// Passes the received rows to `sink`. Ready with the number of rows at the end.
    pub(crate) fn poll(
        &mut self,
        sink: &mut dyn RowSink,
        context: &mut Context<'_>,
    ) -> Poll<Result<u64>> {
        let began = Instant::now();
        loop {
            if self.left == 0 {
                return Poll::Ready(Ok(self.rows));
            }
            if began.elapsed() >= TURN {
                self.engine.read_yield();
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.sorted.is_some() {
                return self.poll_sorted(began, sink, context);
            }
            match ready!(self.batches.poll_recv(context)) {
                Some(Ok(batch)) => match self.take(&batch, sink) {
                    Ok(ControlFlow::Continue(())) => {}
                    Ok(ControlFlow::Break(())) => return Poll::Ready(Ok(self.rows)),
                    Err(error) => return Poll::Ready(Err(error)),
                },
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => match self.sorting.take() {
                    Some(sorting) => self.sort(sorting),
                    None => return Poll::Ready(Ok(self.rows)),
                },
            }
        }
    }

    /// Processes the documents of a message.
    fn take(&mut self, batch: &RawBatch, sink: &mut dyn RowSink) -> Result<ControlFlow<()>> {
        let condition = match &self.condition {
            Some(condition) => Some(condition.asked(&self.shape.table)?),
            None => None,
        };
        let mut flow = ControlFlow::Continue(());
        let (lender, sorting) = (&mut self.lender, &mut self.sorting);
        let (left, rows, counts) = (&mut self.left, &mut self.rows, self.counts);
        let hidden = (self.read != self.wanted).then_some(self.wanted);
        each_document(batch, |document| {
            if flow.is_break() || *left == 0 {
                return Ok(());
            }
            flow = lender.lend(document, |row| {
                if condition.as_ref().is_some_and(|condition| !condition.selects(row)) {
                    return ControlFlow::Continue(());
                }
                if let Some(sorting) = sorting {
                    return sorting.keep(row);
                }
                *left -= 1;
                *rows += 1;
                match (counts, hidden) {
                    (true, _) => ControlFlow::Continue(()),
                    (false, None) => sink.row(row),
                    (false, Some(wanted)) => lend_wanted(row, wanted, sink),
                }
            })?;
            Ok(())
        })?;
        match sorting {
            Some(sorting) if sorting.bytes > SORT_BYTES_MAX => Err(too_many(&self.shape)),
            _ => Ok(flow),
        }
    }

    /// Sorts on a thread of the engine, since it may take longer than a turn.
    fn sort(&mut self, sorting: Sorting) {
        let Sorting { order, mut rows, .. } = sorting;
        let shape = Arc::clone(&self.shape);
        let task = self.handle.spawn_blocking(move || {
            rows.sort_by(|a, b| order_rows(&shape.table, &order, a, b));
            rows
        });
        self.sorted = Some(SortedRows::Soon(task));
    }

    /// Passes sorted rows to `sink`, for one turn.
    fn poll_sorted(
        &mut self,
        began: Instant,
        sink: &mut dyn RowSink,
        context: &mut Context<'_>,
    ) -> Poll<Result<u64>> {
        if let Some(SortedRows::Soon(task)) = &mut self.sorted {
            let rows = ready!(Pin::new(task).poll(context)).map_err(|_| not_sorted())?;
            self.sorted = Some(SortedRows::Loaded(rows.into_iter()));
        }
        let Some(SortedRows::Loaded(rows)) = &mut self.sorted else {
            return Poll::Ready(Ok(self.rows));
        };
        for values in rows {
            let row: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
            self.rows += 1;
            self.left -= 1;
            let flow = match self.counts {
                true => ControlFlow::Continue(()),
                false => lend_wanted(&row, self.wanted, sink),
            };
            if flow.is_break() || self.left == 0 {
                break;
            }
            if self.rows.is_multiple_of(ROWS_BETWEEN_LOOKS) && began.elapsed() >= TURN {
                self.engine.read_yield();
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(self.rows))
    }
}

impl Sorting {
    fn keep(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        let size = |value: &ValueRef<'_>| match value {
            ValueRef::Text(text) | ValueRef::Json(text) => text.len(),
            ValueRef::Blob(bytes) => bytes.len(),
            _ => 0,
        };
        self.bytes += row.iter().map(|value| size(value) + size_of::<Value>()).sum::<usize>();
        self.rows.push(row.iter().map(ValueRef::to_value).collect());
        match self.bytes > SORT_BYTES_MAX {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Passes only the requested fields of a row to `sink`.
fn lend_wanted(row: &[ValueRef<'_>], wanted: FieldSet, sink: &mut dyn RowSink) -> ControlFlow<()> {
    let mut shown = [ValueRef::Absent; FieldSet::CAPACITY];
    for (at, value) in row.iter().enumerate().filter(|(at, _)| wanted.contains(*at)) {
        shown[at] = *value;
    }
    sink.row(&shown[..row.len()])
}

#[cold]
fn not_sorted() -> marmota_model::Error {
    let message = "the rows could not be sorted because the engine is being closed";
    marmota_model::Error::new(marmota_model::ErrorKind::Closed, message)
}

#[cold]
fn too_many(shape: &Shape) -> marmota_model::Error {
    let message = format!(
        "the rows of `{}` to sort by a JSON or blob field have more than {} MB, which must be \
         sorted in memory: select fewer rows, or sort by another field",
        shape.name(),
        SORT_BYTES_MAX >> 20
    );
    marmota_model::Error::new(marmota_model::ErrorKind::Unsupported, message)
}

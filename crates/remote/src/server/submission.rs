//! A client's operation in the store: validated as untrusted input, submitted, and polled while it
//! waits.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use marmota_model::{
    Error, ErrorKind, FilterExpr, NoRows, Result, RowSink, RowSource, Scratch, Table, ValueRef,
};
use marmota_rpc::packet;
use marmota_store::operation::{Operation, Outcome};
use marmota_store::prepare::{self, ValueSource, WriteTimestamp};
use marmota_store::read::check_key;
use marmota_store::rights::check_exposed;
use marmota_store::write::{check_increment, check_version};
use marmota_store::{Pending, Progress, Store};

use super::ready_batch::ReadyBatch;
use super::settings::Settings;
use crate::codec::bytes::Bytes;
use crate::codec::operation::{ReceivedOperation, ReceivedRows, Terms};
use crate::codec::outcome::{DONE, FAILED, put_error, put_outcome};
use marmota_model::binary::put_row;

/// The context of an operation.
#[derive(Clone, Copy)]
pub(super) struct Ground<'g> {
    pub(super) settings: &'g Settings,
    pub(super) tables: &'g [Arc<Table>],
    pub(super) scope: &'g Store,
}

/// A waiting operation.
pub(super) struct Submission {
    pub(super) number: u32,
    /// The body of its packet, which is decoded again at each poll.
    body: Box<[u8]>,
    terms: Terms,
    batch: Option<Box<ReadyBatch>>,
    /// The rows that the engine has returned so far: it does not return them again.
    rows: Vec<u8>,
    /// The store of another actor than the peer's.
    acting: Option<Store>,
    pending: Option<Pending>,
    until: Option<Instant>,
}

/// The state of a submitted operation.
pub(super) enum Begun {
    /// Its answer is written; true if it succeeded.
    Answered(bool),
    /// It waits.
    Waits(Box<Submission>),
}

/// Submits the operation of a packet; appends its answer if it completes at once.
pub(super) fn begin(
    ground: Ground<'_>,
    acting: Option<Store>,
    number: u32,
    body: &[u8],
    asked: ReceivedOperation<'_, '_>,
    terms: Terms,
    out: &mut Vec<u8>,
) -> Begun {
    let start = packet::begin(out, number);
    let mut batch = None;
    let scope = acting.as_ref().unwrap_or(ground.scope);
    let mut outcome = Outcome::default();
    let begun = match asked {
        ReceivedOperation::Batch(asked) => ReadyBatch::new(*asked, scope).and_then(|ready| {
            let ready = batch.insert(Box::new(ready));
            ready.operate(scope, |operation| {
                scope.submit(terms.durability, operation, &mut NoRows, &mut outcome)
            })
        }),
        asked => {
            let first = put_rows_head(out);
            let mut rows = Rows::new(ground.settings, out, first);
            let begun = operate(asked, scope, |operation| {
                scope.submit(terms.durability, operation, &mut rows, &mut outcome)
            });
            rows.check().and(begun)
        }
    };
    match begun {
        Ok(Progress::Pending(pending)) => {
            let rows = rows_from(out, start, batch.is_some()).to_vec();
            out.truncate(start);
            Begun::Waits(Box::new(Submission {
                number,
                body: body.into(),
                terms,
                batch,
                rows,
                acting,
                pending: Some(pending),
                until: terms.within.and_then(|within| Instant::now().checked_add(within)),
            }))
        }
        Ok(Progress::Done) => {
            answer(out, start, Ok(()), &outcome, batch.as_deref());
            Begun::Answered(true)
        }
        Err(error) => {
            answer(out, start, Err(error), &outcome, batch.as_deref());
            Begun::Answered(false)
        }
    }
}

impl Submission {
    /// Polls the operation; when it completes, appends its answer and returns true if it succeeded.
    pub(super) fn poll(
        &mut self,
        ground: Ground<'_>,
        out: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> Poll<bool> {
        let start = packet::begin(out, self.number);
        let (mut outcome, mut polled) = (Outcome::default(), Poll::Pending);
        let Some(pending) = &mut self.pending else { return Poll::Ready(false) };
        let scope = self.acting.as_ref().unwrap_or(ground.scope);
        let mut go_on = |operation: &mut Operation<'_>, sink: &mut dyn RowSink| {
            polled = scope.poll(pending, operation, sink, &mut outcome, context);
            Ok(())
        };
        let operated = match &mut self.batch {
            Some(batch) => batch.operate(scope, |operation| go_on(operation, &mut NoRows)),
            None => {
                let first = put_rows_head(out);
                // Rows go directly into the answer, unless some were stored before: then they are
                // appended to those, so that no row is copied at every poll.
                let mut rows = match self.rows.is_empty() {
                    true => Rows::new(ground.settings, out, first),
                    false => Rows::new(ground.settings, &mut self.rows, 0),
                };
                let operated = read_again(&self.body, ground.tables).and_then(|asked| {
                    operate(asked, scope, |operation| go_on(operation, &mut rows))
                });
                rows.check().and(operated)
            }
        };
        match (operated, polled) {
            (Ok(()), Poll::Pending) => {
                self.rows.extend_from_slice(rows_from(out, start, self.batch.is_some()));
                out.truncate(start);
                Poll::Pending
            }
            (Ok(()), Poll::Ready(result)) => {
                self.pending = None;
                out.append(&mut self.rows);
                let is_done = result.is_ok();
                answer(out, start, result, &outcome, self.batch.as_deref());
                Poll::Ready(is_done)
            }
            (Err(error), polled) => {
                if polled.is_ready() {
                    self.pending = None;
                }
                self.give_up(ground.scope);
                answer(out, start, Err(error), &outcome, self.batch.as_deref());
                Poll::Ready(false)
            }
        }
    }

    /// Returns when the client stops waiting.
    pub(super) const fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Returns true if the client no longer waits.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Cancels the operation, and appends the error.
    pub(super) fn refuse(&mut self, scope: &Store, error: Error, out: &mut Vec<u8>) {
        self.give_up(scope);
        let start = packet::begin(out, self.number);
        answer(out, start, Err(error), &Outcome::default(), self.batch.as_deref());
    }

    pub(super) fn late(&self) -> Error {
        let ms = self.terms.within.map_or(0, |within| within.as_millis());
        let message = format!(
            "the operation was canceled after {ms} ms, as its client requested; a write may or \
             may not have been committed"
        );
        Error::new(ErrorKind::Timeout, message)
    }

    pub(super) fn give_up(&mut self, scope: &Store) {
        if let Some(pending) = self.pending.take() {
            self.acting.as_ref().unwrap_or(scope).cancel(pending);
        }
    }
}

/// Rewrites the packet that starts at an offset as an answer.
fn answer(
    out: &mut Vec<u8>,
    start: usize,
    result: Result<()>,
    outcome: &Outcome,
    batch: Option<&ReadyBatch>,
) {
    match (result, batch) {
        (Ok(()), None) => {
            let (first, end) = (start + packet::HEAD_BYTES + ROWS_HEAD_BYTES, out.len());
            // The settings limit the size.
            let bytes = (end - first) as u32;
            out[first - 4..first].copy_from_slice(&bytes.to_le_bytes());
            put_outcome(out, outcome);
        }
        (Err(error), None) => {
            out.truncate(start + packet::HEAD_BYTES);
            out.push(FAILED);
            put_error(out, &error);
        }
        (result, Some(batch)) => {
            out.truncate(start + packet::HEAD_BYTES);
            match result {
                Ok(()) => out.push(DONE),
                Err(error) => {
                    out.push(FAILED);
                    put_error(out, &error);
                }
            }
            put_outcome(out, outcome);
            batch.put(out);
        }
    }
    packet::end(out, start);
}

/// Appends a packet with only an error.
pub(super) fn put_failure(out: &mut Vec<u8>, number: u32, error: &Error) {
    let start = packet::begin(out, number);
    out.push(FAILED);
    put_error(out, error);
    packet::end(out, start);
}

/// Appends a packet that reports success.
pub(super) fn put_done(out: &mut Vec<u8>, number: u32) {
    let start = packet::begin(out, number);
    out.push(DONE);
    out.extend_from_slice(&[0; 4]);
    put_outcome(out, &Outcome::default());
    packet::end(out, start);
}

fn read_again<'p, 't>(
    body: &'p [u8],
    tables: &'t [Arc<Table>],
) -> Result<ReceivedOperation<'p, 't>> {
    let mut read = Bytes::new(body);
    let verb = read.u8()?;
    Terms::read(&mut read)?;
    ReceivedOperation::read(verb, read, tables)
}

/// The size of the header of an answer's rows: the status, and the length of the rows.
const ROWS_HEAD_BYTES: usize = 5;

/// Starts an answer's rows; returns the offset of the first.
fn put_rows_head(out: &mut Vec<u8>) -> usize {
    out.push(DONE);
    out.extend_from_slice(&[0; 4]);
    out.len()
}

/// Returns the rows of an answer so far; a batch has none.
fn rows_from(out: &[u8], start: usize, is_batch: bool) -> &[u8] {
    let first = start + packet::HEAD_BYTES + ROWS_HEAD_BYTES;
    if is_batch { &[] } else { out.get(first..).unwrap_or_default() }
}

/// Appends rows to an answer.
struct Rows<'o> {
    to: &'o mut Vec<u8>,
    settings: &'o Settings,
    /// The offset of the first row.
    first: usize,
    is_full: bool,
}

impl<'o> Rows<'o> {
    fn new(settings: &'o Settings, to: &'o mut Vec<u8>, first: usize) -> Self {
        Self { to, settings, first, is_full: false }
    }

    /// Returns an error if the answer is too long.
    fn check(&self) -> Result<()> {
        if self.is_full { Err(self.settings.answer_is_too_long()) } else { Ok(()) }
    }
}

impl RowSink for Rows<'_> {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        put_row(self.to, row);
        if self.to.len() - self.first > self.settings.answer_bytes_max {
            self.is_full = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// Validates an operation, and calls `run` with it.
fn operate<T>(
    asked: ReceivedOperation<'_, '_>,
    scope: &Store,
    run: impl FnOnce(&mut Operation<'_>) -> Result<T>,
) -> Result<T> {
    let scratch = Scratch::new();
    match asked {
        ReceivedOperation::Get { table, key, fields } => {
            check_key(table, key)?;
            run(&mut Operation::Get { table, key, fields })
        }
        ReceivedOperation::List { table, query } => {
            check_filter(table, query.filter.as_ref())?;
            query.check(table)?;
            run(&mut Operation::List { table, query: &query })
        }
        ReceivedOperation::ListEach { table, query, by, limit } => {
            query.check(table)?;
            let fields = query.fields.unwrap_or_else(|| table.read_by_default());
            if query.after.is_some() || !fields.contains(by) {
                let message =
                    "a list with a limit for each value has no start, and reads the field";
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            run(&mut Operation::ListEach { table, query: &query, by, limit })
        }
        ReceivedOperation::ListRanked { table, query } => {
            check_filter(table, query.filter.as_ref())?;
            query.check(table)?;
            run(&mut Operation::ListRanked { table, query: &query })
        }
        ReceivedOperation::Group { table, query } => {
            let result = query.check(table)?;
            run(&mut Operation::Group { table, query: &query, result: &result })
        }
        ReceivedOperation::Estimate { table, filter } => {
            filter.iter().try_for_each(|filter| filter.check(table))?;
            if !scope.capability().estimates {
                return run(&mut Operation::Count { table, filter: filter.as_ref() });
            }
            run(&mut Operation::Estimate { table, filter: filter.as_ref() })
        }
        ReceivedOperation::Count { table, filter } => {
            check_filter(table, filter.as_ref())?;
            run(&mut Operation::Count { table, filter: filter.as_ref() })
        }
        ReceivedOperation::Insert { table, mut row, on_conflict } => {
            prepare::insert(table, &mut row, ValueSource::Values, scope.stamp(table), &scratch)?;
            run(&mut Operation::Insert { table, row: &row, on_conflict })
        }
        ReceivedOperation::InsertMany { table, rows, on_conflict } => {
            let stamp = scope.stamp(table);
            let mut rows = Inserts { table, rows, stamp, scratch: &scratch, place: 0 };
            run(&mut Operation::InsertMany { table, rows: &mut rows, on_conflict })
        }
        ReceivedOperation::Update { table, key, mut row, version } => {
            check_key(table, key)?;
            check_version(table, version)?;
            prepare::update(table, &mut row, ValueSource::Values, scope.stamp(table), &scratch)?;
            run(&mut Operation::Update { table, key, row: &row, version })
        }
        ReceivedOperation::UpdateMany { table, rows } => {
            let stamp = scope.stamp(table);
            let mut rows = Updates(Inserts { table, rows, stamp, scratch: &scratch, place: 0 });
            run(&mut Operation::UpdateMany { table, rows: &mut rows })
        }
        ReceivedOperation::Increment { table, key, field, by } => {
            check_key(table, key)?;
            check_increment(table, field, by)?;
            let stamp = scope.stamp(table).value();
            run(&mut Operation::Increment { table, key, field, by, stamp })
        }
        ReceivedOperation::Delete { table, key, version } => {
            check_key(table, key)?;
            check_version(table, version)?;
            run(&mut Operation::Delete { table, key, version })
        }
        ReceivedOperation::DeleteWhere { table, filter } => {
            check_filter(table, filter.as_ref())?;
            run(&mut Operation::DeleteWhere { table, filter: filter.as_ref() })
        }
        // A batch is prepared separately (`ReadyBatch`).
        ReceivedOperation::Batch(_) => {
            Err(Error::new(ErrorKind::Bug, "a batch was executed as a verb"))
        }
        ReceivedOperation::Begin => run(&mut Operation::Begin),
        ReceivedOperation::Commit => run(&mut Operation::Commit),
        ReceivedOperation::Rollback => run(&mut Operation::Rollback),
        ReceivedOperation::Savepoint(name) => run(&mut Operation::Savepoint(name)),
        ReceivedOperation::Release(name) => run(&mut Operation::Release(name)),
        ReceivedOperation::RollbackTo(name) => run(&mut Operation::RollbackTo(name)),
    }
}

/// Checks that a filter fits its table, and depends only on rows of tables that are served.
pub(super) fn check_filter(table: &Table, filter: Option<&FilterExpr>) -> Result<()> {
    let Some(filter) = filter else { return Ok(()) };
    filter.check(table)?;
    check_exposed(table, filter)
}

/// The rows of an insert of many, prepared one by one.
struct Inserts<'p, 't> {
    table: &'t Table,
    rows: ReceivedRows<'p>,
    stamp: WriteTimestamp,
    scratch: &'p Scratch,
    place: usize,
}

impl Inserts<'_, '_> {
    fn at(&self, error: Error) -> Error {
        if error.violations().is_empty() {
            return error;
        }
        error.at(format_args!("row {}", self.place - 1))
    }
}

impl<'a, 'p: 'a, 't: 'a> RowSource<'a> for Inserts<'p, 't> {
    fn remaining(&self) -> usize {
        self.rows.count
    }

    fn next(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool> {
        let table: &'t Table = self.table;
        if !self.rows.next(row)? {
            return Ok(false);
        }
        self.place += 1;
        prepare::insert(table, row, ValueSource::Values, self.stamp, self.scratch)
            .map_err(|error| self.at(error))?;
        Ok(true)
    }
}

/// The rows of an update of many, with their keys.
struct Updates<'p, 't>(Inserts<'p, 't>);

impl<'a, 'p: 'a, 't: 'a> RowSource<'a> for Updates<'p, 't> {
    fn remaining(&self) -> usize {
        self.0.rows.count
    }

    fn next(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool> {
        let table: &'t Table = self.0.table;
        if !self.0.rows.next(row)? {
            return Ok(false);
        }
        self.0.place += 1;
        let key = row[table.key()];
        let checked = check_key(table, key).and_then(|()| {
            prepare::update(table, row, ValueSource::Values, self.0.stamp, self.0.scratch)
        });
        checked.map_err(|error| self.0.at(error))?;
        row[table.key()] = key;
        Ok(true)
    }
}

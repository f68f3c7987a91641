//! A session of the memory engine: it locks the tables that an operation needs, executes it, and
//! keeps the open transaction. Operations that take more than one turn are in `session/long.rs`.

mod long;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use arc_swap::{ArcSwap, Cache};
use marmota_model::{
    Error, ErrorKind, FieldSet, FilterExpr, Result, RowQuery, RowSink, Table, ValueRef,
};
use marmota_store::Durability;
use marmota_store::borrowed_table::BorrowedTables;
use marmota_store::change::ChangeBuffer;
use marmota_store::engine::{Session, Submitted, Ticket};
use marmota_store::in_flight::InFlight;
use marmota_store::operation::{Operation, Outcome};
use marmota_store::refusal::{self, table_kept};
use marmota_store::wait::QueuePlace;
use parking_lot::RwLock;
use smallvec::SmallVec;

use super::catalog::Catalog;
use super::journal::{self, Record};
use super::shared::Shared;
use super::write::{delete_rows, execute};
use crate::catalog::locked_tables::{LockedTables, Needs, NotNow};
use crate::lock::transaction_gate::WAIT_MAX;
use crate::read::borrowed_table::LockedTable;
use crate::read::long_related::LongRelated;
use crate::read::long_scan::{LongScan, ReadRequest};
use crate::read::related::{resolved, resolved_in_time};
use crate::read::scan::{Read, RowsFound};
use crate::recording::NumberedCommit;
use crate::table::table_rows::TableRows;
use crate::write::long_delete::LongDelete;
use crate::write::undo_log::UndoLog;

/// A session.
pub(super) struct MemorySession {
    shared: Arc<Shared>,
    id: u64,
    catalog: Cache<Arc<ArcSwap<Catalog>>, Arc<Catalog>>,
    transaction: Option<Transaction>,
    /// The waiting operations: a session may have several.
    waiting: InFlight<Waiting>,
    /// The buffer in which commits are composed before they go to the log.
    record: Record,
    /// True if no caller waited for the answer to a commit: the transaction has ended, though its
    /// holder may not know.
    is_over: bool,
    /// The queue place of the statement that borrows tables, while it waits.
    lend_place: QueuePlace,
    /// The buffer in which the changes of a commit are encoded, with the actor of the next writes.
    changes: ChangeBuffer,
    /// The undo log of single writes.
    pub(super) log: UndoLog,
}

/// An operation that waits.
struct Waiting {
    /// The deadline of its wait for the end of a transaction, or of its execution.
    until: Option<Instant>,
    durability: Option<Durability>,
    /// Set if it was executed, and waits for the disk.
    written: Option<Box<Written>>,
    /// Set if it needs more turns.
    long: Option<Long>,
    /// Its place in the queue of those that wait until the gate opens.
    gate_place: QueuePlace,
}

/// An operation that needs more turns.
enum Long {
    /// A read whose conditions on related rows take more turns.
    Related(Box<LongRelated>),
    Scan(Scan),
    Delete(Box<LongDelete>),
}

/// A read that needs more turns, with the rows of its table.
struct Scan {
    long: Box<LongScan>,
    rows: Arc<RwLock<TableRows>>,
}

/// An operation that was executed but is not answered yet.
struct Written {
    position: u64,
    outcome: Outcome,
    commits: bool,
}

/// The result of an attempt to execute an operation.
enum Attempt {
    Done,
    /// It has to wait for the end of another session's transaction.
    Kept,
    /// It has to wait until the log is on the disk up to a position.
    Written(u64),
    /// It needs more turns.
    Long(Long),
}

/// An open transaction; its session holds the gate.
struct Transaction {
    log: UndoLog,
    /// The tables that it owns.
    owned: SmallVec<[u32; 8]>,
}

impl Transaction {
    /// Makes the transaction the owner of the tables that an operation needs.
    fn own(&mut self, session: u64, needs: &Needs, locked: &mut LockedTables<'_>) -> Result<()> {
        for &(number, write) in needs.tables() {
            let rows = locked.rows(number)?;
            if rows.owner.load(Ordering::Relaxed) == 0 {
                rows.owner.store(session, Ordering::Relaxed);
                self.owned.push(number);
            }
            if write {
                locked.rows_mut(number)?.changed = true;
            }
        }
        Ok(())
    }
}

impl MemorySession {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let id = shared.new_session();
        let catalog = Cache::new(Arc::clone(&shared.catalog));
        Self {
            shared,
            id,
            catalog,
            transaction: None,
            waiting: InFlight::new(),
            record: Record::default(),
            is_over: false,
            lend_place: QueuePlace::default(),
            changes: ChangeBuffer::default(),
            log: UndoLog::of_transaction(),
        }
    }

    /// Executes an operation, if it need not wait.
    fn attempt(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Attempt> {
        if self.is_over && !matches!(operation, Operation::Begin) {
            let message = "the transaction has ended; begin a new one";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if self.transaction.is_some() {
            match operation {
                Operation::Rollback => self.forget_deletes(),
                _ if self.is_deleting() => return Ok(Attempt::Kept),
                _ => {}
            }
        }
        if operation.is_write() || matches!(operation, Operation::Begin) {
            self.shared.check_writable()?;
        }
        match operation {
            Operation::Begin => {
                return Ok(if self.begin()? { Attempt::Done } else { Attempt::Kept });
            }
            Operation::Commit => {
                let committed = self.end(false)?;
                return Ok(self.written(committed, durability, outcome));
            }
            Operation::Rollback => self.end(true).map(drop)?,
            Operation::Savepoint(name) => self.transaction()?.log.save(*name),
            Operation::Release(name) => self.transaction()?.log.release(*name)?,
            Operation::RollbackTo(name) => self.roll_back_to(*name)?,
            operation => return self.attempt_rows(durability, operation, sink, outcome),
        }
        Ok(Attempt::Done)
    }

    /// Reports a commit to the change feed, and returns the remaining work for it.
    fn written(
        &self,
        committed: Committed,
        durability: Option<Durability>,
        outcome: &mut Outcome,
    ) -> Attempt {
        if let Some(numbered) = committed.numbered {
            outcome.commit = Some(numbered.number);
            self.shared.report(committed.position, durability, numbered);
        }
        let (Some(position), Some(journal)) = (committed.position, self.shared.journal.get())
        else {
            return Attempt::Done;
        };
        if journal.is_long() {
            self.shared.shorten_log(journal);
        }
        match journal.request_sync(position, durability) {
            true => Attempt::Written(position),
            false => Attempt::Done,
        }
    }

    /// [`Operation::Get`] on a short path: the general path took two thirds of its instructions.
    /// Returns `None` if it has to take the general one, as in a transaction, which owns the tables
    /// that it reads.
    #[inline]
    fn get(
        &mut self,
        table: &Table,
        key: ValueRef<'_>,
        fields: FieldSet,
        sink: &mut dyn RowSink,
    ) -> Result<Option<u64>> {
        let catalog = self.catalog.load();
        let rows = catalog.slots[catalog.find(table)? as usize].rows.read();
        if self.transaction.is_some() || rows.retired || rows.is_kept_from(self.id, false) {
            return Ok(None);
        }
        self.shared.check_open()?;
        Ok(Some(rows.get(key, fields, sink)))
    }

    fn attempt_rows(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Attempt> {
        let is_write = operation.is_write();
        loop {
            let catalog = self.catalog.load();
            let mut needs = Needs::new(catalog, operation)?;
            let recorder = self.shared.recorder.get().filter(|_| is_write);
            if let (Some(recorder), None) = (recorder, &self.transaction) {
                needs.also_write(catalog.find(recorder.table())?);
            }
            let mut locked = match LockedTables::new(catalog, &needs, self.id) {
                Ok(locked) => locked,
                Err(NotNow::Retired) => continue,
                Err(NotNow::Owned) => return Ok(Attempt::Kept),
            };
            // This is checked after the tables are locked: `close` sets the flag before it locks
            // them.
            self.shared.check_open()?;
            let mut found = None;
            if let Operation::DeleteWhere { filter, .. } = operation
                && !catalog.cascades(needs.table)
            {
                let filter = resolved(&locked, needs.table, *filter)?;
                match locked.rows(needs.table)?.find(filter.as_deref())? {
                    RowsFound::All(rows) => found = Some(rows),
                    RowsFound::Some { found, left } => {
                        let (owner, own) = match &mut self.transaction {
                            Some(transaction) => {
                                transaction.own(self.id, &needs, &mut locked)?;
                                (self.id, None)
                            }
                            None => {
                                let owner = self.shared.new_session();
                                if !self.shared.gate.try_take(owner) {
                                    return Ok(Attempt::Kept);
                                }
                                for &(number, _) in needs.tables() {
                                    locked.rows(number)?.owner.store(owner, Ordering::Relaxed);
                                }
                                (owner, Some(UndoLog::of_transaction()))
                            }
                        };
                        drop(locked);
                        let of = (owner, own);
                        let filter = filter.map(Cow::into_owned);
                        let delete = LongDelete::new(of, needs, filter, found, left);
                        return Ok(Attempt::Long(Long::Delete(delete)));
                    }
                }
            }
            if let Some(filter) = related_filter(operation) {
                if let Some(transaction) = &mut self.transaction {
                    transaction.own(self.id, &needs, &mut locked)?;
                }
                return read_related((operation, filter), &needs, &locked, sink, outcome);
            }
            let mut run = |locked: &mut LockedTables<'_>, log: &mut UndoLog| match found.take() {
                Some(rows) => {
                    *outcome = delete_rows(locked, log, needs.table, rows)?;
                    Ok(None)
                }
                None => execute(operation, needs.table, sink, locked, log, outcome),
            };
            let scan = match &mut self.transaction {
                None => {
                    if is_write && (recorder.is_some() || self.shared.journal.get().is_some()) {
                        let log = &mut self.log;
                        log.clear();
                        let (record, changes) = (&mut self.record, &mut self.changes);
                        let committed = run(&mut locked, log)
                            .and_then(|_| keep(&self.shared, record, changes, log, &mut locked));
                        // A commit that failed leaves nothing either.
                        log.clear();
                        drop(locked);
                        return Ok(self.written(committed?, durability, outcome));
                    }
                    run(&mut locked, &mut UndoLog::default())
                }
                Some(transaction) => {
                    transaction.own(self.id, &needs, &mut locked)?;
                    run(&mut locked, &mut transaction.log)
                }
            }?;
            let Some(long) = scan else { return Ok(Attempt::Done) };
            let rows = Arc::clone(&locked.slot(needs.table).rows);
            return Ok(Attempt::Long(Long::Scan(Scan { long, rows })));
        }
    }

    fn transaction(&mut self) -> Result<&mut Transaction> {
        self.transaction.as_mut().ok_or_else(refusal::no_transaction)
    }

    fn begin(&mut self) -> Result<bool> {
        self.shared.check_open()?;
        if self.transaction.is_some() {
            return Err(refusal::transaction_is_open());
        }
        if !self.shared.gate.try_take(self.id) {
            return Ok(false);
        }
        self.is_over = false;
        let owned = SmallVec::new();
        self.transaction = Some(Transaction { log: UndoLog::of_transaction(), owned });
        Ok(true)
    }

    /// Ends the transaction and releases its tables, with or without its changes. Returns its
    /// position in the log.
    fn end(&mut self, undo: bool) -> Result<Committed> {
        self.transaction()?;
        let Some(mut transaction) = self.transaction.take() else {
            return Ok(Committed::default());
        };
        let catalog = self.catalog.load();
        let commits = self.shared.commits(catalog, undo || transaction.log.steps().is_empty())?;
        let owned = transaction.owned.iter().copied();
        let mut locked = LockedTables::of_transaction(catalog, owned, commits);
        let log = &mut transaction.log;
        let ended = match undo {
            true => log.undo_to(0, &mut locked).map(|()| Committed::default()),
            false => keep(&self.shared, &mut self.record, &mut self.changes, log, &mut locked),
        };
        for &number in &transaction.owned {
            locked.disown(number);
        }
        drop(locked);
        self.shared.gate.open();
        ended
    }

    fn roll_back_to(&mut self, name: u32) -> Result<()> {
        self.transaction()?;
        let Some(transaction) = &mut self.transaction else { return Ok(()) };
        let catalog = self.catalog.load();
        let owned = transaction.owned.iter().copied();
        let mut locked = LockedTables::of_transaction(catalog, owned, None);
        transaction.log.undo_to_savepoint(name, &mut locked)
    }
}

/// Returns the filter of a list or count that has conditions on related rows.
fn related_filter<'a>(operation: &Operation<'a>) -> Option<&'a FilterExpr> {
    match operation {
        Operation::List { query, .. } => query.filter.as_ref(),
        Operation::Count { filter, .. } => *filter,
        _ => None,
    }
    .filter(|filter| filter.has_relations())
}

/// Executes a list or count with such a filter, for one turn.
fn read_related(
    (operation, filter): (&Operation<'_>, &FilterExpr),
    needs: &Needs,
    locked: &LockedTables<'_>,
    sink: &mut dyn RowSink,
    outcome: &mut Outcome,
) -> Result<Attempt> {
    let rows = locked.rows(needs.table)?;
    let Some(filter) = resolved_in_time(locked, needs.table, filter)? else {
        let (request, limit) = match operation {
            Operation::List { query, .. } => {
                let fields = query.fields.unwrap_or_else(|| rows.table.read_by_default());
                let (filter, order) =
                    (query.filter_with_after(&rows.table), query.order_with_key(&rows.table));
                (ReadRequest { filter, order, fields, counts: false }, query.limit)
            }
            _ => {
                let filter = Some(filter.clone());
                (ReadRequest { filter, counts: true, ..ReadRequest::default() }, None)
            }
        };
        let long = LongRelated::open(locked, needs, request, limit)?;
        return Ok(Attempt::Long(Long::Related(long)));
    };
    let read = match operation {
        Operation::List { query, .. } => {
            rows.list(&RowQuery { filter: Some(filter), ..(*query).clone() }, sink)?
        }
        _ => rows.count(Some(&filter))?,
    };
    Ok(match read {
        Read::Done(rows) => {
            *outcome = Outcome::rows(rows);
            Attempt::Done
        }
        Read::Over(long) => {
            let rows = Arc::clone(&locked.slot(needs.table).rows);
            Attempt::Long(Long::Scan(Scan { long, rows }))
        }
    })
}

/// A commit that was executed.
#[derive(Default)]
struct Committed {
    /// Its end in the log, if there is a log.
    position: Option<u64>,
    /// Its row in the change feed, if it has changes of recorded tables.
    numbered: Option<NumberedCommit>,
}

/// Writes a commit to the change feed and to the log, or undoes it if that fails.
fn keep(
    shared: &Shared,
    record: &mut Record,
    changes: &mut ChangeBuffer,
    log: &mut UndoLog,
    locked: &mut LockedTables<'_>,
) -> Result<Committed> {
    if log.steps().is_empty() {
        return Ok(Committed::default());
    }
    let is_accepted = shared.journal.get().map_or(Ok(()), |journal| journal.copy.check());
    let numbered = is_accepted.and_then(|()| match shared.recorder.get() {
        Some(recorder) => NumberedCommit::insert(recorder, changes, log, locked),
        None => Ok(None),
    });
    let committed = numbered.and_then(|mut numbered| {
        let position = match shared.journal.get() {
            Some(journal) => {
                journal::write_changes(record.payload(), log, locked)?;
                Some(journal.append(record, numbered.as_ref().map(|commit| commit.number))?)
            }
            None => {
                if let (Some(commit), Some(recorder)) = (&mut numbered, shared.recorder.get()) {
                    commit.report_in_order(recorder);
                }
                None
            }
        };
        Ok(Committed { position, numbered })
    });
    if committed.is_err() {
        log.undo_to(0, locked)?;
    }
    committed
}

impl MemorySession {
    /// Ready once the log is on the disk up to the position of the operation.
    fn poll_written(
        &mut self,
        ticket: Ticket,
        outcome: &mut Outcome,
        context: &Context<'_>,
    ) -> Poll<Result<()>> {
        let waiting = &mut self.waiting[ticket];
        let (Some(written), Some(journal)) = (&mut waiting.written, self.shared.journal.get())
        else {
            return Poll::Ready(Err(refusal::not_waiting()));
        };
        let polled = journal.poll(written.position, (self.id, ticket.0), context);
        if polled.is_ready() {
            *outcome = std::mem::take(&mut written.outcome);
            self.waiting.remove(ticket);
        }
        polled
    }
}

impl Written {
    /// The outcome is stored, because a later poll may pass another one.
    fn new(position: u64, operation: &Operation<'_>, outcome: &mut Outcome) -> Box<Self> {
        let commits = matches!(operation, Operation::Commit);
        Box::new(Self { position, outcome: std::mem::take(outcome), commits })
    }
}

impl Session for MemorySession {
    fn submit(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        if let Operation::Get { table, key, fields } = operation
            && let Some(rows) = self.get(table, *key, *fields, sink)?
        {
            outcome.rows = rows;
            return Ok(Submitted::Done);
        }
        let (written, long) = match self.attempt(durability, operation, sink, outcome)? {
            Attempt::Done => return Ok(Submitted::Done),
            Attempt::Kept => (None, None),
            Attempt::Written(position) => (Some(Written::new(position, operation, outcome)), None),
            Attempt::Long(long) => (None, Some(long)),
        };
        let until = match &long {
            Some(_) => self.shared.read_until(),
            None => Some(Instant::now() + WAIT_MAX),
        };
        let gate_place = QueuePlace::default();
        let waiting = Waiting { until, durability, written, long, gate_place };
        Ok(Submitted::Waiting(self.waiting.add(waiting)))
    }

    fn poll(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let Some(&Waiting { until, durability, ref written, ref long, .. }) =
            self.waiting.get(ticket)
        else {
            return Poll::Ready(Err(refusal::not_waiting()));
        };
        if written.is_some() {
            return self.poll_written(ticket, outcome, context);
        }
        match long {
            Some(Long::Related(_)) => return self.poll_related(ticket, context),
            Some(Long::Scan(_)) => return self.poll_scan(ticket, sink, outcome, context),
            Some(Long::Delete(_)) => return self.poll_delete(ticket, operation, outcome, context),
            None => {}
        }
        self.shared.gate.register(&mut self.waiting[ticket].gate_place, context.waker(), until);
        let attempted = self.attempt(durability, operation, sink, outcome);
        let polled = match attempted {
            Ok(Attempt::Done) => Ok(()),
            Ok(Attempt::Kept) if until.is_none_or(|until| Instant::now() < until) => {
                return Poll::Pending;
            }
            Ok(Attempt::Kept) => Err(table_kept(WAIT_MAX)),
            Ok(Attempt::Written(position)) => {
                self.shared.gate.forget(&mut self.waiting[ticket].gate_place);
                self.waiting[ticket].written = Some(Written::new(position, operation, outcome));
                return self.poll_written(ticket, outcome, context);
            }
            Ok(Attempt::Long(long)) => {
                let until = self.shared.read_until();
                let waiting = &mut self.waiting[ticket];
                self.shared.gate.forget(&mut waiting.gate_place);
                (waiting.long, waiting.until) = (Some(long), until);
                self.leave_turn(context);
                return Poll::Pending;
            }
            Err(error) => Err(error),
        };
        self.cancel(ticket);
        Poll::Ready(polled)
    }

    fn lend(&mut self, tables: &[&Table], waker: Option<&Waker>) -> Result<Option<BorrowedTables>> {
        if let Some(waker) = waker {
            let until = Some(Instant::now() + WAIT_MAX);
            self.shared.gate.register(&mut self.lend_place, waker, until);
        }
        loop {
            let catalog = self.catalog.load();
            let found = tables.iter().map(|table| catalog.find(table));
            let numbers: SmallVec<[u32; 8]> = found.collect::<Result<_>>()?;
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            sorted.dedup();
            let lock = |&number: &u32| catalog.slots[number as usize].rows.read_arc();
            let locked: SmallVec<[_; 8]> = sorted.iter().map(lock).collect();
            if locked.iter().any(|rows| rows.retired) {
                continue;
            }
            if locked.iter().any(|rows| rows.is_kept_from(self.id, false)) {
                return Ok(None);
            }
            self.shared.check_open()?;
            if let Some(transaction) = &mut self.transaction {
                for (rows, &number) in locked.iter().zip(&sorted) {
                    if rows.owner.load(Ordering::Relaxed) == 0 {
                        rows.owner.store(self.id, Ordering::Relaxed);
                        transaction.owned.push(number);
                    }
                }
            }
            if let [_] = *numbers {
                return Ok(Some(locked.into_iter().map(LockedTable::lend).collect()));
            }
            let mut lent: SmallVec<[_; 8]> =
                locked.into_iter().map(|rows| Some(LockedTable::lend(rows))).collect();
            // The tables are returned in the order of the request, which has no duplicates.
            let in_order = numbers.iter().filter_map(|number| {
                let place = sorted.binary_search(number).ok()?;
                lent[place].take()
            });
            return Ok(Some(in_order.collect()));
        }
    }

    fn set_actor(&mut self, actor: Option<&Arc<str>>) {
        self.changes.set_actor(actor);
    }

    fn cancel(&mut self, ticket: Ticket) {
        let Some(mut waiting) = self.waiting.remove(ticket) else { return };
        self.shared.gate.forget(&mut waiting.gate_place);
        if waiting.long.is_some() {
            self.shared.reads_cancelled.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(Long::Delete(delete)) = waiting.long {
            self.give_up_delete(delete);
        }
        if let (Some(written), Some(journal)) = (waiting.written, self.shared.journal.get()) {
            journal.forget((self.id, ticket.0));
            self.is_over |= written.commits;
        }
    }
}

impl Drop for MemorySession {
    fn drop(&mut self) {
        self.shared.gate.forget(&mut self.lend_place);
        if self.transaction.is_some() {
            let undone = self.end(true);
            debug_assert!(undone.is_ok());
        }
        while let Some(ticket) = self.waiting.any() {
            self.cancel(ticket);
        }
    }
}

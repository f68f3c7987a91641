//! A session on the memory engine: locks what an operation needs, carries it
//! out, and keeps the open transaction.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;

use arc_swap::{ArcSwap, Cache};
use marmota_model::{Error, ErrorKind, FieldSet, Result, RowSink, Table, ValueRef};
use smallvec::SmallVec;

use super::Shared;
use super::catalog::Catalog;
use super::gate::{WAIT_MAX, busy};
use super::locked::{Locked, Needs, NotNow};
use super::log::Log;
use super::write::execute;
use crate::engine::{Session, Submitted, Ticket};
use crate::operation::{Operation, Outcome};

/// A session.
pub(super) struct MemorySession {
    shared: Arc<Shared>,
    id: u64,
    catalog: Cache<Arc<ArcSwap<Catalog>>, Arc<Catalog>>,
    transaction: Option<Transaction>,
    /// How many tickets were given; their numbers.
    tickets: u64,
    /// Those whose operations wait, and until when: a session may have several.
    waiting: SmallVec<[(u64, Instant); 4]>,
}

/// An open transaction; its session has the gate.
struct Transaction {
    log: Log,
    /// The tables that are owned.
    owned: SmallVec<[u32; 8]>,
}

impl MemorySession {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let id = shared.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        let catalog = Cache::new(Arc::clone(&shared.catalog));
        Self { shared, id, catalog, transaction: None, tickets: 0, waiting: SmallVec::new() }
    }

    /// Carries out an operation; false if it has to wait for the end of
    /// another session's transaction.
    fn attempt(
        &mut self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<bool> {
        match operation {
            Operation::Begin => return self.begin(),
            Operation::Commit => self.end(false)?,
            Operation::Rollback => self.end(true)?,
            Operation::Savepoint(name) => self.transaction()?.log.save(*name),
            Operation::Release(name) => self.transaction()?.log.release(*name)?,
            Operation::RollbackTo(name) => self.roll_back_to(*name)?,
            operation => return self.attempt_rows(operation, sink, outcome),
        }
        Ok(true)
    }

    /// [`Operation::Get`] without the detours of larger operations, which took
    /// two thirds of its instructions; none if it has to take them, as in a
    /// transaction, which owns what it reads.
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
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<bool> {
        loop {
            let catalog = self.catalog.load();
            let needs = Needs::new(catalog, operation)?;
            let mut locked = match Locked::new(catalog, &needs, self.id) {
                Ok(locked) => locked,
                Err(NotNow::Retired) => continue,
                Err(NotNow::Owned) => return Ok(false),
            };
            // Once the tables are locked: `close` sets it before it locks them.
            self.shared.check_open()?;
            match &mut self.transaction {
                None => {
                    let log = &mut Log::default();
                    execute(operation, needs.table, sink, &mut locked, log, outcome)
                }
                Some(transaction) => {
                    for &(number, write) in needs.tables() {
                        let rows = locked.rows(number)?;
                        if rows.owner.load(Ordering::Relaxed) == 0 {
                            rows.owner.store(self.id, Ordering::Relaxed);
                            transaction.owned.push(number);
                        }
                        if write {
                            locked.rows_mut(number)?.changed = true;
                        }
                    }
                    let log = &mut transaction.log;
                    execute(operation, needs.table, sink, &mut locked, log, outcome)
                }
            }?;
            return Ok(true);
        }
    }

    fn transaction(&mut self) -> Result<&mut Transaction> {
        self.transaction.as_mut().ok_or_else(|| {
            Error::new(ErrorKind::Invalid, "no transaction is open on this session; begin one")
        })
    }

    fn begin(&mut self) -> Result<bool> {
        self.shared.check_open()?;
        if self.transaction.is_some() {
            let message = "a transaction is open on this session already; use a savepoint in it";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if !self.shared.gate.try_take(self.id) {
            return Ok(false);
        }
        let owned = SmallVec::new();
        self.transaction = Some(Transaction { log: Log::of_transaction(), owned });
        Ok(true)
    }

    /// Ends the transaction: gives up its tables, with or without what was
    /// done to them.
    fn end(&mut self, undo: bool) -> Result<()> {
        self.transaction()?;
        let Some(mut transaction) = self.transaction.take() else { return Ok(()) };
        let catalog = self.catalog.load();
        let mut locked = Locked::to_change(catalog, transaction.owned.iter().copied());
        let undone = if undo { transaction.log.undo_to(0, &mut locked) } else { Ok(()) };
        for &number in &transaction.owned {
            let rows = locked.rows_mut(number)?;
            *rows.owner.get_mut() = 0;
            rows.changed = false;
        }
        drop(locked);
        self.shared.gate.open();
        undone
    }

    fn roll_back_to(&mut self, name: u32) -> Result<()> {
        self.transaction()?;
        let Some(transaction) = &mut self.transaction else { return Ok(()) };
        let catalog = self.catalog.load();
        let mut locked = Locked::to_change(catalog, transaction.owned.iter().copied());
        transaction.log.undo_to_savepoint(name, &mut locked)
    }
}

impl Session for MemorySession {
    fn submit(
        &mut self,
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
        if self.attempt(operation, sink, outcome)? {
            return Ok(Submitted::Done);
        }
        self.tickets += 1;
        self.waiting.push((self.tickets, Instant::now() + WAIT_MAX));
        Ok(Submitted::Waiting(Ticket(self.tickets)))
    }

    fn poll(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let Some(&(_, until)) = self.waiting.iter().find(|waiting| waiting.0 == ticket.0) else {
            return Poll::Ready(Err(given_up()));
        };
        self.shared.gate.register((self.id, ticket.0), context);
        let attempted = self.attempt(operation, sink, outcome);
        let polled = match attempted {
            Ok(true) => Ok(()),
            Ok(false) if Instant::now() < until => return Poll::Pending,
            Ok(false) => Err(busy()),
            Err(error) => Err(error),
        };
        self.cancel(ticket);
        Poll::Ready(polled)
    }

    fn cancel(&mut self, ticket: Ticket) {
        if let Some(place) = self.waiting.iter().position(|&(other, _)| other == ticket.0) {
            self.waiting.swap_remove(place);
            self.shared.gate.forget((self.id, ticket.0));
        }
    }
}

impl Drop for MemorySession {
    fn drop(&mut self) {
        if self.transaction.is_some() {
            let undone = self.end(true);
            debug_assert!(undone.is_ok());
        }
        for (ticket, _) in std::mem::take(&mut self.waiting) {
            self.shared.gate.forget((self.id, ticket));
        }
    }
}

#[cold]
fn given_up() -> Error {
    Error::new(ErrorKind::Bug, "an operation was polled after it had been given up or was done")
}

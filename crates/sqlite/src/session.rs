//! Where operations come in, and which connection carries them out.
//!
//! Reads go to the session's own connection, which sees the last commit and
//! waits for nobody; writes to the one that writes, when it is this session's
//! turn. In a transaction, and where the file has but one connection, reads go
//! there too. An operation whose turn does not come at once waits with a
//! ticket.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use marmota_model::{Error, ErrorKind, Result, RowSink};
use marmota_store::engine::{Session, Submitted, Ticket};
use marmota_store::operation::{Operation, Outcome};

use crate::engine::{Reader, Shared};
use crate::lane::Lane;
use crate::writer::LongTurn;

/// A session on an SQLite database.
pub(crate) struct SqliteSession {
    shared: Arc<Shared>,
    /// Its own connection, once it has read.
    reader: Option<Arc<Reader>>,
    transaction: Option<LongTurn>,
    waiting: Vec<Waiting>,
    tickets: u64,
}

/// An operation that waits for its turn.
#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    until: Instant,
    /// What its waker is known by in the writer, once it was polled.
    waker: Option<u64>,
}

impl SqliteSession {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, reader: None, transaction: None, waiting: Vec::new(), tickets: 0 }
    }

    /// Carries out an operation if its turn has come; `None` if it has to wait.
    #[inline]
    fn attempt(
        &mut self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Option<Result<()>> {
        if self.shared.is_closed() {
            return Some(Err(closed()));
        }
        if self.transaction.is_some() {
            return Some(self.in_transaction(operation, sink, outcome));
        }
        if !operation.is_write() && !self.shared.one_connection {
            return Some(self.read(operation, sink, outcome));
        }
        match operation {
            Operation::Begin => {
                let turn = self.shared.writer.try_long_turn()?;
                Some(self.begin(turn))
            }
            Operation::Commit
            | Operation::Rollback
            | Operation::Savepoint(_)
            | Operation::Release(_)
            | Operation::RollbackTo(_) => Some(Err(no_transaction())),
            operation => {
                let mut turn = self.shared.writer.try_turn()?;
                Some(match turn.lane() {
                    Some(lane) => lane.run(operation, sink, outcome),
                    None => Err(closed()),
                })
            }
        }
    }

    fn read(
        &mut self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let reader = match &self.reader {
            Some(reader) => reader,
            None => self.reader.insert(self.shared.open_reader()?),
        };
        let result = match &mut *reader.lock() {
            Some(lane) => lane.run(operation, sink, outcome),
            None => Err(closed()),
        };
        // Closed in the meantime, while this connection was in use.
        if self.shared.is_closed() {
            reader.lock().take();
        }
        result
    }

    fn begin(&mut self, mut turn: LongTurn) -> Result<()> {
        turn.lane().ok_or_else(closed)?.begin()?;
        self.transaction = Some(turn);
        Ok(())
    }

    fn in_transaction(
        &mut self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<()> {
        match operation {
            Operation::Begin => {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    "a transaction is open already; set a savepoint in it",
                ));
            }
            Operation::Rollback => {
                self.end();
                return Ok(());
            }
            _ => {}
        }
        let lane = self.lane()?;
        if !lane.connection.in_transaction() {
            if matches!(operation, Operation::Commit) {
                self.end();
            }
            return Err(Error::new(
                ErrorKind::Engine,
                "the transaction was undone when one of its operations failed; roll it back and \
                 begin again",
            ));
        }
        if matches!(operation, Operation::Commit) {
            let committed = lane.commit();
            self.end();
            return committed;
        }
        lane.run(operation, sink, outcome)
    }

    fn lane(&mut self) -> Result<&mut Lane> {
        self.transaction.as_mut().and_then(LongTurn::lane).ok_or_else(closed)
    }

    /// Ends the transaction: what was not committed is undone.
    fn end(&mut self) {
        let Some(mut turn) = self.transaction.take() else { return };
        if let Some(lane) = turn.lane() {
            lane.roll_back();
        }
    }

    fn place_of(&self, ticket: Ticket) -> Option<usize> {
        self.waiting.iter().position(|waiting| waiting.ticket == ticket)
    }

    /// Forgets a ticket; `done` if its operation had its turn.
    fn forget(&mut self, ticket: Ticket, done: bool) {
        let Some(place) = self.place_of(ticket) else { return };
        if let Some(waker) = self.waiting.swap_remove(place).waker {
            // One that had its turn wakes the next when it gives it up.
            self.shared.writer.forget(waker, !done);
        }
    }
}

impl Session for SqliteSession {
    fn submit(
        &mut self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        if let Some(result) = self.attempt(operation, sink, outcome) {
            return result.map(|()| Submitted::Done);
        }
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let until = Instant::now() + self.shared.busy_timeout();
        self.waiting.push(Waiting { ticket, until, waker: None });
        Ok(Submitted::Waiting(ticket))
    }

    fn poll(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let Some(place) = self.place_of(ticket) else {
            return Poll::Ready(Err(unknown_ticket()));
        };
        let waker = *self.waiting[place].waker.get_or_insert_with(|| self.shared.waker_number());
        self.shared.writer.wait(waker, context.waker());
        // Only now: a turn that came free before the waker was known is seen here.
        if let Some(result) = self.attempt(operation, sink, outcome) {
            self.forget(ticket, true);
            return Poll::Ready(result);
        }
        if Instant::now() >= self.waiting[place].until {
            self.forget(ticket, false);
            return Poll::Ready(Err(busy()));
        }
        Poll::Pending
    }

    fn cancel(&mut self, ticket: Ticket) {
        self.forget(ticket, false);
    }
}

impl Drop for SqliteSession {
    fn drop(&mut self) {
        self.end();
        while let Some(waiting) = self.waiting.last() {
            self.forget(waiting.ticket, false);
        }
    }
}

#[cold]
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the database is closed")
}

#[cold]
pub(crate) fn busy() -> Error {
    Error::new(
        ErrorKind::Busy,
        "another transaction is writing, and did not end in time; try again",
    )
}

#[cold]
fn no_transaction() -> Error {
    Error::new(ErrorKind::Invalid, "no transaction is open; begin one first")
}

#[cold]
fn unknown_ticket() -> Error {
    Error::new(ErrorKind::Bug, "an operation goes on that does not wait in this session")
}

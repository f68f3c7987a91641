//! The time budget of a read on its caller's thread, and its deadline.

use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result, RowSink};
use marmota_store::Durability;
use marmota_store::borrowed_table::BorrowedTables;
use marmota_store::engine::caller_blocks;
use marmota_store::operation::{Operation, Outcome};

use crate::executor::Executor;

/// The time that a read may run on its caller's thread before it continues on a helper thread (see
/// [`crate::session::offloaded`]).
pub(crate) const FIRST_BUDGET: Duration = Duration::from_millis(2);
/// The time for which one poll passes rows of a scan.
pub(crate) const POLL_BUDGET: Duration = Duration::from_millis(2);

/// The result of a read on its caller's thread.
pub(crate) enum Ended {
    Done(Result<()>),
    Over(UsedUp),
    /// The deadline has passed; nothing was done.
    Late,
}

/// The state after a budget was used up. The connection keeps the snapshot.
pub(crate) struct UsedUp {
    /// The number of rows passed to the sink before.
    pub(crate) lent: u64,
    /// The tables in memory that the statement reads.
    pub(crate) tables: Option<Box<BorrowedTables>>,
}

impl Executor {
    /// Like [`Executor::run`] for a list, a count or SQL that reads: until its budget is used up
    /// or, for a caller that blocks its thread, to its end or deadline.
    #[inline]
    pub(crate) fn run_in_budget(
        &mut self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Ended {
        self.lent = 0;
        if caller_blocks() {
            return self.run_to_deadline(operation, sink, outcome);
        }
        self.connection.begin_budget();
        let done = self.run(operation, sink, outcome);
        self.connection.end_budget();
        match done {
            Err(error) => self.failed_in_budget(error),
            done => Ended::Done(done),
        }
    }

    fn run_to_deadline(
        &mut self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Ended {
        self.connection.begin_to_deadline();
        let done = self.run(operation, sink, outcome);
        self.connection.end_budget();
        if done.is_err() && self.connection.take_interrupted() {
            return Ended::Late;
        }
        Ended::Done(done)
    }

    /// Like [`Executor::run_alone`] for a write that may read many rows. If its budget is used up,
    /// nothing was written.
    pub(crate) fn write_in_budget(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Ended {
        self.lent = 0;
        self.connection.begin_budget();
        let done = self.run_alone(durability, operation, sink, outcome);
        self.connection.end_budget();
        match done {
            Err(error) => {
                let ended = self.failed_in_budget(error);
                // The transaction of an interrupted write is rolled back.
                self.end_hold();
                ended
            }
            done => Ended::Done(done),
        }
    }

    /// Like [`Executor::run`] for a step of a session's transaction that may read many rows before
    /// it writes. If its budget is used up, nothing was written.
    pub(crate) fn step_in_budget(
        &mut self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Ended {
        self.lent = 0;
        self.connection.begin_budget();
        let done = match operation {
            // It runs in a savepoint already.
            Operation::Sql { .. } => self.run(operation, sink, outcome),
            operation => self.atomically(|executor| executor.run(operation, sink, outcome)),
        };
        self.connection.end_budget();
        match done {
            Err(error) => self.failed_in_budget(error),
            done => Ended::Done(done),
        }
    }

    #[cold]
    fn failed_in_budget(&mut self, error: Error) -> Ended {
        if self.connection.take_interrupted() {
            return Ended::Over(UsedUp { lent: self.lent, tables: self.kept.take() });
        }
        Ended::Done(Err(error))
    }

    /// Releases the snapshot that an interrupted read has kept.
    pub(crate) fn end_hold(&mut self) {
        if self.connection.take_hold() {
            self.roll_back();
        }
    }
}

/// Returns the error of a statement that exceeded its deadline. Nothing was written.
#[cold]
pub(crate) fn late(deadline_ms: u32) -> Error {
    let message = format!(
        "the statement took longer than {deadline_ms} ms: select fewer rows, add an index for its \
         filter and order, or open the database with a higher `read_deadline_ms`"
    );
    Error::new(ErrorKind::Timeout, message)
}

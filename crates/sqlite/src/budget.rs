//! How long a read may keep its caller's thread, and how long it may take.

use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result, RowSink};
use marmota_store::Durability;
use marmota_store::engine::caller_blocks;
use marmota_store::lent::LentTables;
use marmota_store::operation::{Operation, Outcome};

use crate::lane::Lane;

/// How long a read may run on its caller's thread before it continues on a
/// helper's (see [`crate::scan`]).
pub(crate) const FIRST_BUDGET: Duration = Duration::from_millis(2);
/// How long one poll lends rows of a scan.
pub(crate) const POLL_BUDGET: Duration = Duration::from_millis(2);

/// How a read ended on its caller's thread.
pub(crate) enum Ended {
    Done(Result<()>),
    Over(UsedUp),
    /// The deadline has passed; nothing took place.
    Late,
}

/// A budget was used up. The connection keeps the snapshot that was read from.
pub(crate) struct UsedUp {
    /// How many rows were lent before.
    pub(crate) lent: u64,
    /// The tables in memory that the statement reads.
    pub(crate) tables: Option<Box<LentTables>>,
}

impl Lane {
    /// [`Lane::run`] for a list, a count or SQL that reads: until its budget is
    /// used up, or, for a caller that waits with its thread, to its end or deadline.
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

    /// [`Lane::run_alone`] for a write that may look at many rows: if its budget
    /// is used up, nothing of it took place.
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
                // What an interrupted write has begun is undone with it.
                self.end_hold();
                ended
            }
            done => Ended::Done(done),
        }
    }

    /// [`Lane::run`] for a step of a session's transaction that may look at many
    /// rows before it writes: if its budget is used up, nothing of it took place.
    pub(crate) fn step_in_budget(
        &mut self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Ended {
        self.lent = 0;
        self.connection.begin_budget();
        let done = match operation {
            // In a savepoint of its own.
            Operation::Sql { .. } => self.run(operation, sink, outcome),
            operation => self.atomically(|lane| lane.run(operation, sink, outcome)),
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

    /// Lets go of the snapshot that an interrupted read has kept.
    pub(crate) fn end_hold(&mut self) {
        if self.connection.take_hold() {
            self.roll_back();
        }
    }
}

/// The error of a statement that took too long: nothing of it took place.
#[cold]
pub(crate) fn late(deadline_ms: u32) -> Error {
    let message = format!(
        "the statement took longer than {deadline_ms} ms: select fewer rows, add an index for its \
         filter and order, or open the database with a higher `read_deadline_ms`"
    );
    Error::new(ErrorKind::Timeout, message)
}

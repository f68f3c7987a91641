//! Processing the answer of an operation, or the loss of its connection.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

use marmota_model::RowSink;
use marmota_store::operation::{Operation, Outcome};

use super::{PostgresSession, Step};
use crate::commands::reply::{Lending, Reply, Rows};
use crate::connection::slot::LONG;
use crate::connection::{Connection, Ending, Loss};
use crate::fault;
use crate::in_flight::{InFlightOperation, Next, SlotUse, Stage, Task};

/// The number of times that a read is retried after its connection was lost.
const READ_TRIES_MAX: u32 = 3;

impl PostgresSession {
    pub(super) fn answer_step(
        &mut self,
        running: &mut InFlightOperation,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        waker: &Waker,
    ) -> Step {
        let slot = Arc::clone(&running.slot);
        let mut inside = slot.lock();
        let (of, number) = running.exchange.unwrap_or_default();
        let connection = inside.connection.as_mut().filter(|connection| connection.number() == of);
        let is_first = !std::mem::replace(&mut running.has_yielded, true);
        if is_first && connection.as_ref().is_some_and(|connection| connection.has_unsent()) {
            // Other tasks that are ready on this thread are sent with it.
            waker.wake_by_ref();
            return Step::Wait;
        }
        let answered = match connection {
            None => Poll::Ready(Err(Loss("the connection was lost".into()))),
            Some(connection) => {
                let answered = take_answer(connection, number, running, operation, sink);
                if answered.is_pending() {
                    connection.wait(number, waker);
                    if connection.take_leave() {
                        self.shared.note_yield();
                        waker.wake_by_ref();
                    }
                    return match self.leave_held_up(running, operation, &mut inside) {
                        true => Step::GoOn,
                        false => Step::Wait,
                    };
                }
                if let Some(took) = connection.take_took()
                    && let Some(call) = running.commands.calls.first()
                {
                    call.text.note_long(took >= LONG);
                }
                if let Some((_, failure)) = running.reply.failures.first()
                    && failure.is_of_preparing()
                {
                    running.commands.calls.iter().for_each(|call| connection.forget(&call.text));
                }
                running.may_be_cancelled = connection.may_be_cancelled(number);
                answered.map(|answered| answered.map(|ending| (ending, connection.state())))
            }
        };
        drop(inside);
        match answered {
            Poll::Ready(Ok((Ending::Skipped, _))) => {
                // With its own Sync, so that no other exchange makes the server skip it again.
                running.shares_sync = false;
                running.exchange = None;
                Step::GoOn
            }
            Poll::Ready(Ok((Ending::Answered, state))) => {
                match running.conclude(&mut self.composer, operation, outcome, state) {
                    Next::Done(result) => Step::Done(result),
                    Next::Send => {
                        if running.slot_use == SlotUse::Wanted {
                            self.met_lock = Some(Instant::now());
                        }
                        Step::GoOn
                    }
                }
            }
            Poll::Ready(Err(loss)) => self.lost(running, &loss),
            Poll::Pending => Step::Wait,
        }
    }

    /// Handles the loss of the connection. A read that has returned nothing is retried.
    fn lost(&mut self, running: &mut InFlightOperation, loss: &Loss) -> Step {
        let error = fault::lost(&loss.0, &self.shared.options, running.writes());
        if running.writes() || running.task == Task::Commit {
            self.shared.note_unknown_write();
        }
        if let Some(open) = &mut self.transaction {
            open.is_lost = true;
            // Nothing of it is done, unless it was being committed.
            let undone = running.task != Task::Commit;
            return Step::Done(Err(if undone { error.retryable() } else { error }));
        }
        if !running.writes()
            && running.reply.lent == 0
            && running.tries < READ_TRIES_MAX
            && !self.shared.is_closed()
            && !self.shared.is_replica
        {
            running.tries += 1;
            running.exchange = None;
            return Step::GoOn;
        }
        Step::Done(Err(error))
    }
}

/// Takes the available messages of an operation's answer; rows of a read are passed to the sink.
fn take_answer(
    connection: &mut Connection,
    number: u64,
    running: &mut InFlightOperation,
    operation: &Operation<'_>,
    sink: &mut dyn RowSink,
) -> Poll<Result<Ending, Loss>> {
    let InFlightOperation { reply, roles, commands, stage, sql, .. } = running;
    let reads = matches!(stage, Stage::Main | Stage::Again);
    let rows = match (operation, commands.calls.first(), &*sql) {
        (
            Operation::Get { table, .. }
            | Operation::List { table, .. }
            | Operation::ListEach { table, .. }
            | Operation::Group { result: table, .. },
            Some(call),
            _,
        ) => Some(Rows::Table(table, &call.text.columns)),
        (Operation::Sql { .. }, _, Some(text)) => Some(Rows::Sql(text)),
        _ => None,
    };
    let mut lending = rows.filter(|_| reads).map(|rows| Lending { rows, sink });
    let is_lending = lending.is_some();
    let mut take = |connection: &mut Connection, reply: &mut Reply| {
        connection.answer(number, &mut |message| reply.hear(roles, message, &mut lending))
    };
    if !is_lending {
        return take(connection, reply);
    }
    match catch_unwind(AssertUnwindSafe(|| take(connection, reply))) {
        Ok(answered) => answered,
        Err(panicked) => {
            connection.abandon(number);
            resume_unwind(panicked)
        }
    }
}

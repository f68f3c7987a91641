//! An operation in progress: the messages sent, the results received, and the steps that follow.
//!
//! Most operations are one exchange. A refusal may need another one (a diagnostic query), a
//! failed write of many rows is sent again row by row, and in a transaction a failure is rolled
//! back to the savepoint that each write sets.

pub(crate) mod audit_guard;
mod conclusion;
mod each;
mod linked;
mod outcome;
mod raw_sql;
pub(crate) mod recording;
pub(crate) mod round_trip;
mod stage;
pub(crate) mod steps;
pub(crate) mod write_target;

use std::sync::Arc;
use std::time::Instant;

use marmota_model::Error;
use marmota_store::engine::Ticket;
use marmota_store::operation::{BatchMode, Operation};
use marmota_store::wait::OwnedPlace;

use self::recording::Recording;
use self::round_trip::{RoundTrip, diagnostic, each, link};
pub(crate) use self::stage::{Next, Stage};
use self::steps::Steps;
use crate::commands::command_batch::{Call, CommandBatch, Role};
use crate::commands::raw_sql::SqlText;
use crate::commands::reply::Reply;
use crate::connection::slot::ConnectionSlot;
use crate::connection::{Connection, Sending, State};
use crate::statement::Text;
use crate::statement::controls::CONTROLS;

/// How an operation accesses the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// A read that may take long.
    LongRead,
    /// SQL that must only read, in a transaction that may write.
    GuardedRead,
    Write,
}

/// What an operation consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// One exchange, unless it is refused.
    Whole,
    /// A batch whose writes are executed separately, in one transaction.
    Separate {
        /// True if its transaction has begun.
        has_begun: bool,
    },
    /// The begin of a transaction.
    Begin,
    /// The commit of a transaction.
    Commit,
}

/// The slot that an operation uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotUse {
    /// A slot shared with other operations, or its transaction's.
    Shared,
    /// It needs an exclusive slot and waits for one.
    Wanted,
    /// It has an exclusive slot, which must be given back.
    Exclusive,
}

/// An operation in progress.
pub(crate) struct InFlightOperation {
    pub(crate) slot: Arc<ConnectionSlot>,
    /// The numbers of its connection and exchange; `None` if it is not sent yet.
    pub(crate) exchange: Option<(u64, u64)>,
    pub(crate) stage: Stage,
    pub(crate) commands: CommandBatch,
    pub(crate) roles: Vec<Role>,
    pub(crate) reply: Reply,
    pub(crate) until: Instant,
    pub(crate) tries: u32,
    pub(crate) has_yielded: bool,
    pub(crate) in_transaction: bool,
    pub(crate) access: Access,
    pub(crate) task: Task,
    pub(crate) slot_use: SlotUse,
    /// The raw SQL statement being described.
    pub(crate) describes: Option<Arc<Text>>,
    /// The description of that statement.
    pub(crate) sql: Option<Arc<SqlText>>,
    /// True if it may share its Sync with other operations of its turn.
    pub(crate) shares_sync: bool,
    /// True if the cancellation of another operation may have hit it.
    pub(crate) may_be_cancelled: bool,
    /// Its place in the queue for a slot, a connection or its turn.
    pub(crate) place: OwnedPlace,
    /// How its changes are recorded, if they are.
    pub(crate) recording: Option<Recording>,
    /// A batch of several steps, each of which is an operation.
    pub(crate) steps: Option<Box<Steps>>,
    /// The batch that it is a step of.
    pub(crate) of_batch: Option<Ticket>,
    /// The number of the connection on which it has begun a transaction of its own.
    begun_on: Option<u64>,
}

impl InFlightOperation {
    pub(crate) fn new(slot: &Arc<ConnectionSlot>) -> Self {
        Self {
            slot: Arc::clone(slot),
            exchange: None,
            stage: Stage::Main,
            commands: CommandBatch::default(),
            roles: Vec::new(),
            reply: Reply::default(),
            until: Instant::now(),
            tries: 0,
            has_yielded: false,
            in_transaction: false,
            access: Access::Read,
            task: Task::Whole,
            slot_use: SlotUse::Shared,
            describes: None,
            sql: None,
            shares_sync: false,
            may_be_cancelled: false,
            place: OwnedPlace::default(),
            recording: None,
            steps: None,
            of_batch: None,
            begun_on: None,
        }
    }

    /// Returns the number of the connection with its open transaction, on which it has to continue:
    /// on another one, its COMMIT would succeed without its writes.
    pub(crate) fn continues_on(&self) -> Option<u64> {
        let continues = match self.stage {
            Stage::EachDone | Stage::EachAgain(_) => true,
            Stage::Linked(_) => self.task == Task::Separate { has_begun: true },
            _ => false,
        };
        self.begun_on.filter(|_| continues && !self.in_transaction)
    }

    /// Starts another operation with the buffers of the last one.
    pub(crate) fn begin(
        &mut self,
        slot: &Arc<ConnectionSlot>,
        stage: Stage,
        until: Instant,
        in_transaction: bool,
    ) {
        let mut fresh = Self { stage, until, in_transaction, ..Self::new(slot) };
        std::mem::swap(&mut fresh.commands, &mut self.commands);
        std::mem::swap(&mut fresh.roles, &mut self.roles);
        std::mem::swap(&mut fresh.reply, &mut self.reply);
        *self = fresh;
        self.commands.clear();
        self.reply.clear();
    }

    /// Returns the approximate memory of its buffers.
    pub(crate) fn bytes(&self) -> usize {
        self.commands.parameters.capacity() + self.reply.bytes()
    }

    /// Adds the messages of its stage to a connection.
    pub(crate) fn send(&mut self, connection: &mut Connection) {
        self.reply.clear();
        self.roles.clear();
        let (guarded, only_reads) = (self.is_guarded(), self.access == Access::GuardedRead);
        let (describes, in_transaction) = (self.describes.clone(), self.in_transaction);
        let (stage, commands, roles) = (&self.stage, &self.commands, &mut self.roles);
        let (task, is_exclusive) = (&mut self.task, self.slot_use == SlotUse::Exclusive);
        let failed = connection.state() == State::Failed;
        let all = 0..commands.calls.len();
        let controls = &*CONTROLS;
        if let Some(recording) = &mut self.recording {
            recording.is_on_direct = !in_transaction && !is_exclusive;
        }
        let recording = self.recording.as_ref();
        let is_main = |call: &&Call| matches!(call.role, Role::Main(_));
        let is_direct = recording.is_some_and(|one| one.is_on_direct && one.is_simple)
            && commands.calls.iter().filter(is_main).count() == 1;
        let build = |sending: &mut Sending<'_>| {
            let mut exchange = RoundTrip { sending, roles };
            match stage {
                Stage::Main | Stage::Again => {
                    let again = matches!(stage, Stage::Again) && failed;
                    if guarded {
                        let open = if again { &controls.rollback_to } else { &controls.savepoint };
                        exchange.control(open);
                    }
                    if only_reads {
                        exchange.control(&controls.only_read);
                    }
                    // Transactions have exclusive connections, which they do not change.
                    if !in_transaction {
                        exchange.settings();
                        exchange.order(commands.in_order, is_exclusive);
                    }
                    exchange.record(recording, is_direct);
                    exchange.calls(commands, all, false);
                    if only_reads {
                        exchange.control(&controls.rollback_to);
                    }
                    if guarded {
                        exchange.control(&controls.release);
                    }
                    if !exchange.sending.shares_sync() {
                        exchange.sync();
                    }
                }
                Stage::Describe => {
                    if guarded {
                        exchange.control(&controls.savepoint);
                    }
                    if let Some(text) = &describes {
                        exchange.sending.describe(text);
                    }
                    if guarded {
                        exchange.control(&controls.release);
                    }
                    exchange.sync();
                }
                Stage::Diagnostic(problem) => {
                    diagnostic(&mut exchange, commands, problem, guarded, failed);
                }
                Stage::Recover(_) => {
                    if guarded && matches!(task, Task::Separate { .. }) {
                        exchange.control(&controls.rollback_batch);
                        exchange.control(&controls.release_batch);
                    } else if guarded {
                        exchange.control(&controls.rollback_to);
                        exchange.control(&controls.release);
                    } else {
                        exchange.control(&controls.rollback);
                    }
                    exchange.sync();
                }
                Stage::Each => each(&mut exchange, commands, guarded, recording),
                Stage::EachDone => {
                    let end = if guarded { &controls.release_batch } else { &controls.commit };
                    exchange.control(end);
                    exchange.sync();
                }
                Stage::EachAgain(_) => {
                    if guarded {
                        exchange.control(&controls.rollback_batch);
                    } else {
                        exchange.control(&controls.rollback);
                        exchange.begin();
                    }
                    exchange.record(recording, false);
                    exchange.calls(commands, all, false);
                    let end = if guarded { &controls.release_batch } else { &controls.commit };
                    exchange.control(end);
                    exchange.sync();
                }
                Stage::Linked(linked) => {
                    let opens = *task == Task::Separate { has_begun: false };
                    *task = Task::Separate { has_begun: true };
                    link(&mut exchange, commands, linked, guarded, opens, recording);
                }
                Stage::Control => {
                    exchange.calls(commands, all, false);
                    exchange.sync();
                }
            }
        };
        let number = match self.shares_sync {
            true => connection.submit_shared(build),
            false => connection.submit(build),
        };
        if self.access == Access::LongRead {
            connection.may_be_long(number);
        }
        if matches!(self.stage, Stage::Each | Stage::Linked(_)) {
            self.begun_on = Some(connection.number());
        }
        self.exchange = Some((connection.number(), number));
    }

    /// Returns true if it had an exclusive slot, which the caller has to give back.
    pub(crate) fn gives_slot_back(&mut self) -> bool {
        std::mem::replace(&mut self.slot_use, SlotUse::Shared) == SlotUse::Exclusive
    }

    /// Returns true if it may change the database.
    pub(crate) fn writes(&self) -> bool {
        self.access == Access::Write
    }

    /// Returns true if its failures are rolled back separately, in a transaction.
    pub(crate) const fn is_guarded(&self) -> bool {
        self.in_transaction && matches!(self.access, Access::Write | Access::GuardedRead)
    }

    pub(crate) fn recover(&mut self, error: Error) -> Next {
        self.stage = Stage::Recover(error);
        Next::Send
    }

    /// Ends with an error; in a transaction, after rolling back the failure.
    pub(crate) fn give_up(&mut self, error: Error) -> Next {
        if self.is_guarded() { self.recover(error) } else { Next::Done(Err(error)) }
    }

    /// Returns the first stage of an operation.
    pub(crate) fn first_stage(operation: &Operation<'_>) -> Stage {
        match operation {
            Operation::Batch { mode: BatchMode::Each, .. } => Stage::Each,
            _ => Stage::Main,
        }
    }
}

/// Returns true for a read that may be sent on any connection. Raw SQL may write if the connection
/// does not prevent it.
pub(crate) const fn may_leave_reader(operation: &Operation<'_>) -> bool {
    matches!(
        operation,
        Operation::Get { .. }
            | Operation::List { .. }
            | Operation::ListEach { .. }
            | Operation::Group { .. }
            | Operation::Count { .. }
            | Operation::Estimate { .. }
    )
}

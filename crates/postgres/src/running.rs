//! An operation in progress: the messages sent, the results received, and the steps that follow.
//!
//! Most operations are one exchange. A refusal may need another one (a diagnostic query, *look*), a
//! failed write of many rows is sent again row by row, and in a transaction a failure is rolled
//! back to the savepoint that each write sets.

mod conclusion;
mod each;
mod exchange;
mod linked;
mod outcome;
mod passing_by;
mod raw_sql;
mod stage;
pub(crate) mod steps;
mod subject;

use std::sync::Arc;
use std::time::Instant;

use marmota_model::Error;
use marmota_store::engine::Ticket;
use marmota_store::operation::{BatchMode, Operation};
use marmota_store::wait::OwnedPlace;

use self::exchange::{Exchange, each, link, look};
pub(crate) use self::stage::{Next, Stage};
use self::steps::Steps;
use crate::connection::lane::Lane;
use crate::connection::{Connection, Sending, State};
use crate::reply::Reply;
use crate::script::{Role, Script};
use crate::sql::SqlText;
use crate::statement::Text;
use crate::statement::controls::CONTROLS;

/// An operation in progress.
pub(crate) struct Running {
    pub(crate) lane: Arc<Lane>,
    /// The numbers of its connection and exchange; `None` if it is not sent yet.
    pub(crate) exchange: Option<(u64, u64)>,
    pub(crate) stage: Stage,
    pub(crate) script: Script,
    pub(crate) roles: Vec<Role>,
    pub(crate) reply: Reply,
    pub(crate) until: Instant,
    pub(crate) tries: u32,
    pub(crate) has_yielded: bool,
    pub(crate) writes: bool,
    pub(crate) in_transaction: bool,
    /// True for a batch whose writes are executed separately.
    pub(crate) is_each: bool,
    pub(crate) is_begin: bool,
    pub(crate) is_commit: bool,
    /// True if it is several exchanges in one transaction and needs an exclusive lane.
    pub(crate) wants_lane: bool,
    /// True if a batch has begun its transaction.
    has_begun: bool,
    /// The raw SQL statement being described.
    pub(crate) describes: Option<Arc<Text>>,
    /// The description of that statement.
    pub(crate) sql: Option<Arc<SqlText>>,
    /// True for SQL that must only read, in a transaction that may write.
    pub(crate) is_held_to_reading: bool,
    /// True if it may share its Sync with other operations of its turn.
    pub(crate) shares_sync: bool,
    /// True for a read that may take long.
    pub(crate) may_be_long: bool,
    /// True if it has an exclusive lane, which must be given back.
    pub(crate) has_lane: bool,
    /// True if the cancellation of another operation may have hit it.
    pub(crate) may_be_cancelled: bool,
    /// Its place in the queue for a lane, a connection or its turn.
    pub(crate) place: OwnedPlace,
    /// A batch of several steps, each of which is an operation.
    pub(crate) steps: Option<Box<Steps>>,
    /// The batch that it is a step of.
    pub(crate) of_batch: Option<Ticket>,
}

impl Running {
    pub(crate) fn new(lane: &Arc<Lane>) -> Self {
        Self {
            lane: Arc::clone(lane),
            exchange: None,
            stage: Stage::Main,
            script: Script::default(),
            roles: Vec::new(),
            reply: Reply::default(),
            until: Instant::now(),
            tries: 0,
            has_yielded: false,
            writes: false,
            in_transaction: false,
            is_each: false,
            is_begin: false,
            is_commit: false,
            wants_lane: false,
            has_begun: false,
            describes: None,
            sql: None,
            is_held_to_reading: false,
            shares_sync: false,
            may_be_long: false,
            has_lane: false,
            may_be_cancelled: false,
            place: OwnedPlace::default(),
            steps: None,
            of_batch: None,
        }
    }

    /// Starts another operation with the buffers of the last one.
    pub(crate) fn begin(
        &mut self,
        lane: &Arc<Lane>,
        stage: Stage,
        until: Instant,
        in_transaction: bool,
    ) {
        let mut fresh = Self { stage, until, in_transaction, ..Self::new(lane) };
        std::mem::swap(&mut fresh.script, &mut self.script);
        std::mem::swap(&mut fresh.roles, &mut self.roles);
        std::mem::swap(&mut fresh.reply, &mut self.reply);
        *self = fresh;
        self.script.clear();
        self.reply.clear();
    }

    /// Returns the approximate memory of its buffers.
    pub(crate) fn bytes(&self) -> usize {
        self.script.parameters.capacity() + self.reply.bytes()
    }

    /// Adds the messages of its stage to a connection.
    pub(crate) fn send(&mut self, connection: &mut Connection) {
        self.reply.clear();
        self.roles.clear();
        let (guarded, only_reads) = (self.is_guarded(), self.is_held_to_reading);
        let (describes, in_transaction) = (self.describes.clone(), self.in_transaction);
        let (stage, script, roles) = (&self.stage, &self.script, &mut self.roles);
        let (is_each, has_begun) = (self.is_each, &mut self.has_begun);
        let is_exclusive = self.has_lane;
        let failed = connection.state() == State::Failed;
        let all = 0..script.calls.len();
        let controls = &*CONTROLS;
        let build = |sending: &mut Sending<'_>| {
            let mut exchange = Exchange { sending, roles };
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
                        exchange.order(script.in_order, is_exclusive);
                    }
                    exchange.calls(script, all, false);
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
                Stage::Look(problem) => look(&mut exchange, script, problem, guarded, failed),
                Stage::Recover(_) => {
                    if guarded && is_each {
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
                Stage::Each => each(&mut exchange, script, guarded),
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
                    exchange.calls(script, all, false);
                    let end = if guarded { &controls.release_batch } else { &controls.commit };
                    exchange.control(end);
                    exchange.sync();
                }
                Stage::Linked(linked) => {
                    let opens = !*has_begun;
                    *has_begun = true;
                    link(&mut exchange, script, linked, guarded, opens);
                }
                Stage::Control => {
                    exchange.calls(script, all, false);
                    exchange.sync();
                }
            }
        };
        let number = match self.shares_sync {
            true => connection.submit_shared(build),
            false => connection.submit(build),
        };
        if self.may_be_long {
            connection.may_be_long(number);
        }
        self.exchange = Some((connection.number(), number));
    }

    /// Returns true if its failures are rolled back separately, in a transaction.
    pub(crate) const fn is_guarded(&self) -> bool {
        self.in_transaction && (self.writes || self.is_held_to_reading)
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
    matches!(operation, Operation::Get { .. } | Operation::List { .. } | Operation::Count { .. })
}

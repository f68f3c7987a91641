//! The operations that begin and end the transaction of a session.

use std::sync::Arc;
use std::task::Waker;

use marmota_model::{FieldSet, Result};
use marmota_store::engine::Submitted;
use marmota_store::operation::Operation;
use marmota_store::refusal;

use super::open_transaction::Open;
use super::{PostgresSession, Step};
use crate::commands::command_batch::Role;
use crate::connection::State;
use crate::connection::cancel;
use crate::fault;
use crate::in_flight::{Access, InFlightOperation, SlotUse, Stage, Task};
use crate::statement::controls::CONTROLS;
use crate::statement::{Text, Verb};

impl PostgresSession {
    /// Submits a transaction statement; completes it at once if possible.
    pub(super) fn control(&mut self, operation: &Operation<'_>) -> Option<Result<Submitted>> {
        let step = match operation {
            Operation::Begin => return Some(self.begin()),
            Operation::Rollback => return Some(self.roll_back()),
            Operation::Commit => "COMMIT".to_owned(),
            Operation::Savepoint(number) => format!("SAVEPOINT s{number}"),
            Operation::Release(number) => format!("RELEASE s{number}"),
            Operation::RollbackTo(number) => format!("ROLLBACK TO s{number}"),
            _ => return None,
        };
        Some(self.submit_control(operation, &step))
    }

    fn begin(&mut self) -> Result<Submitted> {
        if self.transaction.is_some() {
            return Err(refusal::transaction_is_open());
        }
        self.shared.check_open()?;
        let mut running = self.running(Stage::Control);
        running.access = Access::Write;
        running.task = Task::Begin;
        Ok(Submitted::Waiting(self.operations.add(running)))
    }

    fn roll_back(&mut self) -> Result<Submitted> {
        if self.transaction.is_none() {
            return Err(refusal::no_transaction());
        }
        self.end(true);
        Ok(Submitted::Done)
    }

    fn submit_control(&mut self, operation: &Operation<'_>, step: &str) -> Result<Submitted> {
        let Some(open) = &mut self.transaction else { return Err(refusal::no_transaction()) };
        if open.is_lost {
            if matches!(operation, Operation::Commit) {
                self.end(true);
            }
            return Err(fault::lost_race());
        }
        let known = |open: &Open, number: &u32| open.savepoints.iter().position(|s| s == number);
        match operation {
            Operation::Savepoint(number) => open.savepoints.push(*number),
            Operation::Release(number) | Operation::RollbackTo(number) => {
                let Some(at) = known(open, number) else { return Err(refusal::no_savepoint()) };
                let kept = usize::from(matches!(operation, Operation::RollbackTo(_)));
                open.savepoints.truncate(at + kept);
            }
            _ => {}
        }
        let mut running = self.running(Stage::Control);
        if matches!(operation, Operation::Commit) {
            running.task = Task::Commit;
        }
        let shape = step.as_bytes();
        let text =
            self.composer
                .texts
                .find(Verb::Control, u32::MAX, FieldSet::EMPTY, 0, shape, || Text::plain(step));
        running.commands.call(Role::Main(0), text, |_| Ok(0))?;
        Ok(Submitted::Waiting(self.operations.add(running)))
    }

    /// Takes a free connection, and begins a transaction on it.
    pub(super) fn begin_step(&mut self, running: &mut InFlightOperation, waker: &Waker) -> Step {
        if let Some(step) = self.take_slot(running, waker) {
            return step;
        }
        let slot = Arc::clone(&running.slot);
        let mut inside = slot.lock();
        let Some(connection) = inside.working() else {
            return match self.wait_for_connection(running, &slot, &mut inside, waker) {
                Ok(()) => Step::Wait,
                Err(error) => Step::Done(Err(error)),
            };
        };
        if !connection.is_quiet(waker) {
            return self.wait_for_quiet(running, &inside, waker);
        }
        // Its answer is not waited for: it arrives before that of the first operation, and is sent
        // with it.
        let number = connection.submit(|sending| {
            sending.call(&CONTROLS.begin, 0, &[]);
            if let Some(settings) = sending.settings() {
                sending.call(&settings, 0, &[]);
            }
            sending.sync();
        });
        connection.abandon(number);
        running.slot_use = SlotUse::Shared;
        self.begun += 1;
        self.transaction = Some(Open {
            number: self.begun,
            connection: connection.number(),
            slot: Arc::clone(&slot),
            savepoints: Vec::new(),
            has_actor: false,
            is_lost: false,
            busy: None,
            batch: None,
            waiting: Arc::clone(&self.waiting),
        });
        Step::Done(Ok(()))
    }

    /// Ends the transaction, and gives its connection back; `undoes` is true if it is still open on
    /// the server.
    pub(super) fn end(&mut self, undoes: bool) {
        let Some(open) = self.transaction.take() else { return };
        let mut inside = open.slot.lock();
        if let Some(connection) = inside.connection.as_mut()
            && connection.number() == open.connection
            && (undoes || connection.state() != State::Idle)
        {
            if connection.under_way() > 0 {
                let exchange = (connection.number(), connection.current());
                cancel::watch(&open.slot, &self.shared.options, exchange);
            }
            let number = connection.submit(|sending| {
                sending.call(&CONTROLS.rollback, 0, &[]);
                sending.sync();
            });
            connection.abandon(number);
            connection.flush();
        }
        drop(inside);
        open.waiting.wake_all();
        self.shared.pool.give_back(open.slot);
    }
}

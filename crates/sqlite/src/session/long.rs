//! Operations that use up their budget on the caller's thread: passing them to a helper thread
//! ([`crate::session::offloaded`]), and returning their results.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

use marmota_model::{Error, Result, RowSink};
use marmota_store::Durability;
use marmota_store::engine::{Ticket, caller_blocks};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::refusal;
use marmota_store::wait::QueuePlace;

use super::{Attempt, SqliteSession};
use crate::commit::group_commit::closed;
use crate::executor::read_budget::{Ended, POLL_BUDGET, UsedUp, late};
use crate::session::offloaded::{Finished, Next, OffloadedOperation, OnConnection};
use crate::session::wait::Wait;

impl SqliteSession {
    /// Continues a read of the session's own connection on a helper thread.
    #[cold]
    pub(super) fn continue_read(&mut self, operation: &Operation<'_>, over: UsedUp) -> Attempt {
        let place = if over.lent > 0 {
            let Some(reader) = self.reader.take() else { return Attempt::Done(Err(closed())) };
            if self.shared.helpers.are_busy()
                && let Some(executor) = &*reader.lock()
            {
                executor.connection.release_memory();
            }
            OnConnection::Reader(reader)
        } else {
            if let Some(executor) = self.reader.as_ref().map(|reader| reader.lock()).as_deref_mut()
                && let Some(executor) = executor
            {
                executor.end_hold();
            }
            OnConnection::Any
        };
        self.offload(None, operation, over, place)
    }

    /// Executes a list, count or SQL if the engine has only one connection.
    pub(super) fn read_on_writer(
        &mut self,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Attempt {
        let Some(mut guard) = self.shared.writer.try_lock_owned() else { return Attempt::Wait };
        let Some(executor) = guard.executor() else { return Attempt::Done(Err(closed())) };
        match executor.run_in_budget(operation, sink, outcome) {
            Ended::Done(result) => Attempt::Done(result),
            Ended::Over(over) => self.offload(None, operation, over, OnConnection::Writer(guard)),
            Ended::Late => Attempt::Done(Err(self.read_late())),
        }
    }

    /// Executes a write that may read many rows. It does not join a group: SQL may roll back more
    /// than itself (`OR ROLLBACK`), and so does an interrupted statement.
    pub(super) fn write_in_budget(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Attempt {
        let Some(mut guard) = self.shared.writer.try_lock_owned() else { return Attempt::Wait };
        if self.leaves_disk_to_helper(operation) {
            let over = UsedUp { lent: 0, tables: None };
            return self.offload(durability, operation, over, OnConnection::Writer(guard));
        }
        let Some(executor) = guard.executor() else { return Attempt::Done(Err(closed())) };
        executor.set_actor(self.actor.as_ref());
        match executor.write_in_budget(durability, operation, sink, outcome) {
            Ended::Done(Err(_)) if executor.take_refused() => {
                guard.refused();
                Attempt::Wait
            }
            Ended::Done(result) => {
                guard.begun();
                Attempt::Done(result)
            }
            Ended::Over(over) => {
                self.offload(durability, operation, over, OnConnection::Writer(guard))
            }
            Ended::Late => Attempt::Done(Err(self.read_late())),
        }
    }

    /// Returns true if a helper thread executes a write outside of a group, or a commit, because
    /// such writes wait long for the disk.
    fn leaves_disk_to_helper(&self, operation: &Operation<'_>) -> bool {
        // Tables of other databases are lent on the caller's thread.
        let reads_others = matches!(operation, Operation::Sql { lender: Some(_), .. });
        self.shared.commit_thread.is_slow_alone() && !reads_others && !caller_blocks()
    }

    /// Commits the transaction on a helper thread if the disk is slow.
    pub(super) fn commit_on_helper(&mut self, durability: Option<Durability>) -> Option<Attempt> {
        let is_open = self.executor().is_ok_and(|executor| executor.connection.in_transaction());
        if !is_open || !self.leaves_disk_to_helper(&Operation::Commit) {
            return None;
        }
        let guard = self.transaction.take()?;
        let over = UsedUp { lent: 0, tables: None };
        Some(self.offload(durability, &Operation::Commit, over, OnConnection::Writer(guard)))
    }

    /// Returns the error of a read whose deadline has passed.
    #[cold]
    pub(super) fn read_late(&self) -> Error {
        self.shared.counts.read_timeout();
        late(self.shared.options.read_deadline_ms)
    }

    /// Continues an operation that has used up its budget on a helper thread.
    pub(super) fn offload(
        &mut self,
        durability: Option<Durability>,
        operation: &Operation<'_>,
        over: UsedUp,
        place: OnConnection,
    ) -> Attempt {
        let limit = self.shared.options.read_deadline();
        let limit = limit.filter(|_| !matches!(operation, Operation::Commit));
        let until = limit.map(|limit| Instant::now() + limit);
        let write = (durability, self.actor.clone());
        let offloaded = OffloadedOperation::new(&mut self.tables, operation, over, write, until);
        let offloaded =
            offloaded.and_then(|offloaded| self.shared.reserve_offloaded().map(|()| offloaded));
        let error = match (offloaded, place) {
            (Ok(offloaded), place) => {
                if matches!(place, OnConnection::Transaction(_)) {
                    self.away = Some(Arc::clone(&offloaded));
                }
                offloaded.start(&self.shared, place);
                return Attempt::Offloaded(offloaded);
            }
            (Err(error), OnConnection::Transaction(guard)) => {
                self.transaction = Some(guard);
                error
            }
            (Err(error), OnConnection::Writer(mut guard)) => {
                if let Some(executor) = guard.executor() {
                    executor.end_hold();
                }
                error
            }
            // The connection is closed with its snapshot.
            (Err(error), OnConnection::Reader(_) | OnConnection::Any) => error,
        };
        Attempt::Done(Err(error))
    }

    /// Takes the transaction's connection back from an offloaded operation that has ended.
    pub(super) fn is_back(&mut self) -> bool {
        let Some(guard) = self.away.as_ref().and_then(|offloaded| offloaded.take_guard()) else {
            return false;
        };
        self.transaction = Some(guard);
        self.away = None;
        true
    }

    /// Polls an operation of a transaction whose connection an offloaded operation has.
    pub(super) fn poll_away(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        waker: &Waker,
    ) -> Poll<Result<()>> {
        let Some(Wait::Away { durability }) = self.waiting.get_mut(ticket) else {
            return Poll::Ready(Err(refusal::not_waiting()));
        };
        let durability = *durability;
        if let Some(offloaded) = &self.away {
            offloaded.wait_for_turn(waker);
        }
        match self.attempt(durability, operation, sink, outcome) {
            Attempt::Done(result) => {
                self.forget(ticket);
                Poll::Ready(result)
            }
            Attempt::Away => Poll::Pending,
            Attempt::Offloaded(offloaded) => {
                self.waiting.put(ticket, Wait::Offloaded(offloaded, 0));
                self.poll_offloaded(ticket, operation, sink, outcome, waker)
            }
            Attempt::Locked => {
                let wait = self.locked();
                self.waiting.put(ticket, wait);
                self.poll_locked(ticket, operation, sink, outcome, waker)
            }
            // The transaction has ended meanwhile.
            Attempt::Member(member) => {
                let wait = Self::member(member);
                self.waiting.put(ticket, wait);
                self.poll_member(ticket, outcome, waker)
            }
            Attempt::Wait => {
                let wait =
                    Wait::Turn { until: self.until(), place: QueuePlace::default(), durability };
                self.waiting.put(ticket, wait);
                self.poll_turn(ticket, operation, sink, outcome, waker)
            }
        }
    }

    /// Polls a read on a helper thread: passes the available rows to the sink.
    pub(super) fn poll_offloaded(
        &mut self,
        ticket: Ticket,
        operation: &Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        waker: &Waker,
    ) -> Poll<Result<()>> {
        let Some(Wait::Offloaded(offloaded, so_far)) = self.waiting.get_mut(ticket) else {
            return Poll::Ready(Err(refusal::not_waiting()));
        };
        let began = Instant::now();
        offloaded.name_columns(operation);
        loop {
            match offloaded.next(waker) {
                Next::Rows(rows) => {
                    let (lent, flow) = rows.lend(sink);
                    *so_far += lent;
                    offloaded.give_back(rows);
                    if flow.is_break() {
                        outcome.rows = offloaded.skipped() + *so_far;
                        self.forget(ticket);
                        return Poll::Ready(Ok(()));
                    }
                    if began.elapsed() >= POLL_BUDGET {
                        self.shared.counts.read_yield();
                        waker.wake_by_ref();
                        return Poll::Pending;
                    }
                }
                Next::Ended(ended) => {
                    self.waiting.remove(ticket);
                    return Poll::Ready(ended.map(|Finished { rows, commit }| {
                        (outcome.rows, outcome.commit) = (rows, commit);
                    }));
                }
                Next::Later { is_queued } => {
                    let Some(until) = offloaded.until().filter(|_| is_queued) else {
                        return Poll::Pending;
                    };
                    if began < until {
                        // No helper checks its deadline yet.
                        #[cfg(target_os = "linux")]
                        let _ = marmota_store::engine::wake_at(until, waker.clone());
                        return Poll::Pending;
                    }
                    self.forget(ticket);
                    return Poll::Ready(Err(self.read_late()));
                }
            }
        }
    }
}

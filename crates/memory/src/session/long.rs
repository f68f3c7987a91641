//! Operations that take more than one turn: the work of each of their polls.

use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;

use marmota_model::{Error, ErrorKind, Result, RowSink};
use marmota_store::engine::Ticket;
use marmota_store::operation::{Operation, Outcome};
use marmota_store::refusal;
use smallvec::SmallVec;

use super::{Attempt, Committed, Long, MemorySession, Scan, Waiting, Written, keep};
use crate::catalog::locked_tables::LockedTables;
use crate::read::long_scan::Turn;
use crate::write::long_delete::{DeleteTurn, LongDelete};

impl MemorySession {
    /// Executes one more turn of a long read.
    pub(super) fn poll_scan(
        &mut self,
        ticket: Ticket,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &Context<'_>,
    ) -> Poll<Result<()>> {
        let Waiting { long: Some(Long::Scan(scan)), until, .. } = &mut self.waiting[ticket] else {
            return Poll::Ready(Err(refusal::not_waiting()));
        };
        let turned = match self.shared.check_open() {
            Ok(()) if until.is_some_and(|until| Instant::now() >= until) => Err(late(&self.shared)),
            Ok(()) => scan.long.turn(&scan.rows, sink),
            Err(error) => Err(error),
        };
        if let Ok(Turn::Over) = turned {
            self.leave_turn(context);
            return Poll::Pending;
        }
        self.waiting.remove(ticket);
        Poll::Ready(turned.map(|turn| {
            if let Turn::Done(rows) = turn {
                outcome.rows = rows;
            }
        }))
    }

    /// Executes one more turn of the conditions on related rows of a read; its rows follow.
    pub(super) fn poll_related(
        &mut self,
        ticket: Ticket,
        context: &Context<'_>,
    ) -> Poll<Result<()>> {
        let Waiting { long: Some(Long::Related(related)), until, .. } = &mut self.waiting[ticket]
        else {
            return Poll::Ready(Err(refusal::not_waiting()));
        };
        let turned = match self.shared.check_open() {
            Ok(()) if until.is_some_and(|until| Instant::now() >= until) => Err(late(&self.shared)),
            Ok(()) => related.turn(),
            Err(error) => Err(error),
        };
        match turned {
            Ok(resolved) => {
                if let Some((long, rows)) = resolved {
                    self.waiting[ticket].long = Some(Long::Scan(Scan { long, rows }));
                }
                self.leave_turn(context);
                Poll::Pending
            }
            Err(error) => {
                self.waiting.remove(ticket);
                Poll::Ready(Err(error))
            }
        }
    }

    /// Yields the thread to other tasks, and is polled again after them.
    pub(super) fn leave_turn(&self, context: &Context<'_>) {
        self.shared.read_yields.fetch_add(1, Ordering::Relaxed);
        context.waker().wake_by_ref();
    }

    /// Returns true if a delete of the open transaction needs more turns.
    pub(super) fn is_deleting(&self) -> bool {
        self.waiting.iter().any(|(_, waiting)| match &waiting.long {
            Some(Long::Delete(delete)) => delete.is_in_transaction(),
            _ => false,
        })
    }

    /// Removes the deletes of a transaction that is rolled back.
    pub(super) fn forget_deletes(&mut self) {
        let of_transaction =
            self.waiting.iter().filter_map(|(ticket, waiting)| match &waiting.long {
                Some(Long::Delete(delete)) if delete.is_in_transaction() => Some(ticket),
                _ => None,
            });
        let tickets: SmallVec<[Ticket; 4]> = of_transaction.collect();
        for waiting in tickets.into_iter().filter_map(|ticket| self.waiting.remove(ticket)) {
            let mut place = waiting.gate_place;
            self.shared.gate.forget(&mut place);
        }
    }

    /// Executes one more turn of a long delete.
    pub(super) fn poll_delete(
        &mut self,
        ticket: Ticket,
        operation: &Operation<'_>,
        outcome: &mut Outcome,
        context: &Context<'_>,
    ) -> Poll<Result<()>> {
        let Some(Waiting {
            durability, until, gate_place, long: Some(Long::Delete(delete)), ..
        }) = self.waiting.get_mut(ticket)
        else {
            return Poll::Ready(Err(refusal::not_waiting()));
        };
        let durability = *durability;
        // One that has begun is executed to its end.
        let until = until.filter(|_| !delete.has_begun());
        // It registers before it tries, so that a long statement that ends now wakes it.
        self.shared.gate.register(gate_place, context.waker(), until);
        let is_late = until.is_some_and(|until| Instant::now() >= until);
        let turned = match self.shared.check_open() {
            Ok(()) if is_late => Err(late(&self.shared)),
            Ok(()) => {
                let log = self.transaction.as_mut().map(|transaction| &mut transaction.log);
                delete.turn(self.catalog.load(), log)
            }
            Err(error) => Err(error),
        };
        match turned {
            Ok(DeleteTurn::Over) => {
                self.leave_turn(context);
                return Poll::Pending;
            }
            Ok(DeleteTurn::Kept) => return Poll::Pending,
            _ => {}
        }
        self.shared.gate.forget(&mut self.waiting[ticket].gate_place);
        let Some(Long::Delete(mut delete)) = self.waiting[ticket].long.take() else {
            return Poll::Ready(Err(refusal::not_waiting()));
        };
        let ended = match turned {
            Ok(_) => self.end_delete(&mut delete, false),
            Err(error) => self.end_delete(&mut delete, true).and(Err(error)),
        };
        let ended = ended.map(|committed| {
            *outcome = Outcome::rows(delete.count());
            self.written(committed, durability, outcome)
        });
        if let Ok(Attempt::Written(position)) = ended {
            self.waiting[ticket].written = Some(Written::new(position, operation, outcome));
            return self.poll_written(ticket, outcome, context);
        }
        self.waiting.remove(ticket);
        Poll::Ready(ended.map(drop))
    }

    /// Ends a long delete: releases its tables, or wakes the other operations of the transaction.
    fn end_delete(&mut self, delete: &mut LongDelete, undo: bool) -> Result<Committed> {
        if delete.is_in_transaction() {
            self.shared.gate.wake();
            return Ok(Committed::default());
        }
        let catalog = self.catalog.load();
        let commits = self.shared.commits(catalog, undo)?;
        let mut locked = LockedTables::of_transaction(catalog, delete.tables(), commits);
        let ended = match delete.own_log() {
            Some(log) if undo => log.undo_to(0, &mut locked).map(|()| Committed::default()),
            Some(log) => keep(&self.shared, &mut self.record, &mut self.changes, log, &mut locked),
            None => Ok(Committed::default()),
        };
        delete.tables().for_each(|number| locked.disown(number));
        drop(locked);
        self.shared.gate.open();
        ended
    }

    /// Ends a long delete that was cancelled: if it has removed a row it is executed to its end,
    /// otherwise it is undone.
    pub(super) fn give_up_delete(&mut self, mut delete: Box<LongDelete>) {
        if delete.is_in_transaction() && self.transaction.is_none() {
            return;
        }
        let mut undo = !delete.has_begun();
        while !undo {
            let log = self.transaction.as_mut().map(|transaction| &mut transaction.log);
            match delete.turn(self.catalog.load(), log) {
                Ok(DeleteTurn::Over) => {}
                Ok(DeleteTurn::Done) => break,
                Ok(DeleteTurn::Kept) | Err(_) => undo = true,
            }
        }
        match self.end_delete(&mut delete, undo) {
            Ok(Committed { position, numbered: Some(numbered) }) => {
                self.shared.report(position, None, numbered);
            }
            ended => debug_assert!(ended.is_ok() || self.shared.journal.get().is_some()),
        }
    }
}

/// The error of an operation that took too long.
#[cold]
fn late(shared: &crate::shared::Shared) -> Error {
    shared.read_timeouts.fetch_add(1, Ordering::Relaxed);
    let message = format!(
        "the operation took longer than {} ms: select fewer rows, add an index for its filter and \
         order, or open the database with a higher `read_deadline_ms`",
        shared.read_deadline_ms
    );
    Error::new(ErrorKind::Timeout, message)
}

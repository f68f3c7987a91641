//! Assigns messages to exchanges: every message is processed once, in the order of its arrival, and
//! held for the exchange that it answers.

use std::collections::VecDeque;

use super::{Connection, Exchange, State};
use crate::fault::code;
use crate::wire::backend::{self, BackendMessage};

/// The most bytes of another exchange's answer that are kept before reading stops.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// The most kept bytes that are passed on in one turn.
const TURN_BYTES: usize = 128 << 10;

/// The result of processing the input.
pub(super) enum Routed {
    /// Some messages were assigned.
    Some,
    /// Nothing is left.
    None,
    /// The kept answer of another exchange has reached its limit and must be taken first.
    Full,
}

impl Connection {
    /// Passes the available part of an answer to `take`. Returns false if the rest is left for
    /// another turn, because too much was kept.
    pub(super) fn take(&mut self, place: usize, take: &mut dyn FnMut(BackendMessage<'_>)) -> bool {
        let exchange = &mut self.exchanges[place];
        if !exchange.kept.is_empty() {
            let mut kept = std::mem::take(&mut exchange.kept);
            let mut rest = &kept[..];
            while let Ok(Some((message, taken))) = backend::first(rest) {
                take(message);
                rest = &rest[taken..];
                let given = kept.len() - rest.len();
                if given >= TURN_BYTES && !rest.is_empty() {
                    kept.drain(..given);
                    self.exchanges[place].kept = kept;
                    return false;
                }
            }
        }
        while let Ok(Some((message, taken))) = backend::first(&self.input[exchange.held.clone()]) {
            // Before the sink receives it: one that panics has received it.
            exchange.held.start += taken;
            self.held -= taken;
            take(message);
        }
        true
    }

    /// Assigns available messages to exchanges, and wakes those with complete answers, except the
    /// exchange `number`.
    pub(super) fn route(&mut self, number: u64) -> Routed {
        let mut routed = Routed::None;
        while let Some(current) = self.exchanges.get(self.ended) {
            let is_own = self.first + self.ended as u64 == number;
            if !is_own && current.kept.len() + current.held.len() > KEPT_BYTES_MAX {
                if let Some(waker) = &current.waker {
                    waker.wake_by_ref();
                }
                return Routed::Full;
            }
            match self.step(Some(number)) {
                None => return routed,
                Some(Err(())) => return Routed::Some,
                Some(Ok(())) => routed = Routed::Some,
            }
        }
        // Messages of the server outside of any answer.
        while let Some(Ok(())) = self.step(None) {
            routed = Routed::Some;
        }
        routed
    }

    /// Processes one message, or several rows. Returns `None` if it is not complete.
    pub(super) fn step(&mut self, asking: Option<u64>) -> Option<Result<(), ()>> {
        let (message, taken) = match backend::first(&self.input[self.unread.clone()]) {
            Ok(Some(found)) => found,
            Ok(None) => return None,
            Err(backend::Broken) => {
                self.lose("the server violated the protocol");
                return Some(Err(()));
            }
        };
        let taken = match message {
            // Rows change only what is held, and are most of the messages.
            BackendMessage::DataRow(_) => {
                let rest = self.unread.start + taken..self.unread.end;
                taken + backend::rows_before(&self.input[rest], TURN_BYTES)
            }
            _ => taken,
        };
        let came = self.unread.start..self.unread.start + taken;
        self.unread.start = came.end;
        if let BackendMessage::NotificationResponse(said) = message {
            if let (Some(hears), Ok(said)) = (&mut self.hears, std::str::from_utf8(said.payload)) {
                hears(said);
            }
            return Some(Ok(()));
        }
        if let BackendMessage::ParameterStatus(status) = &message
            && self.ends_with_recovery
            && (status.name, status.value) == (&b"in_hot_standby"[..], &b"off"[..])
        {
            self.lose("the standby was promoted");
            return Some(Err(()));
        }
        if let BackendMessage::ReadyForQuery(_) = message {
            end_skipped(&mut self.exchanges, &mut self.ended);
        }
        let Some(exchange) = self.exchanges.get_mut(self.ended) else {
            if let BackendMessage::ErrorResponse(notice) = message {
                // The server shuts down: a failure that answers nothing.
                let words = notice.field(b'M').unwrap_or_default();
                self.lose(&words);
            }
            return Some(Ok(()));
        };
        let mut skips = false;
        match message {
            BackendMessage::ParseComplete => {
                exchange.parsing.pop_front();
            }
            BackendMessage::ErrorResponse(notice) => {
                if exchange.turns {
                    self.in_order = None;
                }
                if notice.field(b'C').as_deref() == Some(code::STATEMENT_EXISTS) {
                    // A statement with this name is identical to this one.
                    exchange.parsing.pop_front();
                }
                // The rest of the group is skipped, including its Parse messages.
                let group = exchange.groups - exchange.groups_left;
                while let Some(&(statement, of)) = exchange.parsing.front()
                    && of == group
                {
                    self.prepared.remove(&statement);
                    exchange.parsing.pop_front();
                }
                exchange.calls_left = 0;
                skips = exchange.shares_sync && exchange.groups_left == 0;
            }
            BackendMessage::CommandComplete(_) => {
                exchange.calls_left = exchange.calls_left.saturating_sub(1);
            }
            BackendMessage::ReadyForQuery(state) => {
                self.state = match state {
                    b'T' => State::Transaction,
                    b'E' => State::Failed,
                    _ => State::Idle,
                };
                exchange.groups_left = exchange.groups_left.saturating_sub(1);
            }
            _ => {}
        }
        let ends = exchange.groups_left == 0 && exchange.calls_left == 0;
        if exchange.is_wanted {
            // An announcement may be in between.
            let start = if exchange.held.is_empty() { came.start } else { exchange.held.start };
            self.held += came.end - start - exchange.held.len();
            exchange.held = start..came.end;
        }
        if ends {
            let is_asking = asking == Some(self.first + self.ended as u64);
            if !is_asking && let Some(waker) = exchange.waker.take() {
                waker.wake();
            }
            exchange.took = self.used.saturating_duration_since(self.current_since);
            self.current_since = self.used;
            self.ended += 1;
            self.let_go();
        }
        if skips {
            self.skip();
        }
        Some(Ok(()))
    }

    /// Marks the exchanges after a failed one in a group with a shared Sync: the server skips them,
    /// including their Parse messages.
    fn skip(&mut self) {
        for exchange in self.exchanges.iter_mut().skip(self.ended) {
            (exchange.is_skipped, exchange.calls_left) = (true, 0);
            for (statement, _) in exchange.parsing.drain(..) {
                self.prepared.remove(&statement);
            }
            if exchange.groups_left > 0 {
                return;
            }
        }
    }

    /// Removes completed exchanges at the front.
    pub(super) fn let_go(&mut self) {
        while self.ended > 0 && !self.exchanges[0].is_wanted {
            self.exchanges.pop_front();
            self.first += 1;
            self.ended -= 1;
        }
    }

    /// Wakes the next waiting exchange, which must continue reading.
    pub(super) fn pass_on(&mut self) {
        let next = self.exchanges.iter().skip(self.ended).find_map(|one| one.waker.as_ref());
        if let Some(waker) = next {
            // If everything available was read, the watch wakes it; otherwise it is woken at once.
            if self.is_read_out() && self.unread.is_empty() && self.watched.is_some() {
                self.watch.wake(waker);
            } else {
                waker.wake_by_ref();
            }
        }
    }
}

/// Ends the skipped exchanges of a group after the answer to its Sync, except the last one, which
/// has that answer.
fn end_skipped(exchanges: &mut VecDeque<Exchange>, ended: &mut usize) {
    while let Some(exchange) = exchanges.get_mut(*ended)
        && exchange.is_skipped
        && exchange.groups_left == 0
    {
        if let Some(waker) = exchange.waker.take() {
            waker.wake();
        }
        *ended += 1;
    }
}

//! Whose is what has come: every message is looked at once, in the order that
//! it came in, and held for the exchange that it answers.

use std::collections::VecDeque;

use super::{Connection, Exchange, State};
use crate::fault::code;
use crate::wire::backend::{self, Message};

/// So much of another's answer is kept before reading stops.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// So much of what was kept is given in one turn.
const TURN_BYTES: usize = 128 << 10;

/// What became of what has come.
pub(super) enum Routed {
    /// Some of it was handed on.
    Some,
    /// There is nothing more.
    None,
    /// So much of another's answer is kept that it has to be taken first.
    Full,
}

impl Connection {
    /// Gives what has come of an answer to `take`; false if so much was kept
    /// that some of it is for another turn.
    pub(super) fn take(&mut self, place: usize, take: &mut dyn FnMut(Message<'_>)) -> bool {
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
            // Before the sink sees it: one that panics has had it.
            exchange.held.start += taken;
            self.held -= taken;
            take(message);
        }
        true
    }

    /// Finds out whose is what has come, and wakes those whose answer is whole,
    /// but for the exchange that asks.
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
        // Nobody asked for more: a word of the server's beside any answer.
        while let Some(Ok(())) = self.step(None) {
            routed = Routed::Some;
        }
        routed
    }

    /// Looks at one message; none if it has not come whole.
    pub(super) fn step(&mut self, asking: Option<u64>) -> Option<Result<(), ()>> {
        let (message, taken) = match backend::first(&self.input[self.unread.clone()]) {
            Ok(Some(found)) => found,
            Ok(None) => return None,
            Err(backend::Broken) => {
                self.lose("it broke the protocol");
                return Some(Err(()));
            }
        };
        let came = self.unread.start..self.unread.start + taken;
        self.unread.start = came.end;
        if let Message::Announcement(said) = message {
            if let (Some(hears), Ok(said)) = (&mut self.hears, std::str::from_utf8(said.payload)) {
                hears(said);
            }
            return Some(Ok(()));
        }
        if let Message::Ready(_) = message {
            end_skipped(&mut self.exchanges, &mut self.ended);
        }
        let Some(exchange) = self.exchanges.get_mut(self.ended) else {
            if let Message::Failure(notice) = message {
                // The server ends: a failure that answers nothing.
                let words = notice.field(b'M').unwrap_or_default();
                self.lose(&words);
            }
            return Some(Ok(()));
        };
        let mut skips = false;
        match message {
            Message::Parsed => {
                exchange.parsing.pop_front();
            }
            Message::Failure(notice) => {
                if exchange.turns {
                    self.in_order = None;
                }
                if notice.field(b'C').as_deref() == Some(code::STATEMENT_EXISTS) {
                    // By that name there is no other statement than this one.
                    exchange.parsing.pop_front();
                }
                // The rest of the group is skipped, and what it would prepare.
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
            Message::Complete(_) => exchange.calls_left = exchange.calls_left.saturating_sub(1),
            Message::Ready(state) => {
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
            // An announcement may lie in between.
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

    /// An exchange has failed that does not have the Sync of its group: the server skips the others,
    /// and what they would prepare.
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

    /// Lets go of exchanges at the front that are over.
    pub(super) fn let_go(&mut self) {
        while self.ended > 0 && !self.exchanges[0].is_wanted {
            self.exchanges.pop_front();
            self.first += 1;
            self.ended -= 1;
        }
    }

    /// Somebody else has to go on reading.
    pub(super) fn pass_on(&mut self) {
        let next = self.exchanges.iter().skip(self.ended).find_map(|one| one.waker.as_ref());
        if let Some(waker) = next {
            // What has come already is told by nobody again.
            if self.is_dry && self.unread.is_empty() && self.watched.is_some() {
                self.watch.wake(waker);
            } else {
                waker.wake_by_ref();
            }
        }
    }
}

/// The Sync of a group is answered: its skipped exchanges are over, but for the last, which has that
/// answer.
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

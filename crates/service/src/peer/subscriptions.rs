//! The calls that added this side to lists of the peer ([`crate::Subscribers`]). They are repeated
//! on each new connection, because the peer may have lost its lists.

use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};

use super::protocol::Message;

/// The maximum number of lists of one client.
const LISTS_MAX: usize = 1_024;
/// The delay before a call is repeated that the peer was too busy for.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The calls to repeat on each new connection.
#[derive(Default)]
pub(crate) struct Subscriptions {
    calls: Vec<Kept>,
}

struct Kept {
    /// The number of the call, which is part of its message.
    number: u64,
    message: Message,
    /// The number of the list on the current connection.
    list: Option<u64>,
    /// The deadline of the pending answer.
    until: Option<Instant>,
    /// When the call is repeated.
    again: Option<Instant>,
}

impl Subscriptions {
    /// A call has added this side to a list; `message` is the call, if it is still pending.
    pub(crate) fn keep(&mut self, number: u64, list: u64, message: Option<Message>) {
        self.calls.retain(|one| one.number == number || one.list != Some(list));
        if let Some(known) = self.calls.iter_mut().find(|one| one.number == number) {
            known.list = Some(list);
            return;
        }
        let Some(message) = message else { return };
        if self.calls.len() >= LISTS_MAX {
            log::warn!(
                "this client is in {LISTS_MAX} subscriber lists of the server, the limit; further \
                 subscriptions are not restored when the connection is lost"
            );
            return;
        }
        let kept = Kept { number, message, list: Some(list), until: None, again: None };
        self.calls.push(kept);
    }

    /// This side was removed from a list.
    pub(crate) fn forget(&mut self, list: u64) {
        self.calls.retain(|one| one.list != Some(list));
    }

    /// Returns the calls for a new connection.
    pub(crate) fn restore(&mut self, until: Instant) -> Vec<Message> {
        let again = self.calls.iter_mut().map(|one| {
            (one.list, one.until, one.again) = (None, Some(until), None);
            Message::clone(&one.message)
        });
        again.collect()
    }

    /// The connection has ended.
    pub(crate) fn cut(&mut self) {
        for one in &mut self.calls {
            (one.list, one.until, one.again) = (None, None, None);
        }
    }

    /// Returns true while calls of a new connection are pending.
    pub(crate) fn is_restoring(&self) -> bool {
        self.calls.iter().any(|one| one.until.is_some())
    }

    /// Processes the response to such a call; returns the response if it belongs to another call.
    pub(crate) fn settle<T>(&mut self, number: u64, answer: Result<T>) -> Option<Result<T>> {
        let restored = |one: &Kept| one.number == number && one.until.is_some();
        let Some(place) = self.calls.iter().position(restored) else { return Some(answer) };
        let one = &mut self.calls[place];
        one.until = None;
        match answer {
            // It may be in no list now: that is the decision of the called method.
            Ok(_) if one.list.is_some() => {}
            Err(error) if may_do_better(&error) => one.again = Some(Instant::now() + AGAIN_AFTER),
            answer => {
                let why = answer.err().map(|error| format!(": {error}")).unwrap_or_default();
                log::warn!("the server no longer has this client as a subscriber{why}");
                self.calls.remove(place);
            }
        }
        None
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.calls.iter().filter_map(|one| one.until.or(one.again)).min()
    }

    /// Stops waiting for late responses, and returns the calls to repeat.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<Vec<Message>> {
        let mut messages = Vec::new();
        for one in &mut self.calls {
            if one.until.is_some_and(|until| until <= now) {
                // A later response has no effect.
                one.until = None;
            }
            if one.again.is_some_and(|again| again <= now) {
                (one.again, one.until) = (None, Some(now + AGAIN_AFTER));
                messages.push(Message::clone(&one.message));
            }
        }
        (!messages.is_empty()).then_some(messages)
    }
}

fn may_do_better(error: &Error) -> bool {
    error.is_retryable() || matches!(error.kind(), ErrorKind::Busy | ErrorKind::Timeout)
}

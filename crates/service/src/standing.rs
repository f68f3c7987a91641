//! The calls by which this side is in lists of the other one's
//! ([`crate::Subscribers`]): made again on each new connection, because the other
//! side may have forgotten all of them.

use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};

use crate::link::Message;

/// Lists that one client is in at most.
const LISTS_MAX: usize = 1_024;
/// When a call is made again that the other side was too busy for.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Default)]
pub(crate) struct Standing {
    calls: Vec<Kept>,
}

struct Kept {
    /// The call's, which its message names.
    number: u64,
    message: Message,
    /// The list, as this connection's other side numbers it.
    list: Option<u64>,
    /// Until when its answer is waited for.
    until: Option<Instant>,
    /// When it is made again.
    again: Option<Instant>,
}

impl Standing {
    /// A call has put this side into a list; its message is given where it waits
    /// for its answer.
    pub(crate) fn keep(&mut self, number: u64, list: u64, message: Option<Message>) {
        self.calls.retain(|one| one.number == number || one.list != Some(list));
        if let Some(known) = self.calls.iter_mut().find(|one| one.number == number) {
            known.list = Some(list);
            return;
        }
        let Some(message) = message else { return };
        if self.calls.len() >= LISTS_MAX {
            log::warn!(
                "this client is in {LISTS_MAX} lists of its server's; it will not be in the \
                 others when the connection breaks"
            );
            return;
        }
        let kept = Kept { number, message, list: Some(list), until: None, again: None };
        self.calls.push(kept);
    }

    /// This side is in a list no more.
    pub(crate) fn forget(&mut self, list: u64) {
        self.calls.retain(|one| one.list != Some(list));
    }

    /// What is to be called on a new connection.
    pub(crate) fn restore(&mut self, until: Instant) -> Vec<Message> {
        let again = self.calls.iter_mut().map(|one| {
            (one.list, one.until, one.again) = (None, Some(until), None);
            Message::clone(&one.message)
        });
        again.collect()
    }

    /// The connection is gone.
    pub(crate) fn cut(&mut self) {
        for one in &mut self.calls {
            (one.list, one.until, one.again) = (None, None, None);
        }
    }

    /// True while calls of a new connection are not answered yet.
    pub(crate) fn is_restoring(&self) -> bool {
        self.calls.iter().any(|one| one.until.is_some())
    }

    /// Takes the answer to one of them; gives it back if it is another call's.
    pub(crate) fn settle<T>(&mut self, number: u64, answer: Result<T>) -> Option<Result<T>> {
        let restored = |one: &Kept| one.number == number && one.until.is_some();
        let Some(place) = self.calls.iter().position(restored) else { return Some(answer) };
        let one = &mut self.calls[place];
        one.until = None;
        match answer {
            // It may be in no list now: what was called decides that.
            Ok(_) if one.list.is_some() => {}
            Err(error) if may_do_better(&error) => one.again = Some(Instant::now() + AGAIN_AFTER),
            answer => {
                let why = answer.err().map(|error| format!(": {error}")).unwrap_or_default();
                log::warn!("this client is not among its server's subscribers any more{why}");
                self.calls.remove(place);
            }
        }
        None
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.calls.iter().filter_map(|one| one.until.or(one.again)).min()
    }

    /// Gives up waiting, and gives what is to be called again.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<Vec<Message>> {
        let mut messages = Vec::new();
        for one in &mut self.calls {
            if one.until.is_some_and(|until| until <= now) {
                // Its answer may still come, and then changes nothing.
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

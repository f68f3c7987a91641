//! Calls to the peer over successive connections, as JSON-RPC 2.0: the pending calls and their
//! streams. A link does not own a socket; the carrier takes messages to send and passes in
//! responses ([`crate::services::carrier`]).
//!
//! A server's link belongs to one connection and ends with it. A client's link survives its
//! connections: when one breaks, calls that were sent are lost, since they may have been executed,
//! and those that were not sent wait for the next connection.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::refusal::copy_of;
use parking_lot::{Mutex, MutexGuard};

mod agreed;
mod calls;
mod deadline;
mod flow;
mod frame;
mod protocol;
mod pump;
mod standing;
mod streams;
mod terms;
mod waiting;

use agreed::{Agreed, May};
pub(crate) use calls::Asked;
use frame::Frame;
pub(crate) use frame::{FRAME_BYTES_MAX, is_frame};
pub(crate) use protocol::{
    CLIENT, CONTRACT, LEAVE, Message, PATH, RELEASE, SUBSCRIBED, UNSUBSCRIBED, UPGRADE,
};
pub(crate) use pump::Pump;
use standing::Standing;
pub(crate) use streams::Bounds;
use streams::Streams;
pub(crate) use terms::{Known, Terms};
pub(crate) use waiting::Answer;
use waiting::{Settled, WAITING_MAX, Waiting};

/// The maximum number of streamed results.
const RESULTS_MAX: usize = 2 * WAITING_MAX;
/// How long calls that restore subscriptions may delay other calls.
const RESTORING_MAX: Duration = Duration::from_secs(5);

/// The state shared by the callers and the carrier of a link.
#[derive(Clone)]
pub(crate) struct Link(Arc<Mutex<State>>);

struct State {
    presence: Presence,
    /// True if the link survives its connections.
    goes_on: bool,
    /// The number of connections so far.
    connection: u64,
    /// Messages that are valid only on this connection.
    outbox: Vec<Message>,
    /// Calls that were not sent yet, in their order.
    unsent: VecDeque<u64>,
    waiting: HashMap<u64, Waiting>,
    last: u64,
    /// The waker of the carrier.
    carrier: Option<Waker>,
    standing: Standing,
    agreed: Agreed,
    /// The connection on which a stub has its instance.
    stubs: HashMap<u64, u64>,
    streams: Streams,
}

enum Presence {
    Here,
    /// Disconnected: since when, and the last error.
    Away(Instant, Option<Error>),
    Ended(Instant),
}

impl Link {
    /// Creates a link that ends with its connection.
    pub(crate) fn of_one_connection() -> Self {
        Self::new(Presence::Here, false)
    }

    /// Creates a link that survives its connections; it is not connected yet.
    pub(crate) fn lasting() -> Self {
        Self::new(Presence::Away(Instant::now(), None), true)
    }

    fn new(presence: Presence, goes_on: bool) -> Self {
        Self(Arc::new(Mutex::new(State {
            presence,
            goes_on,
            connection: 0,
            outbox: Vec::new(),
            unsent: VecDeque::new(),
            waiting: HashMap::new(),
            last: 0,
            carrier: None,
            standing: Standing::default(),
            agreed: Agreed::default(),
            stubs: HashMap::new(),
            streams: Streams::default(),
        })))
    }

    /// Sends a notification if connected.
    pub(crate) fn notify(&self, method: &str, params: &str) {
        let message =
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params}}}");
        self.answer(message.into_bytes());
    }

    /// Sends a response to the peer if connected.
    pub(crate) fn answer(&self, message: Vec<u8>) {
        let mut state = self.0.lock();
        if matches!(state.presence, Presence::Here) {
            state.outbox.push(Arc::new(message));
            state.wake_carrier();
        }
    }

    /// Notifies the peer that a stub was dropped.
    pub(crate) fn release(&self, service: &str, stub: u64) {
        let had_instance = self.0.lock().stubs.remove(&stub).is_some();
        if had_instance {
            self.notify(RELEASE, &format!("[\"{service}\",{stub}]"));
        }
    }

    /// Processes the response to a call of this side.
    pub(crate) fn settle(&self, number: u64, answer: Result<Answer>) {
        let mut state = self.0.lock();
        let reconnect_timeout = state.waiting.get(&number).map(|waiting| waiting.deadline);
        let settled = match answer {
            Ok(Answer::Value(json)) => Ok(Settled::Value(json)),
            Ok(Answer::Stream(stream)) => match reconnect_timeout {
                Some(reconnect_timeout) => {
                    let bounds = Bounds { streams_max: RESULTS_MAX, reconnect_timeout };
                    state.streams.expect(stream, bounds).map(|(inflow, credit)| {
                        state.say(credit);
                        Settled::Stream(inflow)
                    })
                }
                None => {
                    // The caller has canceled the call.
                    state.say(Frame::Cancel(stream).write());
                    Ok(Settled::Value(Vec::new()))
                }
            },
            Err(error) => Err(error),
        };
        let Some(settled) = state.standing.settle(number, settled) else { return };
        let Some(settled) = state.agreed.settle(number, settled) else { return };
        let waker = state.settle(number, settled);
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// The peer has added this side to the list with that number, by a call.
    pub(crate) fn subscribed(&self, call: u64, list: u64) {
        let mut state = self.0.lock();
        let State { waiting, standing, goes_on, .. } = &mut *state;
        if !*goes_on {
            // A server's link repeats nothing: the peer's message is ignored.
            return;
        }
        let message = waiting.get(&call).filter(|one| one.stub.is_none() && !one.has_streams);
        standing.keep(call, list, message.map(|one| Arc::clone(&one.message)));
    }

    /// The peer has removed this side from a list.
    pub(crate) fn unsubscribed(&self, list: u64) {
        self.0.lock().standing.forget(list);
    }

    /// A connection was made. Sends `hello`, then the calls that restore subscriptions and the
    /// requests for contracts, then the pending calls.
    pub(crate) fn connected(&self, hello: Vec<u8>) {
        let mut state = self.0.lock();
        if matches!(state.presence, Presence::Ended(_)) {
            return;
        }
        state.presence = Presence::Here;
        state.connection += 1;
        state.outbox = vec![Arc::new(hello)];
        let until = Instant::now() + RESTORING_MAX;
        let again = state.standing.restore(until);
        state.outbox.extend(again);
        let State { agreed, last, outbox, .. } = &mut *state;
        outbox.append(&mut agreed.ask(last));
    }

    /// Returns the number of connections so far.
    pub(crate) fn connection(&self) -> u64 {
        self.0.lock().connection
    }

    /// Records that a stub's contract matches; returns false if the connection has changed since
    /// then, so that the contract must be requested again.
    pub(crate) fn agree(&self, connection: u64, terms: Terms) -> bool {
        let mut state = self.0.lock();
        let is_that_one = state.connection == connection;
        // A link of a single connection needs no record.
        if is_that_one && state.goes_on {
            state.agreed.keep(terms);
        }
        is_that_one
    }

    /// The connection has ended. Calls that were sent may have been executed.
    pub(crate) fn cut(&self) {
        let mut state = self.0.lock();
        if !state.goes_on {
            drop(state);
            return self.end();
        }
        if !matches!(state.presence, Presence::Here) {
            return;
        }
        state.presence = Presence::Away(Instant::now(), None);
        state.outbox.clear();
        state.standing.cut();
        let mut again: Vec<u64> = Vec::new();
        let mut gone = Vec::new();
        for (number, one) in &mut state.waiting {
            if !one.is_sent || one.answer.is_some() {
                continue;
            }
            if one.is_retryable {
                one.is_sent = false;
                again.push(*number);
            } else {
                gone.push(*number);
            }
        }
        again.sort_unstable_by(|one, other| other.cmp(one));
        again.into_iter().for_each(|number| state.unsent.push_front(number));
        let State { streams, waiting, .. } = &mut *state;
        let waits = |call| waiting.get(&call).is_some_and(|one: &Waiting| !one.is_sent);
        let cut = streams.cut(waits);
        fail(state, &gone, lost);
        cut.tell();
    }

    /// An attempt to connect has failed. If a retry cannot succeed, pending calls fail now.
    pub(crate) fn unreached(&self, error: Error) {
        let mut state = self.0.lock();
        let Presence::Away(since, why) = &mut state.presence else { return };
        let since = *since;
        let is_final = is_final(&error);
        let copy = copy_of(&error);
        *why = Some(error);
        if is_final {
            let numbers = state.unsent.drain(..).collect::<Vec<_>>();
            fail(state, &numbers, || away(since, Some(&copy)));
        }
    }

    /// Returns true if the peer is currently reachable.
    pub(crate) fn is_here(&self) -> bool {
        matches!(self.0.lock().presence, Presence::Here)
    }

    /// Returns true once the link has ended.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended().is_some()
    }

    /// Returns when the link ended.
    pub(crate) fn ended(&self) -> Option<Instant> {
        match self.0.lock().presence {
            Presence::Ended(at) => Some(at),
            _ => None,
        }
    }

    /// Fails all pending calls, and refuses later ones.
    pub(crate) fn end(&self) {
        let mut state = self.0.lock();
        if matches!(state.presence, Presence::Ended(_)) {
            return;
        }
        state.presence = Presence::Ended(Instant::now());
        let (mut sent, mut unsent) = (Vec::new(), Vec::new());
        for (number, one) in &state.waiting {
            if one.is_sent { sent.push(*number) } else { unsent.push(*number) }
        }
        state.wake_carrier();
        let cut = state.streams.cut(|_| false);
        fail(state, &sent, lost);
        fail(self.0.lock(), &unsent, ended);
        cut.tell();
    }

    /// Registers the carrier's waker; returns the next deadline.
    pub(crate) fn carried_by(&self, carrier: &Waker) -> Option<Instant> {
        let mut state = self.0.lock();
        state.carrier = Some(carrier.clone());
        state.deadline()
    }

    /// Returns when the next call times out.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.0.lock().deadline()
    }

    /// Fails the calls that have timed out.
    pub(crate) fn expire(&self) {
        let now = Instant::now();
        let mut state = self.0.lock();
        if let Some(again) = state.standing.expire(now)
            && matches!(state.presence, Presence::Here)
        {
            state.outbox.extend(again);
        }
        let (frames, late) = state.streams.expire(now);
        frames.into_iter().for_each(|frame| state.say(frame));
        // A waker only queues a task.
        late.into_iter().for_each(Waker::wake);
        let (mut sent, mut unsent) = (Vec::new(), Vec::new());
        for (number, one) in &state.waiting {
            if one.until <= now && one.answer.is_none() {
                if one.is_sent { sent.push(*number) } else { unsent.push(*number) }
            }
        }
        if sent.is_empty() && unsent.is_empty() {
            return;
        }
        let why = match &state.presence {
            Presence::Away(since, why) => away(*since, why.as_ref()),
            _ => {
                let message = "the call could not be sent in time; nothing was done";
                Error::new(ErrorKind::Timeout, message)
            }
        };
        fail(state, &sent, || {
            let message = "the call was not answered in time; the method may or may not have been \
                           executed";
            Error::new(ErrorKind::Timeout, message)
        });
        fail(self.0.lock(), &unsent, || copy_of(&why));
    }

    /// Takes the messages to send now; their calls count as sent.
    pub(crate) fn take_messages(&self) -> Vec<Message> {
        let mut state = self.0.lock();
        if !matches!(state.presence, Presence::Here) {
            return Vec::new();
        }
        let mut messages = std::mem::take(&mut state.outbox);
        // Subscriptions are restored before other calls are sent.
        if state.standing.is_restoring() {
            return messages;
        }
        let (mut strangers, mut held, mut refused) = (Vec::new(), VecDeque::new(), Vec::new());
        let State { unsent, waiting, stubs, connection, agreed, .. } = &mut *state;
        let is_settled = agreed.is_settled();
        while let Some(number) = unsent.pop_front() {
            // A call that was canceled is not sent.
            let Some(one) = waiting.get_mut(&number).filter(|one| one.answer.is_none()) else {
                continue;
            };
            match if is_settled { May::Go } else { agreed.may(one.terms) } {
                May::Go => {}
                May::Wait => {
                    held.push_back(number);
                    continue;
                }
                May::Fail(error) => {
                    refused.push((number, error));
                    continue;
                }
            }
            let lives_here = |stub: u64| *stubs.entry(stub).or_insert(*connection) == *connection;
            if !one.stub.is_none_or(lives_here) {
                strangers.push(number);
                continue;
            }
            one.is_sent = true;
            messages.push(Arc::clone(&one.message));
        }
        *unsent = held;
        // A waker only queues a task.
        for (number, error) in refused {
            state.settle(number, Err(error)).into_iter().for_each(Waker::wake);
        }
        fail(state, &strangers, || {
            let message = "the connection was lost, which ended the instance that this stub \
                           called; create a new stub";
            Error::new(ErrorKind::Lost, message)
        });
        messages
    }
}

impl State {
    fn settle(&mut self, number: u64, answer: Result<Settled>) -> Option<Waker> {
        // The call was canceled.
        let waiting = self.waiting.get_mut(&number)?;
        // A stream that has arrived receives its own end.
        if !matches!(waiting.answer, Some(Ok(Settled::Stream(_)))) {
            waiting.answer = Some(answer);
        }
        waiting.waker.take()
    }

    fn say(&mut self, message: Vec<u8>) {
        if matches!(self.presence, Presence::Here) {
            self.outbox.push(Arc::new(message));
            self.wake_carrier();
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let waits = self.waiting.values().filter(|one| one.answer.is_none());
        let others = self.standing.deadline().into_iter().chain(self.streams.deadline());
        waits.map(|one| one.until).chain(others).min()
    }

    fn wake_carrier(&mut self) {
        // A waker only queues a task.
        self.carrier.take().into_iter().for_each(Waker::wake);
    }
}

impl Presence {
    /// Returns an error if a call cannot be queued.
    fn check(&self) -> Result<()> {
        match self {
            Self::Away(since, Some(error)) if is_final(error) => Err(away(*since, Some(error))),
            Self::Here | Self::Away(..) => Ok(()),
            Self::Ended(_) => Err(ended()),
        }
    }
}

/// Fails calls, and wakes their callers after the lock is released.
fn fail(mut state: MutexGuard<'_, State>, numbers: &[u64], error: impl Fn() -> Error) {
    let wakers: Vec<Waker> =
        numbers.iter().filter_map(|number| state.settle(*number, Err(error()))).collect();
    drop(state);
    wakers.into_iter().for_each(Waker::wake);
}

/// Returns true for an error that a retry cannot fix.
fn is_final(error: &Error) -> bool {
    use ErrorKind::{Busy, Io, Lost, Refused, Timeout};
    !matches!(error.kind(), Busy | Io | Lost | Refused | Timeout)
}

#[cold]
pub(crate) fn lost() -> Error {
    let message = "the connection was lost before the answer was received; the method may or may \
                   not have been executed";
    Error::new(ErrorKind::Lost, message)
}

#[cold]
fn ended() -> Error {
    Error::new(ErrorKind::Refused, "the connection is closed; nothing was done")
}

/// Returns the error for a call that was not sent.
#[cold]
fn away(since: Instant, why: Option<&Error>) -> Error {
    let kind = why.filter(|error| is_final(error)).map_or(ErrorKind::Refused, Error::kind);
    let why = why.map(|error| format!(": {}", error.message())).unwrap_or_default();
    let message = format!(
        "the connection was lost {} ms ago and is not restored yet{why}; nothing was done",
        since.elapsed().as_millis()
    );
    Error::new(kind, message)
}

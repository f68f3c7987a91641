//! The peer at the other end of a connection: calls to it over successive connections, as JSON-RPC
//! 2.0, with their streams. A [`Peer`] owns no socket: [`crate::services::peer_calls`] takes its
//! messages to send and passes in the responses.
//!
//! A server's peer belongs to one connection and ends with it. A client's peer outlives its
//! connections: when one breaks, calls that were sent are lost, since they may have been executed,
//! and those that were not sent wait for the next connection. A server that ends the connection
//! notifies its client before; then calls without an answer were not executed, and wait too.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::refusal::copy_of;
use parking_lot::{Mutex, MutexGuard};

use super::contract_check::{ContractCheck, May};
use super::frame::Frame;
use super::pending_call::{Answer, PendingCall, Settled, WAITING_MAX};
use super::protocol::{Message, RELEASE};
use super::streams::{Bounds, Streams};
use super::subscriptions::Subscriptions;
use super::terms::Terms;

/// The maximum number of streamed results.
const RESULTS_MAX: usize = 2 * WAITING_MAX;
/// How long calls that restore subscriptions may delay other calls.
const RESTORING_MAX: Duration = Duration::from_secs(5);

/// The peer at the other end of a client's successive connections, or of a server's connection.
#[derive(Clone)]
pub(crate) struct Peer(pub(super) Arc<Mutex<PeerState>>);

pub(super) struct PeerState {
    pub(super) presence: Presence,
    /// True if the peer outlives its connections.
    pub(super) is_lasting: bool,
    /// The number of connections so far.
    pub(super) connection: u64,
    /// Messages that are valid only on this connection.
    pub(super) outbox: Vec<Message>,
    /// Calls that were not sent yet, in their order.
    pub(super) unsent: VecDeque<u64>,
    pub(super) waiting: HashMap<u64, PendingCall>,
    pub(super) last: u64,
    /// The waker of the task that runs the connection.
    pub(super) runner: Option<Waker>,
    pub(super) subscriptions: Subscriptions,
    pub(super) contracts: ContractCheck,
    /// The instances of stubs.
    pub(super) stubs: HashMap<u64, StubInstance>,
    pub(super) streams: Streams,
}

/// The instance of a stub at the peer.
#[derive(Clone, Copy)]
pub(super) struct StubInstance {
    /// The connection that it belongs to.
    connection: u64,
    /// The call that has created it.
    call: u64,
}

/// Whether the peer is connected.
pub(super) enum Presence {
    Here,
    /// Disconnected: since when, and the last error.
    Away(Instant, Option<Error>),
    Ended(Instant),
}

impl Peer {
    /// Creates a peer that ends with its connection.
    pub(crate) fn of_one_connection() -> Self {
        Self::new(Presence::Here, false)
    }

    /// Creates a peer that outlives its connections; it is not connected yet.
    pub(crate) fn lasting() -> Self {
        Self::new(Presence::Away(Instant::now(), None), true)
    }

    fn new(presence: Presence, is_lasting: bool) -> Self {
        Self(Arc::new(Mutex::new(PeerState {
            presence,
            is_lasting,
            connection: 0,
            outbox: Vec::new(),
            unsent: VecDeque::new(),
            waiting: HashMap::new(),
            last: 0,
            runner: None,
            subscriptions: Subscriptions::default(),
            contracts: ContractCheck::default(),
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
            state.wake_runner();
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
                        state.send(credit);
                        Settled::Stream(inflow)
                    })
                }
                None => {
                    // The caller has canceled the call.
                    state.send(Frame::Cancel(stream).write());
                    Ok(Settled::Value(Vec::new()))
                }
            },
            Err(error) => Err(error),
        };
        let Some(settled) = state.subscriptions.settle(number, settled) else { return };
        let Some(settled) = state.contracts.settle(number, settled) else { return };
        let waker = state.settle(number, settled);
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// The peer has added this side to the list with that number, by a call.
    pub(crate) fn subscribed(&self, call: u64, list: u64) {
        let mut state = self.0.lock();
        let PeerState { waiting, subscriptions, is_lasting, .. } = &mut *state;
        if !*is_lasting {
            // Only a client repeats calls: the peer's message is ignored.
            return;
        }
        let message = waiting.get(&call).filter(|one| one.stub.is_none() && !one.has_streams);
        subscriptions.keep(call, list, message.map(|one| Arc::clone(&one.message)));
    }

    /// The peer has removed this side from a list.
    pub(crate) fn unsubscribed(&self, list: u64) {
        self.0.lock().subscriptions.forget(list);
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
        let again = state.subscriptions.restore(until);
        state.outbox.extend(again);
        let PeerState { contracts, last, outbox, .. } = &mut *state;
        outbox.append(&mut contracts.requests(last));
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
        // A peer of a single connection needs no record.
        if is_that_one && state.is_lasting {
            state.contracts.keep(terms);
        }
        is_that_one
    }

    /// The connection has ended. The peer may have executed calls that it has not answered, unless
    /// it `was_leaving`.
    pub(crate) fn cut(&self, was_leaving: bool) {
        let mut state = self.0.lock();
        if !state.is_lasting {
            drop(state);
            return self.end();
        }
        if !matches!(state.presence, Presence::Here) {
            return;
        }
        state.presence = Presence::Away(Instant::now(), None);
        state.outbox.clear();
        state.subscriptions.cut();
        let mut again: Vec<u64> = Vec::new();
        let mut gone = Vec::new();
        let PeerState { waiting, stubs, .. } = &mut *state;
        for (number, one) in waiting {
            if !one.is_sent || one.answer.is_some() {
                continue;
            }
            if one.is_retryable || was_leaving {
                one.is_sent = false;
                again.push(*number);
                // The instance was not created.
                if let Some(stub) = one.stub
                    && stubs.get(&stub).is_some_and(|instance| instance.call == *number)
                {
                    stubs.remove(&stub);
                }
            } else {
                gone.push(*number);
            }
        }
        again.sort_unstable_by(|one, other| other.cmp(one));
        again.into_iter().for_each(|number| state.unsent.push_front(number));
        let PeerState { streams, waiting, .. } = &mut *state;
        let waits = |call| waiting.get(&call).is_some_and(|one: &PendingCall| !one.is_sent);
        let cut = streams.cut(waits);
        fail(state, &gone, lost);
        cut.wake();
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

    /// Returns true once the peer has ended: no further connection is made.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended().is_some()
    }

    /// Returns when the peer ended.
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
        state.wake_runner();
        let cut = state.streams.cut(|_| false);
        fail(state, &sent, lost);
        fail(self.0.lock(), &unsent, ended);
        cut.wake();
    }

    /// Sets the waker of the task that runs the connection; returns the next deadline.
    pub(crate) fn run_by(&self, runner: &Waker) -> Option<Instant> {
        let mut state = self.0.lock();
        state.runner = Some(runner.clone());
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
        if let Some(again) = state.subscriptions.expire(now)
            && matches!(state.presence, Presence::Here)
        {
            state.outbox.extend(again);
        }
        let (frames, late) = state.streams.expire(now);
        frames.into_iter().for_each(|frame| state.send(frame));
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
        if state.subscriptions.is_restoring() {
            return messages;
        }
        let (mut strangers, mut held, mut refused) = (Vec::new(), VecDeque::new(), Vec::new());
        let PeerState { unsent, waiting, stubs, connection, contracts, .. } = &mut *state;
        let is_settled = contracts.is_settled();
        while let Some(number) = unsent.pop_front() {
            // A call that was canceled is not sent.
            let Some(one) = waiting.get_mut(&number).filter(|one| one.answer.is_none()) else {
                continue;
            };
            match if is_settled { May::Go } else { contracts.may(one.terms) } {
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
            let lives_here = |stub: u64| {
                let instance = StubInstance { connection: *connection, call: number };
                stubs.entry(stub).or_insert(instance).connection == *connection
            };
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

impl PeerState {
    pub(super) fn settle(&mut self, number: u64, answer: Result<Settled>) -> Option<Waker> {
        // The call was canceled.
        let waiting = self.waiting.get_mut(&number)?;
        // A stream that has arrived receives its own end.
        if !matches!(waiting.answer, Some(Ok(Settled::Stream(_)))) {
            waiting.answer = Some(answer);
        }
        waiting.waker.take()
    }

    pub(super) fn send(&mut self, message: Vec<u8>) {
        if matches!(self.presence, Presence::Here) {
            self.outbox.push(Arc::new(message));
            self.wake_runner();
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let waits = self.waiting.values().filter(|one| one.answer.is_none());
        let others = self.subscriptions.deadline().into_iter().chain(self.streams.deadline());
        waits.map(|one| one.until).chain(others).min()
    }

    pub(super) fn wake_runner(&mut self) {
        // A waker only queues a task.
        self.runner.take().into_iter().for_each(Waker::wake);
    }
}

impl Presence {
    /// Returns an error if a call cannot be queued.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Away(since, Some(error)) if is_final(error) => Err(away(*since, Some(error))),
            Self::Here | Self::Away(..) => Ok(()),
            Self::Ended(_) => Err(ended()),
        }
    }
}

/// Fails calls, and wakes their callers after the lock is released.
fn fail(mut state: MutexGuard<'_, PeerState>, numbers: &[u64], error: impl Fn() -> Error) {
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

//! A place for a connection: established at its first use, replaced when it was lost, shared by all
//! holders of the slot.

use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind};
use marmota_store::backoff::Backoff;
use marmota_store::engine::wake_at;
use marmota_store::wait::{OwnedPlace, WaitQueue};
use parking_lot::{Mutex, MutexGuard};

use super::Connection;
use super::connector::{self, Purpose, SHARED_LOCK_TIMEOUT};
use super::no_connection::NoConnection;
use crate::options::PostgresOptions;

/// The first pause between two attempts, and the longest.
const PAUSE: Duration = Duration::from_millis(25);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How often a connection that is to be closed is checked for operations under way.
const CLOSE_PAUSE: Duration = Duration::from_millis(1);

/// After this time without an answer on a connection for writes, other operations no longer join
/// it. Usually longer than a commit waits for a disk.
pub(crate) const STALL: Duration = SHARED_LOCK_TIMEOUT;

/// After this time, a list or count is sent on a separate connection the next time. Some turns of a
/// busy thread are longer than [`STALL`], and answers that arrive meanwhile seem to have taken as
/// long.
pub(crate) const LONG: Duration = STALL.saturating_mul(4);

/// A place for a connection.
#[derive(Default)]
pub(crate) struct ConnectionSlot(Mutex<SlotState>);

/// The state of a slot.
#[derive(Default)]
pub(crate) struct SlotState {
    pub(crate) connection: Option<Connection>,
    connecting: bool,
    /// The reason why the last attempt failed.
    refused: Option<NoConnection>,
    /// The latest time until which a caller waits for a connection.
    until: Option<Instant>,
    /// Operations that wait for a connection.
    waiting: Arc<WaitQueue>,
    /// True while a cancel request is sent: nothing else is sent meanwhile, so that the request
    /// hits nothing else.
    pub(crate) is_cancelling: bool,
    pub(crate) is_closed: bool,
    purpose: Purpose,
    /// True if an alarm is set that checks for exchanges after a long read.
    looks_again: bool,
}

/// Checks for exchanges after a long read, on the thread of the alarms.
struct LooksAgain {
    slot: Weak<ConnectionSlot>,
    after: Duration,
}

impl Wake for LooksAgain {
    fn wake(self: Arc<Self>) {
        let Some(slot) = self.slot.upgrade() else { return };
        let Some(mut inside) = slot.try_lock() else {
            // The slot is in use, for a turn at most.
            let _ = wake_at(Instant::now() + Duration::from_millis(1), Waker::from(self));
            return;
        };
        inside.looks_again = false;
        let Some(connection) = &inside.connection else { return };
        // An operation that finds no other connection sets the alarm again.
        if connection.is_at_long(self.after) {
            connection.wake_after_long();
        } else if connection.has_waiters_after_long() {
            inside.wake_again(&slot, self.after);
        }
    }
}

impl ConnectionSlot {
    /// Creates a slot without a connection.
    pub(crate) fn new(purpose: Purpose) -> Self {
        Self(Mutex::new(SlotState { purpose, ..SlotState::default() }))
    }

    /// Creates a slot with an exclusive connection.
    pub(crate) fn with(connection: Connection) -> Self {
        Self(Mutex::new(SlotState { connection: Some(connection), ..SlotState::default() }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.0.lock()
    }

    /// Like [`Self::lock`], or `None` if it is locked.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, SlotState>> {
        self.0.try_lock()
    }

    /// Closes the connection as soon as nothing is under way on it, at `until` at the latest.
    /// Drops the connection, so that the next operation makes another one. For a slot without
    /// operations.
    pub(crate) fn reset(&self) {
        if let Some(mut connection) = self.lock().connection.take() {
            connection.close();
        }
    }

    pub(crate) fn close(&self, until: Instant) {
        loop {
            let mut inside = self.lock();
            inside.is_closed = true;
            let is_cancelling = inside.is_cancelling;
            let Some(connection) = &mut inside.connection else { return };
            let has_answers = connection.wanted() == 0 && !is_cancelling;
            let is_over =
                connection.loss().is_some() || has_answers && connection.is_quiet(Waker::noop());
            if is_over || Instant::now() >= until {
                return connection.close();
            }
            // The slot is not locked meanwhile: operations take their answers, and what was given
            // up is cancelled (`cancel.rs`).
            drop(inside);
            std::thread::sleep(CLOSE_PAUSE);
        }
    }
}

impl SlotState {
    /// Returns the connection if it works.
    pub(crate) fn working(&mut self) -> Option<&mut Connection> {
        if let Some(connection) = &mut self.connection {
            connection.receive_available(self.purpose == Purpose::Reads);
            if connection.loss().is_some() && connection.wanted() == 0 {
                self.connection = None;
            }
        }
        let cancels = self.is_cancelling;
        self.connection.as_mut().filter(|connection| connection.loss().is_none() && !cancels)
    }

    /// Returns the reason for a failed attempt if waiting for a connection is useless.
    pub(crate) fn refusal(&mut self) -> Option<Error> {
        let is_final = self.refused.as_ref().is_some_and(|refused| refused.is_final);
        if is_final && !self.connecting {
            return self.refused.take().map(|refused| refused.error());
        }
        None
    }

    /// Returns the error for a wait that took too long.
    pub(crate) fn too_long(&self, options: &PostgresOptions) -> Error {
        match &self.refused {
            Some(refused) => refused.error(),
            None => Error::new(
                ErrorKind::Busy,
                format!(
                    "no connection to PostgreSQL at {} within {} ms; try again",
                    options.place(),
                    options.acquire_timeout_ms
                ),
            ),
        }
    }

    /// Requests a connection, on a separate thread. Wakes `waker` when it is established, when an
    /// attempt has failed, and at `until`.
    pub(crate) fn want(
        &mut self,
        slot: &Arc<ConnectionSlot>,
        options: &Arc<PostgresOptions>,
        until: Instant,
        place: &mut OwnedPlace,
        waker: &Waker,
    ) {
        self.until = self.until.max(Some(until));
        if self.working().is_some() {
            // It was established after the caller's check.
            return waker.wake_by_ref();
        }
        place.wait_until(&self.waiting, waker, until);
        self.start_connecting(slot, options);
    }

    /// Returns the reason for the failure of the last attempt, or starts another one and returns
    /// [`ErrorKind::Busy`]: for operations that do not wait for a connection.
    #[cold]
    pub(crate) fn connect_later(
        &mut self,
        slot: &Arc<ConnectionSlot>,
        options: &Arc<PostgresOptions>,
    ) -> Error {
        if !self.connecting
            && let Some(refused) = self.refused.take()
        {
            return refused.error();
        }
        self.start_connecting(slot, options);
        let message = format!("not yet connected to PostgreSQL at {}", options.place());
        Error::new(ErrorKind::Busy, message)
    }

    /// Requests a connection, unless there is one or it is being established.
    fn start_connecting(&mut self, slot: &Arc<ConnectionSlot>, options: &Arc<PostgresOptions>) {
        let has_one = self.connection.as_ref().is_some_and(|one| one.loss().is_none());
        if self.connecting || self.is_closed || self.is_cancelling && has_one {
            return;
        }
        // Until the time is over, the previous reason remains the best error.
        self.refused.take_if(|refused| refused.is_final);
        let (slot, options) = (Arc::clone(slot), Arc::clone(options));
        let thread = std::thread::Builder::new().name("marmota-postgres-connect".to_owned());
        let purpose = self.purpose;
        self.connecting = thread.spawn(move || connect(&slot, &options, purpose)).is_ok();
    }

    /// Sets an alarm after which exchanges that follow a long read are woken.
    pub(crate) fn wake_again(&mut self, slot: &Arc<ConnectionSlot>, after: Duration) {
        if !std::mem::replace(&mut self.looks_again, true) {
            let looks = LooksAgain { slot: Arc::downgrade(slot), after };
            let _ = wake_at(Instant::now() + after, Waker::from(Arc::new(looks)));
        }
    }

    /// Wakes all that wait for a connection: they share it.
    pub(crate) fn wake_all(&self) {
        self.waiting.wake_all();
    }
}

/// Tries until it is connected or no caller waits.
fn connect(slot: &ConnectionSlot, options: &PostgresOptions, purpose: Purpose) {
    let mut backoff = Backoff::new(PAUSE, PAUSE_MAX);
    loop {
        let pause = backoff.pause();
        let made = connector::connect(options, purpose);
        let mut inside = slot.lock();
        if inside.is_closed {
            inside.connecting = false;
            return inside.wake_all();
        }
        match made {
            Ok(connection) => {
                inside.connection = Some(connection);
                inside.refused = None;
                inside.until = None;
                inside.connecting = false;
                return inside.wake_all();
            }
            Err(refused) => {
                log::debug!("{}", refused.error());
                let goes_on = !refused.is_final
                    && inside.until.is_some_and(|until| Instant::now() + pause < until);
                inside.refused = Some(refused);
                inside.connecting = goes_on;
                inside.wake_all();
                if !goes_on {
                    inside.until = None;
                    return;
                }
            }
        }
        drop(inside);
        std::thread::sleep(pause);
    }
}

//! A place for a connection: made when it is first wanted, made again when it
//! was lost, shared by whoever has the lane.

use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind};
use marmota_store::backoff::Backoff;
use marmota_store::engine::wake_at;
use marmota_store::wait::{OwnedPlace, WaitQueue};
use parking_lot::{Mutex, MutexGuard};

use crate::connection::Connection;
use crate::connector::{self, NoConnection, Purpose, SHARED_LOCK_TIMEOUT};
use crate::options::Options;

/// The first pause between two attempts, and the longest.
const PAUSE: Duration = Duration::from_millis(25);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How often a connection that is to be closed is checked for operations under way.
const CLOSE_PAUSE: Duration = Duration::from_millis(1);

/// A connection for writes that has given no answer for so long is left to those
/// that wait on it. Longer than a commit waits for a disk, as a rule.
pub(crate) const STALL: Duration = SHARED_LOCK_TIMEOUT;

/// A list or count that took so long is sent on a connection of its own the next time. Some turns
/// of a busy thread are longer than [`STALL`], and what comes meanwhile seems to have taken as long.
pub(crate) const LONG: Duration = STALL.saturating_mul(4);

/// See the module.
#[derive(Default)]
pub(crate) struct Lane(Mutex<Inside>);

/// What is in a lane.
#[derive(Default)]
pub(crate) struct Inside {
    pub(crate) connection: Option<Connection>,
    connecting: bool,
    /// Why the last attempt failed.
    refused: Option<NoConnection>,
    /// Until when somebody waits for a connection.
    until: Option<Instant>,
    /// Operations that wait for a connection.
    waiting: Arc<WaitQueue>,
    /// The server is asked to end what it is at: nothing is sent meanwhile, so
    /// that it meets nothing else.
    pub(crate) is_cancelling: bool,
    pub(crate) is_closed: bool,
    purpose: Purpose,
    /// An alarm is set that checks for exchanges after a long read.
    looks_again: bool,
}

/// Checks for exchanges after a long read, on the thread that rings alarms.
struct LooksAgain {
    lane: Weak<Lane>,
    after: Duration,
}

impl Wake for LooksAgain {
    fn wake(self: Arc<Self>) {
        let Some(lane) = self.lane.upgrade() else { return };
        let Some(mut inside) = lane.try_lock() else {
            // It is in use, for a turn at most.
            let _ = wake_at(Instant::now() + Duration::from_millis(1), Waker::from(self));
            return;
        };
        inside.looks_again = false;
        let Some(connection) = &inside.connection else { return };
        // An operation that finds no other connection sets the alarm again.
        if connection.is_at_long(self.after) {
            connection.wake_behind_long();
        } else if connection.waits_behind_some_long() {
            inside.look_again(&lane, self.after);
        }
    }
}

impl Lane {
    /// A lane without a connection yet.
    pub(crate) fn new(purpose: Purpose) -> Self {
        Self(Mutex::new(Inside { purpose, ..Inside::default() }))
    }

    /// A lane with a connection, which is exclusive.
    pub(crate) fn with(connection: Connection) -> Self {
        Self(Mutex::new(Inside { connection: Some(connection), ..Inside::default() }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock()
    }

    /// The same, if nobody has it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Inside>> {
        self.0.try_lock()
    }

    /// Closes the connection as soon as nothing is under way on it, at `until` at the latest.
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
            // The lane is not locked meanwhile: operations take their answers, and what was given
            // up is cancelled (`giving_up.rs`).
            drop(inside);
            std::thread::sleep(CLOSE_PAUSE);
        }
    }
}

impl Inside {
    /// The connection, if there is one that works.
    pub(crate) fn working(&mut self) -> Option<&mut Connection> {
        if let Some(connection) = &mut self.connection {
            connection.look(self.purpose == Purpose::Reads);
            if connection.loss().is_some() && connection.wanted() == 0 {
                self.connection = None;
            }
        }
        let cancels = self.is_cancelling;
        self.connection.as_mut().filter(|connection| connection.loss().is_none() && !cancels)
    }

    /// Why there is no connection, if it makes no sense to wait for one.
    pub(crate) fn refusal(&mut self) -> Option<Error> {
        let is_final = self.refused.as_ref().is_some_and(|refused| refused.is_final);
        if is_final && !self.connecting {
            return self.refused.take().map(|refused| refused.error());
        }
        None
    }

    /// What to say when the wait for a connection was too long.
    pub(crate) fn too_long(&self, options: &Options) -> Error {
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

    /// Asks for a connection, on a thread of its own; the waker at a place is
    /// woken when there is one, when an attempt has failed, and at `until`.
    pub(crate) fn want(
        &mut self,
        lane: &Arc<Lane>,
        options: &Arc<Options>,
        until: Instant,
        place: &mut OwnedPlace,
        waker: &Waker,
    ) {
        self.until = self.until.max(Some(until));
        if self.working().is_some() {
            // It was made since the caller looked.
            return waker.wake_by_ref();
        }
        place.wait_until(&self.waiting, waker, until);
        let has_one = self.connection.as_ref().is_some_and(|one| one.loss().is_none());
        if self.connecting || self.is_closed || self.is_cancelling && has_one {
            return;
        }
        // Why it could not be reached so far is still the best that can be said if time runs out.
        self.refused.take_if(|refused| refused.is_final);
        let (lane, options) = (Arc::clone(lane), Arc::clone(options));
        let thread = std::thread::Builder::new().name("marmota-postgres-connect".to_owned());
        let purpose = self.purpose;
        self.connecting = thread.spawn(move || connect(&lane, &options, purpose)).is_ok();
    }

    /// Sets an alarm after which exchanges that follow a long read are woken.
    pub(crate) fn look_again(&mut self, lane: &Arc<Lane>, after: Duration) {
        if !std::mem::replace(&mut self.looks_again, true) {
            let looks = LooksAgain { lane: Arc::downgrade(lane), after };
            let _ = wake_at(Instant::now() + after, Waker::from(Arc::new(looks)));
        }
    }

    /// Wakes all that wait for a connection: they share it.
    pub(crate) fn wake_all(&self) {
        self.waiting.wake_all();
    }
}

/// Tries until it is connected, or nobody waits any more.
fn connect(lane: &Lane, options: &Options, purpose: Purpose) {
    let mut backoff = Backoff::new(PAUSE, PAUSE_MAX);
    loop {
        let pause = backoff.pause();
        let made = connector::connect(options, purpose);
        let mut inside = lane.lock();
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

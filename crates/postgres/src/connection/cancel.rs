//! Cancels abandoned operations that still keep the server busy.
//!
//! Most abandoned operations end by themselves before a cancel request could be sent. If the server
//! is still executing one a moment later, it is cancelled by a request over a separate connection.
//! Such a request cancels the current statement of the server process when it arrives. If it hits a
//! later operation on a shared connection, that is sent again (`in_flight/conclusion.rs`); nothing
//! more is sent meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use marmota_store::engine::wake_at;

use crate::connection::ExchangeState;
use crate::connection::connector;
use crate::connection::slot::{ConnectionSlot, SlotState};
use crate::options::PostgresOptions;
use crate::statement::controls::CONTROLS;

/// The time that an abandoned operation may still take before it is cancelled.
const PATIENCE: Duration = Duration::from_millis(50);
/// The most concurrent cancel requests; further ones wait.
const REQUESTS_MAX: usize = 8;

static REQUESTS: AtomicUsize = AtomicUsize::new(0);

/// An abandoned exchange.
struct GivenUp {
    slot: Weak<ConnectionSlot>,
    options: Arc<PostgresOptions>,
    /// The numbers of the connection and the exchange.
    exchange: (u64, u64),
}

/// Cancels an abandoned exchange unless it ends by itself.
pub(crate) fn watch(
    slot: &Arc<ConnectionSlot>,
    options: &Arc<PostgresOptions>,
    exchange: (u64, u64),
) {
    look_later(&Arc::new(GivenUp {
        slot: Arc::downgrade(slot),
        options: Arc::clone(options),
        exchange,
    }));
}

fn look_later(given_up: &Arc<GivenUp>) {
    // Without an alarm, it ends at its statement timeout.
    let _ = wake_at(Instant::now() + PATIENCE, Waker::from(Arc::clone(given_up)));
}

impl Wake for GivenUp {
    fn wake(self: Arc<Self>) {
        let Some(slot) = self.slot.upgrade() else { return };
        let (of, number) = self.exchange;
        // The lock may be held for long, and others wait for this thread.
        let Some(mut inside) = slot.try_lock() else { return look_later(&self) };
        let connection = inside.connection.as_mut().filter(|connection| connection.number() == of);
        match connection.map(|connection| connection.exchange_state(number)) {
            None | Some(ExchangeState::Over) => {}
            Some(ExchangeState::Current) if !inside.is_cancelling && may_begin() => {
                self.end(&slot, &mut inside);
            }
            Some(ExchangeState::Current | ExchangeState::Behind) => look_later(&self),
        }
    }
}

impl GivenUp {
    /// Sends the cancel request on a separate thread.
    fn end(self: &Arc<Self>, slot: &Arc<ConnectionSlot>, inside: &mut SlotState) {
        let key = inside.connection.as_mut().and_then(|connection| connection.cancel());
        let (given_up, slot) = (Arc::clone(self), Arc::clone(slot));
        let asks = move |key| {
            if let Err(error) = connector::cancel(&given_up.options, &key) {
                log::debug!("a canceled statement still runs on the server: {error}");
            }
            REQUESTS.fetch_sub(1, Ordering::AcqRel);
            given_up.cancel_received(&slot);
        };
        let thread = std::thread::Builder::new().name("marmota-postgres-cancel".to_owned());
        inside.is_cancelling = key.is_some_and(|key| thread.spawn(move || asks(key)).is_ok());
        if !inside.is_cancelling {
            REQUESTS.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Called after the request was received: the connection may be used again.
    fn cancel_received(self: &Arc<Self>, slot: &ConnectionSlot) {
        let mut inside = slot.lock();
        inside.is_cancelling = false;
        if let Some(connection) = &mut inside.connection
            && connection.number() == self.exchange.0
        {
            // The request may have hit the rollback of a transaction as well.
            let number = connection.submit(|sending| {
                sending.call(&CONTROLS.rollback, 0, &[]);
                sending.sync();
            });
            connection.abandon(number);
            connection.flush();
        }
        inside.wake_all();
        drop(inside);
        look_later(self);
    }
}

/// Reserves a cancel request. Returns false if too many are in progress.
fn may_begin() -> bool {
    let begins = |requests| (requests < REQUESTS_MAX).then_some(requests + 1);
    REQUESTS.fetch_update(Ordering::AcqRel, Ordering::Acquire, begins).is_ok()
}

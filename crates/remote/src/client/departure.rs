//! Connections abandoned by their sessions with a canceled write or an open transaction to roll
//! back.
//!
//! Later writes must be executed after such a write, so all writes of the engine wait until the
//! server has answered it (`departures.rs`). This does not block a thread: the thread that watches
//! the socket reads the answers ([`Departing`]), and returns the connection to the idle ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::{Context, Wake, Waker};
use std::time::Instant;

use marmota_model::Result;
use marmota_store::engine::{Watch, Watched};
use parking_lot::Mutex;

use super::departures::DEPARTURE_MAX;
use super::engine_state::EngineState;
use super::greeted_connection::GreetedConnection;

/// A connection without a session, and the packets that are awaited.
pub(super) struct Departing {
    state: Arc<EngineState>,
    /// `None` once it has ended.
    leaving: Mutex<Option<Leaving>>,
    /// True if it was woken and has not read yet.
    is_woken: AtomicBool,
}

struct Leaving {
    connection: GreetedConnection,
    /// The numbers of the awaited packets, and of the departures that they end.
    numbers: Vec<(u32, u64)>,
    until: Instant,
    watch: Arc<Watch>,
    watched: Option<Watched>,
}

impl Departing {
    /// Takes over a connection on which these packets are awaited.
    pub(super) fn start(
        state: &Arc<EngineState>,
        connection: GreetedConnection,
        numbers: Vec<(u32, u64)>,
    ) {
        let until = Instant::now() + DEPARTURE_MAX;
        let leaving = Leaving { connection, numbers, until, watch: Arc::default(), watched: None };
        let departing = Self {
            state: Arc::clone(state),
            leaving: Mutex::new(Some(leaving)),
            is_woken: AtomicBool::new(false),
        };
        Arc::new(departing).wake();
    }

    fn advance(self: &Arc<Self>, slot: &mut Option<Leaving>) {
        let Some(leaving) = slot else { return };
        let waker = Waker::from(Arc::clone(self));
        match leaving.receive(&self.state, &waker) {
            Ok(true) => {
                if let Some(leaving) = slot.take() {
                    self.state.give_back(leaving.connection);
                }
            }
            Ok(false) if Instant::now() < leaving.until => {}
            // The server cancels running operations when the connection closes.
            _ => {
                if let Some(leaving) = slot.take() {
                    drop(leaving.connection);
                    end_all(&self.state, leaving.numbers);
                }
            }
        }
    }
}

/// Ends departures whose answers can no longer arrive.
pub(super) fn end_all(state: &EngineState, numbers: Vec<(u32, u64)>) {
    numbers.into_iter().for_each(|(_, departure)| state.departures.end(departure));
}

impl Leaving {
    /// Reads available packets; returns true once all awaited ones have arrived.
    fn receive(&mut self, state: &EngineState, waker: &Waker) -> Result<bool> {
        self.watch.look();
        self.connection.inner.flush()?;
        loop {
            while let Some(packet) = self.connection.inner.next_packet()? {
                let number = packet.number;
                if let Some(at) = self.numbers.iter().position(|(awaited, _)| *awaited == number) {
                    let (_, departure) = self.numbers.swap_remove(at);
                    state.departures.end(departure);
                }
            }
            if self.numbers.is_empty() {
                return Ok(true);
            }
            if !self.connection.inner.receive(&mut Context::from_waker(Waker::noop()))? {
                break;
            }
        }
        match self.connection.inner.source() {
            Some(source) => {
                let is_new = self.watch.keep(source, &mut self.watched);
                if is_new && self.watched.is_some() {
                    // Data may have arrived before.
                    waker.wake_by_ref();
                }
            }
            // An in-process server has answered already or never will. When the connection is
            // dropped, the server cancels running operations.
            None => self.until = Instant::now(),
        }
        Watch::wake(&self.watch, waker);
        self.watch.wake_at(self.until);
        Ok(false)
    }
}

impl Wake for Departing {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// Reads on the thread that wakes it, which is the one that watches the socket. If another
    /// thread is reading, that one reads again.
    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        while self.is_woken.load(Ordering::SeqCst) {
            let Some(mut leaving) = self.leaving.try_lock() else { return };
            self.is_woken.store(false, Ordering::SeqCst);
            self.advance(&mut leaving);
            drop(leaving);
            // Either the other thread gets the lock, or this one sees its flag.
            fence(Ordering::SeqCst);
        }
    }
}

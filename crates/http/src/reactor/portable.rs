//! The portable backend: the crate `polling` over epoll, kqueue or event ports.
//!
//! It is for systems without epoll. A turn takes more system calls than with epoll, and a short
//! read is followed by another one, because the events do not show that a client has closed its
//! side.
//!
//! Another thread wakes the wait by a notification of the poller, so no event counter is needed.
//!
//! Registering is `unsafe`, because a source must be removed before it is closed. All sources are
//! removed by their owners: connections and listeners by the worker
//! ([`crate::server::worker`]), others by [`crate::reactor::readiness_watch`].

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use polling::{Event as PollEvent, Events, PollMode, Poller};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::reactor::event::{Event, LISTENER, Token, Trigger, WAKEUP};

/// A key of `polling` is a `usize`; a token has 64 bits.
const _: () = assert!(size_of::<usize>() == size_of::<Token>(), "needs a 64-bit system");

/// A poller, and whether its thread was woken. Several threads share it.
#[derive(Debug)]
pub(crate) struct SharedPoller {
    poller: Poller,
    /// The thread was woken, and has not seen it yet.
    is_notified: AtomicBool,
}

impl SharedPoller {
    /// Creates a poller without sources.
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self { poller: Poller::new()?, is_notified: AtomicBool::new(false) }))
    }

    /// Ends the wait of the thread, which then reports [`Event::Wakeup`].
    pub(crate) fn notify(&self) {
        // The poller omits a notification if the thread has not seen the last one yet. The thread
        // reads this flag after it has seen one.
        self.is_notified.store(true, Ordering::SeqCst);
        // If it fails, the thread wakes at its next sweep.
        let _ = self.poller.notify();
    }
}

/// A poller, and the events of its last wait.
pub(crate) struct Portable {
    shared: Arc<SharedPoller>,
    /// The events as the poller stores them. It keeps its memory.
    events: Events,
    /// The events by index, with [`WAKEUP`] at the end.
    ready: Vec<PollEvent>,
}

impl Portable {
    /// Returns the waiting side of a poller.
    pub(crate) fn new(shared: Arc<SharedPoller>) -> Self {
        Self { shared, events: Events::new(), ready: Vec::new() }
    }

    /// Registers a source; its events carry the token.
    pub(crate) fn add(&self, source: impl AsFd, token: Token, trigger: Trigger) -> io::Result<()> {
        let key = token as usize;
        let (interest, mode) = match trigger {
            Trigger::Edge => (PollEvent::all(key), PollMode::Edge),
            Trigger::Level | Trigger::Exclusive => (PollEvent::readable(key), PollMode::Level),
        };
        let source = source.as_fd();
        // SAFETY: the descriptor is open, since it is borrowed. Its owner removes it before it
        // closes it, as this file states at its start. The poller uses no memory of the source.
        unsafe { self.shared.poller.add_with_mode(source.as_raw_fd(), interest, mode) }
    }

    /// Removes a source.
    pub(crate) fn remove(&self, source: impl AsFd) {
        // Fails only if it was not registered, which is the wanted state.
        let _ = self.shared.poller.delete(source.as_fd());
    }

    /// Waits for events; `None` waits without a timeout.
    pub(crate) fn wait(&mut self, timeout_ms: Option<u64>) -> io::Result<()> {
        self.events.clear();
        self.ready.clear();
        self.shared.poller.wait(&mut self.events, timeout_ms.map(Duration::from_millis))?;
        self.ready.extend(self.events.iter());
        if self.shared.is_notified.swap(false, Ordering::SeqCst) {
            self.ready.push(PollEvent::none(WAKEUP as usize));
        }
        Ok(())
    }

    /// Returns an event of the last wait.
    pub(crate) fn event(&self, index: usize) -> Option<Event> {
        let event = self.ready.get(index)?;
        Some(match event.key as Token {
            token if token >= LISTENER => Event::of_watch(token),
            token => Event::Ready {
                token,
                readable: event.readable,
                half_closed: false,
                gone: event.is_interrupt() || event.is_err().unwrap_or(false),
            },
        })
    }
}

impl AsFd for Portable {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.poller.as_fd()
    }
}

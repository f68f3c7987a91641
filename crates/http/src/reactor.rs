//! The event loop of a server's thread: waiting for the kernel.
//!
//! A [`Reactor`] is io_uring ([`crate::reactor::ring`]) where the kernel allows it, otherwise a
//! [`crate::reactor::poller`]: epoll ([`crate::reactor::epoll`]), or `polling` on systems without
//! epoll ([`crate::reactor::portable`]). With the ring, the kernel also reads and writes; with a
//! poller, a connection does both itself when its socket is ready. All report the same type of
//! events ([`crate::reactor::event`]), and answers are the same bytes with all.
//!
//! A thread owns its reactor; nothing here is shared between threads but wakers
//! ([`crate::reactor::task`]) and the sources of [`crate::reactor::readiness_watch`]. The folder
//! knows no connection: a source is a number ([`Token`]), and the caller finds what it belongs to.
//!
//! Unsafe code is only in `ring.rs`, `ring/pool.rs`, `portable.rs`, `memory_trimmer.rs` and
//! `thread_policy.rs`.

pub(crate) mod backend;
pub(crate) mod batch_scheduling;
pub(crate) mod bell;
pub(crate) mod descriptors;
#[cfg(target_os = "linux")]
pub(crate) mod epoll;
pub(crate) mod event;
pub(crate) mod log_limit;
#[allow(unsafe_code, reason = "a call of the allocator")]
pub(crate) mod memory_trimmer;
#[cfg(not(target_os = "linux"))]
pub(crate) mod no_ring;
pub(crate) mod poller;
#[allow(unsafe_code, reason = "a registered source must not be closed")]
pub(crate) mod portable;
pub(crate) mod readiness_watch;
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the kernel reads and writes memory by its address")]
pub(crate) mod ring;
pub(crate) mod task;
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "two calls of the system")]
pub(crate) mod thread_policy;

use std::io;

use rustix::fd::{AsFd, OwnedFd};

#[cfg(not(target_os = "linux"))]
pub(crate) use no_ring as ring;

use crate::reactor::backend::{BackendError, ChosenBackend};
use crate::reactor::bell::Bell;
use crate::reactor::event::{Event, LISTENER, Token, Trigger, WAKEUP, WATCHED_SOURCES};
use crate::reactor::poller::Poller;
use crate::reactor::ring::Ring;
use crate::reactor::task::Inbox;

/// The waiting of one thread, by any backend.
pub(crate) enum Reactor {
    /// Reports that sockets are ready.
    Poller(Poller),
    /// Reads and writes, and reports that both are done. In a box, because it is large.
    Ring(Box<Ring>),
}

impl Reactor {
    /// Creates the reactor of the calling thread, by the backend that was chosen for the server.
    /// The inbox wakes it.
    ///
    /// # Errors
    /// The kernel refuses the ring, or has no room for another poller.
    pub(crate) fn new(chosen: ChosenBackend, inbox: &Inbox) -> Result<Self, BackendError> {
        let ring = match chosen {
            ChosenBackend::Ring => Some(Ring::new().map_err(BackendError::Ring)?),
            ChosenBackend::RingOrEpoll => Ring::new().ok(),
            ChosenBackend::Epoll | ChosenBackend::Portable => None,
        };
        let mut reactor = match (ring, &inbox.bell) {
            (Some(ring), _) => Self::Ring(Box::new(ring)),
            (None, Bell::Poller(shared)) => Self::Poller(Poller::wakeable(shared)),
            (None, _) => Self::Poller(Poller::new(chosen).map_err(BackendError::Poller)?),
        };
        if let Some(descriptor) = inbox.bell.descriptor() {
            reactor.add(descriptor, WAKEUP, Trigger::Level).map_err(BackendError::Poller)?;
        }
        Ok(reactor)
    }

    /// Returns the ring, or `None` with a poller.
    pub(crate) fn ring(&mut self) -> Option<&mut Ring> {
        match self {
            Self::Poller(_) => None,
            Self::Ring(ring) => Some(ring),
        }
    }

    /// Returns true if [`Event::Ready`] reports that the client sends no more.
    pub(crate) fn reports_half_close(&self) -> bool {
        match self {
            Self::Poller(poller) => poller.reports_half_close(),
            Self::Ring(_) => true,
        }
    }

    /// Registers a connection for all its events. With the ring, receiving begins at once.
    pub(crate) fn add_connection(&mut self, socket: impl AsFd, token: Token) -> io::Result<()> {
        match self {
            Self::Poller(poller) => poller.add(socket, token, Trigger::Edge),
            Self::Ring(ring) => {
                ring.receive(socket, token);
                Ok(())
            }
        }
    }

    /// Removes a connection before its socket is closed. The ring does this with its operations.
    pub(crate) fn remove_connection(&self, socket: &OwnedFd) {
        if let Self::Poller(poller) = self {
            poller.remove_closing(socket);
        }
    }

    /// Registers the listener with this number: it is reported while connections wait in its queue.
    pub(crate) fn add_listener(&mut self, index: usize, socket: impl AsFd) -> io::Result<()> {
        self.add(socket, LISTENER + index as Token, Trigger::Exclusive)
    }

    /// Registers the thread's other sources: the descriptor of [`crate::reactor::readiness_watch`].
    pub(crate) fn add_watched_sources(&mut self, sources: impl AsFd) -> io::Result<()> {
        self.add(sources, WATCHED_SOURCES, Trigger::Level)
    }

    /// Registers a source that is not a connection.
    fn add(&mut self, source: impl AsFd, token: Token, trigger: Trigger) -> io::Result<()> {
        match self {
            Self::Poller(poller) => poller.add(source, token, trigger),
            Self::Ring(ring) => {
                ring.watch(source, token);
                Ok(())
            }
        }
    }

    /// Removes a listener, before its socket is closed.
    pub(crate) fn remove_listener(&mut self, index: usize, socket: impl AsFd) {
        match self {
            Self::Poller(poller) => poller.remove(socket),
            Self::Ring(ring) => ring.unwatch(LISTENER + index as Token),
        }
    }

    /// Waits for events; `None` waits without a timeout. An interrupted wait is not an error: it
    /// reports no events.
    pub(crate) fn wait(&mut self, timeout_ms: Option<u64>) -> io::Result<()> {
        match self {
            Self::Poller(poller) => poller.wait(timeout_ms),
            Self::Ring(ring) => ring.wait(timeout_ms),
        }
    }

    /// Returns the event with this index of the last wait, or `None` after the last one. Each event
    /// must be taken exactly once, because it can own memory of the ring.
    #[inline]
    pub(crate) fn event(&mut self, index: usize) -> Option<Event> {
        match self {
            Self::Poller(poller) => poller.event(index),
            Self::Ring(ring) => ring.event(index),
        }
    }
}

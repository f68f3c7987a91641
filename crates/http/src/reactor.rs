//! The event loop of a server's thread: waiting for the kernel.
//!
//! A [`Reactor`] is io_uring ([`crate::reactor::ring`]) where the kernel allows it, otherwise epoll
//! ([`crate::reactor::epoll`]). With the ring, the kernel also reads and writes; with epoll, a
//! connection does both itself when epoll reports that its socket is ready. Both report the same
//! type of events ([`crate::reactor::event`]), and answers are the same bytes with both.
//!
//! A thread owns its reactor; nothing here is shared between threads but wakers
//! ([`crate::reactor::task`]) and the sources of [`crate::reactor::readiness_watch`]. The folder
//! knows no connection: a source is a number ([`Token`]), and the caller finds what it belongs to.
//!
//! Unsafe code is only in `ring.rs`, `ring/pool.rs`, `memory_trimmer.rs` and `thread_policy.rs`.

pub(crate) mod backend;
pub(crate) mod batch_scheduling;
pub(crate) mod descriptors;
pub(crate) mod epoll;
pub(crate) mod event;
pub(crate) mod log_limit;
#[allow(unsafe_code, reason = "a call of the allocator")]
pub(crate) mod memory_trimmer;
pub(crate) mod readiness_watch;
#[allow(unsafe_code, reason = "the kernel reads and writes memory by its address")]
pub(crate) mod ring;
pub(crate) mod task;
#[allow(unsafe_code, reason = "two calls of the system")]
pub(crate) mod thread_policy;

use std::io;

use rustix::fd::AsFd;

use crate::reactor::backend::{BackendError, ChosenBackend};
use crate::reactor::epoll::Epoll;
use crate::reactor::event::{Event, LISTENER, WAKEUP, WATCHED_SOURCES};
use crate::reactor::ring::Ring;
use crate::reactor::task::Token;

/// The waiting of one thread, by either backend.
pub(crate) enum Reactor {
    /// Reports that sockets are ready.
    Epoll(Epoll),
    /// Reads and writes, and reports that both are done. In a box, because it is large.
    Ring(Box<Ring>),
}

impl Reactor {
    /// Creates the reactor of the calling thread, by the backend that was chosen for the server.
    ///
    /// # Errors
    /// The kernel refuses the ring, or has no room for another epoll instance.
    pub(crate) fn new(settled: ChosenBackend) -> Result<Self, BackendError> {
        let ring = match settled {
            ChosenBackend::Ring => Some(Ring::new().map_err(BackendError::Ring)?),
            ChosenBackend::RingOrEpoll => Ring::new().ok(),
            ChosenBackend::Epoll => None,
        };
        match ring {
            Some(ring) => Ok(Self::Ring(Box::new(ring))),
            None => Epoll::new().map(Self::Epoll).map_err(BackendError::Epoll),
        }
    }

    /// Returns the ring, or `None` with epoll.
    pub(crate) fn ring(&mut self) -> Option<&mut Ring> {
        match self {
            Self::Epoll(_) => None,
            Self::Ring(ring) => Some(ring),
        }
    }

    /// Registers a connection for all its events. With the ring, receiving begins at once.
    pub(crate) fn add_connection(&mut self, socket: impl AsFd, token: Token) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.add_connection(socket, token),
            Self::Ring(ring) => {
                ring.receive(socket, token);
                Ok(())
            }
        }
    }

    /// Registers the listener with this number: it is reported while connections wait in its queue.
    pub(crate) fn add_listener(&mut self, index: usize, socket: impl AsFd) -> io::Result<()> {
        let token = LISTENER + index as Token;
        match self {
            Self::Epoll(epoll) => epoll.add_listener(socket, token),
            Self::Ring(ring) => {
                ring.watch(socket, token);
                Ok(())
            }
        }
    }

    /// Registers the event counter of the thread's [`Inbox`](crate::reactor::task::Inbox).
    pub(crate) fn add_wakeup(&mut self, counter: impl AsFd) -> io::Result<()> {
        self.add_level(counter, WAKEUP)
    }

    /// Registers the thread's other sources: the descriptor of [`crate::reactor::readiness_watch`].
    pub(crate) fn add_watched_sources(&mut self, sources: impl AsFd) -> io::Result<()> {
        self.add_level(sources, WATCHED_SOURCES)
    }

    /// Registers a source that is reported as long as it is readable.
    fn add_level(&mut self, source: impl AsFd, token: Token) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.add_level(source, token),
            Self::Ring(ring) => {
                ring.watch(source, token);
                Ok(())
            }
        }
    }

    /// Removes a listener, before its socket is closed.
    pub(crate) fn remove_listener(&mut self, index: usize, socket: impl AsFd) {
        match self {
            Self::Epoll(epoll) => epoll.remove(socket),
            Self::Ring(ring) => ring.unwatch(LISTENER + index as Token),
        }
    }

    /// Waits for events; `None` waits without a timeout. An interrupted wait is not an error: it
    /// reports no events.
    pub(crate) fn wait(&mut self, timeout_ms: Option<u64>) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.wait(timeout_ms),
            Self::Ring(ring) => ring.wait(timeout_ms),
        }
    }

    /// Returns the event with this index of the last wait, or `None` after the last one. Each event
    /// must be taken exactly once, because it can own memory of the ring.
    #[inline]
    pub(crate) fn event(&mut self, index: usize) -> Option<Event> {
        match self {
            Self::Epoll(epoll) => epoll.event(index),
            Self::Ring(ring) => ring.event(index),
        }
    }
}

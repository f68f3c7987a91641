//! The thread's event loop: io_uring ([`crate::reactor::ring`]) where the kernel allows it, else
//! epoll ([`crate::reactor::epoll`]). The ring also reads and writes; with epoll, a connection does
//! both itself when epoll reports that it is ready.

pub(crate) mod backend;
pub(crate) mod batch_scheduling;
pub(crate) mod descriptors;
pub(crate) mod epoll;
pub(crate) mod event;
pub(crate) mod log_limit;
#[allow(unsafe_code, reason = "the kernel reads and writes memory by its address")]
pub(crate) mod ring;
#[allow(unsafe_code, reason = "a call of the allocator")]
pub(crate) mod slack;
pub(crate) mod task;
#[allow(unsafe_code, reason = "two calls of the system")]
pub(crate) mod thread_policy;
pub(crate) mod watch;

use std::io;

use rustix::fd::AsFd;

use crate::reactor::backend::{BackendError, Settled};
use crate::reactor::epoll::Epoll;
use crate::reactor::event::{BELL, Event, LISTENER, WATCHES};
use crate::reactor::ring::Ring;
use crate::reactor::task::Token;

pub(crate) enum Reactor {
    Epoll(Epoll),
    Ring(Box<Ring>),
}

impl Reactor {
    pub(crate) fn new(settled: Settled) -> Result<Self, BackendError> {
        let ring = match settled {
            Settled::Ring => Some(Ring::new().map_err(BackendError::Ring)?),
            Settled::RingOrEpoll => Ring::new().ok(),
            Settled::Epoll => None,
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

    /// Registers a connection for all its events.
    pub(crate) fn add_connection(&mut self, socket: impl AsFd, token: Token) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.add_connection(socket, token),
            Self::Ring(ring) => {
                ring.receive(socket, token);
                Ok(())
            }
        }
    }

    /// Registers the listener with this number.
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

    /// Registers an event counter.
    pub(crate) fn add_bell(&mut self, counter: impl AsFd) -> io::Result<()> {
        self.add_level(counter, BELL)
    }

    /// Registers the thread's other sources.
    pub(crate) fn add_watches(&mut self, sources: impl AsFd) -> io::Result<()> {
        self.add_level(sources, WATCHES)
    }

    fn add_level(&mut self, source: impl AsFd, token: Token) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.add_level(source, token),
            Self::Ring(ring) => {
                ring.watch(source, token);
                Ok(())
            }
        }
    }

    pub(crate) fn remove_listener(&mut self, index: usize, socket: impl AsFd) {
        match self {
            Self::Epoll(epoll) => epoll.remove(socket),
            Self::Ring(ring) => ring.unwatch(LISTENER + index as Token),
        }
    }

    /// Waits for events; `None` waits without a timeout.
    pub(crate) fn wait(&mut self, timeout_ms: Option<u64>) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.wait(timeout_ms),
            Self::Ring(ring) => ring.wait(timeout_ms),
        }
    }

    /// Returns an event of the last wait. Each event must be taken exactly once.
    #[inline]
    pub(crate) fn event(&mut self, index: usize) -> Option<Event> {
        match self {
            Self::Epoll(epoll) => epoll.event(index),
            Self::Ring(ring) => ring.event(index),
        }
    }
}

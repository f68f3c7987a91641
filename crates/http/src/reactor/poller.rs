//! Waiting until sources are ready: one type over epoll and the portable backend.
//!
//! The variants differ only in the calls of the system. All others have the same events, and the
//! connection reads and writes in the same way.

use std::io;
use std::sync::Arc;

use rustix::fd::{AsFd, OwnedFd};

use crate::reactor::backend::ChosenBackend;
#[cfg(target_os = "linux")]
use crate::reactor::epoll::Epoll;
use crate::reactor::event::{Event, Token, Trigger};
use crate::reactor::portable::{Portable, SharedPoller};

/// The readiness of many sources, for one thread.
pub(crate) enum Poller {
    /// Calls epoll.
    #[cfg(target_os = "linux")]
    Epoll(Epoll),
    /// Calls what the system has: kqueue, epoll, event ports.
    Portable(Portable),
}

impl Poller {
    /// Creates a poller without sources, for a thread of a server with this backend.
    pub(crate) fn new(chosen: ChosenBackend) -> io::Result<Self> {
        match chosen {
            #[cfg(target_os = "linux")]
            ChosenBackend::Ring | ChosenBackend::RingOrEpoll | ChosenBackend::Epoll => {
                Epoll::new().map(Self::Epoll)
            }
            #[cfg(not(target_os = "linux"))]
            ChosenBackend::Ring | ChosenBackend::RingOrEpoll | ChosenBackend::Epoll => {
                Err(io::ErrorKind::Unsupported.into())
            }
            ChosenBackend::Portable => Ok(Self::Portable(Portable::new(SharedPoller::new()?))),
        }
    }

    /// Creates a poller that the inbox of its thread can wake.
    pub(crate) fn wakeable(shared: &Arc<SharedPoller>) -> Self {
        Self::Portable(Portable::new(Arc::clone(shared)))
    }

    /// Returns true if [`Event::Ready`] reports that the client sends no more. Otherwise only a
    /// read shows it.
    pub(crate) fn reports_half_close(&self) -> bool {
        match self {
            #[cfg(target_os = "linux")]
            Self::Epoll(_) => true,
            Self::Portable(_) => false,
        }
    }

    /// Registers a source; its events carry the token. It must be removed before it is closed.
    pub(crate) fn add(&self, source: impl AsFd, token: Token, trigger: Trigger) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Epoll(epoll) => epoll.add(source, token, trigger),
            Self::Portable(portable) => portable.add(source, token, trigger),
        }
    }

    /// Removes a source.
    pub(crate) fn remove(&self, source: impl AsFd) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Epoll(epoll) => epoll.remove(source),
            Self::Portable(portable) => portable.remove(source),
        }
    }

    /// Removes a connection that is about to be closed. epoll does it without a call.
    pub(crate) fn remove_closing(&self, socket: &OwnedFd) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Epoll(_) => {}
            Self::Portable(portable) => portable.remove(socket),
        }
    }

    /// Waits for events; `None` waits without a timeout. An interrupted wait reports no events.
    pub(crate) fn wait(&mut self, timeout_ms: Option<u64>) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Epoll(epoll) => epoll.wait(timeout_ms),
            Self::Portable(portable) => portable.wait(timeout_ms),
        }
    }

    /// Returns the event with this index of the last wait.
    #[inline]
    pub(crate) fn event(&self, index: usize) -> Option<Event> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Epoll(epoll) => epoll.event(index),
            Self::Portable(portable) => portable.event(index),
        }
    }
}

impl AsFd for Poller {
    /// Returns the descriptor that is readable while sources have events.
    fn as_fd(&self) -> rustix::fd::BorrowedFd<'_> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Epoll(epoll) => epoll.as_fd(),
            Self::Portable(portable) => portable.as_fd(),
        }
    }
}

//! The bell of a server's thread, by which other threads end its wait.

use std::sync::Arc;

#[cfg(target_os = "linux")]
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::BorrowedFd;
#[cfg(target_os = "linux")]
use rustix::fd::{AsFd, OwnedFd};

use crate::reactor::backend::ChosenBackend;
use crate::reactor::portable::SharedPoller;

/// The means by which other threads end a thread's wait.
#[derive(Debug)]
pub(crate) enum Bell {
    /// The thread does not wait in a reactor.
    Silent,
    /// An event counter (eventfd(2)) that the thread's reactor watches.
    #[cfg(target_os = "linux")]
    Counter(OwnedFd),
    /// A notification of the thread's poller.
    Poller(Arc<SharedPoller>),
}

impl Bell {
    /// Creates the bell for a thread with this backend.
    pub(crate) fn new(chosen: ChosenBackend) -> std::io::Result<Self> {
        match chosen {
            #[cfg(target_os = "linux")]
            ChosenBackend::Ring | ChosenBackend::RingOrEpoll | ChosenBackend::Epoll => {
                let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
                Ok(Self::Counter(eventfd(0, flags)?))
            }
            _ => SharedPoller::new().map(Self::Poller),
        }
    }

    /// Returns the descriptor that the thread's reactor must watch, unless the bell is its poller.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Counter(counter) => Some(counter.as_fd()),
            Self::Silent | Self::Poller(_) => None,
        }
    }

    /// Ends the thread's wait, or its next one.
    pub(crate) fn ring(&self) {
        match self {
            Self::Silent => {}
            // A full counter (EAGAIN) is signalled already.
            #[cfg(target_os = "linux")]
            Self::Counter(counter) => {
                let _ = rustix::io::write(counter, &1u64.to_ne_bytes());
            }
            Self::Poller(shared) => shared.notify(),
        }
    }

    /// Takes the signal, after a wait that it has ended.
    pub(crate) fn silence(&self) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Counter(counter) => {
                let _ = rustix::io::read(counter, &mut [0u8; 8]);
            }
            // A poller takes it with its events.
            Self::Silent | Self::Poller(_) => {}
        }
    }
}

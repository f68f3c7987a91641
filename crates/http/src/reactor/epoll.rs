//! The epoll backend: one instance, edge-triggered for connections, which read and write
//! themselves.
//!
//! A connection is registered once, for all events, when it is accepted. It reads until a read is
//! short and writes until a write would block, so it needs no further `epoll_ctl`. Listeners are
//! level-triggered: connections that one turn leaves in the queue are reported in the next, and
//! several threads on one listener wake one at a time (EPOLLEXCLUSIVE).
//!
//! A socket leaves the instance when it is closed. This file owns no socket.

use std::io;
use std::mem::MaybeUninit;

use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::reactor::event::{Event, LISTENER, Token, Trigger};

/// Events taken per turn.
const EVENTS_MAX: usize = 512;

/// An epoll instance, and the events of its last wait.
pub(crate) struct Epoll {
    /// The instance.
    epoll: OwnedFd,
    /// The tokens and flags of the last wait. The list keeps its memory.
    events: Vec<(Token, epoll::EventFlags)>,
}

impl Epoll {
    /// Creates an instance.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(EVENTS_MAX),
        })
    }

    /// Registers a source; its events carry the token.
    pub(crate) fn add(&self, source: impl AsFd, token: Token, trigger: Trigger) -> io::Result<()> {
        use epoll::EventFlags as Flags;
        let flags = match trigger {
            Trigger::Edge => Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET,
            Trigger::Level => Flags::IN,
            Trigger::Exclusive => Flags::IN | Flags::EXCLUSIVE,
        };
        Ok(epoll::add(&self.epoll, source, epoll::EventData::new_u64(token), flags)?)
    }

    /// Removes a source.
    pub(crate) fn remove(&self, socket: impl AsFd) {
        // Fails only if it was not registered, which is the wanted state.
        let _ = epoll::delete(&self.epoll, socket);
    }

    /// Waits for events; `None` waits without a timeout.
    pub(crate) fn wait(&mut self, timeout_ms: Option<u64>) -> io::Result<()> {
        let timeout = timeout_ms.map(|ms| Timespec {
            tv_sec: (ms / 1_000).min(1 << 30) as i64,
            tv_nsec: (ms % 1_000 * 1_000_000) as _,
        });
        self.events.clear();
        // Copied, because a poller moves between threads and the system's type does not.
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((events, _)) => {
                self.events.extend(events.iter().map(|event| (event.data.u64(), event.flags)));
                Ok(())
            }
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns an event of the last wait.
    pub(crate) fn event(&self, index: usize) -> Option<Event> {
        use epoll::EventFlags as Flags;
        let &(token, flags) = self.events.get(index)?;
        Some(match token {
            token if token >= LISTENER => Event::of_watch(token),
            token => Event::Ready {
                token,
                readable: flags.intersects(Flags::IN | Flags::RDHUP),
                half_closed: flags.contains(Flags::RDHUP),
                gone: flags.intersects(Flags::ERR | Flags::HUP),
            },
        })
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

//! The thread's wait for events, by a ring ([`crate::ring`]) where the kernel allows it, else
//! by epoll ([`crate::epoll`]). The ring also reads and writes; a connection on epoll does both
//! by itself when it is told that it can.
//!
//! An event carries 64 bits, of which a connection's [`Token`] uses the slot (low half) and
//! generation (28 bits); the four highest bits are all set for what is not a connection:
//! listeners from [`LISTENER`] upwards, [`BELL`], and [`WATCHES`] for the sources of
//! [`crate::watch`].

use std::io;

use rustix::fd::AsFd;
use rustix::io::Errno;

use crate::backend::Settled;
use crate::epoll::Epoll;
use crate::ring::{Piece, Ring};
use crate::server::ServerError;
use crate::task::Token;

/// The first of the thread's listeners has connections; the next value is the second's.
pub(crate) const LISTENER: Token = 0xF << 60;
/// As many listeners as a thread may have.
pub(crate) const LISTENERS_MAX: usize = 1 << 16;
const LAST_LISTENER: Token = LISTENER + LISTENERS_MAX as Token - 1;
/// Another thread has rung.
pub(crate) const BELL: Token = u64::MAX;
/// Something has happened to another source of the thread.
pub(crate) const WATCHES: Token = u64::MAX - 1;

/// What has happened.
pub(crate) enum Event {
    /// This listener has connections.
    Listener(usize),
    Bell,
    Watches,
    /// Epoll: bytes (an end, an error) can be read, or room may be there.
    Ready {
        token: Token,
        readable: bool,
        half_closed: bool,
        gone: bool,
    },
    /// Ring: bytes have come; without `more` no others will before they are asked for.
    Arrived {
        token: Token,
        piece: Piece,
        more: bool,
    },
    /// Ring: no more bytes come, because of this error or because they have ended.
    Dry {
        token: Token,
        error: Option<Errno>,
    },
    /// Ring: the socket takes bytes again.
    Room {
        token: Token,
    },
    /// Ring: this many bytes of an answer are sent.
    Sent {
        token: Token,
        output: Vec<u8>,
        from: usize,
        result: Result<usize, Errno>,
    },
    Nothing,
}

impl Event {
    /// The event of something that is no connection.
    pub(crate) fn of_watch(token: Token) -> Self {
        match token {
            LISTENER..=LAST_LISTENER => Self::Listener((token - LISTENER) as usize),
            BELL => Self::Bell,
            WATCHES => Self::Watches,
            _ => Self::Nothing,
        }
    }
}

pub(crate) enum Reactor {
    Epoll(Epoll),
    Ring(Box<Ring>),
}

impl Reactor {
    pub(crate) fn new(settled: Settled) -> Result<Self, ServerError> {
        let ring = match settled {
            Settled::Ring => Some(Ring::new().map_err(ServerError::Ring)?),
            Settled::RingOrEpoll => Ring::new().ok(),
            Settled::Epoll => None,
        };
        match ring {
            Some(ring) => Ok(Self::Ring(Box::new(ring))),
            None => Epoll::new().map(Self::Epoll).map_err(ServerError::Thread),
        }
    }

    /// The ring, if there is one.
    pub(crate) fn ring(&mut self) -> Option<&mut Ring> {
        match self {
            Self::Epoll(_) => None,
            Self::Ring(ring) => Some(ring),
        }
    }

    /// Registers a connection for all that can happen to it.
    pub(crate) fn add_connection(&mut self, socket: impl AsFd, token: Token) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.add_connection(socket, token),
            Self::Ring(ring) => {
                ring.receive(socket, token);
                Ok(())
            }
        }
    }

    /// Registers the listener of this number.
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

    /// Waits for events, `None` without end.
    pub(crate) fn wait(&mut self, timeout_ms: Option<u64>) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.wait(timeout_ms),
            Self::Ring(ring) => ring.wait(timeout_ms),
        }
    }

    /// The events of the last wait; each is to be asked for once.
    #[inline]
    pub(crate) fn event(&mut self, index: usize) -> Option<Event> {
        match self {
            Self::Epoll(epoll) => epoll.event(index),
            Self::Ring(ring) => ring.event(index),
        }
    }
}

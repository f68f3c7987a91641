//! Events reported by the kernel, and the numbers of sources that are not connections.
//!
//! An event carries 64 bits, of which a connection's [`Token`] uses the slot (low half) and
//! generation (28 bits). The four highest bits are all set for other sources: listeners from
//! [`LISTENER`] upwards, [`WAKEUP`], and [`WATCHED_SOURCES`] for the sources of [`crate::reactor::readiness_watch`].

use rustix::io::Errno;

use crate::reactor::ring::pool::Piece;
use crate::reactor::task::Token;

/// The thread's first listener; the following values are its other listeners.
pub(crate) const LISTENER: Token = 0xF << 60;
/// The maximum number of listeners of a thread.
pub(crate) const LISTENERS_MAX: usize = 1 << 16;
const LAST_LISTENER: Token = LISTENER + LISTENERS_MAX as Token - 1;
/// Another thread has woken this one.
pub(crate) const WAKEUP: Token = u64::MAX;
/// Another source of the thread has an event.
pub(crate) const WATCHED_SOURCES: Token = u64::MAX - 1;

/// An event of a source.
pub(crate) enum Event {
    /// This listener has new connections.
    Listener(usize),
    Wakeup,
    WatchedSources,
    /// Epoll: bytes (an end, an error) can be read, or the socket may have room.
    Ready {
        token: Token,
        readable: bool,
        half_closed: bool,
        gone: bool,
    },
    /// Ring: bytes have arrived. Without `more` no others arrive until receiving is resumed.
    Received {
        token: Token,
        piece: Piece,
        more: bool,
    },
    /// Ring: no more bytes arrive, because of this error or because they have ended.
    ReceiveStopped {
        token: Token,
        error: Option<Errno>,
    },
    /// Ring: the socket accepts bytes again.
    Writable {
        token: Token,
    },
    /// Ring: the result of sending `output` from `from` on, as a number of bytes.
    Sent {
        token: Token,
        output: Vec<u8>,
        from: usize,
        result: Result<usize, Errno>,
    },
    Nothing,
}

impl Event {
    /// Returns the event of a source that is not a connection.
    pub(crate) fn of_watch(token: Token) -> Self {
        match token {
            LISTENER..=LAST_LISTENER => Self::Listener((token - LISTENER) as usize),
            WAKEUP => Self::Wakeup,
            WATCHED_SOURCES => Self::WatchedSources,
            _ => Self::Nothing,
        }
    }
}

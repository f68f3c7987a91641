//! What a wait for the kernel tells, and how sources that are no connections are numbered.
//!
//! An event carries 64 bits, of which a connection's [`Token`] uses the slot (low half) and
//! generation (28 bits); the four highest bits are all set for what is not a connection:
//! listeners from [`LISTENER`] upwards, [`BELL`], and [`WATCHES`] for the sources of
//! [`crate::reactor::watch`].

use rustix::io::Errno;

use crate::reactor::ring::pool::Piece;
use crate::reactor::task::Token;

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

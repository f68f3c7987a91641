//! The events that a reactor reports, and the numbers of sources that are not connections.
//!
//! An event carries 64 bits, of which a connection's [`Token`] uses the slot (low half) and the
//! generation (28 bits). The four highest bits are all set for other sources: listeners from
//! [`LISTENER`] upwards, [`WAKEUP`], and [`WATCHED_SOURCES`] for the sources of
//! [`crate::reactor::readiness_watch`].
//!
//! A connection that has ended may still get events. Its slot then has another generation, so that
//! the token matches nothing and the event is dropped.

use rustix::io::Errno;

use crate::reactor::ring::Piece;

/// The name of a connection: its slot and the slot's generation. A slot that is reused has another
/// generation, so that a late wake-up does not reach the next connection.
pub(crate) type Token = u64;

/// The thread's first listener; the following values are its other listeners.
pub(crate) const LISTENER: Token = 0xF << 60;
/// The maximum number of listeners of a thread.
pub(crate) const LISTENERS_MAX: usize = 1 << 16;
/// The last listener that a thread can have.
const LAST_LISTENER: Token = LISTENER + LISTENERS_MAX as Token - 1;
/// Another thread has woken this one.
pub(crate) const WAKEUP: Token = u64::MAX;
/// Another source of the thread has an event.
pub(crate) const WATCHED_SOURCES: Token = u64::MAX - 1;

/// When a source is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// When bytes, an end or room arrive: once for each change.
    Edge,
    /// As long as it is readable.
    Level,
    /// As long as it is readable, to one of the threads that wait for it, if the system can do this.
    Exclusive,
}

/// An event of a source. Those of connections differ by backend: a poller reports that a socket is
/// ready, the ring that an operation is done.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only a ring has them"))]
pub(crate) enum Event {
    /// The listener with this number has new connections.
    Listener(usize),
    /// Another thread has left tokens in the thread's inbox.
    Wakeup,
    /// A source that a handler waits for is ready.
    WatchedSources,
    /// Poller: the socket is readable, or may have room.
    Ready {
        /// The connection.
        token: Token,
        /// Bytes, an end or an error can be read.
        readable: bool,
        /// The client sends no more; always false if the poller does not report it.
        half_closed: bool,
        /// The connection is broken or closed on both sides.
        gone: bool,
    },
    /// Ring: bytes have arrived.
    Received {
        token: Token,
        /// The bytes. The piece must be returned to the ring.
        piece: Piece,
        /// False if receiving has stopped and must be resumed.
        more: bool,
    },
    /// Ring: receiving has stopped, because of this error or because the client has ended.
    ReceiveStopped {
        token: Token,
        /// The error; `None` at the end of the client's bytes.
        error: Option<Errno>,
    },
    /// Ring: the socket accepts bytes again.
    Writable { token: Token },
    /// Ring: a send operation is done.
    Sent {
        token: Token,
        /// The buffer, which goes back to the connection.
        output: Vec<u8>,
        /// The index at which the operation began.
        from: usize,
        /// The number of bytes sent, or the error.
        result: Result<usize, Errno>,
    },
    /// An event without a meaning any more, such as that of a cancelled operation.
    Nothing,
}

/// The operations of the ring for a connection, which has to know them when it ends.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only a ring reads them"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operations {
    /// Receiving is in progress.
    pub(crate) receives: bool,
    /// A wait for room is in progress.
    pub(crate) awaits_room: bool,
    /// The number of the send operation.
    pub(crate) sends: Option<u32>,
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

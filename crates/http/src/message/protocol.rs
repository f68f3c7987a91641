//! Another protocol on a connection that HTTP/1.1 has given up, as after 101: bytes in, bytes
//! out. It owns no socket and no timer: the connection reads, sends and keeps the time for it,
//! the same on the ring and on epoll.

use std::fmt;
use std::task::Context;

use crate::body::Body;
use crate::message::thread_locals::ThreadLocals;

/// After an error answer: how long and how much is read from the client and thrown away, so
/// that a reset does not overtake the answer.
pub(crate) const LINGER_MS: u64 = 2_000;
pub(crate) const LINGER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A protocol that has taken over a connection. It is dropped as soon as the connection ends.
pub trait Protocol: 'static {
    /// Does all that can be done now. Called when bytes have come, when what was written has
    /// left, when the turn's waker was woken, at the deadline and when shutdown begins; also
    /// when nothing of it has happened. While more than some 32 KiB wait for the client it is
    /// not called: that is the back-pressure.
    ///
    /// A panic closes the connection.
    fn advance(&mut self, turn: &mut Turn<'_>) -> ProtocolStep;

    /// Bytes that it holds for the client beside the turn's output, and when something of them was
    /// last taken, on [`Turn::now_ms`]'s clock: they count in [`crate::Limits::unread_bytes_max`].
    /// Default: none.
    fn unread(&self) -> Option<(usize, u64)> {
        None
    }

    /// How many bytes of a client's are thrown away after a [`ProtocolStep::Close`] that lingers, before
    /// the connection ends though it sends more: 16 MiB, a message that it had begun.
    fn linger_bytes_max(&self) -> usize {
        LINGER_BYTES_MAX
    }
}

/// What a protocol has for one call.
pub struct Turn<'a> {
    /// What has come and was not used yet.
    pub input: &'a [u8],
    /// To be set: how many bytes of the input are used up. Others come again with the next call.
    pub used: usize,
    /// The client sends no more than that.
    pub ended: bool,
    /// What is to be sent, **append only**.
    pub output: &'a mut Vec<u8>,
    /// A large body behind the output, which is sent from where it lies.
    pub(crate) tail: &'a mut Option<(Body, usize)>,
    /// Its waker has this called again.
    pub context: Context<'a>,
    pub(crate) local: &'a mut ThreadLocals,
}

impl fmt::Debug for Turn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Turn with {} bytes", self.input.len())
    }
}

impl Turn<'_> {
    /// A turn for a protocol that travels within this one: of the same connection, with input and
    /// output of its own.
    pub fn within<'b>(
        &'b mut self,
        input: &'b [u8],
        ended: bool,
        output: &'b mut Vec<u8>,
    ) -> Turn<'b> {
        Turn {
            input,
            used: 0,
            ended,
            output,
            tail: self.tail,
            context: Context::from_waker(self.context.waker()),
            local: self.local,
        }
    }

    /// The time on the clock of deadlines, in milliseconds; as it was when the thread's turn began.
    pub fn now_ms(&self) -> u64 {
        self.local.now_ms
    }

    /// The server takes no more requests: what is under way is to be ended, and the connection.
    pub fn is_draining(&self) -> bool {
        self.local.draining
    }
}

/// What follows a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolStep {
    /// There is more to do once all that was written has left.
    More,
    /// Nothing, until something happens. Bytes are read only if it is `hungry` for them; the
    /// kernel holds the client back otherwise. The sweep calls it at the deadline, which is on
    /// [`Turn::now_ms`]'s clock; `u64::MAX` is none.
    Wait {
        /// Bytes are wanted.
        hungry: bool,
        /// When to be called again though nothing happens.
        deadline_ms: u64,
    },
    /// The end, once all that was written has left; lingering where the client may still send.
    Close {
        /// What the client still sends is thrown away, so that it reads the end.
        linger: bool,
    },
}

/// A protocol on its way to its connection.
pub(crate) struct UpgradedProtocol(pub(crate) Box<dyn Protocol>);

impl fmt::Debug for UpgradedProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UpgradedProtocol")
    }
}

//! Other protocols on a connection that HTTP/1.1 has released, as after 101: bytes in, bytes out.
//!
//! A [`Protocol`] owns no socket and no timer. The connection reads, sends and keeps the time for
//! it, in the same way with all backends. WebSocket and HTTP/2 are protocols of this kind;
//! applications can add their own by [`Response::upgraded`](crate::Response::upgraded).
//!
//! ```text
//! socket -> connection -> Turn::input  -> Protocol::advance -> ProtocolStep
//!                         Turn::output <-
//! ```

use std::fmt;
use std::task::Context;

use crate::body::Body;
use crate::message::thread_locals::ThreadLocals;

/// The time for which the client's bytes are read and dropped after an error answer, in
/// milliseconds, so that a reset of the connection does not overtake the answer.
pub(crate) const LINGER_MS: u64 = 2_000;
/// The maximum number of bytes that are dropped meanwhile.
pub(crate) const LINGER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A protocol that has taken over a connection. It is dropped as soon as the connection ends.
///
/// ```
/// use marmota_http::{Protocol, ProtocolStep, Request, Response, Router, Turn};
///
/// /// Answers each line with its length.
/// struct Lengths;
///
/// impl Protocol for Lengths {
///     fn advance(&mut self, turn: &mut Turn<'_>) -> ProtocolStep {
///         while let Some(end) = turn.input[turn.used..].iter().position(|&byte| byte == b'\n') {
///             turn.output.extend_from_slice(format!("{end}\n").as_bytes());
///             turn.used += end + 1;
///         }
///         match turn.ended {
///             true => ProtocolStep::Close { linger: false },
///             false => ProtocolStep::Wait { hungry: true, deadline_ms: u64::MAX },
///         }
///     }
/// }
///
/// async fn open(_: Request) -> Response {
///     Response::upgraded("lengths", Lengths)
/// }
/// let router = Router::new().get("/lengths", open);
/// ```
pub trait Protocol: 'static {
    /// Does everything that can be done now. It is called when bytes have arrived, when earlier
    /// output was sent, when the turn's waker was woken, at the deadline, and when shutdown begins;
    /// also without any of these. It is not called while more than about 32 KiB wait for the
    /// client: that is the back-pressure.
    ///
    /// A panic closes the connection.
    fn advance(&mut self, turn: &mut Turn<'_>) -> ProtocolStep;

    /// Returns the bytes that the protocol holds for the client in addition to the turn's output,
    /// and the time at which some of them were last taken, on the clock of [`Turn::now_ms`]. They
    /// count in [`Limits::unread_bytes_max`](crate::Limits::unread_bytes_max). Default: `None`.
    fn unread(&self) -> Option<(usize, u64)> {
        None
    }

    /// Returns the number of HTTP requests that the protocol is answering. They are awaited before
    /// routes are replaced ([`RouteChanges`](crate::RouteChanges)). Default: 0.
    fn requests_in_progress(&self) -> u32 {
        0
    }

    /// Returns the maximum number of bytes that are read and dropped after a
    /// [`ProtocolStep::Close`] that lingers: at most the message that the client had begun.
    /// Default: 16 MiB.
    fn linger_bytes_max(&self) -> usize {
        LINGER_BYTES_MAX
    }
}

/// The input and output of one call of [`Protocol::advance`].
///
/// ```
/// use marmota_http::{Protocol, ProtocolStep, Turn};
/// /// Sends back what arrives.
/// struct Echo;
/// impl Protocol for Echo {
///     fn advance(&mut self, turn: &mut Turn<'_>) -> ProtocolStep {
///         turn.output.extend_from_slice(turn.input);
///         turn.used = turn.input.len();
///         match turn.ended || turn.is_draining() {
///             true => ProtocolStep::Close { linger: !turn.ended },
///             false => ProtocolStep::Wait { hungry: true, deadline_ms: turn.now_ms() + 60_000 },
///         }
///     }
/// }
/// # marmota_http::Response::upgraded("echo", Echo);
/// ```
pub struct Turn<'a> {
    /// The bytes that have arrived and were not used yet.
    pub input: &'a [u8],
    /// Set by the protocol: the number of bytes of the input that are used. The others are passed
    /// again in the next call.
    pub used: usize,
    /// True if the client sends no more after the input.
    pub ended: bool,
    /// The bytes to send, **append only**: it may contain earlier ones.
    pub output: &'a mut Vec<u8>,
    /// A large body after the output, which is sent from where it is.
    pub(crate) tail: &'a mut Option<(Body, usize)>,
    /// The waker in it causes another call.
    pub context: Context<'a>,
    /// The routes of the protocol are replaced.
    pub(crate) is_superseded: bool,
    /// The state of the thread.
    pub(crate) local: &'a mut ThreadLocals,
}

impl fmt::Debug for Turn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Turn with {} bytes", self.input.len())
    }
}

impl Turn<'_> {
    /// Returns a turn for a protocol that is carried by this one, on the same connection, with its
    /// own input and output.
    ///
    /// ```
    /// use marmota_http::{Protocol, ProtocolStep, Turn};
    /// /// A protocol in frames of one byte of length and the payload of another protocol.
    /// struct Framed<P>(P);
    /// impl<P: Protocol> Protocol for Framed<P> {
    ///     fn advance(&mut self, turn: &mut Turn<'_>) -> ProtocolStep {
    ///         let Some((&length, rest)) = turn.input.split_first() else {
    ///             return ProtocolStep::Wait { hungry: true, deadline_ms: u64::MAX };
    ///         };
    ///         let Some(payload) = rest.get(..length.into()) else {
    ///             return ProtocolStep::Wait { hungry: true, deadline_ms: u64::MAX };
    ///         };
    ///         let (mut output, ended) = (Vec::new(), turn.ended);
    ///         let step = self.0.advance(&mut turn.within(payload, ended, &mut output));
    ///         turn.used = 1 + payload.len();
    ///         turn.output.push(output.len() as u8);
    ///         turn.output.append(&mut output);
    ///         step
    ///     }
    /// }
    /// ```
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
            is_superseded: self.is_superseded,
            local: self.local,
        }
    }

    /// Returns the time on the clock of deadlines, in milliseconds, when the thread's turn began.
    /// The clock starts with the thread and never goes back.
    ///
    /// ```
    /// use marmota_http::{ProtocolStep, Turn};
    /// /// Waits for bytes, at most 5 s.
    /// fn wait(turn: &Turn<'_>) -> ProtocolStep {
    ///     ProtocolStep::Wait { hungry: true, deadline_ms: turn.now_ms() + 5_000 }
    /// }
    /// ```
    pub fn now_ms(&self) -> u64 {
        self.local.now_ms
    }

    /// Returns true after a shutdown was requested, and when the routes of the connection are
    /// replaced ([`RouteChanges`](crate::RouteChanges)): the protocol ends what is in progress, and
    /// the connection. A shutdown ends the connection in any case after
    /// [`Limits::drain_timeout_ms`](crate::Limits::drain_timeout_ms).
    ///
    /// ```
    /// use marmota_http::{ProtocolStep, Turn};
    /// fn end(turn: &mut Turn<'_>) -> ProtocolStep {
    ///     turn.output.extend_from_slice(b"goodbye\n");
    ///     ProtocolStep::Close { linger: true }
    /// }
    /// fn step(turn: &mut Turn<'_>) -> ProtocolStep {
    ///     match turn.is_draining() {
    ///         true => end(turn),
    ///         false => ProtocolStep::Wait { hungry: true, deadline_ms: u64::MAX },
    ///     }
    /// }
    /// ```
    pub fn is_draining(&self) -> bool {
        self.local.draining || self.is_superseded
    }
}

/// The result of [`Protocol::advance`]: when to call it again, or the end.
///
/// ```
/// use marmota_http::ProtocolStep;
/// // Waits for bytes or a wake-up, without a deadline.
/// let wait = ProtocolStep::Wait { hungry: true, deadline_ms: u64::MAX };
/// // Holds the client back until a wake-up.
/// let full = ProtocolStep::Wait { hungry: false, deadline_ms: u64::MAX };
/// assert_ne!(wait, full);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolStep {
    /// Call again once all output was sent.
    More,
    /// Call again when something happens. Bytes are read only if the protocol is `hungry` for them;
    /// otherwise the kernel holds the client back.
    Wait {
        /// Bytes are wanted.
        hungry: bool,
        /// The time of the next call even if nothing happens, on the clock of [`Turn::now_ms`];
        /// `u64::MAX` for none.
        deadline_ms: u64,
    },
    /// End the connection, once all output was sent.
    Close {
        /// Read and drop bytes that the client still sends, so that it can read the end.
        linger: bool,
    },
}

/// A protocol on its way to its connection, in a response.
pub(crate) struct UpgradedProtocol(pub(crate) Box<dyn Protocol>);

impl fmt::Debug for UpgradedProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UpgradedProtocol")
    }
}

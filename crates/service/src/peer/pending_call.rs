//! Calls to a peer that wait for their responses.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use marmota_model::Result;
use parking_lot::Mutex;

use super::protocol::Message;
use super::streams::Inflow;
use super::terms::Terms;

/// The maximum number of pending calls.
pub(super) const WAITING_MAX: usize = 1_024;

/// A call that waits for its response.
pub(super) struct PendingCall {
    pub(super) message: Message,
    pub(super) terms: Option<Terms>,
    pub(super) stub: Option<u64>,
    pub(super) is_sent: bool,
    /// True if the call may be executed twice.
    pub(super) is_retryable: bool,
    /// True if the call has streams, which cannot be resent.
    pub(super) has_streams: bool,
    pub(super) answer: Option<Result<Settled>>,
    pub(super) waker: Option<Waker>,
    pub(super) until: Instant,
    pub(super) deadline: Duration,
}

/// A response that the caller has not taken yet.
pub(super) enum Settled {
    Value(Vec<u8>),
    Stream(Arc<Mutex<Inflow>>),
}

/// A response of the peer.
pub(crate) enum Answer {
    /// A JSON value.
    Value(Vec<u8>),
    /// The number of a stream.
    Stream(u64),
}

//! Calls to a peer.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result};

use super::deadline::after;
use super::handle::{Peer, lost};
use super::pending_call::{PendingCall, Settled, WAITING_MAX};
use super::stream_pump::{self, StreamPump};
use super::terms::Terms;
use crate::transfer::{ChunkStream, Reply};

/// A call to send.
#[derive(Clone, Copy)]
pub(crate) struct OutgoingCall<'a> {
    pub(crate) method: &'a str,
    /// The parameters as JSON.
    pub(crate) params: &'a [u8],
    /// The contract that a stub's call relies on.
    pub(crate) terms: Option<Terms>,
    pub(crate) stub: Option<u64>,
    pub(crate) deadline: Duration,
    pub(crate) is_retryable: bool,
}

impl Peer {
    /// Calls a method of the peer. The senders of its streams are polled with the call, and then
    /// with the streamed result.
    pub(crate) async fn call(
        &self,
        asked: OutgoingCall<'_>,
        streams: Vec<ChunkStream>,
    ) -> Result<Reply> {
        let (number, first) = self.enqueue(asked, streams.len())?;
        let cancel_on_drop = CancelOnDrop { peer: self, number };
        let called: Arc<str> = asked.method.into();
        let numbered = (first..).zip(streams);
        let mut pumps: Vec<StreamPump> = numbered
            .map(|(number, pieces)| {
                StreamPump::new(self.clone(), number, pieces, Arc::clone(&called))
            })
            .collect();
        let answer = std::future::poll_fn(|context| {
            pumps.retain_mut(|pump| pump.poll(context).is_pending());
            let mut state = self.0.lock();
            let Some(waiting) = state.waiting.get_mut(&number) else {
                return Poll::Ready(Err(lost()));
            };
            match waiting.answer.take() {
                Some(answer) => Poll::Ready(answer),
                None => {
                    waiting.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        });
        let answer = answer.await;
        drop(cancel_on_drop);
        Ok(match answer? {
            Settled::Value(json) => Reply::Value(json),
            Settled::Stream(inflow) => {
                let coming = self.coming(inflow);
                Reply::Stream(if pumps.is_empty() {
                    coming
                } else {
                    stream_pump::with_pumps(pumps, coming)
                })
            }
        })
    }

    /// Queues a call; returns its number and that of its first stream.
    fn enqueue(&self, asked: OutgoingCall<'_>, streams: usize) -> Result<(u64, u64)> {
        let mut state = self.0.lock();
        state.presence.check()?;
        if state.waiting.len() >= WAITING_MAX {
            let message = format!(
                "{WAITING_MAX} calls wait for answers, the limit; wait until \
                                   some are answered"
            );
            return Err(Error::new(ErrorKind::Busy, message));
        }
        state.last += 1;
        let number = state.last;
        let mut numbers = (0..streams).map(|_| state.streams.number(Some(number), asked.deadline));
        let first = numbers.next().unwrap_or_default();
        numbers.for_each(drop);
        let mut message = b"{\"jsonrpc\":\"2.0\",\"method\":".to_vec();
        marmota_model::json::write_string(&mut message, asked.method);
        message.extend_from_slice(b",\"params\":");
        message.extend_from_slice(asked.params);
        if let Some(stub) = asked.stub {
            message.extend_from_slice(format!(",\"stub\":{stub}").as_bytes());
        }
        if streams > 0 {
            message.extend_from_slice(format!(",\"streams\":{first}").as_bytes());
        }
        message.extend_from_slice(format!(",\"id\":{number}}}").as_bytes());
        let waiting = PendingCall {
            message: Arc::new(message),
            terms: asked.terms,
            stub: asked.stub,
            is_sent: false,
            is_retryable: asked.is_retryable && streams == 0,
            has_streams: streams > 0,
            answer: None,
            waker: None,
            until: after(asked.deadline),
            deadline: asked.deadline,
        };
        state.waiting.insert(number, waiting);
        state.unsent.push_back(number);
        state.wake_runner();
        Ok((number, first))
    }
}

/// Cancels a call when dropped.
struct CancelOnDrop<'l> {
    peer: &'l Peer,
    number: u64,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let removed = self.peer.0.lock().waiting.remove(&self.number);
        if let Some(PendingCall { answer: Some(Ok(Settled::Stream(inflow))), .. }) = removed {
            self.peer.forget_stream(&inflow);
        }
    }
}

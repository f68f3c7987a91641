//! An answer's body that is made while it is sent. It is asked for its next piece only when
//! what it made before has left for the kernel, so a slow client holds one buffer of it.

use std::task::{Context, Poll};
use std::time::Duration;

use super::flow::Outgoing;
use super::{Connection, Fate, LINGER_BYTES_MAX, Phase, Timing};
use crate::address::Peer;
use crate::local::ThreadLocals;
use crate::log_limit::LogLimit;
use crate::producer::{Ahead, BodyStream, BoxError};
use crate::task::Task;
use crate::writer::{Framing, Persistence};

/// Bytes made before they are sent, more or less: a producer may overshoot by a piece.
const AHEAD_BYTES: usize = 32 * 1024;
/// How long a client that has closed its side is taken to be waiting for a body that stands
/// still. One that is gone looks the same until something is sent to it.
const QUIET_MS: u64 = 1_000;

/// Room for a chunk's size before it is known: eight digits and their line end.
const SIZE_ROOM: &[u8; 10] = b"00000000\r\n";
/// A chunk up to this length is moved over the digits left free; a longer one keeps zeros there.
const MOVE_BYTES_MAX: usize = 4 * 1024;

/// A body under way.
pub(super) struct Outflow {
    body: BodyStream,
    task: Task,
    framing: Framing,
    persistence: Persistence,
    /// The client did not ask for the end of the connection.
    keep_alive: bool,
    /// The producer waits, and has not woken the connection since.
    stalled: bool,
}

impl Outflow {
    pub(super) fn note_woken(&mut self) {
        self.stalled = false;
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Bytes of memory that the body holds until it has ended.
    pub(super) fn held_bytes(&self) -> usize {
        self.body.held_bytes()
    }

    /// Appends the next bytes of the body, framed, to `out`. `Pending` when there may be more.
    fn make(&mut self, out: &mut Vec<u8>) -> Poll<Result<(), BoxError>> {
        let size_at = out.len();
        if self.framing == Framing::Chunked {
            out.extend_from_slice(SIZE_ROOM);
        }
        let start = out.len();
        let made = self.poll(out);
        if out.len() < start {
            return made;
        }
        let count = out.len() - start;
        match &mut self.framing {
            Framing::Chunked => {
                end_chunk(out, size_at, start);
                if let Poll::Ready(Ok(())) = made {
                    out.extend_from_slice(b"0\r\n\r\n");
                }
            }
            Framing::Length(left) if count as u64 > *left => {
                out.truncate(start + *left as usize);
                return Poll::Ready(Err("it is longer than it was said to be".into()));
            }
            Framing::Length(left) => {
                *left -= count as u64;
                if *left > 0 && matches!(made, Poll::Ready(Ok(()))) {
                    return Poll::Ready(Err("it is shorter than it was said to be".into()));
                }
            }
            Framing::Close => {}
        }
        made
    }

    fn poll(&mut self, out: &mut Vec<u8>) -> Poll<Result<(), BoxError>> {
        self.task.arm();
        let mut context = Context::from_waker(self.task.waker());
        match self.body.poll_ahead(&mut context, out, AHEAD_BYTES) {
            Ahead::More => Poll::Pending,
            Ahead::Stalled => {
                self.stalled = true;
                Poll::Pending
            }
            Ahead::Ended => Poll::Ready(Ok(())),
            Ahead::Failed(error) => Poll::Ready(Err(error)),
        }
    }
}

/// Writes the size of the chunk that lies behind `start` into its room at `size_at`.
fn end_chunk(out: &mut Vec<u8>, size_at: usize, start: usize) {
    let count = out.len() - start;
    if count == 0 {
        return out.truncate(size_at);
    }
    let line = format!("{count:08x}");
    let zeros = line.bytes().take_while(|&digit| digit == b'0').count();
    out[size_at..size_at + line.len()].copy_from_slice(line.as_bytes());
    if count <= MOVE_BYTES_MAX {
        out.drain(size_at..size_at + zeros);
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes to the log that an answer's body has failed.
pub(crate) fn note_cut_off(peer: Peer, error: &BoxError) {
    static LIMIT: LogLimit = LogLimit::new();
    if let Some(left_out) = LIMIT.next() {
        log::warn!(
            "the answer to {peer} was cut off: {error} ({left_out} more since the last line)"
        );
    }
}

impl Connection {
    pub(super) fn start_stream(
        &mut self,
        body: BodyStream,
        framing: Framing,
        persistence: Persistence,
        local: &mut ThreadLocals,
    ) {
        let task = local.take_task();
        task.aim(self.token);
        let persistence = match framing {
            Framing::Close => Persistence::Close,
            _ => persistence,
        };
        let keep_alive = self.request.as_ref().is_none_or(|request| request.0.head.keep_alive);
        let outflow = Outflow { body, task, framing, persistence, keep_alive, stalled: false };
        self.phase = Phase::Streaming(Box::new(outflow));
    }

    /// Makes more of the body, when all that was made before is sent. True at its end.
    pub(super) fn stream(&mut self, local: &mut ThreadLocals) -> bool {
        let Phase::Streaming(outflow) = &mut self.phase else { return false };
        if outflow.stalled || self.sent > 0 || self.output.len() >= AHEAD_BYTES {
            return false;
        }
        if self.output.capacity() == 0 {
            self.output = local.take_output();
        }
        self.timing = Timing::None;
        match outflow.make(&mut self.output) {
            Poll::Pending => false,
            Poll::Ready(Ok(())) => {
                let (persistence, keep_alive) = (outflow.persistence, outflow.keep_alive);
                let more = self.request.as_ref().is_some_and(|request| request.0.unread() > 0);
                self.phase = match persistence {
                    Persistence::Close if keep_alive || more => {
                        Phase::Closing { linger_bytes: LINGER_BYTES_MAX }
                    }
                    Persistence::Close => Phase::Closing { linger_bytes: 0 },
                    _ => Phase::Head,
                };
                self.end_upload();
                true
            }
            Poll::Ready(Err(error)) => {
                note_cut_off(self.peer, &error);
                if let Some(observer) = &local.observer {
                    observer.note_cut_off();
                }
                self.cut_off();
                true
            }
        }
    }

    /// Ends an answer whose body cannot be ended, so that the client can tell.
    fn cut_off(&mut self) {
        if let Some(link) = &mut self.link {
            link.cut_off();
        }
        if let Phase::Streaming(outflow) = &self.phase
            && outflow.framing == Framing::Close
        {
            // Only a reset tells a client of HTTP/1.0. If there is none to be had the client
            // has gone already.
            let _ = rustix::net::sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
        }
        self.phase = Phase::Closing { linger_bytes: 0 };
    }

    /// All that was made is sent, and the producer waits: gives back what is not needed, and
    /// looks whether the client is still there.
    pub(super) fn stand_still(&mut self, local: &mut ThreadLocals) -> Fate {
        local.give_output(std::mem::take(&mut self.output));
        if self.upload.is_none()
            && self.request.as_ref().is_some_and(|request| request.0.unread() == 0)
            && let Some(request) = self.request.take()
        {
            local.give_exchange(request);
        }
        let heartbeat = match &self.phase {
            Phase::Streaming(outflow) => outflow.body.heartbeat(),
            _ => None,
        };
        match heartbeat {
            _ if self.half_closed || self.ended => {
                if self.timing != Timing::Quiet {
                    self.set_deadline(Timing::Quiet, local.now_ms + QUIET_MS);
                }
            }
            Some(heartbeat) => {
                if self.timing != Timing::Heartbeat {
                    self.set_deadline(Timing::Heartbeat, local.now_ms + heartbeat.after_ms);
                }
            }
            None => self.timing = Timing::None,
        }
        Fate::Keep
    }

    /// Sends what says that the answer goes on.
    pub(super) fn beat(&mut self, local: &mut ThreadLocals) -> Fate {
        self.timing = Timing::None;
        if let Phase::Streaming(outflow) = &self.phase
            && let Some(heartbeat) = outflow.body.heartbeat()
            && self.output.is_empty()
            && self.outgoing == Outgoing::Nothing
        {
            if self.output.capacity() == 0 {
                self.output = local.take_output();
            }
            let size_at = self.output.len();
            if outflow.framing == Framing::Chunked {
                self.output.extend_from_slice(SIZE_ROOM);
            }
            let start = self.output.len();
            self.output.extend_from_slice(heartbeat.bytes);
            if outflow.framing == Framing::Chunked {
                end_chunk(&mut self.output, size_at, start);
            }
        }
        self.drive(local)
    }
}

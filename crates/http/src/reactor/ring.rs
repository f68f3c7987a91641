//! The io_uring backend: the thread's reads, writes and waits, many of them submitted in one system
//! call (io_uring(7)).
//!
//! **Receiving.** Bytes are stored in pieces of a pool from which the kernel takes them by itself:
//! one multishot receive operation for the connection's whole life. The connection copies them and
//! returns the piece.
//!
//! **Sending.** An answer's buffer is moved into the ring while the kernel sends it, and returned
//! with its completion.
//!
//! So the ring owns all memory that the kernel may access, even if the connection ends in the
//! meantime. This is the argument for each `unsafe` block in this folder. The operations of a
//! connection that ends are cancelled; the token identifies their late completions. The socket
//! stays open until the cancellations are submitted, because the kernel knows it by its number.
//!
//! **Wait.** [`Ring::wait`] submits what is queued and waits, in one system call. Completions are
//! copied out of the shared queue first, so that handlers can queue operations meanwhile.

pub(super) mod pool;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use pool::GROUP;
pub(crate) use pool::Piece;
use pool::Pool;
use rustix::io::Errno;

use crate::reactor::event::{Event, Operations, Token};

/// The length of the submission queue: when it is full, operations are submitted in any case.
const SUBMISSIONS: u32 = 512;
/// The number of sends that are queued before they are submitted. More would save little of the
/// system call, and would delay ready answers until the handlers of the others have run.
const SENDS_MAX: u32 = 32;
/// The length of the completion queue; the kernel keeps further ones.
const COMPLETIONS: u32 = 2_048;
/// The time that `drop` waits for operations to be cancelled, which takes microseconds.
const CANCEL_SECONDS: u64 = 1;
/// The timeout of the probe's operation, which completes at once.
const PROBE_MS: u64 = 1_000;

/// The kind of an operation is in the four bits that a connection's token leaves free.
const KIND_SHIFT: u32 = 60;
/// Receiving for a connection.
const RECEIVE: u64 = 0;
/// Waiting until a connection's socket accepts bytes.
const ROOM: u64 = 1;
/// Sending for a connection; the other bits are the number of the operation.
const SEND: u64 = 2;
/// Cancelling another operation. Its own completion is ignored.
const CANCEL: u64 = 3;
/// Waiting for another source: the four bits of its token, see [`crate::reactor::event`].
const WATCH: u64 = 15;

/// An answer that the kernel is sending. Its buffer must not move or be freed until then.
struct Sending {
    /// The connection.
    token: Token,
    /// The buffer.
    output: Vec<u8>,
    /// The index at which the operation began.
    from: usize,
}

/// A source that is polled as long as it is registered. `fd` is `None` once it was removed; the
/// entry stays until its completion has arrived.
struct Watch {
    /// The token of its events.
    token: Token,
    /// The descriptor; `None` once it was removed.
    fd: Option<RawFd>,
    /// A poll operation is in progress.
    armed: bool,
}

/// The ring of one thread, with the memory that the kernel may access.
pub(crate) struct Ring {
    /// The two queues that are shared with the kernel.
    ring: IoUring,
    /// The memory of received bytes.
    pool: Pool,
    /// The completions of the last wait.
    completions: Vec<cqueue::Entry>,
    /// The answers that are being sent, by the number of their operation.
    sends: Vec<Option<Sending>>,
    /// The numbers that are free in `sends`.
    free_sends: Vec<u32>,
    /// Answers queued since the last submission.
    queued_sends: u32,
    /// The other sources.
    watches: Vec<Watch>,
    /// Sockets to close once no queued operation refers to them.
    closing: Vec<OwnedFd>,
    /// Operations for which the queue had no room.
    backlog: VecDeque<squeue::Entry>,
    /// The pool is to be shrunk before the next wait.
    shrinks: bool,
}

impl Ring {
    /// Creates a ring.
    ///
    /// # Errors
    /// The kernel is too old, or does not allow it to this process.
    pub(crate) fn new() -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_cqsize(COMPLETIONS)
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_submit_all()
            .build(SUBMISSIONS)?;
        let mut pool = Pool::new()?;
        pool.open(&ring)?;
        Ok(Self {
            ring,
            pool,
            completions: Vec::with_capacity(COMPLETIONS as usize),
            sends: Vec::new(),
            free_sends: Vec::new(),
            queued_sends: 0,
            watches: Vec::new(),
            closing: Vec::new(),
            backlog: VecDeque::new(),
            shrinks: false,
        })
    }

    /// Checks that the kernel has everything used here and lets this process use it.
    pub(crate) fn probe() -> io::Result<()> {
        let mut ring = Self::new()?;
        // A process may be allowed to set up a ring but not to enter it.
        ring.push(&opcode::Nop::new().build().user_data(CANCEL << KIND_SHIFT));
        ring.wait(Some(PROBE_MS))?;
        match ring.completions.is_empty() {
            false => Ok(()),
            true => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Reports each time that the source is readable. The source must stay open until
    /// [`Ring::unwatch`].
    pub(crate) fn watch(&mut self, source: impl AsFd, token: Token) {
        let fd = Some(source.as_fd().as_raw_fd());
        match self.watches.iter_mut().find(|watch| watch.token == token) {
            Some(watch) => watch.fd = fd,
            None => self.watches.push(Watch { token, fd, armed: false }),
        }
    }

    /// Stops reporting a source. Its descriptor may be closed after this call.
    pub(crate) fn unwatch(&mut self, token: Token) {
        // The listener is closed next; the queue must not refer to its number then.
        self.submit();
        for watch in self.watches.iter_mut().filter(|watch| watch.token == token) {
            watch.fd = None;
        }
        self.cancel(token);
    }

    /// Receives the connection's bytes until their end, an error or [`Ring::stop_receiving`].
    pub(crate) fn receive(&mut self, socket: impl AsFd, token: Token) {
        let fd = Fd(socket.as_fd().as_raw_fd());
        self.push(&opcode::RecvMulti::new(fd, GROUP).build().user_data(key(RECEIVE, token)));
    }

    /// Stops receiving for a connection, when it has more input than it can use. Bytes that the
    /// kernel has put in a piece already are still reported.
    pub(crate) fn stop_receiving(&mut self, token: Token) {
        self.cancel(key(RECEIVE, token));
    }

    /// Reports once when the socket accepts bytes again.
    pub(crate) fn await_room(&mut self, socket: impl AsFd, token: Token) {
        let fd = Fd(socket.as_fd().as_raw_fd());
        let events = rustix::event::PollFlags::OUT.bits();
        let entry = opcode::PollAdd::new(fd, u32::from(events)).build();
        self.push(&entry.user_data(key(ROOM, token)));
    }

    /// Sends `output` from `from` on, and returns the number of the operation. The buffer returns
    /// with [`Event::Sent`].
    pub(crate) fn send(
        &mut self,
        socket: impl AsFd,
        token: Token,
        output: Vec<u8>,
        from: usize,
    ) -> u32 {
        let bytes = &output[from..];
        let fd = Fd(socket.as_fd().as_raw_fd());
        let flags = rustix::net::SendFlags::NOSIGNAL.bits() as i32;
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let entry = opcode::Send::new(fd, bytes.as_ptr(), len).flags(flags).build();
        let sending = Some(Sending { token, output, from });
        let slot = match self.free_sends.pop() {
            Some(slot) => {
                self.sends[slot as usize] = sending;
                slot
            }
            None => {
                self.sends.push(sending);
                self.sends.len() as u32 - 1
            }
        };
        self.push(&entry.user_data(key(SEND, u64::from(slot))));
        self.queued_sends += 1;
        if self.queued_sends >= SENDS_MAX {
            self.submit();
        }
        slot
    }

    /// Cancels the ring's operations for a connection, then closes its socket.
    pub(crate) fn close(&mut self, socket: OwnedFd, token: Token, operations: Operations) {
        if operations.receives {
            self.cancel(key(RECEIVE, token));
        }
        if operations.awaits_room {
            self.cancel(key(ROOM, token));
        }
        if let Some(slot) = operations.sends {
            self.cancel(key(SEND, u64::from(slot)));
        }
        // Queued operations refer to the socket by its number, which the next connection could get.
        // So it stays open until they are submitted.
        self.closing.push(socket);
    }

    /// Submits what is queued and waits for events; `None` waits without a timeout.
    ///
    /// # Errors
    /// The kernel reports an error other than an interruption or a full queue: the thread cannot
    /// continue.
    pub(crate) fn wait(&mut self, timeout_ms: Option<u64>) -> io::Result<()> {
        self.try_shrink()?;
        for at in 0..self.watches.len() {
            let Watch { token, fd: Some(fd), armed: false } = self.watches[at] else { continue };
            self.watches[at].armed = true;
            let events = rustix::event::PollFlags::IN.bits();
            let entry = opcode::PollAdd::new(Fd(fd), u32::from(events)).build();
            self.push(&entry.user_data(token));
        }
        if !self.closing.is_empty() || !self.backlog.is_empty() {
            self.submit();
        }
        self.queued_sends = 0;
        let timeout_ms = if self.backlog.is_empty() { timeout_ms } else { Some(0) };
        let entered = match timeout_ms {
            None => self.ring.submitter().submit_and_wait(1),
            Some(ms) => {
                let timeout = Timespec::from(Duration::from_millis(ms));
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            }
        };
        self.pool.note_wait();
        self.completions.clear();
        self.completions.extend(self.ring.completion());
        match entered.map_err(|error| error.raw_os_error().map(Errno::from_raw_os_error)) {
            Ok(_) | Err(Some(Errno::TIME | Errno::INTR | Errno::AGAIN | Errno::BUSY)) => Ok(()),
            Err(error) => Err(error.unwrap_or(Errno::IO).into()),
        }
    }

    /// Returns an event of the last wait. Each event must be taken exactly once.
    pub(crate) fn event(&mut self, index: usize) -> Option<Event> {
        let entry = self.completions.get(index)?;
        let (data, result, flags) = (entry.user_data(), entry.result(), entry.flags());
        let token = data & !(u64::MAX << KIND_SHIFT);
        Some(match data >> KIND_SHIFT {
            RECEIVE => match cqueue::buffer_select(flags) {
                Some(index) if result > 0 => Event::Received {
                    token,
                    piece: Piece::new(index, result as usize),
                    more: cqueue::more(flags),
                },
                piece => {
                    if let Some(index) = piece {
                        self.pool.give(index);
                    }
                    let error = error(result);
                    if error == Some(Errno::NOBUFS) {
                        self.pool.grow();
                    }
                    Event::ReceiveStopped { token, error }
                }
            },
            ROOM => Event::Writable { token },
            SEND => {
                let sent = self.sends.get_mut(token as usize).and_then(Option::take);
                let Some(Sending { token: sender, output, from }) = sent else {
                    return Some(Event::Nothing);
                };
                self.free_sends.push(token as u32);
                let result = error(result).map_or(Ok(result as usize), Err);
                Event::Sent { token: sender, output, from, result }
            }
            WATCH => {
                let mut event = Event::Nothing;
                for watch in self.watches.iter_mut().filter(|watch| watch.token == data) {
                    watch.armed = false;
                    if watch.fd.is_some() {
                        event = Event::of_watch(data);
                    }
                }
                event
            }
            _ => Event::Nothing,
        })
    }

    /// Schedules the return of the pieces that a burst needed.
    pub(crate) fn shrink(&mut self) {
        self.shrinks = true;
    }

    /// Shrinks the pool if requested. All events of the last wait must have been processed.
    fn try_shrink(&mut self) -> io::Result<()> {
        // A completion that has arrived since may refer to a piece.
        let is_clear = self.ring.completion().is_empty() && !self.ring.submission().cq_overflow();
        if self.shrinks && is_clear {
            self.shrinks = false;
            self.pool.shrink(&self.ring)?;
        }
        Ok(())
    }

    /// Returns the bytes of a piece.
    pub(crate) fn bytes(&self, piece: &Piece) -> &[u8] {
        self.pool.bytes(piece)
    }

    /// Returns a piece to the kernel, which fills it again.
    #[allow(clippy::needless_pass_by_value, reason = "who gives a piece back must not keep it")]
    pub(crate) fn give(&mut self, piece: Piece) {
        self.pool.take_back(piece);
    }

    /// Cancels the operation with this key.
    fn cancel(&mut self, data: u64) {
        self.push(&opcode::AsyncCancel::new(data).build().user_data(CANCEL << KIND_SHIFT));
    }

    /// Queues an operation, after submitting the others if the queue is full. If the kernel accepts
    /// none of them now, it is kept in the backlog.
    fn push(&mut self, entry: &squeue::Entry) {
        if !self.enqueue(entry) {
            self.submit();
            if !self.backlog.is_empty() || !self.enqueue(entry) {
                self.backlog.push_back(entry.clone());
            }
        }
    }

    /// Puts an operation into the submission queue. Returns false if the queue is full.
    fn enqueue(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the memory that an entry points to (an answer in `sends`, nothing else) is owned
        // by the ring until its completion has arrived.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }

    /// Submits what is queued. What the kernel does not accept now stays queued for the next wait.
    fn submit(&mut self) {
        self.queued_sends = 0;
        loop {
            let taken = self.ring.submit().is_ok_and(|count| count > 0);
            while let Some(entry) = self.backlog.pop_front() {
                if !self.enqueue(&entry) {
                    self.backlog.push_front(entry);
                    break;
                }
            }
            if self.ring.submission().is_empty() {
                return self.closing.clear();
            }
            if !taken {
                return;
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.submit();
        let timeout = Some(Timespec::from(Duration::from_secs(CANCEL_SECONDS)));
        let cancelled = self.ring.submitter().register_sync_cancel(timeout, CancelBuilder::any());
        let all = match cancelled {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if !all {
            // The kernel may still read or write this memory: it is not freed.
            std::mem::forget(std::mem::take(&mut self.sends));
            self.pool.leak();
        }
    }
}

/// Returns the number by which a completion is recognised: kind and token.
fn key(kind: u64, token: u64) -> u64 {
    kind << KIND_SHIFT | token
}

/// Returns the error in a completion's result.
fn error(result: i32) -> Option<Errno> {
    (result < 0).then(|| Errno::from_raw_os_error(-result))
}

//! The ring: the thread's reads, writes and waits handed to the kernel by io_uring, many in one
//! system call.
//!
//! A connection's bytes come into pieces of a pool that the kernel takes from by itself (one
//! multishot receive for the connection's whole life). An answer is moved into the ring while
//! the kernel sends it and is given back with the completion. So all memory that the kernel
//! may touch is owned here, whatever happens to the connection meanwhile; a connection that
//! ends has its operations cancelled, and what they still report is told by the token.

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

use crate::reactor::event::Event;
use crate::reactor::task::Token;

/// Operations queued before they are handed over in any case.
const SUBMISSIONS: u32 = 512;
/// Answers queued before they are handed over: more would save little of the system call and
/// have those that are ready wait for the handlers of the others.
const SENDS_MAX: u32 = 32;
/// Completions the ring holds; the kernel keeps what is beyond.
const COMPLETIONS: u32 = 2_048;
/// How long the end waits for operations to be cancelled, which takes microseconds.
const CANCEL_SECONDS: u64 = 1;
/// How long the first operation of all may take, which is done at once.
const PROBE_MS: u64 = 1_000;

/// What an operation was, in the four bits that a connection's token leaves free.
const KIND_SHIFT: u32 = 60;
const RECEIVE: u64 = 0;
const ROOM: u64 = 1;
const SEND: u64 = 2;
const CANCEL: u64 = 3;
const WATCH: u64 = 15;

/// What the ring does for a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operations {
    pub(crate) receives: bool,
    pub(crate) awaits_room: bool,
    /// The number of the operation that sends.
    pub(crate) sends: Option<u32>,
}

/// An answer that the kernel sends.
struct Sending {
    token: Token,
    output: Vec<u8>,
    from: usize,
}

/// Something that is waited for as long as it is registered.
struct Watch {
    token: Token,
    fd: Option<RawFd>,
    armed: bool,
}

pub(crate) struct Ring {
    ring: IoUring,
    pool: Pool,
    completions: Vec<cqueue::Entry>,
    sends: Vec<Option<Sending>>,
    free_sends: Vec<u32>,
    /// Answers queued since the last hand-over.
    queued_sends: u32,
    watches: Vec<Watch>,
    /// Sockets that may be closed once nothing queued names them any more.
    closing: Vec<OwnedFd>,
    /// Operations for which the queue had no room.
    backlog: VecDeque<squeue::Entry>,
    shrinks: bool,
}

impl Ring {
    /// Fails when the kernel is too old or does not allow it.
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

    /// Whether the kernel has all that is used here, and lets this process use it.
    pub(crate) fn probe() -> io::Result<()> {
        let mut ring = Self::new()?;
        // Setting up may be allowed where entering is not.
        ring.push(&opcode::Nop::new().build().user_data(CANCEL << KIND_SHIFT));
        ring.wait(Some(PROBE_MS))?;
        match ring.completions.is_empty() {
            false => Ok(()),
            true => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Says when the source is readable, again and again; the source must stay open until
    /// [`Ring::unwatch`].
    pub(crate) fn watch(&mut self, source: impl AsFd, token: Token) {
        let fd = Some(source.as_fd().as_raw_fd());
        match self.watches.iter_mut().find(|watch| watch.token == token) {
            Some(watch) => watch.fd = fd,
            None => self.watches.push(Watch { token, fd, armed: false }),
        }
    }

    pub(crate) fn unwatch(&mut self, token: Token) {
        // The listener is closed next; its number must not be in the queue then.
        self.submit();
        for watch in self.watches.iter_mut().filter(|watch| watch.token == token) {
            watch.fd = None;
        }
        self.cancel(token);
    }

    /// Has the connection's bytes come, until their end, an error or [`Ring::stop_receiving`].
    pub(crate) fn receive(&mut self, socket: impl AsFd, token: Token) {
        let fd = Fd(socket.as_fd().as_raw_fd());
        self.push(&opcode::RecvMulti::new(fd, GROUP).build().user_data(key(RECEIVE, token)));
    }

    pub(crate) fn stop_receiving(&mut self, token: Token) {
        self.cancel(key(RECEIVE, token));
    }

    /// Says once when the socket takes bytes again.
    pub(crate) fn await_room(&mut self, socket: impl AsFd, token: Token) {
        let fd = Fd(socket.as_fd().as_raw_fd());
        let events = rustix::event::PollFlags::OUT.bits();
        let entry = opcode::PollAdd::new(fd, u32::from(events)).build();
        self.push(&entry.user_data(key(ROOM, token)));
    }

    /// Sends what stands in `output` behind `from`; gives the number of the operation.
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

    /// Ends what the ring does for a connection, then closes its socket.
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
        // Queued operations name the socket by its number, which the next connection would
        // get: it stays open until they are handed over.
        self.closing.push(socket);
    }

    /// Hands over what is queued, and waits for something to happen, `None` without end.
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

    /// The events of the last wait; each is to be asked for once.
    pub(crate) fn event(&mut self, index: usize) -> Option<Event> {
        let entry = self.completions.get(index)?;
        let (data, result, flags) = (entry.user_data(), entry.result(), entry.flags());
        let token = data & !(u64::MAX << KIND_SHIFT);
        Some(match data >> KIND_SHIFT {
            RECEIVE => match cqueue::buffer_select(flags) {
                Some(index) if result > 0 => Event::Arrived {
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
                    Event::Dry { token, error }
                }
            },
            ROOM => Event::Room { token },
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

    /// Gives back, soon, the pieces that a burst has needed.
    pub(crate) fn shrink(&mut self) {
        self.shrinks = true;
    }

    /// Nothing of the last wait is to be looked at any more.
    fn try_shrink(&mut self) -> io::Result<()> {
        // A completion that has come since may name a piece.
        let is_clear = self.ring.completion().is_empty() && !self.ring.submission().cq_overflow();
        if self.shrinks && is_clear {
            self.shrinks = false;
            self.pool.shrink(&self.ring)?;
        }
        Ok(())
    }

    /// The bytes in a piece.
    pub(crate) fn bytes(&self, piece: &Piece) -> &[u8] {
        self.pool.bytes(piece)
    }

    /// Lets the kernel fill the piece again.
    #[allow(clippy::needless_pass_by_value, reason = "who gives a piece back must not keep it")]
    pub(crate) fn give(&mut self, piece: Piece) {
        self.pool.take_back(piece);
    }

    fn cancel(&mut self, data: u64) {
        self.push(&opcode::AsyncCancel::new(data).build().user_data(CANCEL << KIND_SHIFT));
    }

    fn push(&mut self, entry: &squeue::Entry) {
        if !self.enqueue(entry) {
            self.submit();
            if !self.backlog.is_empty() || !self.enqueue(entry) {
                self.backlog.push_back(entry.clone());
            }
        }
    }

    fn enqueue(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: what an entry points to (an answer in `sends`, nothing else) is owned by the
        // ring until its completion has come.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }

    /// Hands over what is queued. What the kernel does not take now stays queued and is handed
    /// over by the next wait.
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
            // The kernel may still read or write this memory: it is not given back.
            std::mem::forget(std::mem::take(&mut self.sends));
            self.pool.leak();
        }
    }
}

fn key(kind: u64, token: u64) -> u64 {
    kind << KIND_SHIFT | token
}

fn error(result: i32) -> Option<Errno> {
    (result < 0).then(|| Errno::from_raw_os_error(-result))
}

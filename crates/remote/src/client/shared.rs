//! The client's side of shared memory: a socket that takes the memory's file,
//! and rings and hears the bell from there on.

use std::cell::RefCell;
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recv, recvmsg, send,
};

use super::reach::Stream;
use super::wire::{Source, Wire};
use crate::shared::{BELL, Looking, Side};

/// How long an answer is looked for before sleeping, once for what was sent: longer
/// than it takes to wake whoever is to answer on another core.
const LOOKING: Duration = Duration::from_micros(100);
/// Looks between two looks at the clock.
const LOOKS: u32 = 64;
/// Bytes taken at once.
const TAKEN_BYTES: usize = 64 * 1024;

/// A Unix socket that keeps the files that come by it.
pub(super) struct Passing {
    socket: UnixStream,
    files: RefCell<Vec<OwnedFd>>,
}

impl Passing {
    pub(super) const fn new(socket: UnixStream) -> Self {
        Self { socket, files: RefCell::new(Vec::new()) }
    }

    /// The connection, once the memory has come.
    pub(super) fn into_shared(self, until: Instant) -> io::Result<Shared> {
        while self.files.borrow().is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            self.time_out(left.max(Duration::from_millis(1)))?;
            // Bells, which come beside it.
            if (&self).read(&mut [0; 64])? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        self.socket.set_nonblocking(true)?;
        let file = self.files.borrow_mut().swap_remove(0);
        let side = Side::of_client(file)?;
        let socket: OwnedFd = self.socket.into();
        let looking = Looking::default();
        Ok(Shared { source: Arc::new(socket), side, looking, awaits: false, is_asleep: false })
    }
}

impl AsFd for Passing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Stream for Passing {
    fn time_out(&self, after: Duration) -> io::Result<()> {
        self.socket.time_out(after)
    }
}

impl Read for &Passing {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let come = recvmsg(&self.socket, &mut [IoSliceMut::new(room)], &mut beside, flags)?;
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.borrow_mut().extend(files);
            }
        }
        Ok(come.bytes)
    }
}

impl Write for &Passing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.socket).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// See the module.
pub(super) struct Shared {
    source: Source,
    side: Side,
    looking: Looking,
    /// Something was sent, of which an answer may come at once.
    awaits: bool,
    /// The memory says that this side sleeps.
    is_asleep: bool,
}

impl Shared {
    fn ring(&self) -> io::Result<()> {
        match send(&self.source, &[BELL], SendFlags::NOSIGNAL) {
            // It rings already, as often as there is room for.
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Hears bells; false if none has rung.
    fn hears(&self) -> io::Result<bool> {
        let mut bells = [0; 64];
        match recv(&self.source, &mut bells, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::INTR) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn take(&mut self, inbox: &mut Vec<u8>) -> io::Result<usize> {
        let count = self.side.come.take(inbox, TAKEN_BYTES)?;
        if count > 0 {
            if std::mem::take(&mut self.is_asleep) && !self.side.come.wakes_up() {
                // It has rung, or will in a moment: not to be woken by that the next time.
                self.hears()?;
            }
            if self.side.come.is_to_wake() {
                self.ring()?;
            }
        }
        Ok(count)
    }

    /// Looks for an answer for a moment; true if there is something.
    fn looks(&mut self) -> bool {
        if !self.looking.is_worth_it() {
            return false;
        }
        let until = Instant::now() + LOOKING;
        loop {
            for _ in 0..LOOKS {
                if self.side.come.has_some() {
                    self.looking.found();
                    return true;
                }
                std::hint::spin_loop();
            }
            let now = Instant::now();
            if now >= until {
                self.looking.missed();
                return false;
            }
            if !self.looking.lets_others_run(now) {
                return self.side.come.has_some();
            }
        }
    }
}

impl Wire for Shared {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        while sent < bytes.len() {
            let count = self.side.out.put(&bytes[sent..])?;
            sent += count;
            // Told that there is room, it comes again.
            if count == 0 && self.side.out.waits()? {
                break;
            }
        }
        self.awaits |= sent > 0;
        if self.side.out.is_to_wake() {
            self.ring()?;
        }
        Ok(sent)
    }

    fn expects_nothing(&mut self) {
        self.awaits = false;
    }

    fn receive(&mut self, inbox: &mut Vec<u8>, _: &mut Context<'_>) -> io::Result<usize> {
        let mut is_fresh = std::mem::take(&mut self.awaits);
        loop {
            let count = self.take(inbox)?;
            if count > 0 {
                return Ok(count);
            }
            if is_fresh && self.looks() {
                continue;
            }
            self.is_asleep = self.side.come.sleeps();
            if !self.is_asleep {
                continue;
            }
            if std::mem::take(&mut is_fresh) {
                // What comes rings, and so does the end: it is heard when this is called for that.
                return Ok(0);
            }
            match self.hears() {
                Ok(true) => {}
                Ok(false) => return Ok(0),
                // What was said before the end is there to be read; the end comes again.
                Err(error) => match self.take(inbox)? {
                    0 => return Err(error),
                    count => return Ok(count),
                },
            }
        }
    }

    fn source(&self) -> Option<&Source> {
        Some(&self.source)
    }

    fn rings_for_room(&self) -> bool {
        true
    }
}

//! Sending and receiving bytes: one output buffer, one input buffer, and the wait for input.

use std::io;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use marmota_store::engine::{Sleep, Source, Watched, sleep_on};

use super::Connection;
use crate::wire::backend;

/// The initial size of the input buffer, to which it also shrinks back.
const INPUT_BYTES: usize = 16 << 10;
/// A larger buffer is freed when it is empty.
const BUFFER_BYTES_MAX: usize = 256 << 10;

impl Connection {
    /// Wakes `waker` when another poll may succeed. A thread that sleeps between its polls sleeps
    /// on the socket.
    pub(crate) fn wait(&mut self, number: u64, waker: &Waker) {
        let writes = self.sent < self.out.len();
        if let Some(place) = self.place(number) {
            match &mut self.exchanges[place].waker {
                Some(kept) => kept.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
        }
        let source: Source = Arc::clone(self.socket.stream()) as Source;
        if sleep_on(Sleep { source: Arc::clone(&source), writes }) {
            // It checks the socket itself, independent of the watch.
            self.is_dry = false;
            return;
        }
        if self.watch.keep(&source, &mut self.watched) {
            self.is_dry = false;
        }
        if self.watched.is_none() {
            return waker.wake_by_ref();
        }
        self.watch.wake(waker);
    }

    /// Returns true if everything was read, including an end of the connection: events are reported
    /// once, and one may report both the last bytes and the end. So after a short read, there is
    /// another one if answers are still missing.
    pub(super) fn is_read_out(&self) -> bool {
        self.is_dry && (!self.was_short || self.under_way() == 0)
    }

    /// Returns true if the watching thread knows that nothing can be read.
    fn has_nothing(&self) -> bool {
        self.is_read_out()
            && self.watched.as_ref().is_some_and(Watched::is_here)
            && !self.watch.has_happened()
    }

    pub(super) fn send(&mut self) -> io::Result<()> {
        self.end_shared_sync();
        while self.sent < self.out.len() {
            match self.socket.write(&self.out[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => self.sent += taken,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.socket.flush()?;
        self.out.clear();
        self.sent = 0;
        if self.out.capacity() > BUFFER_BYTES_MAX {
            self.out = Vec::new();
        }
        Ok(())
    }

    /// Sends and reads as much as possible. Returns true if data was received.
    pub(super) fn pump(&mut self) -> bool {
        // Otherwise each of many waiting exchanges in a turn would make another system call.
        let pumped = match self.has_nothing() {
            true => self.send().map(|()| false),
            false => {
                self.watch.look();
                self.send().and_then(|()| self.receive())
            }
        };
        match pumped {
            Ok(came) => came,
            Err(error) => {
                self.lose(&error.to_string());
                false
            }
        }
    }

    fn receive(&mut self) -> io::Result<bool> {
        self.make_room();
        let came = match self.socket.read(&mut self.input[self.unread.end..]) {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the server closed \
                                                                              the connection",
                ));
            }
            Ok(came) => came,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                (self.is_dry, self.was_short) = (true, false);
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        self.unread.end += came;
        self.was_short = self.socket.is_plain() && self.unread.end < self.input.len();
        self.is_dry = self.was_short;
        self.used = Instant::now();
        Ok(true)
    }

    /// Makes room for more input: for a whole message if its length is known.
    fn make_room(&mut self) {
        if self.held > 0 {
            if self.input.len() - self.unread.end >= INPUT_BYTES / 4 {
                return;
            }
            self.keep();
        }
        if self.unread.is_empty() {
            self.unread = 0..0;
            if self.input.len() > BUFFER_BYTES_MAX || self.input.is_empty() {
                self.input = vec![0; INPUT_BYTES];
            }
        }
        if self.unread.end < self.input.len() && self.unread.start == 0 {
            return;
        }
        let wanted = backend::length(&self.input[self.unread.clone()]).unwrap_or(0);
        let length = self.unread.len();
        self.input.copy_within(self.unread.clone(), 0);
        self.unread = 0..length;
        let wanted = wanted.min(backend::MESSAGE_BYTES_MAX).max(length + 1);
        if wanted > self.input.len() {
            // Long answers are read in larger pieces.
            self.input.resize(wanted.next_power_of_two().max(4 * INPUT_BYTES), 0);
        }
    }

    /// Copies the input that exchanges hold to their own buffers.
    fn keep(&mut self) {
        for exchange in self.exchanges.iter_mut().take(self.ended + 1) {
            exchange.kept.extend_from_slice(&self.input[std::mem::take(&mut exchange.held)]);
        }
        self.held = 0;
    }
}

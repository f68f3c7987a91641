//! Packets through memory that two processes share: a ring each way ([`ring`]),
//! in a file without a name ([`memory`]) that the server makes and sends along
//! with its answer to the request for it, by a Unix socket.
//!
//! That socket stays, as the **bell**: a side that has nothing to do looks for a
//! moment, says so in the memory, and sleeps on the socket; who writes for a
//! sleeper sends it one byte. So a sleeper waits for the other's words and for
//! its end in one call, in poll(2) or in an event loop like any other connection,
//! and while both are awake no call of the system is made. A futex would be a
//! little cheaper to wake by, but a thread can wait for one only alone: neither
//! an event loop nor the end of a process would wake it.

#[cfg(feature = "http")]
pub(crate) mod carried;
#[allow(unsafe_code, reason = "memory is mapped")]
mod memory;
pub(crate) mod ring;
mod sync;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use memory::Memory;
use ring::{Broken, HEAD_WORDS, Place, Reader, Writer};

/// How a request says that it wants it, and the answer that it has it.
pub(crate) const HEADER: &str = "Marmota-Carrier";
pub(crate) const SHARED_MEMORY: &str = "shared-memory";
/// What wakes the other side.
pub(crate) const BELL: u8 = b'!';

/// Words of data in each direction: 64 KiB.
const CAPACITY: usize = 8 * 1024;
const TO_SERVER: Place = Place { start: 0, capacity: CAPACITY };
const TO_CLIENT: Place = Place { start: HEAD_WORDS + CAPACITY, capacity: CAPACITY };
const MEMORY_WORDS: usize = 2 * (HEAD_WORDS + CAPACITY);

/// One side of a connection.
pub(crate) struct Side {
    pub(crate) out: Writer<Arc<Memory>>,
    pub(crate) come: Reader<Arc<Memory>>,
}

impl Side {
    /// A server's, in new memory, and what the client maps that by.
    pub(crate) fn of_server() -> io::Result<(Self, OwnedFd)> {
        let (memory, file) = Memory::new()?;
        let out = Writer::new(Arc::clone(&memory), TO_CLIENT);
        Ok((Self { out, come: Reader::new(memory, TO_SERVER) }, file))
    }

    /// A client's.
    pub(crate) fn of_client(file: impl AsFd) -> io::Result<Self> {
        let memory = Memory::of(file)?;
        let out = Writer::new(Arc::clone(&memory), TO_SERVER);
        Ok(Self { out, come: Reader::new(memory, TO_CLIENT) })
    }
}

/// Whether it is worth looking for a moment before sleeping, by how that went
/// before: it costs nothing where nobody else wants the core, and where somebody
/// does, whoever looks only keeps the other side from running.
#[derive(Clone, Copy, Default)]
pub(crate) struct Looking {
    misses: u32,
    skipped: u32,
}

/// After so many misses one chance in 4,096 is taken.
const MISSES_MAX: u32 = 12;
/// What it counts that others wanted the core.
const HINDRANCE: u32 = 4;
/// Others have run, if letting them takes longer.
const OTHERS: Duration = Duration::from_micros(10);

impl Looking {
    pub(crate) const fn is_worth_it(&mut self) -> bool {
        if self.skipped + 1 < 1 << self.misses {
            self.skipped += 1;
            return false;
        }
        self.skipped = 0;
        true
    }

    pub(crate) const fn found(&mut self) {
        self.misses = 0;
    }

    pub(crate) fn missed(&mut self) {
        self.misses = (self.misses + 1).min(MISSES_MAX);
    }

    /// Lets others run that want this core; false if there were some, so that it is
    /// not to go on.
    pub(crate) fn lets_others_run(&mut self, now: Instant) -> bool {
        std::thread::yield_now();
        let is_alone = now.elapsed() < OTHERS;
        if !is_alone {
            self.misses = (self.misses + HINDRANCE).min(MISSES_MAX);
        }
        is_alone
    }
}

impl From<Broken> for io::Error {
    #[cold]
    fn from(_: Broken) -> Self {
        Self::new(io::ErrorKind::InvalidData, "the other side has spoilt the memory that is shared")
    }
}

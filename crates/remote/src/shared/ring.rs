//! A ring of bytes between two processes of which neither trusts the other: one
//! writes, one reads, and whoever has nothing to do says so before it sleeps.
//!
//! All of it lies in words that both may change at any time. So each side keeps
//! its own place to itself and only publishes it, checks the other's place
//! whenever it looks at it, and copies what has come once, before anybody reads
//! it: whatever the other side writes, the worst is [`Broken`].
//!
//! What is written goes in runs: a word that says how many bytes, then the
//! bytes, eight to a word.
//!
//! **Nobody sleeps over something.** A reader sets its flag and then looks at
//! the writer's place once more; a writer moves its place and then looks at the
//! flag. A fence stands between the two steps on both sides, so at least one of
//! them sees what the other has done; `tests/model` tries all interleavings. The
//! same holds for a writer that waits for room. How a sleeper is woken is not
//! decided here.

use super::sync::{AtomicU64, Ordering, fence};

/// Words in front of the data: each of the four in a cache line of its own.
pub(crate) const HEAD_WORDS: usize = 32;
const WRITTEN: usize = 0;
const READ: usize = 8;
const READER_SLEEPS: usize = 16;
const WRITER_WAITS: usize = 24;

/// Memory that is shared.
pub(crate) trait Words {
    /// The word at a place below what the memory was made for.
    fn word(&self, at: usize) -> &AtomicU64;
}

/// The other side has written what it never does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// Where a ring lies in its memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Its first word.
    pub(crate) start: usize,
    /// Words of data: a power of two.
    pub(crate) capacity: usize,
}

impl Place {
    fn data(self, at: u64) -> usize {
        self.start + HEAD_WORDS + (at as usize & (self.capacity - 1))
    }

    /// How many words lie between two counts of words, the later one last.
    fn between(self, earlier: u64, later: u64) -> Result<usize, Broken> {
        let count = later.wrapping_sub(earlier);
        if count > self.capacity as u64 { Err(Broken) } else { Ok(count as usize) }
    }
}

/// The side that writes.
pub(crate) struct Writer<W> {
    words: W,
    place: Place,
    written: u64,
}

/// The side that reads.
pub(crate) struct Reader<W> {
    words: W,
    place: Place,
    read: u64,
}

impl<W: Words> Writer<W> {
    /// The writer of a ring that is new.
    pub(crate) const fn new(words: W, place: Place) -> Self {
        Self { words, place, written: 0 }
    }

    fn head(&self, at: usize) -> &AtomicU64 {
        self.words.word(self.place.start + at)
    }

    fn free(&self) -> Result<usize, Broken> {
        let read = self.head(READ).load(Ordering::Acquire);
        Ok(self.place.capacity - self.place.between(read, self.written)?)
    }

    /// Writes the front of these bytes; how many there was room for.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        let free = self.free()?;
        let count = bytes.len().min(free.saturating_sub(1) * 8);
        if count == 0 {
            return Ok(0);
        }
        let mut at = self.written;
        let mut put = |word: u64| {
            self.words.word(self.place.data(at)).store(word, Ordering::Relaxed);
            at = at.wrapping_add(1);
        };
        put(count as u64);
        let (eights, rest) = bytes[..count].as_chunks::<8>();
        eights.iter().for_each(|eight| put(u64::from_ne_bytes(*eight)));
        if !rest.is_empty() {
            let mut eight = [0; 8];
            eight[..rest.len()].copy_from_slice(rest);
            put(u64::from_ne_bytes(eight));
        }
        self.written = at;
        self.head(WRITTEN).store(at, Ordering::Release);
        Ok(count)
    }

    /// True if the reader sleeps and is to be woken for what was written.
    pub(crate) fn is_to_wake(&self) -> bool {
        is_to_wake(self.head(READER_SLEEPS))
    }

    /// Says that it waits for room; false if there is some now.
    pub(crate) fn waits(&self) -> Result<bool, Broken> {
        let waits = self.head(WRITER_WAITS);
        waits.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.free()? < 2 {
            return Ok(true);
        }
        waits.store(0, Ordering::Relaxed);
        Ok(false)
    }
}

impl<W: Words> Reader<W> {
    /// The reader of a ring that is new.
    pub(crate) const fn new(words: W, place: Place) -> Self {
        Self { words, place, read: 0 }
    }

    fn head(&self, at: usize) -> &AtomicU64 {
        self.words.word(self.place.start + at)
    }

    /// True if something is there to be read.
    pub(crate) fn has_some(&self) -> bool {
        self.head(WRITTEN).load(Ordering::Acquire) != self.read
    }

    /// Appends runs until that is `bytes_max` or more, or all; how many bytes.
    pub(crate) fn take(&mut self, out: &mut Vec<u8>, bytes_max: usize) -> Result<usize, Broken> {
        let written = self.head(WRITTEN).load(Ordering::Acquire);
        let mut left = self.place.between(self.read, written)?;
        let before = out.len();
        let mut at = self.read;
        while left > 0 && out.len() - before < bytes_max {
            // Looked at once: it may be another the next time.
            let count = self.words.word(self.place.data(at)).load(Ordering::Relaxed);
            let count = usize::try_from(count).map_err(|_| Broken)?;
            let words = count.div_ceil(8);
            if count == 0 || words >= left {
                return Err(Broken);
            }
            let end = out.len() + count;
            out.reserve(words * 8);
            for offset in 1..=words as u64 {
                let word = self.words.word(self.place.data(at.wrapping_add(offset)));
                out.extend_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
            }
            out.truncate(end);
            at = at.wrapping_add(1 + words as u64);
            left -= 1 + words;
        }
        if at != self.read {
            self.read = at;
            self.head(READ).store(at, Ordering::Release);
        }
        Ok(out.len() - before)
    }

    /// True if the writer waits and is to be woken for what was read.
    pub(crate) fn is_to_wake(&self) -> bool {
        is_to_wake(self.head(WRITER_WAITS))
    }

    /// Says that it sleeps; false if something has come.
    pub(crate) fn sleeps(&self) -> bool {
        let sleeps = self.head(READER_SLEEPS);
        sleeps.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !self.has_some() {
            return true;
        }
        sleeps.store(0, Ordering::Relaxed);
        false
    }

    /// Says that it is awake, and needs not be woken; false if the writer has seen
    /// that it slept.
    pub(crate) fn wakes_up(&self) -> bool {
        let sleeps = self.head(READER_SLEEPS);
        sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0
    }
}

/// Whether the other side has said that it sleeps; it is told once.
fn is_to_wake(flag: &AtomicU64) -> bool {
    fence(Ordering::SeqCst);
    flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::Relaxed) != 0
}

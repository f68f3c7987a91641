//! [`Interner`]: one shared copy of each text.
//!
//! Texts are reference-counted, so that unused texts can be freed. Use [`Symbols`](crate::Symbols)
//! where handles of four bytes are worth more than that.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use parking_lot::RwLock;

/// The number of parts, each with its own lock.
const PARTS: usize = 16;
/// Size of the two counts that precede the text of an `Arc<str>`.
const ARC_BYTES: usize = 2 * size_of::<usize>();
/// The number of texts that a full part refuses before it is cleaned again, or a quarter of the
/// number of its texts if that is more.
const REFUSED_MIN: usize = 64;

/// The number of texts that an interner holds, and their memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Texts.
    pub texts: usize,
    /// Bytes of heap memory, without the allocator's overhead.
    pub bytes: usize,
}

/// One copy of each text, shared by threads.
///
/// ```
/// use std::sync::Arc;
/// use marmota_collections::Interner;
///
/// let interner = Interner::new();
/// let (one, other) = (interner.intern("Bourges"), interner.intern("Bourges"));
/// assert!(Arc::ptr_eq(&one, &other));
/// assert_eq!(interner.held().texts, 1);
/// drop((one, other));
/// assert_eq!(interner.clean(), 1);
/// assert_eq!(interner.held().texts, 0);
/// ```
pub struct Interner {
    parts: Box<[Part]>,
    hasher: DefaultHashBuilder,
    bytes_max: usize,
}

/// Aligned to two cache lines, so that the locks of neighbours do not share a line (false sharing).
#[repr(align(128))]
struct Part(RwLock<Texts>);

#[derive(Default)]
struct Texts {
    table: HashTable<Arc<str>>,
    /// Bytes of the texts and their reference counts.
    bytes: usize,
    /// Texts refused for lack of room since the last clean-up.
    refused: usize,
}

impl Interner {
    /// Creates an empty interner without a limit.
    #[must_use]
    pub fn new() -> Self {
        Self::with_bytes_max(usize::MAX)
    }

    /// Creates an empty interner that holds at most `bytes_max` bytes of texts with their counts;
    /// its tables take 17 to 70 bytes more for each text ([`Interner::held`]). When it is full,
    /// texts that are not used elsewhere are freed; if that is not enough, new texts are returned
    /// without being held.
    #[must_use]
    pub fn with_bytes_max(bytes_max: usize) -> Self {
        Self {
            parts: (0..PARTS).map(|_| Part(RwLock::default())).collect(),
            hasher: DefaultHashBuilder::default(),
            bytes_max: bytes_max / PARTS,
        }
    }

    /// Returns the shared copy of a text. Creates it if the text is new.
    #[must_use]
    pub fn intern(&self, text: &str) -> Arc<str> {
        let hash = self.hasher.hash_one(text);
        let part = &self.parts[(hash >> 32) as usize % PARTS].0;
        let same = |held: &Arc<str>| **held == *text;
        // Most texts are found here: lookups under the read lock do not wait for each other.
        if let Some(held) = part.read().table.find(hash, same) {
            return Arc::clone(held);
        }
        let new: Arc<str> = text.into();
        let bytes = text.len() + ARC_BYTES;
        let mut texts = part.write();
        if let Some(held) = texts.table.find(hash, same) {
            return Arc::clone(held);
        }
        if !texts.make_room(bytes, self.bytes_max) {
            return new;
        }
        texts.bytes += bytes;
        let rehash = |held: &Arc<str>| self.hasher.hash_one(&**held);
        texts.table.insert_unique(hash, Arc::clone(&new), rehash);
        new
    }

    /// Returns the shared copy of a text, if it is held.
    ///
    /// ```
    /// use marmota_collections::Interner;
    /// let interner = Interner::new();
    /// assert!(interner.find("Bourges").is_none());
    /// let kept = interner.intern("Bourges");
    /// assert!(interner.find("Bourges").is_some());
    /// ```
    #[must_use]
    pub fn find(&self, text: &str) -> Option<Arc<str>> {
        let hash = self.hasher.hash_one(text);
        let part = self.parts[(hash >> 32) as usize % PARTS].0.read();
        part.table.find(hash, |held| **held == *text).map(Arc::clone)
    }

    /// Frees the texts that are not used elsewhere, and returns their number.
    pub fn clean(&self) -> usize {
        let clean = |part: &Part| {
            let mut texts = part.0.write();
            let cleaned = texts.clean();
            let rehash = |held: &Arc<str>| self.hasher.hash_one(&**held);
            if texts.table.len() < texts.table.capacity() / 4 {
                texts.table.shrink_to_fit(rehash);
            }
            cleaned
        };
        self.parts.iter().map(clean).sum()
    }

    /// Returns the number of texts and their memory. Locks one part after the other.
    #[must_use]
    pub fn held(&self) -> Held {
        let mut held = Held::default();
        for part in &self.parts {
            let texts = part.0.read();
            held.texts += texts.table.len();
            held.bytes += texts.bytes + texts.table.allocation_size();
        }
        held
    }
}

impl Texts {
    /// Returns true if `bytes` more may be held, after a clean-up if necessary.
    fn make_room(&mut self, bytes: usize, bytes_max: usize) -> bool {
        let fits = |held: usize| held.checked_add(bytes).is_some_and(|sum| sum <= bytes_max);
        if fits(self.bytes) {
            return true;
        }
        // A clean-up visits all texts: it does not run for each refused text.
        self.refused += 1;
        if self.refused > 1 && self.refused < REFUSED_MIN.max(self.table.len() / 4) {
            return false;
        }
        self.clean();
        self.refused = 1;
        fits(self.bytes)
    }

    fn clean(&mut self) -> usize {
        let (before, bytes) = (self.table.len(), &mut self.bytes);
        self.table.retain(|held| {
            // Copies are made only under this lock, or from another copy.
            let kept = Arc::strong_count(held) > 1;
            if !kept {
                *bytes -= held.len() + ARC_BYTES;
            }
            kept
        });
        self.refused = 0;
        before - self.table.len()
    }
}

impl Default for Interner {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Interner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interner").field("held", &self.held()).finish_non_exhaustive()
    }
}

//! [`Interner`]: one copy of each text, shared by all who have it.
//!
//! Texts are counted references, so that what nobody has any more can be given
//! back. Where handles of four bytes are worth more than that, take
//! [`Symbols`](crate::Symbols).

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use parking_lot::RwLock;

/// Locks that the texts are divided among.
const PARTS: usize = 16;
/// The two counts in front of the text of an `Arc<str>`.
const ARC_BYTES: usize = 2 * size_of::<usize>();
/// A part that is full is cleaned again after so many more texts were refused,
/// or a quarter of what it holds.
const REFUSED_MIN: usize = 64;

/// What is held, and what that takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Texts.
    pub texts: usize,
    /// Bytes of heap memory, without what the allocator adds.
    pub bytes: usize,
}

/// One copy of each text, for many threads.
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

/// A cache line pair of its own, lest a lock slow its neighbour's down.
#[repr(align(128))]
struct Part(RwLock<Texts>);

#[derive(Default)]
struct Texts {
    table: HashTable<Arc<str>>,
    /// Bytes of the texts and their counts.
    bytes: usize,
    /// Texts since the last clean-up that there was no room for.
    refused: usize,
}

impl Interner {
    /// An empty one that holds as much as is put into it.
    #[must_use]
    pub fn new() -> Self {
        Self::with_bytes_max(usize::MAX)
    }

    /// An empty one that holds so many bytes of texts, with their counts; its
    /// tables take 17 to 70 more for each text ([`Interner::held`]). When
    /// it is full, texts that nobody else has are given back; if there are
    /// none, new ones are handed out without being held.
    #[must_use]
    pub fn with_bytes_max(bytes_max: usize) -> Self {
        Self {
            parts: (0..PARTS).map(|_| Part(RwLock::default())).collect(),
            hasher: DefaultHashBuilder::default(),
            bytes_max: bytes_max / PARTS,
        }
    }

    /// The one copy of a text, made if there is none yet.
    #[must_use]
    pub fn intern(&self, text: &str) -> Arc<str> {
        let hash = self.hasher.hash_one(text);
        let part = &self.parts[(hash >> 32) as usize % PARTS].0;
        let same = |held: &Arc<str>| **held == *text;
        // Most texts are there: those who only look do not wait for each other.
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

    /// The one copy of a text, if it is held.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<Arc<str>> {
        let hash = self.hasher.hash_one(text);
        let part = self.parts[(hash >> 32) as usize % PARTS].0.read();
        part.table.find(hash, |held| **held == *text).map(Arc::clone)
    }

    /// Gives back the texts that nobody else has, and says how many.
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

    /// What it holds, part after part.
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
    /// Whether so many bytes more may be held, if need be after a clean-up.
    fn make_room(&mut self, bytes: usize, bytes_max: usize) -> bool {
        let fits = |held: usize| held.checked_add(bytes).is_some_and(|sum| sum <= bytes_max);
        if fits(self.bytes) {
            return true;
        }
        // Each clean-up looks at all texts: not for each one that is refused.
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
            // Copies are made under this lock only, or from another copy.
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

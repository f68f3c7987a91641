//! [`Symbols`]: texts as numbers of four bytes, which can be compared, hashed and stored in
//! columns. They are never freed before the table; for texts that can be freed, use an
//! [`Interner`](crate::Interner).

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use marmota_model::{Error, ErrorKind, Result};
use parking_lot::RwLock;

use crate::Held;

/// Bytes of the counts of an `Arc<str>`, and of its entry in the vector of texts.
const TEXT_BYTES: usize = 2 * size_of::<usize>();

/// The number of a text in the table that assigned it. Numbers start at 0, in the order in which
/// texts were first added.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Symbol(pub u32);

/// A table of texts and their numbers, shared by threads.
///
/// ```
/// use marmota_collections::{Symbol, Symbols};
///
/// let symbols = Symbols::new();
/// let bourges = symbols.symbol("Bourges")?;
/// assert_eq!(symbols.symbol("Bourges")?, bourges);
/// assert_eq!(symbols.text(bourges).as_deref(), Some("Bourges"));
/// assert_eq!(symbols.text(Symbol(7)), None);
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub struct Symbols {
    table: RwLock<Table>,
    hasher: DefaultHashBuilder,
    bytes_max: usize,
}

#[derive(Default)]
struct Table {
    texts: Vec<Arc<str>>,
    /// Hash and number.
    numbers: HashTable<(u32, u32)>,
    bytes: usize,
}

fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Symbols {
    /// Creates an empty table for up to 2³² texts.
    #[must_use]
    pub fn new() -> Self {
        Self::with_bytes_max(usize::MAX)
    }

    /// Creates an empty table for at most `bytes_max` bytes of texts, with their counts.
    #[must_use]
    pub fn with_bytes_max(bytes_max: usize) -> Self {
        Self { table: RwLock::default(), hasher: DefaultHashBuilder::default(), bytes_max }
    }

    fn hash(&self, text: &str) -> u32 {
        let hash = self.hasher.hash_one(text);
        (hash ^ hash >> 32) as u32
    }

    /// Returns the number of a text. Assigns the next number if the text is new.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the table is full.
    pub fn symbol(&self, text: &str) -> Result<Symbol> {
        let hash = self.hash(text);
        // Most texts are found here: lookups under the read lock do not wait for each other.
        if let Some(symbol) = self.table.read().find(hash, text) {
            return Ok(symbol);
        }
        let new: Arc<str> = text.into();
        let mut table = self.table.write();
        if let Some(symbol) = table.find(hash, text) {
            return Ok(symbol);
        }
        let bytes = table.bytes.saturating_add(text.len() + TEXT_BYTES);
        let number = u32::try_from(table.texts.len());
        let (Ok(number), true) = (number, bytes <= self.bytes_max) else {
            return Err(full(table.texts.len(), self.bytes_max));
        };
        table.bytes = bytes;
        table.texts.push(new);
        table.numbers.insert_unique(spread(hash), (hash, number), |&(hash, _)| spread(hash));
        Ok(Symbol(number))
    }

    /// Returns the number of a text, if it has one.
    ///
    /// ```
    /// use marmota_collections::Symbols;
    /// let symbols = Symbols::new();
    /// let red = symbols.symbol("red")?;
    /// assert_eq!((symbols.find("red"), symbols.find("blue")), (Some(red), None));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn find(&self, text: &str) -> Option<Symbol> {
        self.table.read().find(self.hash(text), text)
    }

    /// Returns the text of a number.
    #[must_use]
    pub fn text(&self, symbol: Symbol) -> Option<Arc<str>> {
        self.table.read().texts.get(symbol.0 as usize).map(Arc::clone)
    }

    /// Returns the number of texts and their memory.
    #[must_use]
    pub fn held(&self) -> Held {
        let table = self.table.read();
        let places = table.texts.capacity() * size_of::<Arc<str>>();
        let bytes = table.bytes + places + table.numbers.allocation_size();
        Held { texts: table.texts.len(), bytes }
    }
}

impl Table {
    fn find(&self, hash: u32, text: &str) -> Option<Symbol> {
        let same =
            |&(other, number): &(u32, u32)| other == hash && *self.texts[number as usize] == *text;
        self.numbers.find(spread(hash), same).map(|&(_, number)| Symbol(number))
    }
}

#[cold]
fn full(texts: usize, bytes_max: usize) -> Error {
    let message = format!(
        "the table of symbols is full with {texts} texts and a limit of {bytes_max} bytes; raise \
         the limit with `Symbols::with_bytes_max`"
    );
    Error::new(ErrorKind::Unsupported, message)
}

impl Default for Symbols {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Symbols").field("held", &self.held()).finish_non_exhaustive()
    }
}

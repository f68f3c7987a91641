//! The distinct texts of one column; rows contain their numbers. Texts are stored as JSON, quoted
//! and escaped, since servers send them in this form. The text is the part between the quotes; it
//! is stored a second time only if it had to be escaped.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use marmota_model::{Violation, json};

/// Readable bytes after any JSON text: see [`Dictionary::put_json`].
const SPARE_BYTES: usize = 32;

/// Texts by number, from 0 in the order of their first row.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    json: String,
    /// The end of each text in `json`.
    ends: Vec<u32>,
    /// The texts that JSON has to escape, by number.
    escaped: Vec<(u32, Box<str>)>,
    /// The number of NULL.
    null: Option<u32>,
    /// True if the texts are JSON values themselves.
    is_json: bool,
    /// A buffer in which a text is quoted before it is added.
    quoted: Vec<u8>,
}

impl Dictionary {
    pub(crate) fn new(is_json: bool) -> Self {
        Self { is_json, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) const fn null(&self) -> Option<u32> {
        self.null
    }

    fn range(&self, id: u32) -> (usize, usize) {
        let id = id as usize;
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        (start as usize, self.ends[id] as usize)
    }

    /// Returns a text as JSON, or `null`.
    pub(crate) fn json(&self, id: u32) -> &str {
        let (start, end) = self.range(id);
        &self.json[start..end]
    }

    /// Returns the text, or `None` for NULL.
    pub(crate) fn text(&self, id: u32) -> Option<&str> {
        if self.null == Some(id) {
            return None;
        }
        let json = self.json(id);
        if self.is_json {
            return Some(json);
        }
        match self.escaped.binary_search_by_key(&id, |&(id, _)| id) {
            Ok(at) => Some(&self.escaped[at].1),
            Err(_) => Some(&json[1..json.len() - 1]),
        }
    }

    /// Appends a text as JSON. Most are short: copying a fixed length and truncating takes a few
    /// instructions instead of a call.
    #[inline]
    pub(crate) fn put_json(&self, out: &mut Vec<u8>, id: u32) {
        let (start, end) = self.range(id);
        put(out, self.json.as_bytes(), start, end);
    }

    /// Returns the memory in use, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let escaped: usize = self.escaped.iter().map(|(_, text)| text.len() + 24).sum();
        self.json.capacity() + self.ends.capacity() * size_of::<u32>() + escaped
    }

    /// Returns all JSON texts, concatenated, and the end of each.
    pub(crate) fn parts(&self) -> (&str, &[u32]) {
        let end = self.ends.last().map_or(0, |&end| end as usize);
        (&self.json[..end], &self.ends)
    }

    /// Adds a new text. Returns `None` if the dictionary is full.
    fn add(&mut self, text: Option<&str>) -> Option<u32> {
        let id = u32::try_from(self.ends.len()).ok()?;
        match text {
            None => {
                self.json.push_str("null");
                self.null = Some(id);
            }
            Some(text) if self.is_json => self.json.push_str(text),
            Some(text) => {
                self.quoted.clear();
                json::write_string(&mut self.quoted, text);
                if self.quoted.len() > text.len() + 2 {
                    self.escaped.push((id, text.into()));
                    self.json.push_str(&String::from_utf8_lossy(&self.quoted));
                } else {
                    // The most common case; known to be UTF-8.
                    self.json.push('"');
                    self.json.push_str(text);
                    self.json.push('"');
                }
            }
        }
        self.ends.push(u32::try_from(self.json.len()).ok()?);
        Some(id)
    }

    fn finish(&mut self) {
        self.quoted = Vec::new();
        self.json.push_str(&" ".repeat(SPARE_BYTES));
        self.json.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.escaped.shrink_to_fit();
    }
}

/// Appends `bytes[start..end]`. [`SPARE_BYTES`] from `start` on are copied if they exist.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, bytes: &[u8], start: usize, end: usize) {
    if let Some(block) = bytes.get(start..start + SPARE_BYTES)
        && end - start <= SPARE_BYTES
    {
        let wanted = out.len() + (end - start);
        out.extend_from_slice(block);
        out.truncate(wanted);
    } else {
        out.extend_from_slice(&bytes[start..end]);
    }
}

/// Finds the numbers of texts. Built together with a dictionary, and again if an index needs it.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Numbers {
    /// Returns the numbers of all texts of a dictionary.
    pub(crate) fn of(dictionary: &Dictionary) -> Self {
        let mut numbers = Self::default();
        numbers.table.reserve(dictionary.len(), |_| 0);
        for id in 0..dictionary.len() as u32 {
            if let Some(text) = dictionary.text(id) {
                numbers.insert(dictionary, text, id);
            }
        }
        numbers
    }

    pub(crate) fn find(&self, dictionary: &Dictionary, text: &str) -> Option<u32> {
        let same = |&id: &u32| dictionary.text(id) == Some(text);
        self.table.find(self.hasher.hash_one(text), same).copied()
    }

    fn insert(&mut self, dictionary: &Dictionary, text: &str, id: u32) {
        let Self { table, hasher } = self;
        let rehash = |&id: &u32| hasher.hash_one(dictionary.text(id).unwrap_or_default());
        table.insert_unique(hasher.hash_one(text), id, rehash);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.table.allocation_size()
    }
}

/// A text of up to 15 bytes and its length as one number, which can be compared and hashed in a few
/// instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Short(u128);

impl Short {
    /// Not equal to any text.
    pub(crate) const NONE: Self = Self(u128::MAX);

    /// For each length, the mask of the bytes and the encoded length.
    const FORMS: [(u128, u128); 16] = {
        let mut forms = [(0, 0); 16];
        let mut length = 0;
        while length < 16 {
            forms[length] = ((1 << (8 * length as u32)) - 1, (length as u128) << 120);
            length += 1;
        }
        forms
    };

    /// Returns the first `length` bytes of `block`, or `None` if they are too many.
    #[inline]
    pub(crate) fn new(block: [u8; 16], length: usize) -> Option<Self> {
        let &(kept, length) = Self::FORMS.get(length)?;
        Some(Self(u128::from_le_bytes(block) & kept | length))
    }

    fn bytes(self) -> ([u8; 16], usize) {
        let bytes = self.0.to_le_bytes();
        (bytes, usize::from(bytes[15]))
    }
}

/// Numbers and offsets of a dictionary have four bytes.
pub(crate) const FULL: &str = "has more than 4 GB of different texts";

/// The reason why a field is refused. Small, since each field's result contains it.
pub(crate) enum What {
    /// It is not UTF-8.
    NotUtf8,
    /// It breaks a rule of the model.
    Broken(Box<Violation>),
    /// Its column already has 4 GB of different texts.
    Full,
}

impl What {
    #[cold]
    pub(crate) fn broken(violation: Violation) -> Self {
        Self::Broken(Box::new(violation))
    }
}

/// A dictionary that grows. Each text is checked once, when it is new.
#[derive(Debug, Default)]
pub(crate) struct Interning {
    dictionary: Dictionary,
    short: HashTable<(u128, u32)>,
    long: Numbers,
}

impl Interning {
    pub(crate) fn new(is_json: bool) -> Self {
        Self { dictionary: Dictionary::new(is_json), ..Self::default() }
    }

    /// Returns the number of a short text.
    #[inline]
    pub(crate) fn short(
        &mut self,
        short: Short,
        check: impl FnMut(&str) -> Result<(), Violation>,
    ) -> Result<u32, What> {
        let hash = self.long.hasher.hash_one(short.0);
        if let Some(&(_, id)) = self.short.find(hash, |&(key, _)| key == short.0) {
            return Ok(id);
        }
        let (bytes, length) = short.bytes();
        let id = self.add(&bytes[..length], check)?;
        let hasher = &self.long.hasher;
        self.short.insert_unique(hash, (short.0, id), |&(key, _)| hasher.hash_one(key));
        Ok(id)
    }

    /// Returns the number of a text that is not short.
    pub(crate) fn long(
        &mut self,
        bytes: &[u8],
        check: impl FnMut(&str) -> Result<(), Violation>,
    ) -> Result<u32, What> {
        let text = std::str::from_utf8(bytes).map_err(|_| What::NotUtf8)?;
        if let Some(id) = self.long.find(&self.dictionary, text) {
            return Ok(id);
        }
        let id = self.add(bytes, check)?;
        self.long.insert(&self.dictionary, text, id);
        Ok(id)
    }

    /// Returns the number of a text of any length.
    pub(crate) fn long_or_short(
        &mut self,
        bytes: &[u8],
        check: impl FnMut(&str) -> Result<(), Violation>,
    ) -> Result<u32, What> {
        let (mut block, length) = ([0; 16], bytes.len().min(16));
        block[..length].copy_from_slice(&bytes[..length]);
        match Short::new(block, bytes.len()) {
            Some(short) => self.short(short, check),
            None => self.long(bytes, check),
        }
    }

    /// Returns the number of a text that was already checked.
    pub(crate) fn number(&mut self, text: &str) -> Result<u32, What> {
        self.long_or_short(text.as_bytes(), |_| Ok(()))
    }

    /// Returns the number of NULL.
    pub(crate) fn null(&mut self) -> Result<u32, What> {
        match self.dictionary.null {
            Some(id) => Ok(id),
            None => self.dictionary.add(None).ok_or(What::Full),
        }
    }

    #[cold]
    fn add(
        &mut self,
        bytes: &[u8],
        mut check: impl FnMut(&str) -> Result<(), Violation>,
    ) -> Result<u32, What> {
        let text = std::str::from_utf8(bytes).map_err(|_| What::NotUtf8)?;
        check(text).map_err(What::broken)?;
        self.dictionary.add(Some(text)).ok_or(What::Full)
    }

    pub(crate) const fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    pub(crate) fn finish(mut self) -> Dictionary {
        self.dictionary.finish();
        self.dictionary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_text_has_one_number(texts: Vec<String>, again: Vec<prop::sample::Index>) {
            let mut interning = Interning::new(false);
            let mut number = |text: &str| interning.number(text).ok().unwrap();
            let ids: Vec<u32> = texts.iter().map(|text| number(text)).collect();
            for index in again.iter().filter(|_| !texts.is_empty()) {
                let at = index.index(texts.len());
                prop_assert_eq!(number(&texts[at]), ids[at]);
            }
            let dictionary = interning.finish();
            let numbers = Numbers::of(&dictionary);
            for (text, &id) in texts.iter().zip(&ids) {
                prop_assert_eq!(dictionary.text(id), Some(&**text));
                prop_assert_eq!(numbers.find(&dictionary, text), Some(id));
                let (mut json, mut put) = (Vec::new(), Vec::new());
                json::write_string(&mut json, text);
                dictionary.put_json(&mut put, id);
                prop_assert_eq!(json, put);
            }
        }
    }

    #[test]
    fn null_is_no_text() {
        let mut interning = Interning::new(false);
        let word = interning.number("null").ok().unwrap();
        let null = interning.null().ok().unwrap();
        assert_eq!(interning.null().ok(), Some(null));
        let dictionary = interning.finish();
        assert_eq!((dictionary.text(word), dictionary.text(null)), (Some("null"), None));
        assert_eq!((dictionary.json(word), dictionary.json(null)), ("\"null\"", "null"));
        assert_eq!(Numbers::of(&dictionary).find(&dictionary, "null"), Some(word));
    }
}

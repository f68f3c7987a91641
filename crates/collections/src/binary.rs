//! The binary form of a collection.
//!
//! ```text
//! head     magic (8 bytes), version u32, shape u8 (1 list, 2 map),
//!          saved at u64 (milliseconds since 1970), items u64, content's bytes u64
//! content  a zstd frame of the items, each a MessagePack value
//! tail     crc32 u32 of all before
//! ```
//! All integers of head and tail are little-endian. Serde writes items with the names of their
//! fields, so a struct may gain fields with `#[serde(default)]`; compression removes most of the
//! cost of the names. MessagePack was chosen because it is self-describing: all serde attributes
//! work, and bytes can be checked without knowing their type. That check runs before any item is
//! made, since a checksum does not protect against an attacker who computes it: every length must
//! lie within the bytes, and nesting has a limit.

use std::io::{Read, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use marmota_model::{Error, ErrorKind, Result};
use serde::{Serialize, de::DeserializeOwned};

mod skim;

const MAGIC: &[u8; 8] = b"MARMOTC\0";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 37;
const TAIL_BYTES: usize = 4;
const LEVEL: i32 = 3;

/// Limits on the size of the input. Lengths that the input announces are checked against them.
///
/// ```
/// use marmota_collections::{DecodeLimits, List, Persist};
///
/// let list: List<u32> = (0..1000).collect();
/// let bytes = list.to_binary()?;
/// let limits = DecodeLimits { items_max: 999, ..DecodeLimits::default() };
/// let error = List::<u32>::new().fill_binary(&bytes, &limits).unwrap_err();
/// assert!(error.to_string().contains("1000 items"));
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Bytes of the content, unpacked, and of a file; 256 MiB by default.
    pub bytes_max: u64,
    /// Items; 100 million by default.
    pub items_max: u64,
    /// How deep an item may be nested; 64 by default.
    pub depth_max: usize,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self { bytes_max: 256 << 20, items_max: 100_000_000, depth_max: 64 }
    }
}

/// The kind of a collection in the binary form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryShape {
    /// Items.
    List = 1,
    /// Keys, values, and the milliseconds until each expires, or nothing if it does not expire.
    Map = 2,
}

/// A writer of the items of a collection.
#[derive(Default)]
pub struct BinaryWriter {
    content: Vec<u8>,
    items: u64,
}

impl BinaryWriter {
    /// Adds an item.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the item cannot be written as MessagePack.
    pub fn item<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<()> {
        let mut out = rmp_serde::Serializer::new(&mut self.content).with_struct_map();
        item.serialize(&mut out).map_err(|error| {
            let message = format!("item {} cannot be written as binary: {error}", self.items);
            Error::new(ErrorKind::Unsupported, message)
        })?;
        self.items += 1;
        Ok(())
    }

    /// Returns the complete binary form, with head and tail.
    pub(crate) fn finish(self, shape: BinaryShape) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(HEAD_BYTES + TAIL_BYTES + self.content.len() / 2);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.push(shape as u8);
        out.extend_from_slice(&now_ms().to_le_bytes());
        out.extend_from_slice(&self.items.to_le_bytes());
        out.extend_from_slice(&(self.content.len() as u64).to_le_bytes());
        zstd::Encoder::new(&mut out, LEVEL)
            .and_then(|mut frame| {
                frame.write_all(&self.content)?;
                frame.finish()?;
                Ok(())
            })
            .map_err(|error| Error::new(ErrorKind::Io, format!("cannot compress: {error}")))?;
        let sum = crc32fast::hash(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        Ok(out)
    }
}

/// The items of a binary form whose head and checksum are verified. Each item is checked when it is
/// read.
pub struct Items {
    content: Vec<u8>,
    at: usize,
    next: u64,
    count: u64,
    depth_max: usize,
    /// How long ago they were saved, by the wall clock; 0 if the clock was set back.
    pub(crate) age_ms: u64,
}

/// Returns true if the bytes begin with the magic number of a collection.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Checks everything except the items.
pub(crate) fn read(bytes: &[u8], shape: BinaryShape, limits: &DecodeLimits) -> Result<Items> {
    if !is_binary(bytes) {
        return Err(damaged(0, "the bytes are not a collection"));
    }
    let Some((summed, sum)) =
        bytes.split_last_chunk().filter(|(summed, _)| summed.len() >= HEAD_BYTES)
    else {
        return Err(damaged(bytes.len(), "the bytes are truncated"));
    };
    let version = u32::from_le_bytes(part(summed, 8));
    if version != VERSION {
        let message = format!(
            "the bytes have version {version}, but this program reads version {VERSION}: use the \
             program that wrote the bytes, or a newer one"
        );
        return Err(damaged(8, &message));
    }
    if crc32fast::hash(summed) != u32::from_le_bytes(*sum) {
        let message = "the checksum is wrong: the bytes are damaged or truncated";
        return Err(damaged(summed.len(), message));
    }
    if summed[12] != shape as u8 {
        return Err(damaged(12, &format!("the bytes are not a {shape:?}")));
    }
    let (saved_ms, count) =
        (u64::from_le_bytes(part(summed, 13)), u64::from_le_bytes(part(summed, 21)));
    let length = u64::from_le_bytes(part(summed, 29));
    if count > limits.items_max {
        let limit = limits.items_max;
        return Err(damaged(21, &format!("{count} items are more than the limit of {limit}")));
    }
    if length > limits.bytes_max {
        let limit = limits.bytes_max;
        return Err(damaged(29, &format!("{length} bytes are more than the limit of {limit}")));
    }
    if count > length {
        return Err(damaged(21, &format!("{count} items cannot be in {length} bytes")));
    }
    let mut content = Vec::new();
    zstd::Decoder::with_buffer(&summed[HEAD_BYTES..])
        // Memory is allocated for the bytes that exist, not for the announced length.
        .and_then(|frame| frame.take(length + 1).read_to_end(&mut content))
        .map_err(|error| {
            damaged(HEAD_BYTES, &format!("the content cannot be decompressed: {error}"))
        })?;
    if content.len() as u64 != length {
        return Err(damaged(29, "the content does not have the declared length"));
    }
    let age_ms = now_ms().saturating_sub(saved_ms);
    Ok(Items { content, at: 0, next: 0, count, depth_max: limits.depth_max, age_ms })
}

impl Items {
    /// Returns the next item; `None` after the last.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the number of the item and the offset where it begins.
    pub fn next_item<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let start = self.at;
        if self.next == self.count {
            let message = "there are bytes after the declared items";
            return if start == self.content.len() {
                Ok(None)
            } else {
                Err(self.damaged(start, message))
            };
        }
        self.at = skim::end_of_value(&self.content, start, self.depth_max)
            .map_err(|(at, what)| self.damaged(at, what))?;
        let item = rmp_serde::from_slice(&self.content[start..self.at])
            .map_err(|error| self.damaged(start, &error.to_string()))?;
        self.next += 1;
        Ok(Some(item))
    }

    /// Returns the announced number of items; it is at most the number of bytes.
    pub(crate) fn count(&self) -> usize {
        usize::try_from(self.count).unwrap_or_default()
    }

    #[cold]
    fn damaged(&self, at: usize, what: &str) -> Error {
        let message = format!("item {}, byte {at} of the unpacked content: {what}", self.next);
        Error::new(ErrorKind::Invalid, message)
    }
}

#[cold]
fn damaged(at: usize, what: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("byte {at}: {what}"))
}

/// Returns `N` bytes at an offset of the head. The caller has checked that they exist.
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

//! [`Persist`]: collections as JSON, as compact binary and as files, implemented once for all of
//! them. [`Content`] is the part that differs for each collection.

use std::path::Path;

use marmota_model::{Error, ErrorKind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::binary::{self, BinaryShape, BinaryWriter, DecodeLimits, Items};
use crate::file;
use crate::list::{Discipline, List};
use crate::map::{Base, Entries, Lookup, Map};
use crate::pairs::Pairs;

/// The format of a file. It is detected when the file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PersistFormat {
    /// JSON, for people to read and edit. It does not contain times to live.
    Json,
    /// Compressed, with a checksum and times to live: smaller and faster.
    Binary,
}

/// Collections that can be saved and loaded.
///
/// [`Persist::load`] and similar functions create collections that are `Default`. Other
/// collections, whose key is a closure, are created first and then filled. Filling replaces the
/// whole content; on an error it changes nothing.
///
/// Items, keys and values can be of any type that serde can write and read, with the exceptions
/// that JSON has too: `Some(None)` and `Some(())` are read back as `None`.
///
/// ```
/// use marmota_collections::{PersistFormat, DecodeLimits, List, Map, Persist};
///
/// let mut numbers = Map::<String, u32>::new();
/// numbers.insert("one".to_owned(), 1);
/// assert_eq!(numbers.to_json()?, r#"{"one":1}"#);
///
/// let file = std::env::temp_dir().join(format!("numbers-{}.bin", std::process::id()));
/// numbers.save(&file, PersistFormat::Binary)?;
/// assert_eq!(Map::load(&file)?, numbers);
///
/// let mut by_length = List::sorted_by(|word: &(usize, String)| &word.0);
/// by_length.fill_json(br#"[[3, "one"], [2, "to"]]"#, &DecodeLimits::default())?;
/// assert_eq!(by_length[0].1, "to");
/// # std::fs::remove_file(file).unwrap();
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub trait Persist: Content {
    /// Returns the collection as JSON: a list as an array; a map as an object if all its keys are
    /// texts, else as an array of pairs.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for a value that JSON cannot represent.
    fn to_json(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|error| Error::new(ErrorKind::Unsupported, format!("no JSON: {error}")))
    }

    /// Returns the collection as compressed bytes with a version and a checksum.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for a value that serde cannot write.
    fn to_binary(&self) -> Result<Vec<u8>> {
        let mut out = BinaryWriter::default();
        self.write_items(&mut out)?;
        out.finish(Self::SHAPE)
    }

    /// Replaces the content by that of a JSON text.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with line and column, or beyond a limit; [`ErrorKind::Conflict`] for
    /// a key that occurs twice.
    fn fill_json(&mut self, json: &[u8], limits: &DecodeLimits) -> Result<()> {
        if json.len() as u64 > limits.bytes_max {
            let (bytes, limit) = (json.len(), limits.bytes_max);
            let message = format!("{bytes} bytes of JSON are more than the limit of {limit}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        self.read_json(json)
    }

    /// Replaces the content by that of the binary form.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the offset of the fault, or beyond a limit;
    /// [`ErrorKind::Conflict`] for a key that occurs twice.
    fn fill_binary(&mut self, bytes: &[u8], limits: &DecodeLimits) -> Result<()> {
        self.read_items(binary::read(bytes, Self::SHAPE, limits)?)
    }

    /// Writes a file atomically: the complete new file is synced before it replaces the old one.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] with the name of the file, which is then unchanged.
    fn save(&self, path: impl AsRef<Path>, format: PersistFormat) -> Result<()> {
        let bytes = match format {
            PersistFormat::Json => self.to_json()?.into_bytes(),
            PersistFormat::Binary => self.to_binary()?,
        };
        file::save(path.as_ref(), &bytes)
    }

    /// Replaces the content by that of a file of either format.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the file does not exist, [`ErrorKind::Io`] if it cannot be read,
    /// otherwise as [`Persist::fill_binary`]; each error has the name of the file.
    fn fill_from(&mut self, path: impl AsRef<Path>, limits: &DecodeLimits) -> Result<()> {
        let path = path.as_ref();
        let bytes = file::load(path, limits.bytes_max)?;
        let filled = if binary::is_binary(&bytes) {
            self.fill_binary(&bytes, limits)
        } else {
            self.fill_json(&bytes, limits)
        };
        filled.map_err(|error| {
            let message = format!("{}: {error}", path.display());
            Error::new(error.kind(), message)
        })
    }

    /// Reads a collection from JSON, with the default [`DecodeLimits`].
    ///
    /// # Errors
    /// As [`Persist::fill_json`].
    fn from_json(json: &str) -> Result<Self>
    where
        Self: Default,
    {
        let mut made = Self::default();
        made.fill_json(json.as_bytes(), &DecodeLimits::default()).map(|()| made)
    }

    /// Reads a collection from the binary form, with the default [`DecodeLimits`].
    ///
    /// # Errors
    /// As [`Persist::fill_binary`].
    fn from_binary(bytes: &[u8]) -> Result<Self>
    where
        Self: Default,
    {
        let mut made = Self::default();
        made.fill_binary(bytes, &DecodeLimits::default()).map(|()| made)
    }

    /// Reads a collection from a file of either format, with the default [`DecodeLimits`].
    ///
    /// # Errors
    /// As [`Persist::fill_from`].
    fn load(path: impl AsRef<Path>) -> Result<Self>
    where
        Self: Default,
    {
        let mut made = Self::default();
        made.fill_from(path, &DecodeLimits::default()).map(|()| made)
    }
}

impl<C: Content> Persist for C {}

/// How the items of a collection are written and read. It is used only through [`Persist`].
pub trait Content: Serialize + Sized {
    /// The kind of the collection in the binary form.
    const SHAPE: BinaryShape;

    /// Writes all items.
    ///
    /// # Errors
    /// Those of the writer.
    fn write_items(&self, out: &mut BinaryWriter) -> Result<()>;

    /// Replaces the content by the items.
    ///
    /// # Errors
    /// Those of the reader, and for items that the collection cannot contain; it is then unchanged.
    fn read_items(&mut self, items: Items) -> Result<()>;

    /// Replaces the content by that of a JSON text.
    ///
    /// # Errors
    /// For invalid JSON, or items that the collection cannot contain; it is then unchanged.
    fn read_json(&mut self, json: &[u8]) -> Result<()>;
}

/// Returns a vector with capacity for the announced items, but for at most 4096 bytes.
fn room_for<T>(items: &Items) -> Vec<T> {
    Vec::with_capacity(items.count().min(4096 / size_of::<T>().max(1)))
}

fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T> {
    serde_json::from_slice(json).map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))
}

impl<T: Serialize + DeserializeOwned, D: Discipline<T>> Content for List<T, D> {
    const SHAPE: BinaryShape = BinaryShape::List;

    fn write_items(&self, out: &mut BinaryWriter) -> Result<()> {
        self.iter().try_for_each(|item| out.item(item))
    }

    fn read_items(&mut self, mut items: Items) -> Result<()> {
        let mut read = room_for(&items);
        while let Some(item) = items.next_item()? {
            read.push(item);
        }
        self.replace_all(read).map(drop)
    }

    fn read_json(&mut self, json: &[u8]) -> Result<()> {
        self.replace_all(parse(json)?).map(drop)
    }
}

impl<K, V, B> Content for Map<K, V, B>
where
    K: Serialize + DeserializeOwned,
    V: Serialize + DeserializeOwned,
    B: Base<K, V, Entries: Entries<K, V> + Lookup<K, V, K>>,
{
    const SHAPE: BinaryShape = BinaryShape::Map;

    fn write_items(&self, out: &mut BinaryWriter) -> Result<()> {
        // Rounded up, so that an entry that has not expired is still valid if it is read at once.
        let milliseconds = |left_ns: u64| left_ns.div_ceil(1_000_000);
        self.iter_timed()
            .try_for_each(|(key, value, left)| out.item(&(key, value, left.map(milliseconds))))
    }

    fn read_items(&mut self, mut items: Items) -> Result<()> {
        let mut read = Vec::new();
        while let Some((key, value, left_ms)) = items.next_item::<(K, V, Option<u64>)>()? {
            // The time between saving and loading counts.
            match left_ms.map(|left_ms| left_ms.saturating_sub(items.age_ms)) {
                Some(0) => {}
                left_ms => read.push((key, value, left_ms)),
            }
        }
        self.replace_entries(read)
    }

    fn read_json(&mut self, json: &[u8]) -> Result<()> {
        let Pairs(pairs) = parse::<Pairs<K, V>>(json)?;
        self.replace_pairs(pairs)
    }
}

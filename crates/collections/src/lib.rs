//! Collections for a program's own data: lists, and key-value maps with an order, an index or a
//! time to live. They can be shared by threads and saved as JSON or as compact binary. Interners
//! for texts are included.
//!
//! Values can be of any type. For rows of models with filters, transactions and REST, use a
//! `Store`. These collections are not built on the memory engine of a store: an untyped engine
//! between a program and its own `Vec` would cost more than it gives.
//!
//! | | one thread | many threads |
//! |---|---|---|
//! | items by place, sorted, or found by a key | [`List`] | [`SharedList`] |
//! | values by key, hashed or sorted, with a time to live | [`Map`] | [`SharedMap`] |
//! | one copy of each text | | [`Interner`] (counted), [`Symbols`] (4 bytes) |
//! | JSON, binary, files | [`Persist`], serde | through `snapshot` |
//!
//! ```
//! use std::time::Duration;
//! use marmota_collections::{PersistFormat, Persist, SharedMap};
//!
//! let sessions = SharedMap::<String, u64>::new().with_ttl(Duration::from_secs(1200));
//! sessions.insert("a41f".to_owned(), 7);
//! assert_eq!(sessions.get("a41f"), Some(7));
//!
//! let file = std::env::temp_dir().join(format!("sessions-{}.bin", std::process::id()));
//! sessions.snapshot().save(&file, PersistFormat::Binary)?;
//! # std::fs::remove_file(file).unwrap();
//! # Ok::<(), marmota_model::Error>(())
//! ```
//!
//! # Implementation
//! The collections use the same established crates as the memory engine, without custom data
//! structures:
//! - A list is a `Vec`, so readers see a slice. A sorted list is searched by bisection; a tree
//!   would not be faster and could not be read as a slice. A hashed list also has a `HashTable` of
//!   places (hashbrown), like the unique fields of the memory engine: keys stay in their items.
//! - A hashed map is an `IndexMap`: a vector of entries with the same kind of table as its index.
//!   A walk for expired entries continues at the number where the last one stopped, so no walk
//!   takes long. A sorted map is a `BTreeMap`.
//! - Shared collections are divided into parts, each with a lock of `parking_lot`. A lock-free map
//!   was rejected: it would not support closures that change a value in place or deadlines, or
//!   would need unsafe code.
//! - Expiry needs no thread, timer or heap: a deadline is eight bytes in the entry and is compared
//!   on each read. Writes walk over the entries and remove expired ones that are not read.
//! - The binary form is MessagePack in the frame of the memory engine (zstd, crc32).
//!
//! A function that borrows the key ([`KeyOf`]) defines the key of a list's items. Disciplines are
//! types: the compiler generates specialised code for each list, and a method that a list does not
//! support is a compile error.
//!
//! # Limits
//! A map is not a cache with eviction: it grows until its keys expire or are removed. There is no
//! log: changes that are not saved are lost when the process ends.
#![forbid(unsafe_code)]

mod binary;
mod clock;
mod file;
mod inside;
mod interner;
mod key;
mod list;
mod map;
mod pairs;
mod persist;
mod shared_list;
mod shared_map;
mod symbols;

pub use binary::{BinaryShape, BinaryWriter, DecodeLimits, Items};
pub use clock::{Clock, ManualClock};
pub use interner::{Held, Interner};
pub use key::{KeyOf, Whole};
pub use list::{Discipline, HashedBy, List, Plain, Refused, SortedBy};
pub use map::{Base, Entries, Entry, Expiry, Hashed, Lookup, Map, Sorted, SortedMap};
pub use persist::{Content, Persist, PersistFormat};
pub use shared_list::SharedList;
pub use shared_map::SharedMap;
pub use symbols::{Symbol, Symbols};

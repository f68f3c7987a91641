//! Collections for a program's own data: lists and key-value maps that keep an
//! order, an index or a time to live by themselves, are shared by threads, and
//! are saved as JSON and as compact binary; and interned texts.
//!
//! They hold values of any type. Rows of models, with filters, transactions
//! and REST, are in a `Store`, and a store's memory engine is not what stands
//! behind these: an engine without types between a program and its own `Vec`
//! would cost more than it gives.
//!
//! | | one thread | many threads |
//! |---|---|---|
//! | items by place, sorted, or found by a key | [`List`] | [`SharedList`] |
//! | values by key, hashed or sorted, with a time to live | [`Map`] | [`SharedMap`] |
//! | one copy of each text | | [`Interner`] (counted), [`Symbols`] (4 bytes) |
//! | JSON, binary, files | [`Persist`], serde | by a `snapshot` |
//!
//! ```
//! use std::time::Duration;
//! use marmota_collections::{Format, Persist, SharedMap};
//!
//! let sessions = SharedMap::<String, u64>::new().with_ttl(Duration::from_secs(1200));
//! sessions.insert("a41f".to_owned(), 7);
//! assert_eq!(sessions.get("a41f"), Some(7));
//!
//! let file = std::env::temp_dir().join(format!("sessions-{}.bin", std::process::id()));
//! sessions.snapshot().save(&file, Format::Binary)?;
//! # std::fs::remove_file(file).unwrap();
//! # Ok::<(), marmota_model::Error>(())
//! ```
//!
//! # What they are made of
//! The same well-kept parts as the memory engine, and no structure of our own:
//! - A list is a `Vec`, so it is a slice to all who read it. Sorted, it is
//!   searched by halves; a tree would find no faster, and give up the slice.
//!   Hashed, it has hashbrown's `HashTable` of places beside it, as the memory
//!   engine has for its unique fields: keys stay in their items.
//! - A hashed map is an `IndexMap`: entries in a vector, found by the same
//!   table. A walk for expired entries goes on by number from where the last
//!   one stopped, so that none takes long. A sorted one is a `BTreeMap`.
//! - Sharing is `parking_lot`'s locks over parts. A map without locks was left
//!   out: closures that change a value in place, and deadlines, would be lost,
//!   or need unsafe code.
//! - Expiry needs no thread, timer or heap: a deadline is eight bytes in the
//!   entry, compared when it is read. Those that nobody reads are found by the
//!   walk, which writes pay for.
//! - The binary form has the memory engine's frame (zstd, crc32) around
//!   MessagePack.
//!
//! The key of a list's items is named by a function that borrows it ([`KeyOf`]),
//! and disciplines are types: the compiler makes each list as if by hand, and
//! refuses what a list cannot do.
//!
//! # What they are not
//! No cache that throws out what is used least: a map grows until its keys
//! expire or are removed. No log: what is not saved is lost with the process.
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

pub use binary::{Items, Limits, Shape, Writer};
pub use clock::{Clock, ManualClock};
pub use interner::{Held, Interner};
pub use key::{KeyOf, Whole};
pub use list::{Discipline, HashedBy, List, Plain, Refused, SortedBy};
pub use map::{Base, Entries, Entry, Expiry, Hashed, Lookup, Map, Sorted, SortedMap};
pub use persist::{Content, Format, Persist};
pub use shared_list::SharedList;
pub use shared_map::SharedMap;
pub use symbols::{Symbol, Symbols};

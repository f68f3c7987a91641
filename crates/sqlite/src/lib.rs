//! Marmota's models in SQLite: a file or memory, with SQLite compiled in.
//!
//! [`Sqlite`] is an [`Engine`](marmota_store::engine::Engine): pass it to a store. It has one
//! connection that writes and, for a file, one that reads for each session, so that readers never
//! wait. Tables are STRICT, integer keys are rowids, and every statement is prepared once per
//! connection and found by its structure.
//!
//! ```
//! use marmota_sqlite::{Durability, Location, SqliteOptions, Sqlite};
//! let folder = std::env::temp_dir().join(format!("marmota-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! let options = SqliteOptions { durability: Durability::Relaxed, ..SqliteOptions::default() };
//! let engine = Sqlite::open(Location::File(folder.join("app.db")), options)?;
//! # drop(engine);
//! # std::fs::remove_dir_all(folder).ok();
//! # Ok::<(), marmota_model::Error>(())
//! ```

mod alone;
mod attachable_file;
mod backup;
mod budget;
mod clerk;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod clients;
mod column;
mod conflict;
mod connect;
mod counts;
#[cfg(feature = "simulated-disk")]
pub mod disk;
mod engine;
mod fault;
#[allow(unsafe_code, reason = "SQLite is C; every block says why it is sound")]
mod ffi;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod floor;
mod group;
mod holder;
mod lane;
mod lent;
mod neighbours;
mod options;
mod place;
mod prepare;
mod read;
#[cfg(feature = "encryption")]
mod rekey;
mod scan;
mod search_index;
mod session;
mod shape;
mod shared;
mod sql;
mod sql_words;
mod statement;
mod stopped;
mod straight;
mod sync;
mod texts;
mod vault;
mod waiting;
mod write;
mod write_many;
mod writer;

pub use engine::Sqlite;
pub use marmota_store::Durability;
#[cfg(feature = "encryption")]
pub use marmota_store::key::{EncryptionKey, KeySource};
pub use options::{Location, SqliteOptions};

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

mod backup;
#[cfg(feature = "bench")]
mod bench;
mod commit;
mod engine;
mod executor;
mod fault;
#[allow(unsafe_code, reason = "SQLite is C; every block says why it is sound")]
mod ffi;
mod file;
mod prepare;
mod schema_objects;
mod session;
mod sql_words;
mod statement;
mod virtual_table;

#[cfg(feature = "bench")]
#[doc(hidden)]
pub use bench::{baseline, clients};
pub use engine::Sqlite;
#[cfg(feature = "simulated-disk")]
pub use file::disk;
pub use file::options::{Location, SqliteOptions};
pub use marmota_store::Durability;
#[cfg(feature = "encryption")]
pub use marmota_store::key::{EncryptionKey, KeySource};

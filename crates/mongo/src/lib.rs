//! The MongoDB engine: models as documents, on the official driver.
//!
//! ```no_run
//! use marmota_mongo::Mongo;
//! use marmota_store::Store;
//! let engine = Mongo::from_url("mongodb://127.0.0.1:27017/shop")?;
//! let store = Store::builder(engine).open()?;
//! # Ok::<(), marmota_model::Error>(())
//! ```
//!
//! The driver runs on its own thread. A session passes owned work to it and is woken when the work
//! is done (`session.rs`). `shape.rs` maps rows to documents, `filter.rs` translates filters, and
//! `writer/` enforces the rules of writes on a server without references.
//!
//! A replica set or sharded cluster has transactions (`database/transaction.rs`,
//! `writer/work.rs`, `session/batch.rs`), which the capability then reports, and change streams,
//! through which a store's cache is notified of the writes of others (`listener.rs`). A standalone
//! server has neither: there, failed operations of several steps are undone explicitly
//! (`shared/turn.rs`, `database/undoing.rs`).
//!
//! The engine has no SQL, and it parses only its own options of the URL: hosts, logins, TLS,
//! compression and pools are the driver's.
#![forbid(unsafe_code)]

// The modules from the lowest: each imports only from those above it in this list.
//
// - `options`, `fault`, `refusal`: the URL, the driver's errors, the engine's own messages
// - `shape`, `filter`: rows as documents, filters as queries
// - `database`: commands, transactions, undoing
// - `prepare`, `listener`: migrations, and notifications of the writes of others
// - `shared`: the state of an engine, the turns of writes, waiting for the engine's thread
// - `writer`: the rules of writes
// - `session`, `engine`: operations in progress, the engine's interface

mod database;
mod engine;
mod fault;
mod filter;
mod listener;
mod options;
mod prepare;
mod refusal;
mod related;
mod session;
mod shape;
mod shared;
#[cfg(feature = "temporary-server")]
mod temporary;
mod writer;

pub use engine::Mongo;
#[cfg(feature = "temporary-server")]
pub use temporary::TemporaryMongo;

// Tests the guide's page here, where a server is available.
#[cfg(all(doctest, feature = "temporary-server"))]
#[doc = include_str!("../../../docs/guide/23-mongodb.md")]
mod guide {}

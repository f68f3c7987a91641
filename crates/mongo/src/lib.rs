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
//! `write*.rs` enforce the rules of writes on a server without references.
//!
//! A replica set or sharded cluster has transactions (`transaction.rs`, `work.rs`, `batch.rs`),
//! which the capability then reports, and change streams, through which a store's cache is notified
//! of the writes of others (`listener.rs`). A standalone server has neither: there, failed
//! operations of several steps are undone explicitly (`turn.rs`, `undo.rs`).
//!
//! The engine has no SQL, and it parses only its own options of the URL: hosts, logins, TLS,
//! compression and pools are the driver's.
#![forbid(unsafe_code)]

mod counts;
mod database;
mod engine;
mod fault;
mod filter;
mod json;
mod listener;
mod options;
mod prepare;
mod refusal;
mod session;
mod shape;
mod shared;
#[cfg(feature = "temporary-server")]
mod temporary;
mod transaction;
mod turn;
mod undo;
mod waiting;
mod writer;

pub use engine::Mongo;
#[cfg(feature = "temporary-server")]
pub use temporary::TemporaryServer;

// Tests the guide's page here, where a server is available.
#[cfg(all(doctest, feature = "temporary-server"))]
#[doc = include_str!("../../../docs/guide/23-mongodb.md")]
mod guide {}

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
//! The driver runs on a thread of its own; a session hands it owned work and
//! is woken when it is done (`session.rs`). `shape.rs` says how rows lie in
//! documents, `filter.rs` how filters are asked, `write*.rs` how writes keep
//! their promises on a server that knows no references.
//!
//! A replica set or sharded cluster has transactions (`transaction.rs`,
//! `work.rs`, `batch.rs`), which the capability says then, and change streams,
//! by which a store's cache hears what others write (`listener.rs`). A server
//! that stands alone has neither: what takes several steps is undone by hand
//! there (`turn.rs`, `undo.rs`).
//!
//! It knows no SQL, and it parses no URL beyond its own options: hosts, logins,
//! TLS, compression and pools are the driver's.
#![forbid(unsafe_code)]

mod aggregate;
mod batch;
mod counts;
mod database;
mod engine;
mod fault;
mod filter;
mod gather;
mod insert_each;
mod json;
mod listener;
mod lookup;
mod once_batch;
mod options;
mod prepare;
mod reading;
mod refusal;
mod session;
mod shape;
#[cfg(feature = "temporary-server")]
mod temporary;
mod transaction;
mod turn;
mod undo;
mod work;
mod write;
mod write_many;

pub use engine::Mongo;
#[cfg(feature = "temporary-server")]
pub use temporary::TemporaryServer;

// The guide's page is tried here, where there is a server.
#[cfg(all(doctest, feature = "temporary-server"))]
#[doc = include_str!("../../../docs/guide/23-mongodb.md")]
mod guide {}

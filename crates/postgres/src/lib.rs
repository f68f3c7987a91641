//! The PostgreSQL engine of Marmota: models in a PostgreSQL database (15 or
//! newer), with the same operations and answers as every other engine.
//!
//! - [`Postgres`]: the engine, opened by URL or by [`Options`].
//! - [`wire`]: the protocol, as functions on bytes.
//!
//! Operations are pipelined: everything that a thread submits in one turn is sent in one write, and
//! answers are matched by their order. Statements are prepared by shape, parameters and results are
//! binary, and rows are passed to the sink from the buffer of the socket.
//!
//! It waits without a runtime: a thread that runs an operation sleeps on the socket, a future is
//! woken by an engine thread that watches sockets. For Linux.
#![forbid(unsafe_code)]

mod announcement;
mod column;
mod column_limit;
mod composer;
mod conflict;
mod connection;
mod connector;
mod controls;
mod engine;
mod fault;
mod giving_up;
mod inside;
mod lane;
mod listener;
mod options;
mod own;
mod pool;
mod prepare;
mod query;
mod read;
mod reply;
mod running;
mod script;
mod search;
mod session;
mod shape;
mod shared;
mod socket;
mod sql;
mod sql_words;
mod sql_writer;
mod statement;
mod subject;
mod table_facts;
#[cfg(feature = "temporary-server")]
mod temporary;
pub mod wire;
mod write;
mod write_many;

pub use engine::Postgres;
pub use marmota_store::Durability;
pub use options::{Host, Options, Password, TlsMode};
#[cfg(feature = "temporary-server")]
pub use temporary::TemporaryServer;

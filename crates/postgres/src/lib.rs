//! The PostgreSQL engine of Marmota: models in a PostgreSQL database (15 or
//! newer), with the same operations and answers as every other engine.
//!
//! - [`Postgres`]: the engine, opened by URL or by [`PostgresOptions`].
//! - [`wire`]: the protocol, as functions on bytes.
//!
//! Operations are pipelined: everything that a thread submits in one turn is sent in one write, and
//! answers are matched by their order. Statements are prepared by shape, parameters and results are
//! binary, and rows are passed to the sink from the buffer of the socket.
//!
//! It waits without a runtime: a thread that runs an operation sleeps on the socket, a future is
//! woken by an engine thread that watches sockets. For Linux.
#![forbid(unsafe_code)]

// The modules from the lowest: each imports only from those above it in this list.
//
// - `wire`: the protocol
// - `options`: the URL, and the names of the engine's connections
// - `fault`: the server's errors
// - `statement`: how fields are stored; the texts of statements, of filters and of orders
// - `connection`: sockets, logins, slots, the pool, cancel requests
// - `prepare`: migrations
// - `changes`: notifications of the writes of others, and the change feed
// - `commands`: the calls of an operation, raw SQL, the results
// - `composer`: operations as calls
// - `in_flight`: an operation in progress, from its calls to its outcome
// - `shared`, `session`, `engine`: the connections of an engine, its sessions, its interface

mod changes;
mod commands;
mod composer;
mod connection;
mod engine;
mod fault;
mod in_flight;
mod options;
mod prepare;
mod session;
mod shared;
mod statement;
#[cfg(feature = "temporary-server")]
mod temporary;
pub mod wire;

pub use engine::Postgres;
pub use marmota_sql::TargetServer;
pub use marmota_store::Durability;
pub use options::{Host, Password, PostgresOptions, TlsMode};
#[cfg(feature = "temporary-server")]
pub use temporary::TemporaryPostgres;

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
// - `wire`, `own`, `options`: the protocol, the names of the engine's connections, the URL
// - `column`, `table_facts`: how fields are stored, and how a table differs from its model
// - `fault`: the server's errors
// - `statement`, `shape`: the texts of statements, of filters and of orders
// - `connection`: sockets, logins, lanes, the pool, cancel requests
// - `prepare`, `listener`: migrations, and notifications of the writes of others
// - `script`, `sql`, `reply`: the calls of an operation, raw SQL, the results
// - `composer`: operations as calls
// - `running`: an operation in progress, from its calls to its outcome
// - `shared`, `session`, `engine`: the connections of an engine, its sessions, its interface

mod column;
mod composer;
mod connection;
mod engine;
mod fault;
mod listener;
mod options;
mod own;
mod prepare;
mod reply;
mod running;
mod script;
mod session;
mod shape;
mod shared;
mod sql;
mod statement;
mod table_facts;
#[cfg(feature = "temporary-server")]
mod temporary;
pub mod wire;

pub use engine::Postgres;
pub use marmota_store::Durability;
pub use options::{Host, Password, PostgresOptions, TlsMode};
#[cfg(feature = "temporary-server")]
pub use temporary::TemporaryPostgres;

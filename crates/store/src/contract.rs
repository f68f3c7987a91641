//! The contract between the store and an engine: the engine's interface, and the data that passes
//! through it.
//!
//! ```text
//!    verbs, batches, REST                     an engine
//!           |                                     ^
//!           v                                     |
//!       Operation  ---- Session::submit ----> executes it
//!           ^                                     |
//!           |      rows: RowSink (lent)           |
//!           +----- result: Outcome, Error <-------+
//! ```
//!
//! | file | subject |
//! |---|---|
//! | `engine.rs` | the traits `Engine` and `Session`: the rules for implementers, and the order of the calls |
//! | `operation.rs`, `operation/` | a request as data, its result, writes of batches, links, idempotency keys |
//! | `capability.rs` | differences between engines, as data |
//! | `commit_sink.rs` | what copies the log of an engine elsewhere |
//! | `existing.rs` | the structure of a database that another program made |
//! | `durability.rs` | the moment at which a write is answered |
//! | `plan.rs` | the changes that a database needs to fit its models |
//! | `sql.rs`, `borrowed_table.rs` | raw SQL, and tables that one engine lends to the SQL of another |
//! | `invalidation_feed.rs` | writes of other processes, reported to the cache |
//! | `change.rs`, `change/` | the changes of commits, and what an engine needs to record them |
//! | `row_hook.rs` | hooks that are called before a row is written |
//! | `audit.rs`, `statistics.rs` | data for the history, and counters |
//!
//! Everything here is plain data or a trait. The folder imports `runtime` (tickets, wakers),
//! `rights` and `rows`, which know no engine either.

pub(crate) mod audit;
pub mod borrowed_table;
pub(crate) mod capability;
pub(crate) mod change;
pub(crate) mod commit_sink;
pub(crate) mod durability;
pub mod engine;
pub mod existing;
pub(crate) mod file_guard;
pub(crate) mod invalidation_feed;
pub(crate) mod operation;
pub mod plan;
pub(crate) mod row_hook;
pub(crate) mod sql;
pub(crate) mod statistics;

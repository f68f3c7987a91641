//! The memory engine: typed rows in compact pages, indexes, transactions and
//! files to save to and load from.
//!
//! The modules from the lowest:
//!
//! - `lock`: the transaction lock, and waiting for long reads
//! - `table`: one table: rows in pages, the index of its key, other indexes
//! - `catalog`: all tables, and locking those of an operation
//! - `encryption`, `data_file`: files of rows, and their encryption
//! - `read`, `write`: operations on locked tables; tables that the SQL of another engine reads
//! - `journal`: the log of a file
//! - `shared`, `prepare`, `session`, `engine`: the state of an engine, changes of its tables, its
//!   sessions, its interface
//! - `backup`: backup, restore, and another key for a file
//!
//! It is the reference engine of the conformance suite: its results define the meaning of
//! operations.
//!
//! # What a session sees
//! Reads return committed data. One transaction is open at a time, and it is serializable: writes
//! of other sessions to tables that it has used wait for its end, and so do their reads of tables
//! that it has written to (old versions of rows are not kept). Operations outside a transaction are
//! atomic. A waiting operation holds no locks and returns
//! [`Submitted::Waiting`](marmota_store::engine::Submitted::Waiting).
//! [`Session::submit`](marmota_store::engine::Session::submit) blocks only while an operation of
//! another thread runs.
#![forbid(unsafe_code)]

mod backup;
mod catalog;
mod data_file;
mod encryption;
mod engine;
mod journal;
mod lock;
mod prepare;
mod read;
mod recording;
mod session;
mod shared;
mod table;
mod write;

pub use data_file::FileFormat;
pub use engine::Memory;

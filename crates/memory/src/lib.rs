//! The memory engine: typed rows in compact pages, indexes, transactions and
//! files to save to and load from.
//!
//! ```text
//! session ─ locked ─ write ─ table_rows ─ pages (the rows)
//!    │         │       │         ├─ key_index   (by key, in its order)
//!  gate     catalog   log        └─ row_index   (unique: hashed; all: ordered)
//!                                plan ─ scan   (reads)
//! file ─ snapshot ─ journal   (what is kept on the disk)
//!        vault    ─ cipher    (encrypted, if there is a key)
//! lent                        (what the SQL of another engine reads)
//! ```
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
#[cfg(feature = "encryption")]
mod cipher;
mod compare;
mod comparison;
mod conflict;
mod data_file;
mod engine;
mod gate;
mod hashed;
mod install;
mod journal;
mod key_index;
mod layout;
mod lent;
mod locked;
mod log;
mod long_delete;
mod long_reads;
mod long_scan;
mod ordered;
mod page;
mod plain_file;
mod plan;
mod references;
#[cfg(feature = "encryption")]
mod rekey;
mod row_codec;
mod row_index;
mod row_set;
mod row_write;
mod scan;
mod scans;
mod seal;
mod session;
mod shared;
mod snapshot;
mod snapshots;
mod table_rows;
mod vault;
mod write;

pub use data_file::FileFormat;
pub use engine::Memory;

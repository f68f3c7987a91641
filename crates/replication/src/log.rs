//! The write-ahead log of a database, read while SQLite writes it.

pub(crate) mod reader;
pub(crate) mod tail;

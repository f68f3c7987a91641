//! The logs of databases: the pages of SQLite's, and files of records.

pub(crate) mod log_tail;
pub(crate) mod page_tail;
pub(crate) mod reader;
pub(crate) mod record_tail;

//! What an operation sends, and what it receives: calls of statements with their parameters, their
//! results, and raw SQL.

pub(crate) mod command_batch;
pub(crate) mod raw_sql;
pub(crate) mod reply;

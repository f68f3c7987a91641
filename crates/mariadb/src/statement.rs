//! The text of statements, and values as columns.

pub(crate) mod column;
pub(crate) mod filter;
pub(crate) mod sql;

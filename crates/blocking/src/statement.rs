//! The texts of statements, and values in them.

pub(crate) mod column;
pub(crate) mod filter;
pub(crate) mod sql;
pub(crate) mod text;

//! What is done with the tables of a store, and columns of files.

pub(crate) mod batch;
mod columns;
pub(crate) mod cursor;
mod rows;
mod rows_by_key;
mod sql;
mod subscription;
pub(crate) mod transaction;

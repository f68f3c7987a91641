//! What is done with the tables of a store, and columns of files.

mod batch;
mod columns;
pub(crate) mod cursor;
mod rows;
mod sql;
mod subscription;
pub(crate) mod transaction;

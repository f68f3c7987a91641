//! The verbs: methods of a store that make operations, and results from their outcomes.

pub mod access;
pub(crate) mod action;
pub mod aggregate;
pub(crate) mod all;
pub mod batch;
pub(crate) mod changes;
pub mod group;
mod history;
pub mod live;
pub mod read;
pub mod related;
pub mod sql;
pub mod stream;
pub(crate) mod transaction;
pub mod write;

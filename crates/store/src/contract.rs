//! The contract between the store and an engine: the engine's interface, and the data that passes
//! through it.

pub(crate) mod audit;
pub mod borrowed_table;
pub(crate) mod capability;
pub(crate) mod durability;
pub mod engine;
pub(crate) mod invalidation_feed;
pub(crate) mod operation;
pub mod plan;
pub(crate) mod sql;
pub(crate) mod statistics;

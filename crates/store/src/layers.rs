//! The layers that an operation passes on its way from a verb to a session of the engine: spans,
//! counters, rights, history entries and the cache.

pub(crate) mod cache;
mod exposure;
pub mod meter;
mod narrowing;
pub(crate) mod scope;

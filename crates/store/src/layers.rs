//! The layers that an operation passes on its way from a verb to a session of the engine: spans,
//! counters, rights, history entries and the cache.
//!
//! [`stack`] assembles them, in this order; [`layer`] has the interface that each implements.

pub(crate) mod audit;
pub(crate) mod cache;
pub(crate) mod handle;
pub(crate) mod layer;
pub(crate) mod metrics;
pub(crate) mod rights;
pub(crate) mod session;
pub(crate) mod stack;
mod thread_slot;
pub(crate) mod trace;

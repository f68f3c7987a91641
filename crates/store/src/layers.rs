//! The layers that an operation passes on its way from a verb to a session of the engine: spans,
//! counters, rights, the positions of repeated batches, the additional steps of writes, the cache,
//! and reads that an engine leaves to the store.
//!
//! ```text
//! trace → metrics → rights → replay → steps → cache → fallback → session
//! ```
//!
//! Each is a file here that implements the interface in [`layer`]; [`stack`] assembles them when a
//! store is opened. A layer sees an operation as its caller made it, but for what the layers before
//! it have changed: the counters do not see that a write is executed as a batch, the history does.
//! The change feed is kept in [`feed`]: the engine writes it, below all layers.
//! The parts of a handle to the store that layers depend on, such as its rights, are in [`handle`].

pub(crate) mod cache;
pub(crate) mod fallback;
pub(crate) mod feed;
pub(crate) mod handle;
pub(crate) mod layer;
pub(crate) mod metrics;
mod replay;
pub(crate) mod rights;
pub(crate) mod session;
pub(crate) mod stack;
pub(crate) mod steps;
#[cfg(test)]
mod tests;
mod thread_slot;
pub(crate) mod trace;

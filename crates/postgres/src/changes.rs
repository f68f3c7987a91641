//! Changes of the database, for the store: notifications of writes for its cache, and the change
//! feed.

pub(crate) mod feed;
pub(crate) mod listener;
mod listening_thread;

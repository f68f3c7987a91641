//! The server's behaviour through its public API, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod client;
mod handlers;
mod lifecycle;
mod limits;
mod malformed;
mod messages;
#[cfg(feature = "tower")]
mod mount;

//! The server's behaviour through its public API, over real sockets.

mod client;
mod handlers;
mod lifecycle;
mod limits;
mod malformed;
mod messages;
#[cfg(feature = "tower")]
mod mount;

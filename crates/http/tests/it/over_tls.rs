//! The tests of behaviour that are about what is said, not about sockets, over TLS.

mod bodies;
mod client;
#[cfg(feature = "compression")]
mod coding;
mod handlers;
#[cfg(feature = "http2")]
mod http2;
mod limits;
mod malformed;
mod messages;
#[cfg(feature = "tower")]
mod mount;
mod route_changes;
mod streams;
mod unread;
mod uploads;
mod websockets;

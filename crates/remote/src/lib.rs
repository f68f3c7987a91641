//! A store in another process: operations on models, encoded as bytes for any transport.
//!
//! The client is an engine ([`Remote`]), so a store opened on it has every verb, for typed models
//! and for records, awaited or blocking. The server ([`Service`]) passes operations to the store
//! that it serves, and validates them as untrusted input: rules, kinds, keys, write timestamps.
//!
//! Connections are those of [`marmota_rpc`]. The protocol is in `codec`, which uses no sockets; the
//! server's end of a connection (`server::peer`) works on bytes only.

mod client;
mod codec;
mod server;

pub use client::Remote;
pub use server::Service;

//! A store in another process: operations on models as bytes, over whatever
//! carries bytes.
//!
//! The client is an engine ([`Remote`]), so a store that is opened on it has
//! every verb, typed models and records made at run time, awaited or run. The
//! server ([`Service`]) hands what it is asked to the store that it serves,
//! and checks it as if it came from anybody: rules, kinds, keys, stamps.
//!
//! The protocol lies in `codec`, which owns no socket, and both ends of a
//! connection (`server::peer`, `client::line`) know bytes only.

mod client;
mod codec;
mod server;

pub use client::{Channel, Remote};
pub use codec::packet;
pub use server::Service;
pub use server::carried;

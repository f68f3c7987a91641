//! All tests of behaviour. The module that this file is decides which backend is tested; see
//! `client::backend`.

mod client;
#[cfg(feature = "compression")]
mod coding;
mod descriptors;
mod handlers;
mod lifecycle;
mod limits;
mod malformed;
mod messages;
#[cfg(feature = "tower")]
mod mount;
mod streams;
mod uploads;

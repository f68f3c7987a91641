//! All tests of behaviour. The module that this file is decides which backend is tested; see
//! `client::backend`.

mod bodies;
mod client;
#[cfg(feature = "compression")]
mod coding;
mod descriptors;
#[cfg(feature = "extract")]
mod extractors;
mod files;
mod forms;
mod handlers;
#[cfg(feature = "http2")]
mod http2;
mod layers;
mod lifecycle;
mod limits;
mod malformed;
mod messages;
#[cfg(feature = "tower")]
mod mount;
mod proxies;
mod route_changes;
mod same_origin;
mod sharing;
mod smuggling;
mod streams;
#[cfg(feature = "tls")]
mod tls;
mod unix;
mod unread;
mod uploads;
mod websockets;
mod wrapping;

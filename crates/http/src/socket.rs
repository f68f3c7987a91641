//! Sockets: the addresses that a server is bound to, listeners, and what may lie between a
//! connection's socket and its buffers (a proxy's header, TLS).

pub(crate) mod address;
pub(crate) mod bound;
pub(crate) mod listener;
pub(crate) mod port_lock;
pub(crate) mod proxies;
pub(crate) mod socket_codec;
#[cfg(feature = "tls")]
pub(crate) mod tls;

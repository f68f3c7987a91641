//! Sockets: the addresses that a server is bound to, its listeners, and what lies between the
//! socket of a connection and its buffers (the header of a proxy, TLS).
//!
//! A listener accepts sockets and knows the peers; [`crate::connection`] reads and writes them.
//! What is here works on bytes, or runs once when a server starts:
//!
//! | file | subject |
//! |---|---|
//! | `address` | addresses to listen on, and the other end of a connection |
//! | `listener` | one listening socket |
//! | `bound` | all addresses of a server, distributed to its groups of threads |
//! | `port_lock` | ports that one server has exclusively |
//! | `proxies` | the peers that may name the client |
//! | `system` | calls on sockets that differ between systems |
//! | `socket_codec` | the header of a proxy and TLS, on bytes |
//! | `tls` | certificates, and the encryption of a connection |

pub(crate) mod address;
pub(crate) mod bound;
pub(crate) mod listener;
pub(crate) mod port_lock;
pub(crate) mod proxies;
pub(crate) mod socket_codec;
pub(crate) mod system;
#[cfg(feature = "tls")]
pub(crate) mod tls;

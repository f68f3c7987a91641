//! The server's behaviour through its public API, over real sockets: the same tests on all
//! backends.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::duplicate_mod, reason = "each backend has its own copy of every test")]

#[cfg(feature = "http2")]
mod bridge;
#[path = "behaviour.rs"]
mod epoll;
#[cfg(feature = "http2")]
#[path = "over_http2.rs"]
mod epoll_over_http2;
#[cfg(all(feature = "http2", feature = "tls"))]
#[path = "over_http2.rs"]
mod epoll_over_http2_over_tls;
#[cfg(feature = "tls")]
#[path = "over_tls.rs"]
mod epoll_over_tls;
mod in_process;
#[path = "behaviour.rs"]
mod portable;
#[cfg(feature = "tls")]
#[path = "over_tls.rs"]
mod portable_over_tls;
#[path = "behaviour.rs"]
mod ring;
#[cfg(feature = "http2")]
#[path = "over_http2.rs"]
mod ring_over_http2;
#[cfg(all(feature = "http2", feature = "tls"))]
#[path = "over_http2.rs"]
mod ring_over_http2_over_tls;
#[cfg(feature = "tls")]
#[path = "over_tls.rs"]
mod ring_over_tls;
#[cfg(feature = "tracing")]
mod traces;
#[cfg(feature = "tls")]
mod tunnel;

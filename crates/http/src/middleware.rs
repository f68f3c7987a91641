//! What applications put around and next to their handlers: layers
//! ([`Compression`](crate::Compression), [`Cors`](crate::Cors), [`RateLimit`](crate::RateLimit),
//! [`RequestId`](crate::RequestId), [`SecurityHeaders`](crate::SecurityHeaders),
//! [`Traces`](crate::Traces)), routes that any server may have (files, health, metrics, a tower
//! service), and the access log.
//!
//! A layer implements [`Layer`](crate::Layer) and is added by `layer` of a router or endpoint. It
//! decides before the handler, and adds headers to the answer; it does not see the answer. Metrics
//! and the access log see every answer, so they are not layers but settings of the server
//! (`observer.rs`).

pub(crate) mod access_log;
pub(crate) mod background_writer;
pub(crate) mod compression;
pub(crate) mod cors;
pub(crate) mod files;
pub(crate) mod health;
pub(crate) mod metrics;
#[cfg(feature = "tower")]
pub(crate) mod mount;
pub(crate) mod observer;
pub(crate) mod rate_limit;
pub(crate) mod request_id;
pub(crate) mod security_headers;
#[cfg(feature = "tracing")]
pub(crate) mod traces;

//! What stands beside an application's own handlers: layers (CORS, rate limit, compression, …),
//! routes that any server may have (health, metrics, a tower service), and the access log.

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

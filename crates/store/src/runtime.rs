//! Waiting: threads that run operations, sockets that futures wait for, pauses and thread pools.

pub mod backoff;
pub mod in_flight;
mod job_result;
#[cfg(target_os = "linux")]
pub(crate) mod linger;
pub(crate) mod park;
#[cfg(target_os = "linux")]
pub(crate) mod poller;
pub mod thread_pool;
#[cfg(target_os = "linux")]
pub(crate) mod watch;
#[cfg(target_os = "linux")]
pub(crate) mod watcher;

//! Waiting: threads that run operations, sockets that futures wait for, pauses and thread pools.

pub mod backoff;
pub mod in_flight;
mod job_result;
pub(crate) mod park;
#[cfg(target_os = "linux")]
pub(crate) mod poller;
#[cfg(target_os = "linux")]
pub(crate) mod spin_wait;
pub mod thread_pool;
#[cfg(target_os = "linux")]
pub(crate) mod watch;
#[cfg(target_os = "linux")]
pub(crate) mod watcher;

//! Waiting: threads that run operations, sockets that futures wait for, pauses and thread pools.

pub mod backoff;
pub(crate) mod block_on;
pub mod in_flight;
mod job_result;
#[cfg(target_os = "linux")]
pub(crate) mod poller;
#[cfg(target_os = "linux")]
pub(crate) mod spin_wait;
pub mod thread_pool;
pub mod wait;
#[cfg(target_os = "linux")]
pub(crate) mod watch;
#[cfg(target_os = "linux")]
pub(crate) mod watcher;

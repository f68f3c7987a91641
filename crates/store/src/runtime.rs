//! Waiting: threads that run operations, sockets that futures wait for, pauses and thread pools.
//!
//! | caller | waits |
//! |---|---|
//! | a thread that runs an operation | spins for up to 100 µs, then sleeps on the socket of the answer or is parked |
//! | a task on a server's thread | the server's event loop watches the socket (`watcher.rs`) |
//! | a task elsewhere | one thread for the process sleeps in epoll (`poller.rs`) |
//!
//! No async runtime is needed: an operation is polled with a waker, and each of these wakes it.

pub(crate) mod alarm;
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

//! The memory engine through its public API.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod budget;
#[cfg(feature = "encryption")]
mod encryption;
mod file;
mod killed;
mod log;
mod log_crash;
mod model;
mod places;
mod session;
mod small_disk;

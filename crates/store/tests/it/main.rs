//! The store through its public API.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod after_commit;
mod cache;
mod killed;
mod memory_budget;
#[cfg(feature = "encryption")]
mod memory_encryption;
mod memory_file;
mod memory_log;
mod memory_log_crash;
mod memory_model;
mod memory_places;
mod memory_session;
mod meter;
mod small_disk;
mod spans;
mod tenants;

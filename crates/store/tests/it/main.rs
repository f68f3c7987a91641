//! The store through its public API.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod after_commit;
mod cache;
mod handles;
mod meter;
mod rights;
mod spans;
mod tenants;

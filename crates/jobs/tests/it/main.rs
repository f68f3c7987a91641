//! Jobs on SQLite and in memory, by several workers, with failures of all kinds.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod basics;
mod cancelling;
mod harness;
mod killed;
mod leases;
mod schedules;
mod stopping;
mod unique;

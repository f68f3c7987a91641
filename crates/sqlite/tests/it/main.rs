//! The SQLite engine through its public interface.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod budget;
mod budget_of_memory;
mod changes;
mod composite_keys;
mod concurrency;
mod database;
mod disk;
#[cfg(feature = "encryption")]
mod encryption;
mod failed_syncs;
mod group;
mod kill;
#[path = "../../../memory/tests/it/killed.rs"]
mod killed;
mod locked_out;
mod migrations;
mod operations;
mod places;
mod power;
mod prepare;
mod processes;
mod queries;
mod rebuild;
mod refusals;
mod shared_reads;
mod slow_disk;
#[path = "../../../memory/tests/it/small_disk.rs"]
mod small_disk;
mod statistics;
mod transactions;
mod vectors;

//! Replication of databases to real targets: restore, replicas, failures.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod bucket;
mod database;
#[cfg(feature = "encryption")]
mod encrypted;
mod follow;
mod kill;
mod live_replica;
mod merging;
mod other_processes;
mod outage;
mod records;
mod restore;
mod s3_server;

//! Replication of SQLite databases to real targets: restore, replicas, failures.

mod bucket;
mod database;
mod follow;
mod kill;
mod outage;
mod restore;

//! A long run of the change feed: three stores on one database, 8 threads that write at random,
//! killed connections. All stores read the same commits, which lead to the rows of the table. Then
//! it measures how long a commit takes from one process to a reader of another.
//!
//! `cargo run --release -p marmota-postgres --features temporary-server --example feed_race`
#![allow(clippy::unwrap_used, reason = "a run that fails ends with the error")]

use std::time::Instant;

use marmota_derive::Model;
use marmota_postgres::{Postgres, TemporaryPostgres};

#[path = "../tests/it/feed_race.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod feed_race;

#[derive(Clone, Debug, Default, Model, PartialEq)]
#[allow(unreachable_pub, reason = "the derive gives columns the visibility of their fields")]
pub(crate) struct Tally {
    pub(crate) id: i64,
    pub(crate) count: i64,
    #[model(unique)]
    pub(crate) label: Option<String>,
}

pub(crate) fn engine(url: &str) -> Postgres {
    Postgres::from_url(url).unwrap()
}

fn kill(number: u64) -> String {
    format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname=current_database() \
         AND pid<>pg_backend_pid() AND pid%7={number} AND state<>'idle in transaction'"
    )
}

/// The writes of each thread.
const WRITES: usize = 14_000;

fn main() {
    let server = TemporaryPostgres::start(&[]).unwrap();
    let writes = std::env::args().nth(1).map_or(WRITES, |writes| writes.parse().unwrap());
    let started = Instant::now();
    let commits = feed_race::race(&server.make_database().unwrap(), 8, writes, kill);
    println!("{commits} commits in {:.1} s, the same for all", started.elapsed().as_secs_f64());
    let times = feed_race::delays(&server.make_database().unwrap(), 2_000);
    let part = |of: usize| times[times.len() * of / 1_000];
    println!("to another process: p50 {:?}, p99 {:?}, p99.9 {:?}", part(500), part(990), part(999));
}

//! A long run of the change feed: three stores on one database, 8 threads that write at random,
//! killed connections. All stores read the same commits, which lead to the rows of the table. Then
//! it measures how long a commit takes from one process to a reader of another.
//!
//! `cargo run --release -p marmota-mariadb --features temporary-server --example feed_race`
#![allow(clippy::unwrap_used, reason = "a run that fails ends with the error")]

use std::time::Instant;

use marmota_derive::Model;
use marmota_mariadb::{Mariadb, TemporaryMariadb};

#[path = "../../postgres/tests/it/feed_race.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod feed_race;

#[derive(Clone, Debug, Default, Model, PartialEq)]
#[allow(unreachable_pub, reason = "the derive gives columns the visibility of their fields")]
pub(crate) struct Tally {
    pub(crate) id: i64,
    pub(crate) count: i64,
    #[model(unique, max = 250)]
    pub(crate) label: Option<String>,
}

pub(crate) fn engine(url: &str) -> Mariadb {
    Mariadb::from_url(&format!("{url}?lock_timeout_s=1")).unwrap()
}

fn kill(number: u64) -> String {
    format!(
        "BEGIN NOT ATOMIC DECLARE one BIGINT; SELECT id INTO one FROM information_schema.processlist \
         WHERE db=database() AND id<>connection_id() AND id%7={number} AND command<>'Sleep' LIMIT 1; \
         IF one IS NOT NULL THEN EXECUTE IMMEDIATE concat('KILL ',one); END IF; END"
    )
}

/// The writes of each thread.
const WRITES: usize = 2_000;

fn main() {
    let server = TemporaryMariadb::start().unwrap();
    let writes = std::env::args().nth(1).map_or(WRITES, |writes| writes.parse().unwrap());
    let started = Instant::now();
    let commits = feed_race::race(&server.make_database().unwrap(), 8, writes, kill);
    println!("{commits} commits in {:.1} s, the same for all", started.elapsed().as_secs_f64());
    let times = feed_race::delays(&server.make_database().unwrap(), 2_000);
    let part = |of: usize| times[times.len() * of / 1_000];
    println!("to another process: p50 {:?}, p99 {:?}, p99.9 {:?}", part(500), part(990), part(999));
}

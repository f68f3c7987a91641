//! What a backup costs: pages copied, against `VACUUM INTO`, of one file.
//!
//! `cargo run --release -p marmota-sqlite --example backup [ROWS]`
#![allow(clippy::unwrap_used, reason = "a measurement that fails has no result")]

use std::time::Instant;

use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::engine::Engine;

const ROUNDS: usize = 5;

fn main() {
    let rows: u64 = std::env::args().nth(1).map_or(300_000, |rows| rows.parse().unwrap());
    let folder = std::env::temp_dir().join(format!("marmota-backup-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let engine =
        Sqlite::open(Location::File(folder.join("a.db")), SqliteOptions::default()).unwrap();
    engine
        .execute(&format!(
            "CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT NOT NULL, note TEXT) STRICT; \
             CREATE INDEX by_name ON person(name); \
             WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM number LIMIT {rows}) \
             INSERT INTO person SELECT n, hex(randomblob(8)), hex(randomblob(40)) FROM number"
        ))
        .unwrap();
    let mut best = [f64::MAX; 3];
    for round in 0..ROUNDS {
        let begun = Instant::now();
        let mut copied = begun;
        let to = folder.join(format!("copy-{round}"));
        let mut progress = |done, total| {
            if done == total {
                copied = Instant::now();
            }
        };
        engine.copy_to(&to, &mut progress).unwrap();
        best[0] = best[0].min((copied - begun).as_secs_f64());
        best[1] = best[1].min(begun.elapsed().as_secs_f64());
        let begun = Instant::now();
        let to = folder.join(format!("vacuum-{round}"));
        engine.execute(&format!("VACUUM INTO '{}'", to.display())).unwrap();
        best[2] = best[2].min(begun.elapsed().as_secs_f64());
    }
    let [copy, checked, vacuum] = best.map(|seconds| seconds * 1e3);
    println!("{rows} rows, best of {ROUNDS}:");
    println!("  pages copied            {copy:8.1} ms");
    println!("  and the copy checked    {checked:8.1} ms");
    println!("  VACUUM INTO             {vacuum:8.1} ms, unchecked: {:.1} x", vacuum / copy);
    engine.close().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}

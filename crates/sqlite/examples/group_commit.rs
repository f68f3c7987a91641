//! Single-row inserts that survive a loss of power, by many clients at once,
//! beside one wait for the disk a row:
//! `cargo run --release -p marmota-sqlite --features simulated-disk,bench
//! --example group_commit [folder] [seconds] [micros,micros…]`.
//!
//! The last argument is how much longer the disk takes at each wait, for one
//! table each (0 and 2000). In a folder in memory, 1 makes a disk of some 60 µs
//! that no other program disturbs.
//!
//! The floor is the same statement on the same build of SQLite, run again and
//! again by one thread, each in a transaction of its own with
//! `synchronous=FULL`. Everything is measured in one run, in turns with the
//! floor; the machine should have nothing else to do. Waits for the disk are
//! counted by the engine.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use marmota_sqlite::baseline::{Baseline, Cell};
use marmota_sqlite::clients::{ClientStatistics, Clients, INSERT, schema};
use marmota_sqlite::disk::Disk;
use marmota_sqlite::{Durability, Location, Sqlite, SqliteOptions};
use marmota_store::Store;

fn fresh(folder: &Path) -> PathBuf {
    let path = folder.join("group.db");
    for end in ["db", "db-wal", "db-shm"] {
        let _ = std::fs::remove_file(path.with_extension(end));
    }
    path
}

fn open(folder: &Path, durability: Durability) -> Store {
    let options = SqliteOptions { durability, ..SqliteOptions::default() };
    let engine = Sqlite::open(Location::File(fresh(folder)), options).unwrap();
    Store::builder(engine).schema(schema()).open().unwrap()
}

/// The floor: one statement by hand, one wait for the disk each.
fn floor(folder: &Path, time: Duration) -> f64 {
    let path = fresh(folder);
    drop(open(folder, Durability::Full));
    let pragmas = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL";
    let mut by_hand = Baseline::open(Some(&path), pragmas).unwrap();
    let insert = by_hand.prepare(INSERT).unwrap();
    let (started, mut rows) = (Instant::now(), 0);
    while started.elapsed() < time {
        rows += 1;
        by_hand.run(insert, [Cell::Int(rows)]).unwrap();
    }
    rows as f64 / started.elapsed().as_secs_f64()
}

fn measure(
    folder: &Path,
    durability: Durability,
    clients: Clients,
    time: Duration,
) -> ClientStatistics {
    let store = open(folder, durability);
    let measured = clients.measure(&store, time).unwrap();
    store.close().unwrap();
    measured
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let seconds = arguments.next().and_then(|seconds| seconds.parse().ok()).unwrap_or(2.0);
    let folder = folder.join(format!("marmota-group-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let disk = Disk::at(&folder).unwrap();
    let time = Duration::from_secs_f64(seconds);
    println!("SQLite {}, single-row inserts, WAL, durable", Sqlite::sqlite_version());
    let slower = arguments.next().unwrap_or_else(|| "0,2000".to_owned());
    for slower in slower.split(',').map(|micros| Duration::from_micros(micros.parse().unwrap())) {
        disk.slow_down(slower);
        println!(
            "\n{}: rows a second, by the floor, by the same with durability none; \
             waits for the disk a row",
            if slower.is_zero() {
                "this disk".to_owned()
            } else {
                format!("{slower:?} more a wait")
            }
        );
        for clients in [
            Clients::Threads(1),
            Clients::Threads(2),
            Clients::Threads(50),
            Clients::Tasks(1, 64),
            Clients::Tasks(2, 32),
            Clients::Tasks(2, 64),
            Clients::Tasks(2, 1024),
        ] {
            let before = floor(&folder, time / 4);
            let full = measure(&folder, Durability::Full, clients, time);
            let floor = f64::midpoint(before, floor(&folder, time / 4));
            let none = measure(&folder, Durability::None, clients, time / 2);
            let wait = Duration::from_secs_f64(1.0 / floor);
            println!(
                "  {:<26}{:>9.1} k {:>7.2} x {:>6.2} of none {:>8.4} syncs  p50 {:>9.1?} p99 \
                 {:>9.1?} = {:.1} floor rows",
                clients.to_string(),
                full.rows_per_second / 1e3,
                full.rows_per_second / floor,
                full.rows_per_second / none.rows_per_second,
                full.syncs_per_row,
                full.p50,
                full.p99,
                full.p99.as_secs_f64() / wait.as_secs_f64(),
            );
        }
    }
    let _ = std::fs::remove_dir_all(folder);
}

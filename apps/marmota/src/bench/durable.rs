//! Durable inserts by many concurrent clients, compared with one disk sync per row; and threads
//! that read the rows that they have inserted.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use marmota::prelude::*;
use marmota::sqlite::baseline::{Baseline, Cell};
use marmota::sqlite::clients::{ClientStatistics, Clients, INSERT, schema};
use marmota::sqlite::{Durability, Location, Sqlite, SqliteOptions};
use serde::Serialize;

use super::progress::Progress;
use super::record::{Person, people};

const CLIENTS: [Clients; 4] =
    [Clients::Threads(1), Clients::Threads(50), Clients::Tasks(2, 64), Clients::Tasks(2, 1024)];
const THREADS: [usize; 6] = [1, 2, 5, 10, 30, 50];

/// The durable inserts of a number of clients.
#[derive(Clone, Debug, Serialize)]
pub(super) struct DurableRow {
    pub(super) clients: String,
    pub(super) rows_per_second: f64,
    /// The ratio to direct SQLite calls with one disk sync per row, in the same round.
    pub(super) times_by_hand: f64,
    /// The ratio to the same clients without durability.
    pub(super) share_of_none: f64,
    pub(super) syncs_per_row: f64,
    pub(super) p50_micros: f64,
    pub(super) p99_micros: f64,
    /// The p99 in units of durable rows by direct calls, each of which is one disk sync.
    pub(super) p99_by_hand: f64,
}

/// Measures durable inserts.
///
/// # Errors
/// Those of the store.
pub(super) fn inserts(folder: &Path, time: Duration, rounds: u32) -> Result<Vec<DurableRow>> {
    let mut progress = Progress::new(CLIENTS.len() * rounds as usize);
    let mut rows = Vec::new();
    for clients in CLIENTS {
        let mut found = Vec::new();
        for round in 1..=rounds {
            progress.step(&format!("durable inserts, {clients}, round {round}"));
            let before = by_hand(folder, time / 4)?;
            let full = measure(folder, Durability::Full, clients, time)?;
            let by_hand = f64::midpoint(before, by_hand(folder, time / 4)?);
            let none = measure(folder, Durability::None, clients, time / 2)?;
            let micros = |time: Duration| time.as_secs_f64() * 1e6;
            found.push(DurableRow {
                clients: clients.to_string(),
                rows_per_second: full.rows_per_second,
                times_by_hand: full.rows_per_second / by_hand,
                share_of_none: full.rows_per_second / none.rows_per_second,
                syncs_per_row: full.syncs_per_row,
                p50_micros: micros(full.p50),
                p99_micros: micros(full.p99),
                p99_by_hand: full.p99.as_secs_f64() * by_hand,
            });
        }
        found.sort_by(|a, b| a.times_by_hand.total_cmp(&b.times_by_hand));
        rows.push(found.swap_remove(found.len() / 2));
    }
    Ok(rows)
}

fn fresh(folder: &Path) -> PathBuf {
    let path = folder.join("durable.db");
    for end in ["db", "db-wal", "db-shm"] {
        // Some of the files may be missing.
        let _ = std::fs::remove_file(path.with_extension(end));
    }
    path
}

fn open(folder: &Path, durability: Durability) -> Result<Store> {
    let options = SqliteOptions { durability, ..SqliteOptions::default() };
    let engine = Sqlite::open(Location::File(fresh(folder)), options)?;
    Store::builder(engine).schema(schema()).open()
}

fn measure(
    folder: &Path,
    durability: Durability,
    clients: Clients,
    time: Duration,
) -> Result<ClientStatistics> {
    let store = open(folder, durability)?;
    let measured = clients.measure(&store, time)?;
    store.close()?;
    Ok(measured)
}

/// Returns the rows per second of single statements in direct calls, with one disk sync each.
fn by_hand(folder: &Path, time: Duration) -> Result<f64> {
    drop(open(folder, Durability::Full)?);
    let path = folder.join("durable.db");
    let pragmas = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL";
    let mut sqlite = Baseline::open(Some(&path), pragmas)?;
    let insert = sqlite.prepare(INSERT)?;
    let (started, mut rows) = (Instant::now(), 0);
    while started.elapsed() < time {
        rows += 1;
        sqlite.run(insert, [Cell::Int(rows)])?;
    }
    Ok(rows as f64 / started.elapsed().as_secs_f64())
}

/// The results of threads that insert and then read their own rows.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ThreadsRow {
    pub(super) threads: usize,
    pub(super) inserts_per_second: f64,
    pub(super) reads_per_second: f64,
    pub(super) syncs_per_row: f64,
}

/// Measures threads on one durable SQLite store.
///
/// # Errors
/// Those of the store; [`ErrorKind::Bug`] if a row differs from the inserted one.
pub(super) fn threads(folder: &Path, time: Duration, rounds: u32) -> Result<Vec<ThreadsRow>> {
    let people = people(1_000);
    let mut progress = Progress::new(THREADS.len() * rounds as usize);
    let mut rows = Vec::new();
    for threads in THREADS {
        let mut found = Vec::new();
        for round in 1..=rounds {
            progress.step(&format!("{threads} threads, round {round}"));
            found.push(run_threads(folder, threads, time / 2, &people)?);
        }
        found.sort_by(|a, b| a.inserts_per_second.total_cmp(&b.inserts_per_second));
        rows.push(found.swap_remove(found.len() / 2));
    }
    Ok(rows)
}

fn run_threads(
    folder: &Path,
    threads: usize,
    time: Duration,
    people: &[Person],
) -> Result<ThreadsRow> {
    let engine = Sqlite::open(Location::File(fresh(folder)), SqliteOptions::default())?;
    let store = Store::builder(engine).model::<Person>().open()?;
    let syncs = store.statistics().engine.syncs;
    let started = Instant::now();
    let ids = each(threads, |_| insert_until(&store, people, started + time))?;
    let (inserted, took) = (ids.iter().map(Vec::len).sum::<usize>(), started.elapsed());
    let syncs = store.statistics().engine.syncs - syncs;
    let started = Instant::now();
    each(threads, |thread| {
        ids[thread].iter().enumerate().try_for_each(|(at, &id)| {
            let read = store.get::<Person>(id).run()?;
            if read.first_name == people[at % people.len()].first_name {
                return Ok(());
            }
            Err(Error::new(ErrorKind::Bug, format!("row {id} differs from the inserted row")))
        })
    })?;
    let reading = started.elapsed();
    store.close()?;
    Ok(ThreadsRow {
        threads,
        inserts_per_second: inserted as f64 / took.as_secs_f64(),
        reads_per_second: inserted as f64 / reading.as_secs_f64(),
        syncs_per_row: syncs as f64 / inserted.max(1) as f64,
    })
}

fn insert_until(store: &Store, people: &[Person], until: Instant) -> Result<Vec<i64>> {
    let mut ids = Vec::new();
    for person in people.iter().cycle() {
        ids.push(store.insert(person).run()?);
        if Instant::now() >= until {
            break;
        }
    }
    Ok(ids)
}

/// Runs a function on a number of threads at once, with the number of the thread, and returns the
/// results.
fn each<T: Send>(threads: usize, run: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let run = &run;
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|at| scope.spawn(move || run(at))).collect();
        let panicked = |_| Error::new(ErrorKind::Bug, "a client panicked");
        running.into_iter().map(|thread| thread.join().map_err(panicked)?).collect()
    })
}

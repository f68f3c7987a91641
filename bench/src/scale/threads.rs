//! Threads that use one store.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use marmota_store::Store;

use super::Dimension;
use super::growth::Growth;
use super::point::Point;
use super::rows::subject::{ENGINES, Item, Subject, item};

pub(super) const DIMENSION: Dimension =
    Dimension { unit: "threads", sizes: (1, 2, 64), engines: &ENGINES, measure };

const ROWS: u64 = 100_000;

fn measure(engine: &str, threads: u64) -> Result<Vec<Point>> {
    let subject = Subject::with_rows(engine, ROWS)?;
    let store = subject.store()?;
    let reads = if engine == "postgres" { 20_000 } else { 200_000 };
    let get = per_operation(store, threads, reads, |store, turn| {
        let id = (turn.wrapping_mul(7_919) % ROWS + 1) as i64;
        Ok(store.get::<Item>(id).run().map(drop)?)
    })?;
    let insert = per_operation(store, threads, 10_000, |store, turn| {
        Ok(store.insert(&item(ROWS + turn)).run().map(drop)?)
    })?;
    Ok(vec![
        Point::time("get by key, of all threads", Growth::Constant, get),
        Point::time("insert a row, of all threads", Growth::Constant, insert),
    ])
}

/// Returns the time of all operations, divided by their number.
fn per_operation(
    store: &Store,
    threads: u64,
    operations: u64,
    operation: fn(&Store, u64) -> Result<()>,
) -> Result<Duration> {
    let each = operations / threads;
    let begun = Instant::now();
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    (thread * each..(thread + 1) * each).try_for_each(|turn| operation(store, turn))
                })
            })
            .collect();
        running
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
    })?;
    Ok(begun.elapsed() / u32::try_from(each * threads)?)
}

//! The lag of a replica under load: the time from the answer to a write of the primary until its rows
//! can be read at the replica.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use comfy_table::{Table as TextTable, presets};
use marmota_memory::Memory;
use marmota_model::{ErrorKind, NoRows, ValueRef};
use marmota_replication::{Follower, ReplicationOptions, Replicator};
use marmota_sqlite::clients::schema;
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::log_copy::LogKind;
use marmota_store::operation::Operation;
use marmota_store::{Store, StoreBuilder};

use crate::feed::Rows;

/// The interval between two batches of the writer.
const INTERVAL: Duration = Duration::from_millis(10);
/// The interval in which the replica is read.
const LOOK: Duration = Duration::from_millis(1);
/// The longest time until a replica has all rows.
const PATIENCE: Duration = Duration::from_secs(300);
/// Rows per second; the last one is as many as the primary writes.
const RATES: [Option<i64>; 3] = [Some(1_000), Some(50_000), None];
/// The rows of a batch of a writer without a rate.
const FULL_BATCH: i64 = 500;

/// What is measured: how often the primary uploads, and the replica looks for segments.
#[derive(Clone, Copy)]
pub(super) struct Interval {
    pub(super) window: Duration,
    pub(super) poll: Duration,
}

/// The result of one measurement.
struct Lag {
    rows_per_second: f64,
    /// The times until the rows of each batch could be read, in milliseconds, sorted.
    waits: Vec<f64>,
}

impl Lag {
    fn at(&self, part: f64) -> f64 {
        self.waits[((self.waits.len() - 1) as f64 * part) as usize]
    }
}

/// Prints the lag of a replica of each engine, at several rates.
pub(super) fn print(interval: Interval, time: Duration) -> Result<()> {
    let mut table = TextTable::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["engine", "rows/s", "lag p50 ms", "p99 ms", "last row ms"]);
    for kind in [LogKind::Pages, LogKind::Records] {
        for rate in RATES {
            let name = if kind == LogKind::Pages { "SQLite" } else { "memory" };
            eprintln!("lag, {name}, {rate:?}");
            let lag = measured(kind, rate, interval, time)?;
            table.add_row([
                name.to_owned(),
                format!("{:.0}", lag.rows_per_second),
                format!("{:.0}", lag.at(0.5)),
                format!("{:.0}", lag.at(0.99)),
                format!("{:.0}", lag.at(1.0)),
            ]);
        }
    }
    println!("{table}");
    Ok(())
}

fn builder(kind: LogKind, path: &Path) -> marmota_model::Result<StoreBuilder> {
    let path = path.display();
    let builder = match kind {
        LogKind::Pages => Store::builder(Sqlite::from_url(&format!("sqlite:{path}"))?),
        LogKind::Records => {
            Store::builder(Memory::from_url(&format!("memory:{path}?durability=full"))?)
        }
    };
    Ok(builder.schema(schema()))
}

/// Opens a database as a replica of a target.
fn replica(kind: LogKind, path: &Path, url: &str, poll: Duration) -> marmota_model::Result<Store> {
    let follower = Follower::new(url, poll)?;
    follower.prepare(kind, path, |make| match kind {
        LogKind::Pages => {
            let location = Location::File(path.to_owned());
            let options = SqliteOptions::default();
            Sqlite::install(&location, &options, true, make, |_| Ok(())).map(drop)
        }
        LogKind::Records => {
            let url = format!("memory:{}?durability=full", path.display());
            Memory::install_replica(&url, make)
        }
    })?;
    builder(kind, path)?.commit_sink(Arc::new(follower)).open()
}

/// Writes to a new primary for `time`, and reads its replica.
fn measured(kind: LogKind, rate: Option<i64>, interval: Interval, time: Duration) -> Result<Lag> {
    let folder = tempfile::tempdir()?;
    let url = super::file_url(&folder.path().join("target"));
    let options = ReplicationOptions::default().window(interval.window);
    let replicator = Replicator::new(&url, options)?;
    let sink = Arc::new(replicator.clone());
    let primary = builder(kind, &folder.path().join("primary"))?.commit_sink(sink).open()?;
    insert(&primary, 0, 1)?;
    ensure!(replicator.flush(PATIENCE), "{:?}", replicator.status());
    let path = folder.path().join("replica");
    let deadline = Instant::now() + PATIENCE;
    let replica = loop {
        match replica(kind, &path, &url, interval.poll) {
            // The primary is making its first snapshot.
            Err(error) if error.kind() == ErrorKind::NotFound && Instant::now() < deadline => {
                thread::sleep(INTERVAL);
            }
            opened => break opened?,
        }
    };

    // The last key of each batch, and when it was answered.
    let (answered, batches) = channel();
    let (rows_per_second, mut waits) = thread::scope(|scope| -> Result<(f64, Vec<f64>)> {
        let reader = scope.spawn(|| read(&replica, batches));
        let written = write(&primary, rate, time, answered);
        let waits = reader.join().map_err(|_| anyhow!("the reader panicked"))?;
        Ok((written?, waits?))
    })?;
    primary.close()?;
    replica.close()?;
    waits.sort_unstable_by(f64::total_cmp);
    Ok(Lag { rows_per_second, waits })
}

fn insert(store: &Store, first: i64, count: i64) -> Result<()> {
    let table = store.table("note")?;
    let mut rows = Rows(first..first + count);
    store.run(&mut Operation::insert_many(&table, &mut rows), &mut NoRows)?;
    Ok(())
}

/// Returns the rows per second.
fn write(
    primary: &Store,
    rate: Option<i64>,
    time: Duration,
    answered: Sender<(i64, Instant)>,
) -> Result<f64> {
    let batch = rate.map_or(FULL_BATCH, |rate| rate / (1_000 / INTERVAL.as_millis() as i64));
    let (began, mut batches) = (Instant::now(), 0);
    while began.elapsed() < time {
        if rate.is_some() {
            thread::sleep((INTERVAL * batches).saturating_sub(began.elapsed()));
        }
        let first = i64::from(batches) * batch + 1;
        insert(primary, first, batch)?;
        // Keys are consecutive, and the row before the first batch has the key 1.
        answered.send((first + batch, Instant::now()))?;
        batches += 1;
    }
    let rows_per_second = (i64::from(batches) * batch) as f64 / began.elapsed().as_secs_f64();
    // The reader ends when it has read all batches.
    drop(answered);
    Ok(rows_per_second)
}

/// Returns how long each batch took to be readable, in milliseconds.
fn read(replica: &Store, batches: Receiver<(i64, Instant)>) -> Result<Vec<f64>> {
    let table = replica.table("note")?;
    let mut waits = Vec::new();
    for (key, at) in batches {
        let deadline = Instant::now() + PATIENCE;
        let key = ValueRef::Int(key);
        let fields = table.all();
        let mut get = Operation::Get { table: &table, key, fields };
        while replica.run(&mut get, &mut NoRows)?.rows == 0 {
            ensure!(Instant::now() < deadline, "the replica has stopped following");
            thread::sleep(LOOK);
        }
        waits.push(at.elapsed().as_secs_f64() * 1e3);
    }
    Ok(waits)
}

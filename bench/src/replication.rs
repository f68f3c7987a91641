//! The cost of replication: the same writes on SQLite without it, with it, and with Litestream if
//! that is installed; the time of a restore, compared with copying the file; and the lag of a replica.

mod lag;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use comfy_table::{Table as TextTable, presets};
use marmota_model::NoRows;
use marmota_replication::{ReplicationOptions, Replicator, RestorePoint, fetch};
use marmota_sqlite::Sqlite;
use marmota_sqlite::clients::{Clients, schema};
use marmota_store::Store;
use marmota_store::log_copy::LogKind;
use marmota_store::operation::Operation;

use crate::feed::{BATCH_ROWS, Measure, Rows, batches, clients, median};

/// Options of `bench replication`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Rounds; the table shows medians.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Size of the database that is restored, in MiB.
    #[arg(long, default_value_t = 1_024)]
    restore_mib: u64,
    /// The program of Litestream; without it, the column is empty.
    #[arg(long, default_value = "litestream")]
    litestream: String,
    /// Measure only the lag of a replica.
    #[arg(long)]
    lag: bool,
    /// The interval in which the replica looks for segments, in milliseconds.
    #[arg(long, default_value_t = 500)]
    replica_poll_ms: u64,
    /// The time within which the primary copies a commit, in milliseconds.
    #[arg(long, default_value_t = 1_000)]
    window_ms: u64,
}

const MEASURES: [(&str, Measure); 3] = [
    ("batches of 500 inserts", batches),
    ("single inserts, 1 thread", |store, time| clients(Clients::Threads(1), store, time)),
    ("single inserts, 50 threads", |store, time| clients(Clients::Threads(50), store, time)),
];

/// What copies the database.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copier {
    Nothing,
    Marmota,
    Litestream,
}

/// The result of one measurement.
#[derive(Clone, Copy, Default)]
struct Figures {
    rows_per_second: f64,
    /// CPU time of this process and of the copier, in microseconds for each row.
    cpu_us_per_row: f64,
    /// Bytes in the target for each row.
    bytes_per_row: f64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let interval = lag::Interval {
        window: Duration::from_millis(args.window_ms),
        poll: Duration::from_millis(args.replica_poll_ms),
    };
    if args.lag {
        return lag::print(interval, Duration::from_secs(args.seconds));
    }
    let mut table = TextTable::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "durability",
        "writes",
        "rows/s without",
        "Marmota",
        "Litestream",
        "CPU µs/row",
        "Marmota",
        "Litestream",
        "bytes/row Marmota",
        "Litestream",
    ]);
    for durability in ["full", "relaxed"] {
        for (what, measure) in MEASURES {
            let copiers = [Copier::Nothing, Copier::Marmota, Copier::Litestream];
            let mut all = copiers.map(|_| Vec::new());
            for round in 0..args.rounds {
                for (copier, figures) in copiers.into_iter().zip(&mut all) {
                    eprintln!("{durability}, {what}, round {}", round + 1);
                    figures.extend(measured(args, durability, copier, measure)?);
                }
            }
            let of = |figures: &[Figures], pick: fn(&Figures) -> f64| {
                (!figures.is_empty()).then(|| median(figures.iter().map(pick).collect()))
            };
            let rates =
                all.each_ref().map(|figures| of(figures, |figures| figures.rows_per_second));
            let cpu = all.each_ref().map(|figures| of(figures, |figures| figures.cpu_us_per_row));
            let bytes = all.each_ref().map(|figures| of(figures, |figures| figures.bytes_per_row));
            let base = rates[0].unwrap_or(f64::NAN);
            let ratio =
                |rate: Option<f64>| rate.map_or("–".into(), |r| format!("{:.2}", r / base));
            let number = |value: Option<f64>| value.map_or("–".into(), |v| format!("{v:.1}"));
            table.add_row([
                durability.to_owned(),
                what.to_owned(),
                format!("{base:.0}"),
                ratio(rates[1]),
                ratio(rates[2]),
                number(cpu[0]),
                number(cpu[1]),
                number(cpu[2]),
                number(bytes[1]),
                number(bytes[2]),
            ]);
        }
    }
    println!("{table}");
    restore(args)?;
    lag::print(interval, Duration::from_secs(args.seconds))
}

/// Measures on a new database; `None` if the copier is missing.
fn measured(
    args: &Args,
    durability: &str,
    copier: Copier,
    measure: Measure,
) -> Result<Option<Figures>> {
    let folder = tempfile::tempdir()?;
    let (path, target) = (folder.path().join("a.db"), folder.path().join("target"));
    let engine = Sqlite::from_url(&format!("sqlite:{}?durability={durability}", path.display()))?;
    let builder = Store::builder(engine).schema(schema());
    let replicator = match copier {
        Copier::Marmota => {
            Some(Replicator::new(&file_url(&target), ReplicationOptions::default())?)
        }
        _ => None,
    };
    let builder = match &replicator {
        Some(replicator) => builder.commit_sink(Arc::new(replicator.clone())),
        None => builder,
    };
    let store = builder.open()?;
    let mut litestream = match copier {
        Copier::Litestream => match litestream(args, &path, &target) {
            Some(process) => Some(process),
            None => return Ok(None),
        },
        _ => None,
    };
    let cpu = cpu_time();
    let rows_per_second = measure(&store, Duration::from_secs(args.seconds))?;
    if let Some(replicator) = &replicator {
        ensure!(replicator.flush(Duration::from_secs(60)), "{:?}", replicator.status());
    }
    let rows = rows_per_second * args.seconds as f64;
    let mut spent = cpu_time() - cpu;
    if let Some(process) = &mut litestream {
        std::thread::sleep(Duration::from_secs(2));
        spent += cpu_time_of(process.id());
        process.kill()?;
        process.wait()?;
    }
    let bytes_per_row = size_of(&target) as f64 / rows;
    store.close()?;
    let cpu_us_per_row = spent.as_secs_f64() * 1e6 / rows;
    Ok(Some(Figures { rows_per_second, cpu_us_per_row, bytes_per_row }))
}

fn file_url(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// Starts Litestream, and waits for its first file.
fn litestream(args: &Args, path: &Path, target: &Path) -> Option<Child> {
    let process = Command::new(&args.litestream)
        .arg("replicate")
        .arg(path)
        .arg(file_url(target))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let deadline = Instant::now() + Duration::from_secs(20);
    while size_of(target) == 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(process)
}

/// Restores a large database, compared with copying its file.
fn restore(args: &Args) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (path, target) = (folder.path().join("a.db"), folder.path().join("target"));
    let url = file_url(&target);
    let replicator = Replicator::new(&url, ReplicationOptions::default())?;
    let engine = Sqlite::from_url(&format!("sqlite:{}?durability=relaxed", path.display()))?;
    let store = Store::builder(engine).schema(schema());
    let store = store.commit_sink(Arc::new(replicator.clone())).open()?;
    let (table, mut rows) = (store.table("note")?, 0);
    while std::fs::metadata(&path)?.len() < args.restore_mib << 20 {
        let mut batch = Rows(rows..rows + 100 * BATCH_ROWS);
        store.run(&mut Operation::insert_many(&table, &mut batch), &mut NoRows)?;
        rows += 100 * BATCH_ROWS;
    }
    ensure!(replicator.flush(Duration::from_secs(600)), "{:?}", replicator.status());
    store.close()?;
    let started = Instant::now();
    let restored = folder.path().join("restored.db");
    let done = fetch(&url, LogKind::Pages, RestorePoint::Latest, &restored)?;
    let of_restore = started.elapsed();
    let started = Instant::now();
    let copied = folder.path().join("copied.db");
    std::fs::copy(&path, &copied)?;
    std::fs::File::open(&copied)?.sync_all()?;
    let of_copy = started.elapsed();
    println!(
        "Restore of {} MiB ({} commits, {} MiB in the target): {:.1} s; a copy of the file: {:.1} s",
        args.restore_mib,
        done.commits,
        size_of(&target) >> 20,
        of_restore.as_secs_f64(),
        of_copy.as_secs_f64()
    );
    Ok(())
}

/// Returns the bytes of all files in a folder.
fn size_of(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(data) if data.is_dir() => size_of(&entry.path()),
        Ok(data) => data.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Returns the CPU time of this process.
fn cpu_time() -> Duration {
    cpu_time_of(std::process::id())
}

/// Returns the CPU time of a process: fields 14 and 15 of `/proc/PID/stat`.
fn cpu_time_of(process: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let (_, rest) = text.rsplit_once(')').unwrap_or_default();
    let ticks: u64 = rest.split(' ').skip(12).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

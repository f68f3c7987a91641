//! Jobs: how many no-op jobs a second are enqueued and finished, and how long a job waits at half of
//! that load.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use comfy_table::{Table as TextTable, presets};
use marmota_jobs::{EnqueueJobs as _, Jobs, Worker, WorkerOptions, job};
use marmota_memory::Memory;
use marmota_postgres::{Postgres, TemporaryPostgres};
use marmota_sqlite::Sqlite;
use marmota_store::Store;

/// The jobs of one call of `enqueue_many`.
const BATCH: usize = 1_000;
/// Threads that enqueue single jobs.
const THREADS: usize = 32;
/// The most jobs of one measurement.
const JOBS_MAX: usize = 4_000_000;

/// Options of `bench jobs`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Jobs of each measurement.
    #[arg(long, default_value_t = 200_000)]
    jobs: usize,
    /// Rounds; the table shows medians.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The engines, separated by commas: sqlite, sqlite-relaxed, memory, postgres.
    #[arg(long, default_value = "sqlite,sqlite-relaxed,memory,postgres")]
    engines: String,
    /// Measures a PostgreSQL server at this URL instead of a temporary one; its database must be
    /// empty.
    #[arg(long)]
    postgres: Option<String>,
    /// Measures River on the same server: the program that `go build` makes in
    /// `bench/peers/jobs/river`.
    #[arg(long)]
    river: Option<PathBuf>,
    /// Measures apalis on the same server: the program that `cargo build --release` makes in
    /// `bench/peers/jobs/apalis`.
    #[arg(long)]
    apalis: Option<PathBuf>,
}

/// The start of each job, in nanoseconds since the first use; 0 before.
static STARTED: LazyLock<Vec<AtomicU64>> =
    LazyLock::new(|| (0..JOBS_MAX).map(|_| AtomicU64::new(0)).collect());
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

fn now_ns() -> u64 {
    ORIGIN.elapsed().as_nanos() as u64 + 1
}

#[job]
async fn nothing(number: usize) -> marmota_model::Result<()> {
    STARTED[number].store(now_ns(), Ordering::Relaxed);
    Ok(())
}

/// How jobs are enqueued.
#[derive(Clone, Copy)]
enum Enqueueing {
    /// By one thread, 1,000 in each call.
    Batches,
    /// By 32 threads, one in each call.
    Single,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.jobs > JOBS_MAX {
        bail!("at most {JOBS_MAX} jobs");
    }
    LazyLock::force(&STARTED);
    let mut table = TextTable::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["engine", "enqueued", "finished jobs", "jobs/s", "p50 ms", "p99 ms"]);
    let server = match (&args.postgres, args.engines.contains("postgres")) {
        (None, true) => Some(TemporaryPostgres::start(&[])?),
        _ => None,
    };
    for engine in args.engines.split(',') {
        for (enqueueing, how, jobs) in [
            (Enqueueing::Batches, "1,000 at once", args.jobs),
            (Enqueueing::Single, "32 threads", args.jobs / 4),
        ] {
            for keep in [true, false] {
                let mut rates = Vec::new();
                let mut waits = Vec::new();
                for round in 0..args.rounds {
                    eprintln!("{engine}, {how}, kept: {keep}, round {}", round + 1);
                    let folder = tempfile::tempdir()?;
                    let store = open(engine, folder.path(), server.as_ref(), args)?;
                    let rate = throughput(&store, enqueueing, jobs, keep)?;
                    rates.push(rate);
                    if matches!(enqueueing, Enqueueing::Batches) {
                        waits.push(latency(&store, rate / 2.0, keep)?);
                    }
                    store.close()?;
                }
                let of = |place: fn(&(f64, f64)) -> f64| {
                    let waits: Vec<f64> = waits.iter().map(place).collect();
                    if waits.is_empty() { String::new() } else { format!("{:.2}", median(waits)) }
                };
                table.add_row([
                    engine.to_owned(),
                    how.to_owned(),
                    if keep { "kept" } else { "deleted" }.to_owned(),
                    format!("{:.0}", median(rates)),
                    of(|wait| wait.0),
                    of(|wait| wait.1),
                ]);
            }
        }
    }
    for (name, program) in [("River", &args.river), ("apalis", &args.apalis)] {
        let Some(program) = program else { continue };
        let server = server.as_ref().context("a peer needs the temporary PostgreSQL server")?;
        let mut rates = Vec::new();
        for round in 0..args.rounds {
            eprintln!("{name}, round {}", round + 1);
            rates.push(peer(program, &server.make_database()?, args.jobs)?);
        }
        let rate = format!("{:.0}", median(rates));
        table.add_row([name, "1,000 at once", "kept", &rate, "", ""]);
    }
    println!("{table}");
    Ok(())
}

/// Returns the jobs per second that a peer's program prints.
fn peer(program: &Path, url: &str, jobs: usize) -> Result<f64> {
    let program = std::path::absolute(program)?;
    let output = Command::new(&program).arg(url).arg(jobs.to_string()).output();
    let output = output.with_context(|| format!("cannot run {}", program.display()))?;
    let shown = program.display();
    ensure!(output.status.success(), "{shown}: {}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout)?;
    printed.trim().parse().with_context(|| format!("{shown} has printed {printed:?}"))
}

fn open(
    engine: &str,
    folder: &Path,
    server: Option<&TemporaryPostgres>,
    args: &Args,
) -> Result<Store> {
    let file = folder.join("database").display().to_string();
    let builder = match (engine, server) {
        ("sqlite", _) => Store::builder(Sqlite::from_url(&format!("sqlite:{file}"))?),
        ("sqlite-relaxed", _) => {
            Store::builder(Sqlite::from_url(&format!("sqlite:{file}?durability=relaxed"))?)
        }
        ("memory", _) => Store::builder(Memory::new()),
        ("postgres", Some(server)) => Store::builder(Postgres::from_url(&server.make_database()?)?),
        ("postgres", None) => {
            Store::builder(Postgres::from_url(args.postgres.as_deref().unwrap_or_default())?)
        }
        (other, _) => bail!("no engine `{other}`"),
    };
    Ok(marmota_jobs::models(builder).open()?)
}

fn start(store: &Store, keep: bool) -> Result<Worker> {
    let options = WorkerOptions::new();
    let options = match keep {
        true => options,
        false => options.keep(Duration::ZERO, Duration::ZERO),
    };
    Ok(Jobs::new(store).register::<Nothing>()?.start(options)?)
}

/// Waits until this number of jobs has ended, durably.
fn wait(worker: &Worker, jobs: usize) {
    let metrics = worker.metrics();
    while metrics.statistics()[0].succeeded < jobs as u64 {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the jobs per second, from the first enqueue to the last commit of an end.
fn throughput(store: &Store, enqueueing: Enqueueing, jobs: usize, keep: bool) -> Result<f64> {
    let worker = start(store, keep)?;
    let began = Instant::now();
    match enqueueing {
        Enqueueing::Batches => {
            for first in (0..jobs).step_by(BATCH) {
                let batch: Vec<Nothing> =
                    (first..(first + BATCH).min(jobs)).map(|number| Nothing { number }).collect();
                store.enqueue_many(&batch).run()?;
            }
        }
        Enqueueing::Single => {
            let next = Arc::new(AtomicU64::new(0));
            let threads: Vec<_> = (0..THREADS)
                .map(|_| {
                    let (store, next) = (store.clone(), Arc::clone(&next));
                    thread::spawn(move || -> Result<()> {
                        loop {
                            let number = next.fetch_add(1, Ordering::Relaxed) as usize;
                            if number >= jobs {
                                return Ok(());
                            }
                            store.enqueue(&Nothing { number }).run()?;
                        }
                    })
                })
                .collect();
            for thread in threads {
                if let Ok(done) = thread.join() {
                    done?;
                }
            }
        }
    }
    wait(&worker, jobs);
    let rate = jobs as f64 / began.elapsed().as_secs_f64();
    worker.stop()?;
    Ok(rate)
}

/// Returns the median and the 99th percentile of the times from the commit of an enqueue to the
/// start of the job, in milliseconds, at this rate.
fn latency(store: &Store, rate: f64, keep: bool) -> Result<(f64, f64)> {
    const TIME: f64 = 3.0;
    let worker = start(store, keep)?;
    // As many as come in 5 ms.
    let batch = ((rate / 200.0) as usize).clamp(1, BATCH);
    let jobs = ((rate * TIME) as usize).clamp(batch, JOBS_MAX) / batch * batch;
    for started in &STARTED[..jobs] {
        started.store(0, Ordering::Relaxed);
    }
    let began = Instant::now();
    let mut committed = Vec::with_capacity(jobs);
    for first in (0..jobs).step_by(batch) {
        let due = Duration::from_secs_f64(first as f64 / rate);
        thread::sleep(due.saturating_sub(began.elapsed()));
        let inputs: Vec<Nothing> =
            (first..first + batch).map(|number| Nothing { number }).collect();
        store.enqueue_many(&inputs).run()?;
        committed.resize(first + batch, now_ns());
    }
    wait(&worker, jobs);
    let mut waits: Vec<u64> = committed
        .iter()
        .zip(STARTED.iter())
        .map(|(committed, started)| started.load(Ordering::Relaxed).saturating_sub(*committed))
        .collect();
    worker.stop()?;
    waits.sort_unstable();
    let at = |part: f64| waits[((waits.len() - 1) as f64 * part) as usize] as f64 / 1e6;
    Ok((at(0.5), at(0.99)))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

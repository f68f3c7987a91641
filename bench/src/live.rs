//! Live queries: the time from a write to its event, with many subscribers, and what subscriptions
//! cost writes that do not concern them. Compared with PocketBase.

mod figures;
mod subscribers;
mod target;
mod writers;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use comfy_table::{Table as TextTable, presets};

use self::figures::Figures;
use self::subscribers::Subscribers;
use self::target::Target;
use self::writers::Writers;

/// Options of `bench live`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// The largest number of subscribers.
    #[arg(long, default_value_t = 10_000)]
    subscribers: usize,
    /// The `marmota` program; built if it is missing.
    #[arg(long)]
    program: Option<PathBuf>,
    /// A PocketBase program, such as `go install
    /// github.com/pocketbase/pocketbase/examples/base@v0.39.9` builds; left out if it is missing.
    #[arg(long)]
    pocketbase: Option<PathBuf>,
}

/// One measurement.
struct Scenario {
    subscribers: usize,
    /// Distinct queries, which the subscribers share evenly.
    queries: usize,
    /// The writes per second.
    writes: u64,
    /// True if each write concerns one of the queries; otherwise it concerns none.
    concerns: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let marmota = match &args.program {
        Some(path) => path.clone(),
        None => target::build()?,
    };
    let targets = [Some(Target::Marmota(marmota)), args.pocketbase.clone().map(Target::PocketBase)];
    let most = args.subscribers;
    let mut table = TextTable::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "server",
        "subscribers",
        "queries",
        "writes/s",
        "events/s",
        "lost",
        "p50 ms",
        "p99 ms",
        "server CPU %",
        "CPU µs/write",
        "KB/subscriber",
    ]);
    for target in targets.iter().flatten() {
        let mut scenarios =
            vec![Scenario { subscribers: 1_000, queries: 100, writes: 100, concerns: true }];
        if matches!(target, Target::Marmota(_)) {
            let queries = most.div_ceil(10).max(1);
            scenarios.push(Scenario { subscribers: most, queries, writes: 1_000, concerns: true });
            let curve = [0, 10, 100, 1_000, 10_000].into_iter().filter(|count| *count <= most);
            scenarios.extend(curve.map(|count| Scenario {
                subscribers: count,
                queries: count,
                writes: 1_000,
                concerns: false,
            }));
        }
        for scenario in &scenarios {
            let figures = measure(target, scenario, Duration::from_secs(args.seconds))
                .with_context(|| {
                    format!("{} with {} subscribers", target.name(), scenario.subscribers)
                })?;
            table.add_row(figures.cells(target.name(), scenario.subscribers, scenario.queries));
        }
    }
    println!("{table}");
    Ok(())
}

fn measure(target: &Target, scenario: &Scenario, time: Duration) -> Result<Figures> {
    eprintln!("{}, {} subscribers", target.name(), scenario.subscribers);
    let running = target.start()?;
    let before = running.usage()?;
    let mut subscribers = Subscribers::open(&running, scenario.subscribers, scenario.queries)?;
    let opened = running.usage()?;
    let topics = if scenario.concerns { Some(scenario.queries as u64) } else { None };
    let begun = Instant::now();
    let writers = Writers::start(&running, topics, scenario.writes, time)?;
    subscribers.follow(&writers, begun + time)?;
    let (written, writing) = writers.join()?;
    let cpu_s = running.usage()?.cpu_s - opened.cpu_s;
    let expected = match topics {
        Some(queries) => written * (scenario.subscribers as u64 / queries),
        None => 0,
    };
    subscribers.drain(expected)?;
    ensure!(written > 0, "nothing was written");
    let seconds = begun.elapsed().as_secs_f64().max(writing.as_secs_f64());
    let resident_kib = opened.resident_kib.saturating_sub(before.resident_kib);
    Ok(Figures {
        written,
        writing_s: writing.as_secs_f64(),
        seconds,
        expected,
        latencies_us: subscribers.into_latencies(),
        cpu_s,
        bytes_per_subscriber: resident_kib as f64 * 1024.0 / scenario.subscribers.max(1) as f64,
    })
}

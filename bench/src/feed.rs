//! The cost of the change feed: the same writes on the same engine, without a feed and with one.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use comfy_table::{Table as TextTable, presets};
use marmota_memory::Memory;
use marmota_model::{NoRows, RowSource, ValueRef};
use marmota_postgres::{Postgres, TemporaryPostgres};
use marmota_sqlite::Sqlite;
use marmota_sqlite::clients::{Clients, NAME, schema};
use marmota_store::change::ChangeRetention;
use marmota_store::operation::Operation;
use marmota_store::{Store, StoreBuilder};

/// The rows of a batch.
pub(crate) const BATCH_ROWS: i64 = 500;

/// Options of `bench feed`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Rounds; the table shows medians.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Measure only engines that begin with this name.
    #[arg(long, default_value = "")]
    engine: String,
}

/// A kind of write, with its rate in rows per second.
pub(crate) type Measure = fn(&Store, Duration) -> Result<f64>;

const MEASURES: [(&str, Measure); 4] = [
    ("batches of 500 inserts", batches),
    ("single inserts, 1 thread", |store, time| clients(Clients::Threads(1), store, time)),
    ("single inserts, 50 threads", |store, time| clients(Clients::Threads(50), store, time)),
    ("single inserts, 2 × 64 tasks", |store, time| clients(Clients::Tasks(2, 64), store, time)),
];

const ENGINES: [&str; 5] =
    ["sqlite", "sqlite?durability=relaxed", "memory", "memory?durability=full", "postgres"];

pub(crate) fn run(args: &Args) -> Result<()> {
    let time = Duration::from_secs(args.seconds);
    let mut table = TextTable::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["engine", "writes", "rows/s without", "rows/s with a feed", "ratio"]);
    for engine in ENGINES.into_iter().filter(|engine| engine.starts_with(&args.engine)) {
        for (what, measure) in MEASURES {
            let (mut without, mut with) = (Vec::new(), Vec::new());
            for round in 0..args.rounds {
                eprintln!("{engine}, {what}, round {}", round + 1);
                without.push(measured(engine, false, measure, time)?);
                with.push(measured(engine, true, measure, time)?);
            }
            let (without, with) = (median(without), median(with));
            table.add_row([
                engine.to_owned(),
                what.to_owned(),
                format!("{without:.0}"),
                format!("{with:.0}"),
                format!("{:.2}", with / without),
            ]);
        }
    }
    println!("{table}");
    Ok(())
}

/// Measures on a new database.
fn measured(engine: &str, has_feed: bool, measure: Measure, time: Duration) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let server = match engine {
        "postgres" => Some(TemporaryPostgres::start(&[])?),
        _ => None,
    };
    let builder = match &server {
        Some(server) => Store::builder(Postgres::from_url(&server.make_database()?)?),
        None => open(engine, folder.path())?,
    };
    let builder = builder.schema(schema());
    let store = match has_feed {
        true => builder.changes(ChangeRetention::default()).open()?,
        false => builder.open()?,
    };
    let rate = measure(&store, time)?;
    store.close()?;
    Ok(rate)
}

fn open(engine: &str, folder: &Path) -> Result<StoreBuilder> {
    let (name, query) = engine.split_once('?').unwrap_or((engine, ""));
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    let file = folder.join("database").display().to_string();
    Ok(match (name, &*query) {
        ("sqlite", query) => Store::builder(Sqlite::from_url(&format!("sqlite:{file}{query}"))?),
        (_, "") => Store::builder(Memory::new()),
        (_, query) => Store::builder(Memory::from_url(&format!("memory:{file}{query}"))?),
    })
}

/// Rows with consecutive numbers.
pub(crate) struct Rows(pub(crate) std::ops::Range<i64>);

impl<'a> RowSource<'a> for Rows {
    fn remaining(&self) -> usize {
        (self.0.end - self.0.start) as usize
    }

    fn next(&mut self, row: &mut [ValueRef<'a>]) -> marmota_model::Result<bool> {
        let Some(number) = self.0.next() else { return Ok(false) };
        row.copy_from_slice(&[ValueRef::Absent, ValueRef::Text(NAME), ValueRef::Int(number)]);
        Ok(true)
    }
}

pub(crate) fn batches(store: &Store, time: Duration) -> Result<f64> {
    let table = store.table("note")?;
    let (started, mut rows) = (Instant::now(), 0);
    while started.elapsed() < time {
        let mut batch = Rows(rows..rows + BATCH_ROWS);
        store.run(&mut Operation::insert_many(&table, &mut batch), &mut NoRows)?;
        rows += BATCH_ROWS;
    }
    Ok(rows as f64 / started.elapsed().as_secs_f64())
}

pub(crate) fn clients(clients: Clients, store: &Store, time: Duration) -> Result<f64> {
    Ok(clients.measure(store, time)?.rows_per_second)
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

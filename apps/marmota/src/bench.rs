//! `marmota bench orm`: the table of engines, with counted disk syncs, compared with the same
//! statements without Marmota on engines that use SQLite.
//!
//! The `bench` program of the repository runs each contender in its own process, next to other
//! libraries. This one is a single process and measures only Marmota, on the machine where it runs.

mod contender;
mod durable;
mod engine;
mod json;
mod measure;
mod progress;
mod record;
mod report;
mod servers;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use marmota::command::clap::{self, ArgMatches, Args, FromArgMatches, Subcommand};
use marmota::command::{Done, JsonOutput};

use engine::Engine;
use report::Report;

/// Measures the engines on this machine
#[derive(Subcommand)]
enum Suite {
    Orm(Orm),
}

/// Measures inserts, reads and lists of each engine, compared with direct calls of SQLite
#[derive(Args)]
struct Orm {
    /// Rows of the table
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    rows: u32,
    /// Rounds; the report shows medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Measure only these engines; the server of one is started
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", value_parser = Engine::parse)]
    engine: Vec<Engine>,
    /// Start servers of PostgreSQL and MariaDB, and measure them, too, also over ODBC; those that are
    /// not installed are named
    #[arg(long)]
    servers: bool,
    /// Measure this database, too; it must have no rows in a table `person`
    #[arg(long, value_name = "NAME=URL", value_parser = Engine::parse_database)]
    database: Vec<Engine>,
    /// Measure only these parts
    #[arg(long, value_delimiter = ',', value_name = "PART,…")]
    part: Vec<Part>,
    /// Stop measurements of single calls after this time and report the rate so far
    #[arg(long, default_value_t = 500, value_name = "MS", value_parser = clap::value_parser!(u32).range(10..=600_000))]
    limit_ms: u32,
    /// Folder of the database files, on the disk to measure
    #[arg(long, value_name = "PATH")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    output: JsonOutput,
}

/// A part of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The table of engines
    Engines,
    /// Durable single inserts by many concurrent clients
    Durable,
    /// Threads that insert and read their own rows
    Threads,
    /// A list of 10,000 rows to JSON
    Json,
}

/// Returns the subcommand.
pub(crate) fn command() -> clap::Command {
    let command = clap::Command::new("bench")
        .about("Measures the engines on this machine")
        .subcommand_required(true);
    Suite::augment_subcommands(command)
}

/// Runs the subcommand.
pub(crate) fn run(matches: &ArgMatches) -> Done {
    let Suite::Orm(orm) = Suite::from_arg_matches(matches)?;
    orm.run()
}

impl Orm {
    fn run(&self) -> Done {
        let folder = Folder::new(&self.folder.clone().unwrap_or_else(std::env::temp_dir))?;
        let has = |part| self.part.is_empty() || self.part.contains(&part);
        let mut report = Report::new(self.rows, self.rounds, &folder.0);
        if has(Part::Engines) {
            let measured = measure::engines(&self.engines(), &self.scale(), &folder.0)?;
            (report.engines, report.missing) = measured;
        }
        let time = Duration::from_millis(self.limit_ms.into());
        if has(Part::Durable) {
            report.durable = durable::inserts(&folder.0, time, self.rounds)?;
        }
        if has(Part::Threads) {
            report.threads = durable::threads(&folder.0, time, self.rounds)?;
        }
        if has(Part::Json) {
            report.json = Some(json::list_of_rows(&folder.0)?);
        }
        let json = serde_json::to_value(&report)?;
        self.output.report(|| json, || report.to_string())?;
        let is_named = |missing: &measure::MissingEngine| {
            self.engine.iter().chain(&self.database).any(|engine| engine.name == missing.engine)
        };
        match report.missing.iter().any(is_named) {
            true => Ok(ExitCode::FAILURE),
            false => Ok(ExitCode::SUCCESS),
        }
    }

    fn engines(&self) -> Vec<Engine> {
        let is_named = |engine: &Engine| self.engine.contains(engine);
        let own = Engine::all().into_iter().filter(|it| self.engine.is_empty() || is_named(it));
        let servers = Engine::servers().into_iter().filter(|it| self.servers || is_named(it));
        own.chain(servers).chain(self.database.iter().cloned()).collect()
    }

    fn scale(&self) -> measure::Scale {
        measure::Scale {
            rows: self.rows as usize,
            rounds: self.rounds,
            limit: Duration::from_millis(self.limit_ms.into()),
        }
    }
}

/// The program's temporary folder, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(within: &Path) -> Result<Self, String> {
        let path = within.join(format!("marmota-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .map_err(|error| format!("{} cannot be made: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

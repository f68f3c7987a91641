//! The ORM suite. Each contender is a separate program, so that neither allocators nor caches are
//! shared. A process measures one engine setting with one number of rows and prints a JSON line for
//! each figure. The rounds alternate between the contenders (A, B, C, B, C, A, …), so that a drift
//! in the machine's speed affects all contenders equally. `bench/workload` defines the
//! measurements.

mod build;
mod measurement;
mod number;
mod report;
mod roster;
mod targets;

use anyhow::{Context, Result, bail, ensure};
use bench_orm_workload::Setting;
use marmota_mariadb::TemporaryMariadb;
use marmota_postgres::TemporaryPostgres;
use measurement::{Measurement, Measurements};
use roster::ContenderSpec;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Options of `bench orm`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Rows of the table; each number gets its own set of tables
    #[arg(long, value_delimiter = ',', default_values_t = [5_000, 200_000], value_name = "N,…",
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rows: Vec<u32>,
    /// Rounds, each a new process; the tables show medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Stop figures of single calls after this time and report the rate so far
    #[arg(long, default_value_t = 600, value_name = "MS",
          value_parser = clap::value_parser!(u32).range(10..=600_000))]
    limit_ms: u32,
    /// Run one round
    #[arg(long)]
    quick: bool,
    /// Subtract the time in which other programs had the core; for a machine in use
    #[arg(long)]
    busy: bool,
    /// Measure only these contenders
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    only: Vec<String>,
    /// Measure only these settings: file-full, file-off, memory, engine, postgres, mariadb
    #[arg(long, value_delimiter = ',', value_name = "NAME,…", value_parser = setting)]
    settings: Vec<Setting>,
    /// Folder of the database files, on the disk to measure
    #[arg(long, value_name = "PATH")]
    folder: Option<PathBuf>,
    /// Also save the tables as bench/results/DATE-orm.md
    #[arg(long)]
    save: bool,
    /// List the contenders and exit
    #[arg(long)]
    list: bool,
}

fn setting(name: &str) -> Result<Setting, String> {
    Setting::parse(name).ok_or_else(|| {
        let names = Setting::ALL.map(Setting::name).join(", ");
        format!("the settings are {names}")
    })
}

/// Runs the suite and prints its tables to standard output; progress goes to standard error.
///
/// # Errors
/// Returns an error if a contender failed or returned other rows than those inserted, after
/// printing the tables of the others.
pub(crate) fn run(args: Args) -> Result<()> {
    let specs = roster::chosen(&args.only)?;
    if args.list {
        for spec in &specs {
            println!("{:<16} {}", spec.name, spec.about);
        }
        return Ok(());
    }
    let folder = match args.folder {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir(),
    }
    .context("making a folder for the database files")?;
    let rounds = if args.quick { 1 } else { args.rounds };

    let wants = |setting| args.settings.is_empty() || args.settings.contains(&setting);
    let has_part = |spec: &ContenderSpec| spec.settings.iter().any(|setting| wants(*setting));
    let built = build::all(specs.into_iter().filter(has_part).collect());
    // One server for all; each process has its own databases.
    let server = wants(Setting::Postgres).then(|| TemporaryPostgres::start(&["fsync=off"]));
    let server = server.transpose().context("starting PostgreSQL")?;
    let postgres = server.as_ref().map(|server| server.socket_url("{}"));
    let mariadb = wants(Setting::Mariadb).then(TemporaryMariadb::start);
    let mariadb = mariadb.transpose().context("starting MariaDB")?;
    let mariadb_url = mariadb.as_ref().map(|server| server.socket_url("{}"));
    let mut measurements = Measurements::default();
    for &rows in &args.rows {
        for setting in Setting::ALL {
            if wants(setting) {
                let (limit_ms, folder) = (args.limit_ms, folder.path());
                let (postgres, mariadb) = (postgres.as_deref(), mariadb_url.as_deref());
                let task = Task { setting, rows, limit_ms, folder, postgres, mariadb };
                task.measure_all(&built, rounds, &mut measurements);
            }
        }
    }
    if args.busy {
        measurements = measurements.without_waits();
    }
    ensure!(!measurements.is_empty(), "no selected contender supports a selected setting");

    let text = report::text(&measurements, &built, rounds, args.busy, folder.path());
    println!("{text}");
    if args.save {
        let path = report::save(&text)?;
        eprintln!("saved as {}", path.display());
    }
    ensure!(measurements.failures().is_empty(), "some contenders failed; the tables list them");
    Ok(())
}

/// The task of one process.
struct Task<'a> {
    setting: Setting,
    rows: u32,
    limit_ms: u32,
    folder: &'a Path,
    /// The URLs of the servers, with `{}` for the name of a database.
    postgres: Option<&'a str>,
    mariadb: Option<&'a str>,
}

impl Task<'_> {
    /// Runs every contender that supports the setting once per round. Each round starts with the
    /// next contender.
    fn measure_all(
        &self,
        built: &[(ContenderSpec, PathBuf)],
        rounds: u32,
        measurements: &mut Measurements,
    ) {
        let mut contenders: Vec<_> =
            built.iter().filter(|(spec, _)| spec.settings.contains(&self.setting)).collect();
        if contenders.is_empty() {
            return;
        }
        for round in 1..=rounds {
            for (spec, binary) in &contenders {
                let (setting, rows) = (self.setting.name(), self.rows);
                eprintln!("  {setting}, {rows} rows, round {round} of {rounds}: {}", spec.name);
                match self.measure(spec, binary) {
                    Ok(found) => measurements.add(round, found),
                    Err(error) => {
                        let what = format!("{} ({setting}, {rows} rows): {error:#}", spec.name);
                        eprintln!("  failed: {what}");
                        measurements.fail(what);
                    }
                }
            }
            contenders.rotate_left(1);
        }
    }

    fn measure(&self, spec: &ContenderSpec, binary: &Path) -> Result<Vec<Measurement>> {
        let mut command = Command::new(binary);
        command
            .args(["--setting", self.setting.name()])
            .args(["--rows", &self.rows.to_string()])
            .args(["--limit-ms", &self.limit_ms.to_string()])
            .arg("--folder")
            .arg(self.folder)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit());
        if let Some(url) = self.postgres {
            command.env(bench_orm_workload::POSTGRES, url);
        }
        if let Some(url) = self.mariadb {
            command.env(bench_orm_workload::MARIADB, url);
        }
        if let Some(variant) = spec.variant {
            command.env("BENCH_ORM_VARIANT", variant);
        }
        let output = command.output().with_context(|| format!("starting {}", binary.display()))?;
        if !output.status.success() {
            bail!("it ended with {}; its messages are above", output.status);
        }
        let lines = String::from_utf8(output.stdout).context("its output is not UTF-8")?;
        let found: Vec<_> = lines.lines().map(Measurement::parse).collect::<Result<_>>()?;
        ensure!(!found.is_empty(), "it printed no figure");
        for one in &found {
            let asked = (spec.name, self.setting, self.rows);
            let got = (one.contender.as_str(), one.setting, one.rows);
            ensure!(got == asked, "the request was {asked:?}, the answer {got:?}");
        }
        Ok(found)
    }
}

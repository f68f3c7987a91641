//! `marmota prove`: what was acknowledged survives power cuts, kills, and failures of disks and links.
//!
//! | scenario | file | what is proved |
//! |---|---|---|
//! | `writes` | `writes.rs` | each acknowledged write is there, none is there in part |
//! | `feed` | `feed.rs` | a reader gets each committed change once, in order, after each restart |
//! | `jobs` | `jobs.rs` | no acknowledged job is lost, and the effects of each are there once |
//! | `replication`, `memory-replication` | `replication.rs` | the target has what was acknowledged, and replicas equal their primary |
//!
//! A seed decides what is done, and when the power is cut. In `writes` it decides the order of all
//! steps as well; the others run the threads of the engine and of the workers.

mod client;
mod feed;
mod history;
mod jobs;
#[cfg(feature = "replication")]
mod logged_files;
mod machine;
#[cfg(feature = "replication")]
mod replicated;
#[cfg(feature = "replication")]
mod replication;
mod schedule;
mod writes;

use std::process::ExitCode;

use marmota::command::clap::{self, ArgMatches, Args, FromArgMatches, ValueEnum};
use marmota::command::{Done, JsonOutput, complain, report};
use marmota::sqlite::disk::DiskFault;
use serde_json::json;

#[cfg(feature = "replication")]
use self::replicated::Kind;
use crate::stress::line::{Count, Line};
use crate::stress::tally::Tally;

type Failed = Box<dyn std::error::Error>;

/// Proves what survives power cuts, kills and failed links; the same seed repeats a run
#[derive(Args)]
struct Prove {
    /// What is proved
    #[arg(long, value_enum, default_value_t = Scenario::All)]
    scenario: Scenario,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of seeds, run one after another
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    seeds: u32,
    /// Concurrent clients (writes)
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    clients: u32,
    /// Steps of each client; steps between two power cuts in the other scenarios
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    steps: u32,
    /// Number of power cuts for each seed
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    cuts: u32,
    /// Put this fault into the run, which must detect it
    #[arg(long, hide = true, value_enum)]
    plant: Option<Fault>,
    #[command(flatten)]
    output: JsonOutput,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    All,
    Writes,
    Feed,
    Jobs,
    Replication,
    MemoryReplication,
}

/// A fault that a run must detect.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Fault {
    /// The engine trusts a sync that is retried after it has failed.
    RetriedSync,
    /// The engine reports a commit as not written.
    DeniedWrite,
    /// A commit is removed from the feed.
    LostChange,
    /// A reader of the feed continues before its last commit.
    RepeatedChange,
    /// Jobs are acknowledged before they are on the disk.
    EarlyJob,
    /// A job writes its effect in another transaction than its end.
    RepeatedEffect,
    /// The primary answers before the target has the commit.
    EarlyAnswer,
    /// A byte of a segment in the target is changed.
    DamagedSegment,
    /// The replica leaves out a segment.
    SkippedSegment,
}

/// Returns the subcommand.
pub(crate) fn command() -> clap::Command {
    let command = clap::Command::new("prove")
        .about("Proves what survives power cuts, kills and failed links, in an order by seed");
    Prove::augment_args(command)
}

/// The result of a seed of a scenario with threads.
#[derive(Default)]
struct Found {
    acknowledged: u64,
    unknown: u64,
    restarts: u32,
    tally: Tally,
}

/// Runs the subcommand. Exit code 1 if a promise is broken, or if a repeat of a seed differs.
pub(crate) fn run(matches: &ArgMatches) -> Done {
    let prove = Prove::from_arg_matches(matches)?;
    let mut tally = Tally::default();
    if prove.includes(Scenario::Writes) {
        tally.add(writes::run(&prove)?);
    }
    if prove.includes(Scenario::Feed) {
        tally.add(prove.run_scenario("feed", feed::prove)?);
    }
    if prove.includes(Scenario::Jobs) {
        tally.add(prove.run_scenario("jobs", jobs::prove)?);
    }
    #[cfg(feature = "replication")]
    if prove.includes(Scenario::Replication) {
        tally.add(prove.run_scenario("replication", replication::of(Kind::Sqlite))?);
    }
    #[cfg(feature = "replication")]
    if prove.includes(Scenario::MemoryReplication) {
        tally.add(prove.run_scenario("memory-replication", replication::of(Kind::Memory))?);
    }
    prove.output.report(|| tally.json(), || tally.to_string())?;
    Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Prove {
    fn includes(&self, scenario: Scenario) -> bool {
        self.scenario == Scenario::All || self.scenario == scenario
    }

    fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        let first = self.seed;
        (0..u64::from(self.seeds)).map(move |more| first.wrapping_add(more))
    }

    /// Returns the fault of the engine.
    fn disk_fault(&self) -> Option<DiskFault> {
        match self.plant {
            Some(Fault::RetriedSync) => Some(DiskFault::RetriesSync),
            Some(Fault::DeniedWrite) => Some(DiskFault::DeniesWrite),
            _ => None,
        }
    }

    /// Runs all seeds of a scenario, and prints a line for each.
    fn run_scenario(
        &self,
        name: &str,
        scenario: impl Fn(&Self, u64, &dyn Count) -> Result<Found, Failed>,
    ) -> Result<Tally, Failed> {
        self.print(format_args!("{name}\n seed  acknowledged  unknown  restarts  assertions"))?;
        let mut tally = Tally::default();
        for seed in self.seeds() {
            let line = Line::new(format!("{name}, seed {seed}"), u64::from(self.cuts));
            let mut found = scenario(self, seed, &line).unwrap_or_else(|error| {
                let mut found = Found::default();
                found.tally.check(1, Some(format!("the run fails: {error}")));
                found
            });
            drop(line);
            let Found { acknowledged, unknown, restarts, tally: of_seed } = &mut found;
            self.print(format_args!(
                "{seed:>5}  {acknowledged:>12}  {unknown:>7}  {restarts:>8}  {:>10}",
                of_seed.passed
            ))?;
            of_seed.runs.push(json!({
                "scenario": name,
                "seed": seed,
                "acknowledged": acknowledged,
                "unknown": unknown,
                "restarts": restarts,
                "assertions": of_seed.passed,
            }));
            self.name_faults(name, seed, of_seed);
            tally.add(found.tally);
        }
        Ok(tally)
    }

    /// Prints a line, unless the result is printed as JSON.
    fn print(&self, line: std::fmt::Arguments<'_>) -> Result<(), Failed> {
        if self.output.is_json() {
            return Ok(());
        }
        Ok(report(line)?)
    }

    /// Adds scenario and seed to the faults of a run, and prints them with the command that repeats
    /// it.
    fn name_faults(&self, scenario: &str, seed: u64, found: &mut Tally) {
        for fault in &mut found.faults {
            *fault = format!("{scenario}, seed {seed}: {fault}");
        }
        if self.output.is_json() || found.failed == 0 {
            return;
        }
        found.faults.iter().for_each(|fault| complain(format_args!("  {fault}")));
        let Self { clients, steps, cuts, .. } = self;
        complain(format_args!(
            "  again: marmota prove --scenario {scenario} --seed {seed} --seeds 1 --clients {clients} \
             --steps {steps} --cuts {cuts}"
        ));
    }
}

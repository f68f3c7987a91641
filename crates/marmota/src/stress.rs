//! `marmota stress`: threads and clients insert rows through a transport, read
//! them back and compare every field; then all ids of all threads are checked
//! together. With `--chaos` the server is killed again and again meanwhile, and
//! every row that was acknowledged has to be there.

mod chaos;
mod line;
mod round;
mod sample;
mod stand;

use std::process::ExitCode;
use std::time::Duration;

use marmota::command::Done;
use marmota::command::clap::{self, ArgMatches, Args, FromArgMatches};
use marmota::store::Durability;

use crate::stress::round::{Plan, Tally};
use crate::stress::stand::Stand;

/// Inserts rows from many threads through a transport, and looks for what is lost or wrong
#[derive(Args)]
struct Stress {
    /// A server that serves the rows' model (`marmota stress --serve URL` elsewhere); one of its own
    /// if not given
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// How its own server is reached
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME,…",
        default_value = "in-process,unix,http"
    )]
    transport: Vec<Transport>,
    /// Threads of each run
    #[arg(long, value_delimiter = ',', value_name = "N,…", default_value = "1,2,5,10,30,50", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    threads: Vec<u32>,
    /// Clients of a thread, each with a connection of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    clients: u32,
    /// Rows of a run, inserted and read one by one
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    rows: u32,
    /// What the rows hold; the same seed makes the same rows
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What an answer to a write promises
    #[arg(long, default_value = "relaxed", value_enum)]
    durability: Promise,
    /// The database of its own server, emptied of the rows of runs before: a file in the system's
    /// folder for temporary ones if not given
    #[arg(long, value_name = "URL")]
    db: Option<String>,
    /// Kills and restarts its own server so many times while threads write
    #[arg(long, value_name = "ROUNDS", num_args = 0..=1, default_missing_value = "20")]
    chaos: Option<u32>,
    /// Serves the rows' model at an address until it is ended: for `--server`
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["server", "chaos"])]
    serve: Option<String>,
    /// Lets other processes serve at the same address that are started with this too
    #[arg(long, requires = "serve")]
    share_port: bool,
}

/// How clients reach the program's own server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Transport {
    /// By a call, through the same bytes
    InProcess,
    /// A Unix socket
    Unix,
    /// HTTP, upgraded
    Http,
}

impl Transport {
    const fn name(self) -> &'static str {
        match self {
            Self::InProcess => "in process",
            Self::Unix => "Unix socket",
            Self::Http => "HTTP",
        }
    }
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Promise {
    /// Nothing waits for the disk
    None,
    /// On the disk within a second
    Relaxed,
    /// On the disk
    Full,
}

impl From<Promise> for Durability {
    fn from(promise: Promise) -> Self {
        match promise {
            Promise::None => Self::None,
            Promise::Relaxed => Self::Relaxed,
            Promise::Full => Self::Full,
        }
    }
}

/// The subcommand.
pub(crate) fn command() -> clap::Command {
    let command = clap::Command::new("stress")
        .about("Inserts rows from many threads, and looks for what is lost or wrong");
    Stress::augment_args(command)
}

/// Runs it: exit code 1 if anything is lost or wrong.
pub(crate) fn run(matches: &ArgMatches) -> Done {
    let stress = Stress::from_arg_matches(matches)?;
    if let Some(address) = &stress.serve {
        return stand::serve(address, stress.share_port, stress.db.as_deref());
    }
    let tally = match stress.chaos {
        Some(rounds) => chaos::run(&stress, rounds)?,
        None => stress.compare()?,
    };
    println!("{} assertions passed, {} failed", tally.passed, tally.failed);
    for fault in &tally.faults {
        eprintln!("  {fault}");
    }
    Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Stress {
    /// Every number of threads through every transport.
    fn compare(&self) -> Result<Tally, Box<dyn std::error::Error>> {
        let mut all = Tally::default();
        let stands = match &self.server {
            Some(url) => vec![Stand::elsewhere(url)],
            None => self
                .transport
                .iter()
                .map(|&transport| Stand::start(transport, self.db.as_deref()))
                .collect::<Result<Vec<_>, _>>()?,
        };
        println!(
            "operations a second, insert and read; {} rows a run, seed {}",
            self.rows, self.seed
        );
        println!(
            "{:<14}{:>8}{:>12}{:>12}{:>10}",
            "transport", "threads", "insert", "read", "seconds"
        );
        for stand in &stands {
            for &threads in &self.threads {
                let plan = Plan {
                    threads,
                    clients: self.clients,
                    rows: self.rows,
                    seed: self.seed,
                    durability: self.durability.into(),
                };
                let done = round::run(stand, plan)?;
                println!(
                    "{:<14}{threads:>8}{:>12.0}{:>12.0}{:>10.2}",
                    stand.name,
                    rate(self.rows, done.insert),
                    rate(self.rows, done.read),
                    (done.insert + done.read).as_secs_f64()
                );
                all.add(done.tally);
            }
        }
        Ok(all)
    }
}

fn rate(rows: u32, time: Duration) -> f64 {
    f64::from(rows) / time.as_secs_f64().max(1e-9)
}

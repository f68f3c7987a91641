//! `marmota stress`: threads and clients insert rows through a transport, read them back and
//! compare every field; then the ids of all threads are checked together. With `--chaos` the server
//! is killed repeatedly meanwhile and connections are cut, and every acknowledged row must be
//! present. With `--seconds` they also update and delete for a time. With `--servers` there are several processes of servers and of clients.

mod attended;
mod chaos;
mod child;
mod crew;
mod cutter;
pub(crate) mod line;
mod load;
mod mixed;
mod owned_rows;
mod process;
mod proof;
mod round;
pub(crate) mod sample;
pub(crate) mod stand;
pub(crate) mod tally;

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use marmota::command::clap::{self, ArgMatches, Args, FromArgMatches};
use marmota::command::{Done, JsonOutput, OutputError, complain, report};
use marmota::store::Durability;
use serde_json::json;

use crate::stress::crew::Plan;
use crate::stress::stand::{Failed, Stand};
use crate::stress::tally::Tally;

/// Numbers of threads of the runs if none are given, and of each client process.
const THREADS: [u32; 6] = [1, 2, 5, 10, 30, 50];
const THREADS_EACH: u32 = 50;
/// File descriptors of a process, in addition to those of clients.
const OTHER_DESCRIPTORS: u64 = 100;

/// Inserts rows from many threads through a transport, and reports rows that are lost or wrong
#[derive(Args)]
struct Stress {
    /// URL of a server that serves the rows' model (`marmota stress --serve URL` elsewhere); if not
    /// given, the program starts its own
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// CA file (PEM) for the certificate of a server at https:// or wss://; the system's CA store
    /// if not given
    #[arg(long, value_name = "FILE", requires = "server")]
    ca: Option<PathBuf>,
    /// An API key or a session token, for a server that authenticates its callers
    #[arg(
        long,
        value_name = "TOKEN",
        requires = "server",
        env = "MARMOTA_API_KEY",
        hide_env_values = true
    )]
    token: Option<String>,
    /// Transports to the program's own server
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME,…",
        default_value = "in-process,unix,http,websocket",
        conflicts_with_all = ["server", "servers", "serve"]
    )]
    transport: Vec<Transport>,
    /// Threads of each run: 1,2,5,10,30,50 if not given; with --servers the threads of each client
    /// process, 50 if not given
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    threads: Vec<u32>,
    /// Clients of a thread, each with its own connection
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    clients: u32,
    /// Total number of clients of all threads, instead of --clients
    #[arg(long, value_name = "N", conflicts_with_all = ["clients", "chaos"], value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    clients_in_all: Option<u32>,
    /// Addresses of this machine from which clients connect, in turn: between two addresses there
    /// are about 28,000 connections
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS,…", conflicts_with_all = ["chaos", "serve"])]
    bind: Vec<IpAddr>,
    /// Time limit for connecting all clients
    #[arg(long, value_name = "N", default_value_t = 120)]
    connect_seconds: u64,
    /// Rows of a run, inserted and read one by one
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    rows: u32,
    /// Seed of the rows' contents; the same seed makes the same rows
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Durability of an acknowledged write
    #[arg(long, default_value = "relaxed", value_enum)]
    durability: Promise,
    /// Database of the program's own server; if not given, a file in the system's folder for
    /// temporary files, removed at the end
    #[arg(long, value_name = "URL")]
    db: Option<String>,
    /// Kills and restarts the program's own server this many times while threads write, and cuts
    /// connections after numbers of bytes that depend on the seed. The transport is a Unix socket,
    /// or with `--transport` http or websocket
    #[arg(long, value_name = "ROUNDS", num_args = 0..=1, default_missing_value = "20")]
    chaos: Option<u32>,
    /// Inserts, reads, updates, lists and deletes rows for this time instead, with --threads 50 if
    /// not given; reports failed requests by kind, and rows that are lost or wrong
    #[arg(long, value_name = "N", requires = "server", conflicts_with = "rows", value_parser = clap::value_parser!(u32).range(1..=604_800))]
    seconds: Option<u32>,
    /// The maximum number of requests per second of all threads; unlimited if not given
    #[arg(long, value_name = "N", requires = "seconds", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Serves the rows' model at an address until a signal ends it: for `--server`
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["server", "chaos"])]
    serve: Option<String>,
    /// Lets other processes with this option serve at the same address
    #[arg(long, requires = "serve")]
    reuse_port: bool,
    /// Starts this many server processes, which share a port, and client processes; begins when all
    /// clients are connected
    #[arg(long, value_name = "N", conflicts_with_all = ["server", "serve", "chaos"], value_parser = clap::value_parser!(u32).range(1..=64))]
    servers: Option<u32>,
    /// Client processes, which share the clients and rows
    #[arg(long, value_name = "N", default_value_t = 1, requires = "servers", value_parser = clap::value_parser!(u32).range(1..=64))]
    client_processes: u32,
    /// Number of runs, each with newly started processes
    #[arg(long, value_name = "N", default_value_t = 1, requires = "servers", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: u32,
    // The following options are for the processes that this program starts.
    /// Ends with its standard input; a client process executes the commands that it reads from it
    #[arg(long, hide = true)]
    attended: bool,
    #[arg(long, hide = true, requires = "attended")]
    run: Option<i64>,
    #[arg(long, hide = true, requires = "attended", default_value_t = 0)]
    first_thread: u32,
    #[command(flatten)]
    output: JsonOutput,
}

/// A transport to the program's own server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Transport {
    /// A direct call, with the same encoding
    InProcess,
    /// A Unix socket
    Unix,
    /// HTTP with an upgrade
    Http,
    /// A WebSocket
    #[value(name = "websocket")]
    WebSocket,
    /// HTTP over TLS, with a certificate made for it
    Https,
    /// A WebSocket over TLS, with such a certificate
    Wss,
}

impl Transport {
    const fn name(self) -> &'static str {
        match self {
            Self::InProcess => "in process",
            Self::Unix => "Unix socket",
            Self::Http => "HTTP",
            Self::WebSocket => "WebSocket",
            Self::Https => "HTTPS",
            Self::Wss => "WSS",
        }
    }

    /// Returns the scheme of a server's URL with a port.
    const fn scheme(self) -> Option<&'static str> {
        match self {
            Self::InProcess | Self::Unix => None,
            Self::Http => Some("http"),
            Self::WebSocket => Some("ws"),
            Self::Https => Some("https"),
            Self::Wss => Some("wss"),
        }
    }

    const fn is_encrypted(self) -> bool {
        matches!(self, Self::Https | Self::Wss)
    }
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Promise {
    /// No write waits for the disk
    None,
    /// On the disk within a second
    Relaxed,
    /// On the disk
    Full,
}

impl Promise {
    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Relaxed => "relaxed",
            Self::Full => "full",
        }
    }
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

/// Returns the subcommand.
pub(crate) fn command() -> clap::Command {
    let command = clap::Command::new("stress")
        .about("Inserts rows from many threads, and looks for what is lost or wrong");
    Stress::augment_args(command)
}

/// Runs the subcommand. Exit code 1 if a row is lost or wrong.
pub(crate) fn run(matches: &ArgMatches) -> Done {
    let stress = Stress::from_arg_matches(matches)?;
    if let Some(address) = &stress.serve {
        let how = stand::ServeOptions { shares: stress.reuse_port, is_attended: stress.attended };
        return stand::serve(address, how, stress.db.as_deref());
    }
    if let (true, None, Some(url)) = (stress.attended, stress.seconds, &stress.server) {
        marmota::http::raise_descriptors_max();
        return attended::run(&Stand::elsewhere(url), &stress.plan(stress.threads_each()));
    }
    let tally = match (stress.chaos, stress.servers, stress.seconds, &stress.server) {
        (Some(rounds), ..) => chaos::run(&stress, rounds)?,
        (_, Some(servers), ..) => proof::run(&stress, servers)?,
        (_, _, Some(seconds), Some(url)) => mixed::run(&stress, &stress.given(url), seconds)?,
        _ => stress.compare()?,
    };
    stress.output.report(|| tally.json(), || tally.to_string())?;
    if !stress.output.is_json() {
        tally.faults.iter().for_each(|fault| complain(format_args!("  {fault}")));
    }
    Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Stress {
    /// Returns the numbers of threads of the runs.
    fn threads(&self) -> Vec<u32> {
        if self.threads.is_empty() { THREADS.to_vec() } else { self.threads.clone() }
    }

    /// Returns the number of threads of each client process.
    fn threads_each(&self) -> u32 {
        self.threads.iter().copied().max().unwrap_or(THREADS_EACH)
    }

    /// Returns the number of clients for a number of threads.
    fn clients_of(&self, threads: u32) -> u32 {
        self.clients_in_all.unwrap_or(self.clients * threads)
    }

    fn plan(&self, threads: u32) -> Plan {
        Plan {
            run: self.run.unwrap_or_else(round::run_number),
            threads,
            first_thread: self.first_thread,
            clients: self.clients_of(threads),
            bind: self.bind.clone(),
            connect_max: Duration::from_secs(self.connect_seconds),
            rows: self.rows,
            seed: self.seed,
            durability: self.durability.into(),
            load: None,
        }
    }

    /// Returns the server that was given.
    fn given(&self, url: &str) -> Stand {
        let stand = Stand::elsewhere(url).with_ca_file(self.ca.as_deref());
        stand.with_token(self.token.as_deref())
    }

    /// Refuses impossible options before anything is started.
    fn check(&self) -> Result<(), Failed> {
        let threads = self.threads();
        let (fewest, most) = (threads.iter().min(), threads.iter().max());
        let (fewest, most) = (fewest.copied().unwrap_or(1), most.copied().unwrap_or(1));
        let has_addresses = match &self.server {
            Some(url) => ["http:", "ws:", "https:", "wss:"].iter().any(|it| url.starts_with(it)),
            None => self.transport.iter().all(|one| one.scheme().is_some()),
        };
        if !self.bind.is_empty() && !has_addresses {
            return Err("--bind is only for clients over HTTP: add --transport http, or --server \
                        http://HOST:PORT/api"
                .into());
        }
        if let Some(clients) = self.clients_in_all
            && clients < most
        {
            let message = format!(
                "--clients-in-all {clients} is less than one client for each of {most} threads: \
                 lower --threads"
            );
            return Err(message.into());
        }
        // The program's own server has the other end of each connection.
        let ends = match (&self.server, &self.transport[..]) {
            (Some(_), _) => 1,
            (None, [Transport::InProcess]) => 0,
            _ => 2,
        };
        let clients = self.clients_of(most).max(self.clients_of(fewest));
        match marmota::http::raise_descriptors_max() {
            Some(limit) if ends * u64::from(clients) + OTHER_DESCRIPTORS > limit => {
                let message = format!(
                    "{clients} clients need {} file descriptors, but the limit of this process is \
                     {limit}: raise the limit (ulimit -n), or divide the clients among processes \
                     with --servers and --client-processes",
                    ends * u64::from(clients)
                );
                Err(message.into())
            }
            _ => Ok(()),
        }
    }

    /// Prints a line of the report as text.
    fn line(&self, line: std::fmt::Arguments<'_>) -> Result<(), OutputError> {
        if self.output.is_json() { Ok(()) } else { report(line) }
    }

    /// Runs every number of threads through every transport.
    fn compare(&self) -> Result<Tally, Failed> {
        self.check()?;
        let mut all = Tally::default();
        let stands = match &self.server {
            Some(url) => vec![self.given(url)],
            None => self
                .transport
                .iter()
                .map(|&transport| Stand::start(transport, self.db.as_deref()))
                .collect::<Result<Vec<_>, _>>()?,
        };
        self.line(format_args!(
            "operations a second, insert and read; {} rows a run, seed {}",
            self.rows, self.seed
        ))?;
        self.line(format_args!(
            "{:<14}{:>8}{:>12}{:>12}{:>10}",
            "transport", "threads", "insert", "read", "seconds"
        ))?;
        for stand in &stands {
            for threads in self.threads() {
                let done = round::run(stand, &self.plan(threads))?;
                self.line(format_args!(
                    "{:<14}{threads:>8}{:>12.0}{:>12.0}{:>10.2}",
                    stand.name,
                    rate(self.rows, done.insert),
                    rate(self.rows, done.read),
                    (done.insert + done.read).as_secs_f64()
                ))?;
                all.add(done.tally);
                all.runs.push(json!({
                    "transport": stand.name,
                    "threads": threads,
                    "inserts_per_second": rate(self.rows, done.insert),
                    "reads_per_second": rate(self.rows, done.read),
                }));
            }
        }
        Ok(all)
    }
}

fn rate(rows: u32, time: Duration) -> f64 {
    f64::from(rows) / time.as_secs_f64().max(1e-9)
}

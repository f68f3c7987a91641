//! The HTTP suite. For each workload and round, every selected server is started, checked, warmed
//! up, loaded with wrk and stopped. Within a workload the rounds alternate between the servers (A,
//! B, C, A, B, C, …), so that a drift in the machine's speed affects all servers equally. Requests
//! are counted by wrk; CPU time, memory and stolen time come from `/proc`. `report` turns them into
//! tables.

mod answer;
pub(crate) mod build;
mod report;
pub(crate) mod roster;
pub(crate) mod sample;
pub(crate) mod server;
pub(crate) mod usage;
mod workload;
pub(crate) mod wrk;

use anyhow::{Context, Result, bail, ensure};
use report::Report;
use roster::ServerSpec;
use sample::Sample;
use server::Server;
use std::time::Duration;
use usage::{MachineTimes, ProcessUsage};
use workload::{Kind, Workload};
use wrk::Wrk;

/// From this number of connections on, only plaintext is measured: the subject is then the number
/// of connections, and a round takes longer.
const MANY_CONNECTIONS: u32 = 4096;
/// The default length of a measured run, with usual and with many connections.
const SECONDS: u32 = 4;
const MANY_SECONDS: u32 = 15;
/// Descriptors that a server or wrk needs in addition to one per connection.
const SPARE_DESCRIPTORS: u64 = 256;

/// Options of `bench http`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Rounds of each workload; the tables show medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Seconds of load in each measured run. Default: 4, and 15 from 4096 connections on, because
    /// connecting takes a large part of the first seconds
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: Option<u32>,
    /// Run one round of 2 seconds with 64 connections
    #[arg(long)]
    quick: bool,
    /// Measure only these servers
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    only: Vec<String>,
    /// Measure only these workloads
    #[arg(long, value_delimiter = ',', value_enum, value_name = "KIND,…")]
    workloads: Vec<Kind>,
    /// Numbers of connections; from 4096 on, only plaintext is measured
    #[arg(long, value_delimiter = ',', default_values_t = [64, 512], value_name = "N,…",
          value_parser = clap::value_parser!(u32).range(1..=60_000))]
    connections: Vec<u32>,
    /// Threads of wrk
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256))]
    wrk_threads: u32,
    /// Measure another server too; `{port}` in its command line is replaced by the port
    #[arg(long, value_name = "NAME=COMMAND")]
    also: Vec<String>,
    /// Build every server, Marmota included, for this machine's processor
    #[arg(long)]
    native: bool,
    /// Also save the tables as bench/results/DATE-http….md
    #[arg(long)]
    save: bool,
    /// List the servers and exit
    #[arg(long)]
    list: bool,
}

/// Runs the suite and prints its tables on standard output, and its progress on standard error. A
/// server that cannot be built is left out, and one that fails is left out of that round. The other
/// servers are measured, and the run ends with an error.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.list {
        for spec in roster::all() {
            println!("{:<12} {}", spec.name, spec.about);
        }
        return Ok(());
    }
    let specs = roster::chosen(&args.only, &args.also)?;
    let plan = Plan::new(args)?;
    plan.raise_descriptor_limit()?;
    let wrk = Wrk::find_or_install(args.wrk_threads)?;
    let asked = specs.len();
    let built = build::all(specs, args.native)?;

    let mut report = Report::new(&built, plan.rounds, args.native);
    for workload in &plan.workloads {
        for round in 1..=plan.rounds {
            for (place, (spec, binary)) in built.iter().enumerate() {
                eprint!("  {workload}, round {round} of {}: {:<12} ", plan.rounds, spec.name);
                match plan.measure(&wrk, spec, binary, workload) {
                    Ok(sample) => {
                        eprintln!("{sample}");
                        report.add(*workload, place, sample);
                    }
                    Err(error) => {
                        eprintln!("failed: {error:#}");
                        report.add_failure(*workload, place);
                    }
                }
            }
        }
    }
    let tables = report.tables();
    println!("{tables}");
    if args.save {
        let path = report::save(&tables, &plan.workloads)?;
        eprintln!("saved as {}", path.display());
    }
    ensure!(asked == built.len(), "not every server could be built; see above");
    ensure!(!report.has_failures(), "not every run succeeded; see above");
    Ok(())
}

struct Plan {
    rounds: u32,
    seconds: Option<u32>,
    warm_up: Duration,
    workloads: Vec<Workload>,
}

impl Plan {
    fn new(args: &Args) -> Result<Plan> {
        let connections: &[u32] =
            if args.quick && args.connections == [64, 512] { &[64] } else { &args.connections };
        let mut workloads = Vec::new();
        for kind in Kind::ALL {
            for &connections in connections {
                let wanted = args.workloads.is_empty() || args.workloads.contains(&kind);
                let left_out = connections >= MANY_CONNECTIONS && kind == Kind::Json;
                if wanted && !left_out {
                    workloads.push(Workload { kind, connections });
                }
            }
        }
        ensure!(
            !workloads.is_empty(),
            "nothing to measure: json is not measured from {MANY_CONNECTIONS} connections on"
        );
        Ok(Plan {
            rounds: if args.quick { 1 } else { args.rounds },
            seconds: args.seconds.or(args.quick.then_some(2)),
            warm_up: Duration::from_secs(1),
            workloads,
        })
    }

    /// Raises the limit of open files, which wrk and the server inherit. Each connection needs one
    /// descriptor in each of them.
    fn raise_descriptor_limit(&self) -> Result<()> {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let most = self.workloads.iter().map(|w| w.connections).max();
        let needed = u64::from(most.unwrap_or(0)) + SPARE_DESCRIPTORS;
        let limit = getrlimit(Resource::Nofile);
        if limit.current.is_none_or(|current| current >= needed) {
            return Ok(());
        }
        if limit.maximum.is_some_and(|maximum| maximum < needed) {
            bail!(
                "{needed} open files are needed and the hard limit is {:?}: \
                 raise it (ulimit -Hn) or ask for fewer connections",
                limit.maximum
            );
        }
        let raised = Rlimit { current: limit.maximum, ..limit };
        setrlimit(Resource::Nofile, raised).context("raising the limit of open files")
    }

    fn time(&self, workload: &Workload) -> Duration {
        let many = workload.connections >= MANY_CONNECTIONS;
        let usual = if many { MANY_SECONDS } else { SECONDS };
        Duration::from_secs(u64::from(self.seconds.unwrap_or(usual)))
    }

    fn measure(
        &self,
        wrk: &Wrk,
        spec: &ServerSpec,
        binary: &std::path::Path,
        workload: &Workload,
    ) -> Result<Sample> {
        let mut server = Server::start(spec, binary)?;
        answer::check(server.port()).context("its answers are wrong")?;
        let idle = server.usage()?;
        wrk.load(server.port(), workload, self.warm_up)?;

        let machine = MachineTimes::now()?;
        let ours = ProcessUsage::of_waited_children()?;
        let before = server.usage()?;
        let load = wrk.load(server.port(), workload, self.time(workload))?;
        let after = server.usage().context("the server ended under load")?;
        let wrk_cpu_s = ProcessUsage::of_waited_children()?.cpu_s - ours.cpu_s;
        let server_cpu_s = after.cpu_s - before.cpu_s;
        let machine = MachineTimes::now()?.since(&machine);
        server.stop();

        ensure!(load.requests > 0, "no request was answered");
        Ok(Sample {
            requests_per_s: load.requests as f64 / load.seconds,
            requests_per_cpu_s: load.requests as f64 / server_cpu_s.max(0.01),
            server_cores: server_cpu_s / load.seconds,
            p99_us: load.p99_us,
            seconds: load.seconds,
            idle_kib: idle.resident_kib,
            peak_kib: after.peak_kib,
            stolen: machine.stolen_share(),
            others: machine.others_share(server_cpu_s + wrk_cpu_s),
            socket_errors: load.socket_errors,
            bad_statuses: load.bad_statuses,
        })
    }
}

//! The web suite: features of the server other than plain requests, each compared with the usual server
//! or crate. In each round, each server is started, its answer is checked, it is warmed up, loaded and
//! stopped.

mod load;
mod roster;
mod sockets;
mod table;
mod workload;

use crate::http::build;
use crate::http::roster::{Role, ServerSpec};
use crate::http::server::Server;
use crate::http::wrk::Wrk;
use anyhow::{Context, Result, ensure};
use roster::Fixtures;
use std::path::{Path, PathBuf};
use std::time::Duration;
use table::{Figure, Table};
use workload::{Protocol, WORKLOADS, Workload};

const WARM_UP: Duration = Duration::from_secs(1);

/// Options of `bench web`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Rounds of each workload; the table shows medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Seconds of load in each measured run
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Connections
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    connections: u32,
    /// Run only workloads whose name contains one of these: file, TLS, HTTP/2, WebSocket
    #[arg(long, value_delimiter = ',', value_name = "PART,…")]
    only: Vec<String>,
    /// Build the servers and exit
    #[arg(long)]
    build: bool,
}

/// Runs the suite and prints its table.
pub(crate) fn run(args: &Args) -> Result<()> {
    let wanted = |workload: &&Workload| {
        args.only.is_empty() || args.only.iter().any(|part| workload.name.contains(part.as_str()))
    };
    let workloads: Vec<&Workload> = WORKLOADS.iter().filter(wanted).collect();
    let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
    ensure!(!workloads.is_empty(), "unknown workload; known: {}", names.join(", "));
    roster::install()?;
    let fixtures = Fixtures::new()?;
    let plain = build::all(fixtures.servers(false), false)?;
    let expected = fixtures.servers(false).len();
    ensure!(plain.len() == expected, "not every server could be built; see above");
    let tls: Vec<_> = fixtures
        .servers(true)
        .into_iter()
        .filter_map(|spec| Some((binary(&plain, &spec.name)?, spec)))
        .map(|(binary, spec)| (spec, binary))
        .collect();
    if args.build {
        return Ok(());
    }
    let wrk = Wrk::find_or_install(2)?;
    let script = wrk.add_script("plain.lua", "")?;
    let mut table = Table::default();
    for workload in workloads {
        let servers = if workload.protocol == Protocol::Tls { &tls } else { &plain };
        for round in 1..=args.rounds {
            for (spec, binary) in servers {
                if !workload.servers.contains(&spec.name.as_str()) {
                    continue;
                }
                let other = (workload.protocol == Protocol::Http2 && spec.name == "nginx")
                    .then(|| fixtures.nginx_http2());
                let spec = other.as_ref().unwrap_or(spec);
                let figure = measure(args, &wrk, &script, workload, spec, binary)
                    .with_context(|| format!("{}, {}", workload.name, spec.name))?;
                eprintln!("  {}, round {round}, {}: {figure}", workload.name, spec.name);
                table.add(workload, &spec.name, spec.role == Role::Peer, figure);
            }
        }
    }
    println!(
        "medians of {} round(s) of {} s, {} connections\n\n{}",
        args.rounds,
        args.seconds,
        args.connections,
        table.text()
    );
    Ok(())
}

fn binary(built: &[(ServerSpec, PathBuf)], name: &str) -> Option<PathBuf> {
    built.iter().find(|(spec, _)| spec.name == name).map(|(_, binary)| binary.clone())
}

fn measure(
    args: &Args,
    wrk: &Wrk,
    script: &Path,
    workload: &Workload,
    spec: &ServerSpec,
    binary: &Path,
) -> Result<Figure> {
    let mut server = Server::start(spec, binary)?;
    workload.check(&server)?;
    let port = server.port();
    let load = |time| workload.load(wrk, script, port, args.connections, time);
    load(WARM_UP)?;
    let before = server.usage()?;
    let loaded = load(Duration::from_secs(args.seconds.into()))?;
    let after = server.usage().context("the server ended under load")?;
    server.stop();
    ensure!(loaded.answered > 0, "nothing was answered");
    Ok(Figure {
        per_s: loaded.answered as f64 / loaded.seconds,
        per_cpu_s: loaded.answered as f64 / (after.cpu_s - before.cpu_s).max(0.01),
        peak_kib: after.peak_kib,
        failed: loaded.failed,
    })
}

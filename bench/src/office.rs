//! The office suite. Marmota's example and a Node.js server (its http module and the official
//! driver) serve the same routes from the same MongoDB database. Their responses are compared
//! first.

use crate::http::build;
use crate::http::roster::{Role, ServerSpec, Source, workspace};
use crate::http::server::Server;
use crate::http::usage::ProcessUsage;
use crate::http::wrk::Wrk;
use anyhow::{Context, Result, ensure};
use comfy_table::Table;
use marmota_mongo::TemporaryMongo;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const WARM_UP: Duration = Duration::from_secs(1);
/// A path, the target for the ratio to Node's requests per CPU second, and the memory limit in MB.
const ROUTES: [(&str, f64, f64); 4] =
    [("/hello", 2.4, 12.0), ("/json", 2.4, 12.0), ("/mongo/1", 3.0, 30.0), (MANY, 3.0, 30.0)];
/// A hundred offices in turn.
const MANY: &str = "/mongo/{1..100}";
/// Each thread of wrk starts at a different office.
const MANY_SCRIPT: &str = r#"
local threads = 0
setup = function(thread)
  thread:set("place", threads * 37)
  threads = threads + 1
end
request = function()
  place = place % 100 + 1
  return wrk.format("GET", "/mongo/" .. place)
end
"#;
const STALL_US: f64 = 1e6;

/// Options of `bench office`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// URL of the database; by default, the suite starts FerretDB
    #[arg(long, value_name = "URL")]
    db: Option<String>,
    /// Rounds; the table shows medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Seconds of load in each measured run
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Numbers of connections
    #[arg(long, value_delimiter = ',', default_values_t = [10, 150], value_name = "N,…")]
    connections: Vec<u32>,
}

/// One run under load.
struct Run {
    requests_per_s: f64,
    requests_per_cpu_s: f64,
    memory_mb: f64,
    longest_us: f64,
    failed: u64,
}

/// The runs of one program, by route and connections.
type Figures = BTreeMap<(&'static str, u32), Vec<Run>>;

/// Runs the suite and prints its table.
pub(crate) fn run(args: &Args) -> Result<()> {
    let (database, url) = match &args.db {
        Some(url) => (None, url.clone()),
        None => {
            let server = TemporaryMongo::start().context("starting FerretDB")?;
            let url = server.url();
            (Some(server), url)
        }
    };
    let folder = node()?;
    let script = folder.join("server.js");
    let script = script.to_str().context("the peer's path is not UTF-8")?;
    let listen = ["--db", &url, "--listen", "127.0.0.1:{port}"];
    let node = Source::Program("node".into());
    let built = build::all(
        vec![
            ServerSpec::new(
                "marmota",
                Role::Ours,
                Source::Package("office"),
                &listen,
                "the example",
            ),
            ServerSpec::new("node", Role::Peer, node, &[script, "{port}", &url], "http, mongodb"),
        ],
        false,
    )?;
    ensure!(built.len() == 2, "both programs are needed");
    compare(&built, &folder, &url)?;
    let wrk = Wrk::find_or_install(2)?;
    let scripts = [wrk.add_script("plain.lua", "")?, wrk.add_script("many.lua", MANY_SCRIPT)?];
    let mut figures: Vec<Figures> = built.iter().map(|_| Figures::new()).collect();
    for round in 1..=args.rounds {
        for ((spec, binary), figures) in built.iter().zip(&mut figures) {
            eprintln!("  round {round} of {}: {}", args.rounds, spec.name);
            measure(args, &wrk, &scripts, spec, binary, figures)
                .with_context(|| format!("measuring {}", spec.name))?;
        }
    }
    drop(database);
    println!("medians of {} rounds\n{}", args.rounds, table(&figures[0], &figures[1]));
    Ok(())
}

/// Returns the folder of the Node scripts, with their dependencies installed.
fn node() -> Result<PathBuf> {
    let folder = workspace().join("bench/peers/node");
    if !folder.join("node_modules").is_dir() {
        let done = Command::new("npm").args(["ci", "--no-audit"]).current_dir(&folder).status();
        ensure!(done.context("running npm")?.success(), "npm could not install the driver");
    }
    Ok(folder)
}

/// Checks that the responses of both programs are equal, ignoring members that are null.
fn compare(built: &[(ServerSpec, PathBuf)], scripts: &Path, url: &str) -> Result<()> {
    // One after the other, because the first creates the office that the second reads.
    let mut servers = Vec::new();
    for (spec, binary) in built {
        servers.push(Server::start(spec, binary)?);
    }
    let made = Command::new("node").args(["offices.js", url]).current_dir(scripts).status()?;
    ensure!(made.success(), "offices.js could not create the offices");
    for (path, ..) in ROUTES {
        let path = if path == MANY { "/mongo/77" } else { path };
        let mut answers = Vec::new();
        for server in &servers {
            let url = format!("http://127.0.0.1:{}{path}", server.port());
            let text = ureq::get(url).call()?.into_body().read_to_string()?;
            let value = serde_json::from_str::<serde_json::Value>(&text);
            answers.push(value.map_or(serde_json::Value::String(text), |mut value| {
                if let Some(members) = value.as_object_mut() {
                    members.retain(|name, value| name != "_order" && !value.is_null());
                }
                value
            }));
        }
        ensure!(answers[0] == answers[1], "the answers to {path} differ: {answers:?}");
    }
    servers.into_iter().for_each(Server::stop);
    Ok(())
}

fn measure(
    args: &Args,
    wrk: &Wrk,
    scripts: &[PathBuf; 2],
    spec: &ServerSpec,
    binary: &Path,
    figures: &mut Figures,
) -> Result<()> {
    for (path, ..) in ROUTES {
        // A new server per route, so that the peak memory is that of the route.
        let mut server = Server::start(spec, binary)?;
        let is_many = path == MANY;
        let script = &scripts[usize::from(is_many)];
        let request_path = if is_many { "" } else { path };
        let url = format!("http://127.0.0.1:{}{request_path}", server.port());
        for &connections in &args.connections {
            wrk.run(script, connections, &url, "", WARM_UP)?;
            let before = server.usage()?;
            let time = Duration::from_secs(u64::from(args.seconds));
            let load = wrk.run(script, connections, &url, "", time)?;
            let after: ProcessUsage = server.usage()?;
            let requests = load.requests as f64;
            figures.entry((path, connections)).or_default().push(Run {
                requests_per_s: requests / load.seconds,
                requests_per_cpu_s: requests / (after.cpu_s - before.cpu_s).max(0.01),
                memory_mb: after.peak_kib as f64 * 1024.0 / 1e6,
                longest_us: load.longest_us,
                failed: load.bad_statuses + load.socket_errors,
            });
        }
        server.stop();
    }
    Ok(())
}

fn median(runs: &[Run], of: fn(&Run) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn table(ours: &Figures, node: &Figures) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header([
        "route, connections",
        "requests per CPU s: marmota",
        "node",
        "ratio (target)",
        "requests per s",
        "node",
        "memory MB (limit)",
        "node",
        "stalls, failed",
        "node",
    ]);
    for ((path, connections), ours) in ours {
        let (Some(node), Some((_, ratio, most))) =
            (node.get(&(*path, *connections)), ROUTES.iter().find(|(route, ..)| route == path))
        else {
            continue;
        };
        let both = |of: fn(&Run) -> f64| (median(ours, of), median(node, of));
        let (cpu, node_cpu) = both(|run| run.requests_per_cpu_s);
        let (rate, node_rate) = both(|run| run.requests_per_s);
        let (memory, node_memory) = both(|run| run.memory_mb);
        let problems = |runs: &[Run]| {
            let stalls = runs.iter().filter(|run| run.longest_us > STALL_US).count();
            format!("{stalls}, {}", runs.iter().map(|run| run.failed).sum::<u64>())
        };
        table.add_row([
            format!("{path}, {connections}"),
            format!("{cpu:.0}"),
            format!("{node_cpu:.0}"),
            format!("{:.2} ({ratio})", cpu / node_cpu),
            format!("{rate:.0}"),
            format!("{node_rate:.0}"),
            format!("{memory:.1} ({most})"),
            format!("{node_memory:.1}"),
            problems(ours),
            problems(node),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_ours_divided_by_the_peers() {
        let figures = |requests_per_cpu_s, longest_us| {
            let run = |factor: f64| Run {
                requests_per_s: 1.0,
                requests_per_cpu_s: requests_per_cpu_s * factor,
                memory_mb: 5.0,
                longest_us,
                failed: 0,
            };
            Figures::from([(("/hello", 10), vec![run(9.0), run(1.0), run(0.5)])])
        };
        let table = table(&figures(300.0, 2e6), &figures(100.0, 5.0));
        let row = table.lines().find(|line| line.contains("/hello")).unwrap();
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells[2..5], ["300", "100", "3.00 (2.4)"]);
        assert_eq!(cells[9..11], ["3, 0", "0, 0"]);
    }
}

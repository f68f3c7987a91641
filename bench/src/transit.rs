//! The transit suite. Marmota's example and a conventional program (axum, csv, serde, two hash
//! maps) load the same feed and serve the same routes. The responses of all routes are parsed and
//! compared first.

mod figures;
mod users;

use crate::http::build;
use crate::http::roster::{Role, ServerSpec, Source, workspace};
use crate::http::server::Server;
use crate::http::usage::ProcessUsage;
use crate::http::wrk::Wrk;
use anyhow::{Context, Result, bail, ensure};
use figures::{Figures, Loaded};
use serde_json::Value;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Idle time after the load, before memory is measured again.
const IDLE_TIME: Duration = Duration::from_secs(10);
const WARM_UP: Duration = Duration::from_secs(1);
const SAMPLE_EVERY: Duration = Duration::from_millis(50);
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Each thread of wrk requests all routes in turn, from a different start.
const SCRIPT: &str = r#"
local threads = 0
setup = function(thread)
  thread:set("place", threads * 37)
  threads = threads + 1
end
request = function()
  place = place % #routes + 1
  return wrk.format("GET", "/schedules/" .. routes[place])
end
"#;

/// Options of `bench transit`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Size of the generated feed, relative to the real one
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// A folder with `trips.txt` and `stop_times.txt` to load instead of a generated feed
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Rounds; the table shows medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Seconds of load in each measured run
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Numbers of connections
    #[arg(long, value_delimiter = ',', default_values_t = [16, 50], value_name = "N,…")]
    connections: Vec<u32>,
    /// Virtual users, each of which requests all routes in turn
    #[arg(long, default_value_t = 50)]
    users: u32,
    /// Duration of the virtual users' load, once per program; 0 skips it
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    users_seconds: u64,
}

impl Args {
    /// Returns the default options with a generated feed of this size, and without virtual users.
    pub(crate) fn with_scale(scale: f64) -> Self {
        let connections = vec![16, 50];
        Self { scale, data: None, rounds: 3, seconds: 5, connections, users: 50, users_seconds: 0 }
    }
}

/// Runs the suite and prints its table.
pub(crate) fn run(args: &Args) -> Result<()> {
    let feed = Feed::new(args)?;
    let plain = ServerSpec::new(
        "plain",
        Role::Peer,
        Source::Peer { set: "transit", package: "peer-transit" },
        &["--data", feed.folder()?, "--port", "{port}"],
        "axum, csv, serde, two maps",
    );
    let mut programs = vec![feed.marmota()?];
    programs.extend(build::all(vec![plain], false)?);
    measure_all(args, &feed, &programs, Answers::InOrder)
}

/// The feed that all programs load.
pub(crate) struct Feed {
    folder: PathBuf,
    /// The example of Marmota.
    marmota: PathBuf,
    /// The folder of a feed that was generated.
    _generated: Option<tempfile::TempDir>,
}

impl Feed {
    /// Builds Marmota's example, and lets it generate a feed unless the caller has one.
    pub(crate) fn new(args: &Args) -> Result<Self> {
        let ours = ServerSpec::new("marmota", Role::Ours, Source::Package("transit"), &[], "");
        let built = build::all(vec![ours], false)?;
        let (_, marmota) = built.into_iter().next().context("the example is needed")?;
        if let Some(folder) = &args.data {
            let folder = std::path::absolute(folder)?;
            return Ok(Self { folder, marmota, _generated: None });
        }
        eprintln!("generating a feed of scale {}", args.scale);
        let generated = tempfile::tempdir().context("making a folder for the feed")?;
        let status = Command::new(&marmota)
            .args(["generate", "--scale", &args.scale.to_string(), "--dir"])
            .arg(generated.path())
            .current_dir(workspace())
            .status()?;
        ensure!(status.success(), "the feed could not be generated");
        Ok(Self { folder: generated.path().to_owned(), marmota, _generated: Some(generated) })
    }

    /// Returns the folder of `trips.txt` and `stop_times.txt`.
    pub(crate) fn folder(&self) -> Result<&str> {
        self.folder.to_str().context("the feed's path is not UTF-8")
    }

    /// Returns Marmota's example as a program of the suite.
    pub(crate) fn marmota(&self) -> Result<(ServerSpec, PathBuf)> {
        let source = Source::Program(self.marmota.clone());
        let arguments = ["--data", self.folder()?, "--port", "{port}"];
        let spec = ServerSpec::new("marmota", Role::Ours, source, &arguments, "examples/transit");
        Ok((spec, self.marmota.clone()))
    }
}

/// What must be equal in the answers of all programs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answers {
    /// Everything, also the answer to an unknown route.
    InOrder,
    /// The trips and their stops, in any order.
    InAnyOrder,
}

/// Compares the answers of the programs, measures them, and prints the table. The first program is
/// Marmota.
pub(crate) fn measure_all(
    args: &Args,
    feed: &Feed,
    programs: &[(ServerSpec, PathBuf)],
    answers: Answers,
) -> Result<()> {
    ensure!(programs.len() >= 2, "a program to compare with is needed");
    let routes = routes(&feed.folder)?;
    let answer_bytes = compare(programs, &routes, answers)?;
    let all_bytes: usize = answer_bytes.iter().flatten().sum();
    let mean_kb = all_bytes as f64 / (programs.len() * routes.len()) as f64 / 1e3;

    let wrk = Wrk::find_or_install(2)?;
    let list: Vec<String> = routes.iter().map(|route| format!("{route:?}")).collect();
    let script = format!("routes = {{{}}}\n{SCRIPT}", list.join(","));
    let script = wrk.add_script("routes.lua", &script)?;
    let mut figures: Vec<Figures> = programs.iter().map(|_| Figures::default()).collect();
    for round in 1..=args.rounds {
        for ((spec, binary), figures) in programs.iter().zip(&mut figures) {
            eprintln!("  round {round} of {}: {}", args.rounds, spec.name);
            measure(args, &wrk, &script, spec, binary, figures)
                .with_context(|| format!("measuring {}", spec.name))?;
        }
    }
    if args.users_seconds > 0 {
        for (((spec, binary), figures), bytes) in
            programs.iter().zip(&mut figures).zip(answer_bytes)
        {
            eprintln!("  {} users of {}", args.users, spec.name);
            let routes: Vec<_> = routes.iter().cloned().zip(bytes).collect();
            measure_users(args, spec, binary, &routes, figures)
                .with_context(|| format!("the users of {}", spec.name))?;
        }
    }
    let named = programs.iter().map(|(spec, _)| spec.name.as_str()).zip(&figures);
    println!(
        "{} routes, mean answer {mean_kb:.0} kB, medians of {} rounds\n{}",
        routes.len(),
        args.rounds,
        figures::table(&named.collect::<Vec<_>>(), &args.connections, args.users)
    );
    Ok(())
}

/// Returns the route ids of a feed, percent-encoded, in the order of the file.
fn routes(folder: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(folder.join("trips.txt")).context("reading trips.txt")?;
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default().trim_start_matches('\u{feff}');
    let place = header.split(',').position(|name| name.trim_matches('"') == "route_id");
    // A line is split at commas, because no known feed quotes a comma in the columns before it.
    let place = place.context("trips.txt has no column route_id")?;
    let mut routes: Vec<String> = Vec::new();
    for line in lines {
        let route = line.split(',').nth(place).unwrap_or_default().trim_matches('"');
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        let code =
            |byte| if plain(byte) { char::from(byte).into() } else { format!("%{byte:02X}") };
        let route: String = route.bytes().map(code).collect();
        if routes.last() != Some(&route) && !routes.contains(&route) {
            routes.push(route);
        }
    }
    ensure!(!routes.is_empty(), "trips.txt has no routes");
    Ok(routes)
}

/// Checks that the responses of all programs to every route are equal. Returns the lengths of each
/// program's responses. The programs run one after the other.
fn compare(
    programs: &[(ServerSpec, PathBuf)],
    routes: &[String],
    answers: Answers,
) -> Result<Vec<Vec<usize>>> {
    eprintln!("comparing the answers to {} routes", routes.len());
    let unknown = (answers == Answers::InOrder).then_some("no-such-route");
    let mut first: Vec<u64> = Vec::new();
    let mut bytes = Vec::new();
    for (spec, binary) in programs {
        let server = Server::start(spec, binary)?;
        let (mut lengths, mut hashes) = (Vec::new(), Vec::new());
        for route in routes.iter().map(String::as_str).chain(unknown) {
            let of = || format!("route {route} of {}", spec.name);
            let url = format!("http://127.0.0.1:{}/schedules/{route}", server.port());
            let answer = ureq::get(url).call().with_context(of)?;
            let body = answer.into_body().into_with_config().limit(ANSWER_BYTES_MAX);
            let text = body.read_to_string().with_context(of)?;
            lengths.push(text.len());
            let mut value: Value = serde_json::from_str(&text).with_context(of)?;
            if answers == Answers::InAnyOrder {
                sort_trips(&mut value);
            }
            let mut hasher = DefaultHasher::new();
            value.to_string().hash(&mut hasher);
            hashes.push(hasher.finish());
        }
        server.stop();
        // The route that does not exist is left out.
        lengths.truncate(routes.len());
        bytes.push(lengths);
        if first.is_empty() {
            first = hashes;
        } else if let Some(at) = first.iter().zip(&hashes).position(|(one, other)| one != other) {
            let route = routes.get(at).map_or("no-such-route", String::as_str);
            bail!("{}: the answer to route {route} differs from Marmota's", spec.name);
        }
    }
    Ok(bytes)
}

/// Sorts the trips of an answer, and the stops of each.
fn sort_trips(answer: &mut Value) {
    let Some(trips) = answer.as_array_mut() else { return };
    for trip in trips.iter_mut() {
        if let Some(stops) = trip.get_mut("schedules").and_then(Value::as_array_mut) {
            stops.sort_by_cached_key(Value::to_string);
        }
    }
    trips.sort_by_cached_key(Value::to_string);
}

/// Loads a program with the virtual users.
///
/// # Errors
/// Returns an error if any request failed.
fn measure_users(
    args: &Args,
    spec: &ServerSpec,
    binary: &Path,
    routes: &[(String, usize)],
    figures: &mut Figures,
) -> Result<()> {
    let mut server = Server::start(spec, binary)?;
    let time = Duration::from_secs(args.users_seconds);
    let stats = users::run(server.port(), routes, args.users, time);
    let failed = stats.failures.len();
    ensure!(failed == 0, "{failed} of {} requests failed; {}", stats.requests, stats.failures[0]);
    figures.most_with_users_mb = server.usage()?.peak_kib as f64 * 1024.0 / 1e6;
    figures.users = stats;
    server.stop();
    Ok(())
}

fn measure(
    args: &Args,
    wrk: &Wrk,
    script: &Path,
    spec: &ServerSpec,
    binary: &Path,
    figures: &mut Figures,
) -> Result<()> {
    let begun = Instant::now();
    let mut server = Server::start(spec, binary)?;
    let load_s = begun.elapsed().as_secs_f64();
    let loaded = server.usage()?;
    figures.load_s.push(load_s);
    figures.load_cpu_s.push(loaded.cpu_s);
    figures.loaded_mb.push(mb(loaded));
    let url = format!("http://127.0.0.1:{}", server.port());
    for &connections in &args.connections {
        wrk.run(script, connections, &url, "", WARM_UP)?;
        let before = server.usage()?;
        let is_over = AtomicBool::new(false);
        let (load, most_mb) = std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let mut most = 0.0_f64;
                while !is_over.load(Ordering::Relaxed) {
                    most = most.max(server.usage().map_or(0.0, mb));
                    std::thread::sleep(SAMPLE_EVERY);
                }
                most
            });
            let time = Duration::from_secs(u64::from(args.seconds));
            let load = wrk.run(script, connections, &url, "", time);
            is_over.store(true, Ordering::Relaxed);
            (load, watch.join().unwrap_or_default())
        });
        let (load, after) = (load?, server.usage()?);
        ensure!(load.requests > 0, "no request was answered");
        let bad = load.bad_statuses + load.socket_errors;
        ensure!(bad == 0, "{bad} requests failed at {connections} connections");
        figures.under_load.entry(connections).or_default().push(Loaded {
            requests_per_s: load.requests as f64 / load.seconds,
            cpu_us: (after.cpu_s - before.cpu_s) * 1e6 / load.requests as f64,
            most_mb,
        });
    }
    std::thread::sleep(IDLE_TIME);
    figures.rested_mb.push(mb(server.usage()?));
    server.stop();
    Ok(())
}

fn mb(usage: ProcessUsage) -> f64 {
    usage.resident_kib as f64 * 1024.0 / 1e6
}

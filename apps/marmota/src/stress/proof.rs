//! Runs with tens of thousands of clients: starts server processes that share a port, and client
//! processes. All clients are connected before the first row is inserted, and stay connected to the
//! end.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use serde_json::json;

use super::child::{Drivers, Serving};
use super::crew::share;
use super::line::Line;
use super::process::Use;
use super::round::run_number;
use super::stand::{Failed, Folder, Stand};
use super::tally::Tally;
use super::{Stress, rate};

/// File descriptors of a process in addition to those of clients: files, databases, the server's
/// reserve.
const OTHERS: u64 = 300;
/// One in this many clients may connect to a server beyond its share: the kernel distributes them
/// at random.
const SURPLUS: u64 = 20;
/// Clients per local address if no addresses are given. An address has about 28,000 ports; those of
/// previous runs are unavailable for a minute, and if half are used the kernel searches long for a
/// free one: 19,000 clients from four addresses took 1 s in the first run and 39 s in the fourth.
const CLIENTS_AN_ADDRESS: u32 = 1_000;

/// The durations and resources of a run.
struct ProcessesRun {
    connect: Duration,
    insert: Duration,
    read: Duration,
    /// Memory per connection, before the first request and at the end.
    idle_bytes: f64,
    used_bytes: f64,
    servers: Duration,
    clients: Duration,
}

/// Executes all runs.
pub(super) fn run(stress: &Stress, servers: u32) -> Result<Tally, Failed> {
    let clients = stress.clients_of(stress.threads_each() * stress.client_processes);
    check(stress, servers, clients)?;
    stress.line(format_args!(
        "{servers} server and {} client processes, {clients} clients connected at once, {} threads \
         of each client process; {} rows, {} durability, seed {}",
        stress.client_processes,
        stress.threads_each(),
        stress.rows,
        stress.durability.name(),
        stress.seed
    ))?;
    stress.line(format_args!(
        "{:<5}{:>11}{:>11}{:>11}{:>9}{:>9}{:>14}{:>14}",
        "run",
        "connect s",
        "insert/s",
        "read/s",
        "KB idle",
        "KB end",
        "server CPU s",
        "client CPU s"
    ))?;
    let (mut tally, mut inserts, mut reads) = (Tally::default(), Vec::new(), Vec::new());
    for number in 1..=stress.runs {
        // Each run has a new file, so that all start in the same state.
        let folder = Folder::new()?;
        let db = stress.db.clone().unwrap_or_else(|| folder.file());
        let ran = one(stress, servers, clients, &db, &mut tally)?;
        let (insert, read) = (rate(stress.rows, ran.insert), rate(stress.rows, ran.read));
        stress.line(format_args!(
            "{number:<5}{:>11.1}{insert:>11.0}{read:>11.0}{:>9.2}{:>9.2}{:>14.1}{:>14.1}",
            ran.connect.as_secs_f64(),
            ran.idle_bytes / 1024.0,
            ran.used_bytes / 1024.0,
            ran.servers.as_secs_f64(),
            ran.clients.as_secs_f64(),
        ))?;
        tally.runs.push(json!({
            "run": number,
            "connect_seconds": ran.connect.as_secs_f64(),
            "inserts_per_second": insert,
            "reads_per_second": read,
            "idle_bytes_per_connection": ran.idle_bytes,
            "used_bytes_per_connection": ran.used_bytes,
            "server_cpu_seconds": ran.servers.as_secs_f64(),
            "client_cpu_seconds": ran.clients.as_secs_f64(),
        }));
        inserts.push(insert);
        reads.push(read);
    }
    if stress.runs > 1 {
        stress.line(format_args!("inserts: {}", spread(inserts)))?;
        stress.line(format_args!("reads:   {}", spread(reads)))?;
    }
    Ok(tally)
}

/// Formats the median of several figures and their spread.
fn spread(mut figures: Vec<f64>) -> String {
    figures.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (figures.first(), figures.last()) else { return String::new() };
    let middle = figures[figures.len() / 2];
    let percent = (most - least) / middle.max(1e-9) * 100.0;
    format!("median {middle:.0}/s, {least:.0} to {most:.0}: {percent:.1} % apart")
}

/// Refuses impossible options.
fn check(stress: &Stress, servers: u32, clients: u32) -> Result<(), Failed> {
    let processes = stress.client_processes;
    let in_memory = |url: &str| url.starts_with("memory:") || url.starts_with("sqlite::memory:");
    if servers > 1 && stress.db.as_deref().is_none_or(in_memory) {
        return Err(
            "several servers need a database that all of them can open: name one with --db, \
                    such as postgres://HOST/DATABASE"
                .into(),
        );
    }
    if clients < stress.threads_each() * processes {
        let message = format!(
            "{clients} clients are fewer than the {} threads of {processes} client processes: \
             lower --threads",
            stress.threads_each() * processes
        );
        return Err(message.into());
    }
    let Some(limit) = marmota::http::raise_descriptors_max() else { return Ok(()) };
    for (what, option, each) in [
        ("server", "--servers", u64::from(clients.div_ceil(servers)) * (SURPLUS + 1) / SURPLUS),
        ("client process", "--client-processes", u64::from(clients.div_ceil(processes))),
    ] {
        // With one server the distribution is not random.
        let each = if servers == 1 { each.min(u64::from(clients)) } else { each };
        if each + OTHERS > limit {
            let message = format!(
                "a {what} would have {each} connections, but a process may have only {limit} file \
                 descriptors: raise the limit (ulimit -n), or divide the clients with {option}"
            );
            return Err(message.into());
        }
    }
    Ok(())
}

/// Returns the local addresses of a client process' connections.
fn addresses(stress: &Stress, clients: u32, process: u32) -> Vec<IpAddr> {
    let processes = stress.client_processes;
    let all = match stress.bind.len() {
        0 => {
            let count = clients.div_ceil(CLIENTS_AN_ADDRESS).max(processes);
            let first = u32::from(Ipv4Addr::LOCALHOST) + 1;
            (first..first + count).map(|address| IpAddr::V4(address.into())).collect()
        }
        _ => stress.bind.clone(),
    };
    if all.len() < processes as usize {
        return all;
    }
    all.into_iter().skip(process as usize).step_by(processes as usize).collect()
}

fn one(
    stress: &Stress,
    servers: u32,
    clients: u32,
    db: &str,
    tally: &mut Tally,
) -> Result<ProcessesRun, Failed> {
    let first = Serving::start("127.0.0.1:0", db)?;
    let url = first.url.clone();
    let address = url.trim_start_matches("http://").trim_end_matches("/api").to_owned();
    let mut serving = vec![first];
    for _ in 1..servers {
        serving.push(Serving::start(&address, db)?);
    }
    let use_of_servers = || Use::of_all(serving.iter().map(Serving::number));
    let run = run_number();
    let mut drivers = Drivers::new();
    for process in 0..stress.client_processes {
        drivers.start(&words(stress, &url, run, clients, process))?;
    }
    let before = use_of_servers()?;
    let all = u64::from(clients) + 2 * u64::from(stress.rows);
    let line = Line::new("steps: clients, inserts, reads".to_owned(), all);
    let mut timed = |what: &str| {
        let began = Instant::now();
        drivers.lead(what, &line).map(|_| began.elapsed())
    };
    let connect = timed("connect")?;
    let idle = use_of_servers()?;
    let clients_before = Use::of_all(drivers.numbers())?;
    let mut timed = |what: &str| {
        let began = Instant::now();
        drivers.lead(what, &line).map(|_| began.elapsed())
    };
    let insert = timed("insert")?;
    let read = timed("read")?;
    let (end, clients_end) = (use_of_servers()?, Use::of_all(drivers.numbers())?);
    for (when, then) in [("before the first row", idle), ("after the last", end)] {
        let connected = then.descriptors.saturating_sub(before.descriptors);
        let fault = (connected < u64::from(clients))
            .then(|| format!("{connected} clients of {clients} were connected {when}"));
        tally.check(1, fault);
    }
    let mut found = drivers.lead("end", &line)?;
    drivers.end()?;
    drop(line);
    let store = Stand::elsewhere(&url).client(None)?;
    found.tally.check_all(&store, stress.seed, run, stress.rows, &found.ids)?;
    drop(store);
    tally.add(found.tally);
    serving.into_iter().try_for_each(Serving::end)?;
    let each = |then: Use| {
        then.resident_bytes.saturating_sub(before.resident_bytes) as f64 / f64::from(clients)
    };
    Ok(ProcessesRun {
        connect,
        insert,
        read,
        idle_bytes: each(idle),
        used_bytes: each(end),
        servers: end.processor.saturating_sub(idle.processor),
        clients: clients_end.processor.saturating_sub(clients_before.processor),
    })
}

/// Returns the command-line arguments of a client process.
fn words(stress: &Stress, url: &str, run: i64, clients: u32, process: u32) -> Vec<String> {
    let (processes, threads) = (stress.client_processes, stress.threads_each());
    let bind: Vec<String> =
        addresses(stress, clients, process).iter().map(IpAddr::to_string).collect();
    let words = [
        ("--server", url.to_owned()),
        ("--threads", threads.to_string()),
        ("--first-thread", (process * threads).to_string()),
        ("--clients-in-all", share(clients, processes, process).to_string()),
        ("--bind", bind.join(",")),
        ("--connect-seconds", stress.connect_seconds.to_string()),
        ("--rows", share(stress.rows, processes, process).to_string()),
        ("--run", run.to_string()),
        ("--seed", stress.seed.to_string()),
        ("--durability", stress.durability.name().to_owned()),
    ];
    let words = words.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
    words.chain(["--attended".to_owned()]).collect()
}

//! A server moves from engine to engine while `marmota stress` loads it over HTTP and WebSockets: no
//! acknowledged write is lost, no answer is wrong, and both databases have the same rows.
//!
//! `cargo xtask cluster move` runs the long variant.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use marmota_mariadb::TemporaryMariadb;
use marmota_postgres::TemporaryPostgres;
use serde_json::{Value, json};

use tempfile::TempDir;
use ureq::Agent;

use crate::process::{Process, free_port};

/// The table of `marmota stress`.
const TABLE: &str = r#"[tables.stress_sample.fields]
id = { kind = "integer", role = "key" }
run = { kind = "integer", index = true }
thread = "integer"
number = "integer"
name = "text"
note = { kind = "text", nullable = true }
flag = "boolean"
ratio = "float"
amount = "currency"
day = "date"
at = "timestamp"
token = "uuid"
bytes = "blob"
"#;

/// A step of a move takes at most this long.
const STEP_MAX: Duration = Duration::from_secs(900);
/// Clients per local address, which has about 28,000 ports.
const CLIENTS_AN_ADDRESS: u32 = 1_000;
/// The share of reads that are compared.
const COMPARED_READS: f64 = 0.1;

/// The load of a run.
#[derive(Clone, Copy)]
struct Scale {
    clients: u32,
    /// Requests per second.
    rate: u32,
    /// The time of load before and after each flip.
    time: Duration,
}

/// An application that is served.
struct Served {
    // Ends before its folder is removed.
    _process: Process,
    folder: TempDir,
    /// The origin of the server.
    url: String,
    /// A key of an administrator.
    key: String,
    agent: Agent,
}

impl Served {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        run(program(&folder).args(["new", "."]));
        std::fs::write(folder.path().join("app.toml"), TABLE).unwrap();
        run(program(&folder).args(["user", "add", "mover", "--admin"]));
        let key = run(program(&folder).args(["key", "add", "mover", "move", "--json"]));
        let key: Value = serde_json::from_str(&key).unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let mut serve = program(&folder);
        serve.args(["serve", "--listen", &address]).stdout(Stdio::piped());
        let mut process = Process::start_with(&mut serve);
        let mut output = BufReader::new(process.0.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains(&address) {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "the server did not start");
        }
        // What follows is not read, but may be written.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        let agent = Agent::config_builder().http_status_as_error(false).build().into();
        let key = key["key"].as_str().unwrap().to_owned();
        Self { _process: process, folder, url: format!("http://{address}"), key, agent }
    }
}

/// Returns the program, to be started in a folder.
fn program(folder: &TempDir) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_marmota"));
    program.current_dir(folder.path()).env_remove("MARMOTA_API_KEY");
    program
}

/// Runs a program to its end, which has to succeed. Returns its output.
fn run(program: &mut Command) -> String {
    let output = program.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{program:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A process with clients of one transport.
struct Stress {
    process: Process,
    output: BufReader<ChildStdout>,
}

impl Stress {
    /// Returns when all clients are connected.
    fn start(served: &Served, scheme: &str, scale: Scale) -> Self {
        let url = format!("{scheme}{}/api", served.url.trim_start_matches("http"));
        let addresses: Vec<String> = (0..scale.clients.div_ceil(CLIENTS_AN_ADDRESS))
            .map(|number| format!("127.0.0.{}", number + 2))
            .collect();
        let (clients, rate) = (scale.clients.to_string(), scale.rate.to_string());
        let threads = scale.clients.min(50).to_string();
        let mut program = program(&served.folder);
        program.args(["stress", "--server", &url, "--token", &served.key]);
        program.args(["--threads", &threads, "--clients-in-all", &clients, "--rate", &rate]);
        program.args(["--bind", &addresses.join(","), "--connect-seconds", "600"]);
        program.args(["--seconds", "86400", "--attended", "--json"]);
        program.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start_with(&mut program);
        let mut output = BufReader::new(process.0.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "connected\n");
        Self { process, output }
    }

    /// Ends the load, and returns the report.
    fn end(mut self) -> Value {
        drop(self.process.0.stdin.take());
        let mut report = String::new();
        self.output.read_to_string(&mut report).unwrap();
        serde_json::from_str(&report).unwrap()
    }
}

/// The results of a move.
struct Moved {
    name: String,
    begun: u64,
    flipped: (u64, u64),
    ended: u64,
    rows: u64,
    changes: u64,
    pause_ms: u64,
    different: u64,
    compared_reads: u64,
    different_reads: u64,
}

/// Returns the milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

impl Served {
    /// Sends a request for the move. Returns the status and the state of the move.
    fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let request = ureq::http::Request::builder().method(method);
        let request = request.uri(format!("{}/api/-/move{path}", self.url));
        let request = request.header("Authorization", format!("Bearer {}", self.key));
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut answer = self.agent.run(request.body(body).unwrap()).unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        (answer.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Waits for a state of the move.
    fn until(&self, what: &str, is_reached: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let (status, state) = self.call("GET", "", &Value::Null);
            assert_eq!(status, 200, "{state}");
            if is_reached(&state) {
                return state;
            }
            assert_eq!(state["error"], Value::Null, "until {what}: {state}");
            assert!(begun.elapsed() < STEP_MAX, "{what} takes too long: {state}");
            sleep(Duration::from_millis(100));
        }
    }

    /// Moves to another database and back to no pair.
    fn move_to(&self, to: &str, time: Duration) -> Moved {
        let begun = now();
        let start = json!({ "to": to, "compare_reads": COMPARED_READS });
        let (status, state) = self.call("POST", "", &start);
        assert_eq!(status, 200, "{state}");
        let is_compared = |state: &Value| state["compared"].is_object();
        self.until("it is filled and compared", is_compared);
        sleep(time);
        let follows = |state: &Value| number(&state["lag_commits"]) < 1_000;
        let before = self.until("it follows", follows);
        let flip_begun = now();
        let (status, after) = self.call("POST", "/flip", &Value::Null);
        assert_eq!(status, 200, "{after}");
        let flipped = (flip_begun, now());
        sleep(time);
        let after = self.until("it is compared after the flip", is_compared);
        let (status, state) = self.call("DELETE", "", &Value::Null);
        assert_eq!(status, 200, "{state}");
        let both = |path: &str| {
            number(before.pointer(path).unwrap()) + number(after.pointer(path).unwrap())
        };
        let scheme = |url: &Value| url.as_str().unwrap().split(':').next().unwrap().to_owned();
        Moved {
            name: format!("{} to {}", scheme(&before["primary"]), scheme(&after["primary"])),
            begun,
            flipped,
            ended: now(),
            rows: number(&after["compared"]["rows"]),
            changes: both("/applied_changes"),
            pause_ms: number(&after["pause_ms"]),
            different: both("/compared/different"),
            compared_reads: both("/reads/compared"),
            different_reads: both("/reads/different") + both("/reads/failed"),
        }
    }
}

/// The requests within a time.
#[derive(Default)]
struct Requests {
    all: u64,
    longest_ms: u64,
    failures: BTreeMap<String, u64>,
}

impl Requests {
    fn within(reports: &[Value], from: u64, to: u64) -> Self {
        let mut found = Self::default();
        let seconds = reports.iter().flat_map(|report| report["runs"][0]["seconds"].as_array());
        for second in seconds.flatten() {
            let at = number(&second["at_ms"]);
            if at + 1_000 > from && at <= to {
                found.all += number(&second["requests"]);
                found.longest_ms = found.longest_ms.max(number(&second["longest_ms"]));
                for (kind, count) in second["failures"].as_object().unwrap() {
                    *found.failures.entry(kind.clone()).or_default() += number(count);
                }
            }
        }
        found
    }
}

/// Moves a server to each database under load, and reports it. Nothing may be lost or different.
/// Returns the number of failed requests.
fn move_under_load(to: &[&str], scale: Scale) -> u64 {
    let served = Served::start();
    let (clients, rate) = (scale.clients.div_ceil(2), scale.rate.div_ceil(2));
    let half = Scale { clients, rate, ..scale };
    let loads = ["http", "ws"].map(|scheme| Stress::start(&served, scheme, half));
    sleep(scale.time);
    let moves: Vec<Moved> = to.iter().map(|to| served.move_to(to, scale.time)).collect();
    let reports = loads.map(Stress::end);

    println!("{} clients, {} requests per second", scale.clients, scale.rate);
    println!(
        "move                  rows  changes  pause ms  longest ms  at the flip  requests  failed  \
         reads compared  different"
    );
    for moved in &moves {
        let requests = Requests::within(&reports, moved.begun, moved.ended);
        let at_flip = Requests::within(&reports, moved.flipped.0, moved.flipped.1 + 500);
        println!(
            "{:<20}{:>6}{:>9}{:>10}{:>12}{:>13}{:>10}{:>8}{:>16}{:>11}",
            moved.name,
            moved.rows,
            moved.changes,
            moved.pause_ms,
            requests.longest_ms,
            at_flip.longest_ms,
            requests.all,
            requests.failures.values().sum::<u64>(),
            moved.compared_reads,
            moved.different + moved.different_reads,
        );
        for (kind, count) in &requests.failures {
            println!("  {count} failed: {kind}");
        }
    }
    for report in &reports {
        let messages = &report["runs"][0]["messages"];
        println!(
            "{} checks of rows, {} lost or wrong; {messages}",
            report["passed"], report["failed"]
        );
        assert_eq!(report["failed"], 0, "{report}");
    }
    for moved in &moves {
        assert_eq!((moved.different, moved.different_reads), (0, 0), "{}", moved.name);
    }
    Requests::within(&reports, 0, u64::MAX).failures.values().sum()
}

#[test]
fn a_server_moves_there_and_back_under_stress() {
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    let postgres = server.make_database().unwrap();
    let scale = Scale { clients: 50, rate: 200, time: Duration::from_secs(1) };
    let failed = move_under_load(&[&postgres, "sqlite:data/back.db"], scale);
    assert_eq!(failed, 0, "requests failed");
}

#[test]
#[ignore = "takes minutes; `cargo xtask cluster move` runs it"]
fn a_server_moves_to_each_engine_under_stress() {
    let setting = |name: &str, default: u32| {
        std::env::var(name).map_or(default, |value| value.parse().unwrap())
    };
    let scale = Scale {
        clients: setting("MARMOTA_CLIENTS", 500),
        rate: setting("MARMOTA_RATE", 500),
        time: Duration::from_secs(setting("MARMOTA_SECONDS", 10).into()),
    };
    let postgres = TemporaryPostgres::start(&[]).unwrap();
    let mariadb = TemporaryMariadb::start().unwrap();
    let urls = [
        postgres.make_database().unwrap(),
        mariadb.make_database().unwrap(),
        postgres.make_database().unwrap(),
        "sqlite:data/back.db".to_owned(),
    ];
    move_under_load(&urls.each_ref().map(|url| &**url), scale);
}

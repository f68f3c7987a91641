//! The scheduling policy of the threads of `serve`, for each kind of database.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use marmota_postgres::TemporaryPostgres;

use crate::program::Folder;

const PATIENCE: Duration = Duration::from_secs(30);
const USUAL: &str = "0";
const BATCH: &str = "3";

/// Returns the scheduling policies of the threads that serve HTTP: field 41 of their `stat`.
fn policies(process: u32) -> Vec<String> {
    let policy = |task: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
        // The name is in parentheses and may contain spaces.
        let (name, fields) = stat.rsplit_once(')')?;
        let policy = fields.split_whitespace().nth(38)?.to_owned();
        name.contains("(marmota-http-").then_some(policy)
    };
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    tasks.filter_map(policy).collect()
}

/// Starts `serve` on a database with further arguments, checks the policy of its threads and
/// returns its log.
fn serve(database: &str, words: &[&str], expected: &str) -> String {
    let folder = Folder::new();
    let common = ["serve", "--listen", "127.0.0.1:0", "--log", "info", "--db", database];
    let mut program = folder.program(&[&common, words].concat());
    let mut program = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    let address = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    ureq::get(format!("{address}/api/person")).call().unwrap();
    // One thread has answered; the others may still be starting.
    let threads = std::thread::available_parallelism().unwrap().get();
    let deadline = Instant::now() + PATIENCE;
    let policies = loop {
        let policies = policies(program.id());
        let has_settled =
            policies.len() >= threads && policies.iter().all(|policy| policy == expected);
        if has_settled || Instant::now() > deadline {
            break policies;
        }
        std::thread::yield_now();
    };
    Command::new("kill").args(["-TERM", &program.id().to_string()]).status().unwrap();
    let mut log = String::new();
    program.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(program.wait().unwrap().success(), "{log}");
    let is_expected = policies.iter().all(|policy| policy == expected);
    assert!(policies.len() >= threads && is_expected, "{policies:?}");
    log
}

#[test]
fn threads_are_batch_scheduled_with_postgresql_on_this_machine() {
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    let url = server.make_database().unwrap();
    let log = serve(&url, &[], BATCH);
    let reason = format!("PostgreSQL on this machine (127.0.0.1:{})", server.port());
    assert!(log.contains(&format!("batch scheduling on: {reason}")), "{log}");
    // By name, which may resolve to either address family, and over its socket.
    serve(&url.replace("127.0.0.1", "localhost"), &[], BATCH);
    let (_, name) = url.rsplit_once('/').unwrap();
    let log = serve(&server.socket_url(name), &[], BATCH);
    assert!(log.contains(&format!(".s.PGSQL.{})", server.port())), "{log}");
    let log = serve(&url, &["--batch-scheduling", "off"], USUAL);
    assert!(log.contains("batch scheduling off: as configured"), "{log}");
}

#[test]
fn threads_are_not_batch_scheduled_with_a_database_in_the_process() {
    for database in ["sqlite:people.db", "memory:"] {
        let log = serve(database, &[], USUAL);
        assert!(!log.contains("batch scheduling on"), "{log}");
    }
    let log = serve("sqlite:people.db", &["--batch-scheduling", "on"], BATCH);
    assert!(log.contains("batch scheduling on: as configured"), "{log}");
}

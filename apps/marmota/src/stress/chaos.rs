//! Threads that write while their server is killed and restarted and their connections are cut.
//! Acknowledged rows must be present and unchanged, and no id may occur twice.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use marmota::ErrorKind;
use marmota::store::{Durability, Store};
use serde_json::json;

use super::cutter::Cutter;
use super::line::{Count, Line};
use super::round::run_number;
use super::sample::{Dice, FIELDS, Sample, of_run};
use super::stand::{Failed, Folder, Stand};
use super::tally::Tally;
use super::{Stress, Transport};

/// Time limit for the start of a server.
const START_MAX: Duration = Duration::from_secs(20);

/// A server in its own process, killed on drop.
struct Victim(Child);

impl Victim {
    fn start(url: &str, db: &str) -> Result<Self, Failed> {
        let program = std::env::current_exe()?;
        let child = Command::new(program)
            .args(["stress", "--serve", url, "--db", db])
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self(child))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // SIGKILL: no file is closed and no buffer is flushed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The results that a thread has received.
#[derive(Default)]
struct Acknowledgements {
    acknowledged: Vec<(i64, u32)>,
    /// Number of failed calls by kind of error.
    failed: HashMap<ErrorKind, u64>,
}

/// Kills the server `rounds` times.
pub(super) fn run(stress: &Stress, rounds: u32) -> Result<Tally, Failed> {
    if stress.server.is_some() {
        return Err("--chaos starts and kills its own server; leave --server out".into());
    }
    if let [one] = stress.transport[..]
        && one.is_encrypted()
    {
        let message = "--chaos can only cut connections without TLS: use unix, http or websocket";
        return Err(message.into());
    }
    let folder = Folder::new()?;
    let db = match &stress.db {
        Some(db) => db.clone(),
        None => folder.file(),
    };
    let (url, run) = (folder.socket(), run_number());
    let transport = if let [one] = stress.transport[..] { one } else { Transport::Unix };
    let socket = Path::new(url.trim_start_matches("unix:"));
    let (direct, cutter) = (Stand::elsewhere(&url), Cutter::start(transport, socket, stress.seed)?);
    let stand = &Stand::elsewhere(&cutter.url);
    let threads = stress.threads().into_iter().max().unwrap_or(1);
    let mut victim = Some(Victim::start(&url, &db)?);
    drop(first_client(&direct)?);
    let (ends, line) = (AtomicBool::new(false), Line::new("rounds of chaos".to_owned(), u64::MAX));
    let (received, mut tally) = thread::scope(|scope| {
        let writers: Vec<_> = (0..threads)
            .map(|thread| {
                let (ends, line) = (&ends, &line);
                let (seed, durability) = (stress.seed, stress.durability.into());
                scope.spawn(move || write(stand, seed, run, thread, durability, ends, line))
            })
            .collect();
        let mut tally = Tally::default();
        let mut dice = Dice(stress.seed);
        for _ in 0..rounds {
            thread::sleep(Duration::from_millis(100 + dice.roll() % 400));
            drop(victim.take());
            match Victim::start(&url, &db) {
                Ok(next) => victim = Some(next),
                Err(error) => {
                    tally.check(0, Some(format!("the server did not start again: {error}")));
                    break;
                }
            }
        }
        thread::sleep(Duration::from_millis(300));
        ends.store(true, Ordering::Relaxed);
        let received: Vec<Acknowledgements> =
            writers.into_iter().filter_map(|one| one.join().ok()).collect();
        (received, tally)
    });
    drop(victim);
    let _victim = Victim::start(&url, &db)?;
    let store = first_client(&direct)?;
    check(&store, stress.seed, run, &received, &mut tally)?;
    let acknowledged: usize = received.iter().map(|one| one.acknowledged.len()).sum();
    let cut = cutter.cuts();
    stress.line(format_args!(
        "{rounds} rounds, {threads} threads, {cut} connections cut: {acknowledged} rows \
         acknowledged; refused or lost:"
    ))?;
    let mut failed: HashMap<ErrorKind, u64> = HashMap::new();
    for (kind, count) in received.iter().flat_map(|one| &one.failed) {
        *failed.entry(*kind).or_default() += count;
    }
    let errors = failed.iter().map(|(kind, count)| (kind.name().to_owned(), json!(count)));
    tally.runs.push(json!({
        "rounds": rounds,
        "threads": threads,
        "cut_connections": cut,
        "acknowledged": acknowledged,
        "errors": errors.collect::<serde_json::Map<_, _>>(),
    }));
    for (kind, count) in failed {
        stress.line(format_args!("  {count} {}", kind.name()))?;
    }
    tally.check(1, (acknowledged == 0).then(|| "nothing was acknowledged".to_owned()));
    Ok(tally)
}

/// Waits for the server and returns a client.
fn first_client(stand: &Stand) -> Result<Store, Failed> {
    let until = Instant::now() + START_MAX;
    loop {
        match stand.client(None) {
            Ok(store) => return Ok(store),
            Err(error) if Instant::now() > until => return Err(error.into()),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn write(
    stand: &Stand,
    seed: u64,
    run: i64,
    thread: u32,
    durability: Durability,
    ends: &AtomicBool,
    line: &Line,
) -> Acknowledgements {
    let mut received = Acknowledgements::default();
    let Ok(store) = first_client(stand) else { return received };
    for number in 0..u32::MAX {
        if ends.load(Ordering::Relaxed) {
            break;
        }
        line.step();
        let row = Sample::new(seed, run, thread, number);
        match store.insert(&row).durability(durability).run() {
            Ok(id) => received.acknowledged.push((id, number)),
            Err(error) => *received.failed.entry(error.kind()).or_default() += 1,
        }
    }
    received
}

/// Checks that every acknowledged row is present and unchanged. Other rows are those whose
/// acknowledgement was lost; they are checked too.
fn check(
    store: &Store,
    seed: u64,
    run: i64,
    received: &[Acknowledgements],
    tally: &mut Tally,
) -> Result<(), Failed> {
    let rows = of_run(store, run)?;
    let stored: HashMap<i64, &Sample> = rows.iter().map(|row| (row.id, row)).collect();
    tally.check(1, (stored.len() != rows.len()).then(|| "an id exists twice".to_owned()));
    for (thread, heard) in (0..).zip(received) {
        for &(id, number) in &heard.acknowledged {
            let wanted = Sample::new(seed, run, thread, number).with_id(id);
            let fault = match stored.get(&id) {
                Some(came) => wanted.fault(came),
                None => Some(format!("row {id} was acknowledged but is missing")),
            };
            tally.check(FIELDS, fault);
        }
    }
    for row in &rows {
        let (thread, number) = (row.thread as u32, row.number as u32);
        let wanted = Sample::new(seed, run, thread, number).with_id(row.id);
        tally.check(FIELDS, wanted.fault(row));
    }
    Ok(())
}

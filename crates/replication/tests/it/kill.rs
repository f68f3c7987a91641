//! A primary that is killed while it writes: what the target has of it.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use marmota_model::Timestamp;
use marmota_replication::{ReplicationMode, ReplicationOptions, RestorePoint};

use crate::database::{
    Kind, Place, Primary, for_each_engine, has_snapshot, note, snapshots, wait_for,
};

/// The window of the asynchronous primary.
const WINDOW: Duration = Duration::from_secs(1);

/// The number of kills: `MARMOTA_KILLS`, or 5.
fn rounds() -> u64 {
    std::env::var("MARMOTA_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(5)
}

/// A row that a killed process has acknowledged.
struct Acknowledged {
    body: String,
    /// The time, in microseconds since 1970.
    at: i64,
}

/// Starts a primary, kills it after `pause`, and returns what it has acknowledged, with the time of
/// the kill.
fn killed(place: &Place, round: u64, mode: &str, pause: Duration) -> (Vec<Acknowledged>, i64) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "kill::writes_until_killed", "--nocapture"])
        .env("MARMOTA_WRITE", place.path("a.db"))
        .env("MARMOTA_TARGET", &place.url)
        .env("MARMOTA_ENGINE", format!("{:?}", place.kind))
        .env("MARMOTA_MODE", mode)
        .env("MARMOTA_ROUND", round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (first, begun) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        for line in output.lines().map_while(Result::ok) {
            // A line that the kill has cut short has no full stop.
            let row = line.strip_prefix("row ").and_then(|row| row.strip_suffix('.'));
            if let Some((body, at)) = row.and_then(|row| row.split_once(' ')) {
                all.push(Acknowledged { body: body.to_owned(), at: at.parse().unwrap() });
                let _ = first.send(());
            }
        }
        all
    });
    begun.recv_timeout(Duration::from_secs(60)).unwrap();
    wait_for("the first snapshot", || has_snapshot(&place.url));
    std::thread::sleep(pause);
    let at = Timestamp::now().micros();
    child.kill().unwrap();
    child.wait().unwrap();
    (reader.join().unwrap(), at)
}

fn there(place: &Place) -> HashSet<String> {
    place.restored(RestorePoint::Latest).unwrap().into_iter().collect()
}

fn synchronous_replication_loses_nothing_that_was_acknowledged(kind: Kind) {
    let place = Place::of(kind);
    let mut acknowledged = Vec::new();
    for round in 0..rounds() {
        let pause = Duration::from_millis(50 + round * 37 % 200);
        acknowledged.extend(killed(&place, round, "sync", pause).0);
        let there = there(&place);
        let lost = acknowledged.iter().filter(|row| !there.contains(&row.body)).count();
        assert_eq!(lost, 0, "round {round}: {lost} of {}", acknowledged.len());
    }
    assert!(acknowledged.len() as u64 > rounds(), "{}", acknowledged.len());
}

fn asynchronous_replication_loses_at_most_the_window(kind: Kind) {
    let place = Place::of(kind);
    let mut acknowledged = Vec::new();
    for round in 0..rounds() {
        let pause = WINDOW + Duration::from_millis(round * 67 % 300);
        let (told, killed_at) = killed(&place, round, "async", pause);
        let oldest_lost = killed_at - i64::try_from(WINDOW.as_micros()).unwrap();
        acknowledged.extend(told);
        let there = there(&place);
        let lost: Vec<_> = acknowledged.iter().filter(|row| !there.contains(&row.body)).collect();
        let late = lost.iter().find(|row| row.at < oldest_lost);
        let late = late.map(|row| format!("{} ({} us before)", row.body, killed_at - row.at));
        assert_eq!(late, None, "round {round}: {} of {}", lost.len(), acknowledged.len());
        // What is not there yet comes with the next start.
    }
    let primary = place.primary("a.db", ReplicationOptions::default()).unwrap();
    primary.settle(&place);
    let there = there(&place);
    let lost = acknowledged.iter().filter(|row| !there.contains(&row.body)).count();
    assert_eq!(lost, 0, "{lost} of {} after the last start", acknowledged.len());
    // No kill made a new snapshot necessary.
    assert_eq!(snapshots(&place.url), 1);
}

/// The process that is killed.
#[test]
#[ignore = "a process that another test starts"]
fn writes_until_killed() {
    let path = std::env::var_os("MARMOTA_WRITE").expect("started by another test");
    let variable = |name| std::env::var(name).unwrap();
    let (target, round) = (variable("MARMOTA_TARGET"), variable("MARMOTA_ROUND"));
    let options = match &*variable("MARMOTA_MODE") {
        // Merging all the time, so that kills interrupt it.
        "sync" => {
            ReplicationOptions::default().mode(ReplicationMode::Sync).merge_after(Duration::ZERO)
        }
        _ => ReplicationOptions::default().window(WINDOW),
    };
    let kind = match &*variable("MARMOTA_ENGINE") {
        "Memory" => Kind::Memory,
        _ => Kind::Sqlite,
    };
    let builder = kind.builder(path.as_ref()).unwrap();
    let primary = Primary::of(builder, &target, options).unwrap();
    let mut out = std::io::stdout();
    writeln!(out).unwrap();
    for number in 0_u64.. {
        let body = format!("{round}:{number}:{}", "k".repeat(300));
        primary.store.insert(&note(body.clone())).run().unwrap();
        writeln!(out, "row {body} {}.", Timestamp::now().micros()).unwrap();
        out.flush().unwrap();
    }
}

for_each_engine! {
    synchronous_replication_loses_nothing_that_was_acknowledged,
    asynchronous_replication_loses_at_most_the_window,
}

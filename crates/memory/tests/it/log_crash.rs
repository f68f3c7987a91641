//! The log of the memory engine when something breaks: a kill, a file that
//! ends anywhere or is damaged, a disk that is full.

use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use marmota_memory::Memory;
use marmota_model::{ErrorKind, Table, Value, ValueRef};
use marmota_store::engine::Engine;
use marmota_store::operation::Operation;
use proptest::prelude::*;

use super::killed::written_until_killed;
use super::log::{bodies, files, insert, log, note, open, rows, run, try_open};
use super::small_disk::SmallDisk;

/// What is run in the process that is killed.
const TEST: &str = "log_crash::writes_until_killed";

/// A change of the property test.
#[derive(Clone, Debug)]
enum Step {
    Insert(u8),
    Update(u8, u8),
    Delete(u8),
    Together(Vec<Step>),
    Snapshot,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let single = prop_oneof![
        any::<u8>().prop_map(Step::Insert),
        (any::<u8>(), any::<u8>()).prop_map(|(row, body)| Step::Update(row, body)),
        any::<u8>().prop_map(Step::Delete),
    ];
    prop_oneof![
        8 => single.clone(),
        2 => prop::collection::vec(single, 0..5).prop_map(Step::Together),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Reopen),
    ]
}

fn take(session: &mut dyn marmota_store::engine::Session, table: &Table, step: &Step) {
    let key = |row: u8| ValueRef::Int(1 + i64::from(row % 16));
    let body = |body: u8| format!("{}{}", body % 32, "-".repeat(usize::from(body)));
    // What is refused changes nothing.
    let _ = match step {
        Step::Insert(number) => insert(session, table, &body(*number)),
        Step::Update(row, number) => {
            let (key, body) = (key(*row), body(*number));
            let row = [ValueRef::Absent, ValueRef::Text(&body)];
            run(session, Operation::Update { table, key, row: &row, version: None })
        }
        Step::Delete(row) => {
            run(session, Operation::Delete { table, key: key(*row), version: None })
        }
        _ => unreachable!(),
    };
}

fn newest(path: &Path) -> (PathBuf, u64) {
    let folder = path.parent().unwrap();
    let numbers = files(folder).into_iter();
    let generation =
        numbers.filter_map(|name| name.strip_prefix("app.mem.log.")?.parse::<u64>().ok()).max();
    let log = log(path, generation.unwrap());
    let bytes = std::fs::metadata(&log).unwrap().len();
    (log, bytes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Whatever is cut off the end, what is left is the state behind one of
    /// the commits, the last one that the file has whole.
    #[test]
    fn a_cut_leaves_a_state_that_was(
        steps in prop::collection::vec(step(), 1..40),
        cut in any::<prop::sample::Index>(),
        garbage in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.mem");
        let note = note();
        let tables = std::slice::from_ref(&note);
        let mut engine = try_open(&path, "relaxed", tables).unwrap();
        // States, each with how long the log was then.
        let mut states: Vec<(u64, Vec<Vec<Value>>)> = vec![(0, Vec::new())];
        for step in &steps {
            match step {
                Step::Snapshot => {
                    engine.snapshot().unwrap();
                    states.clear();
                }
                Step::Reopen => {
                    drop(engine);
                    engine = try_open(&path, "relaxed", tables).unwrap();
                }
                Step::Together(steps) => {
                    let mut own = engine.session().unwrap();
 let session = &mut *own;
                    run(session, Operation::Begin).unwrap();
                    steps.iter().for_each(|step| take(session, &note, step));
                    run(session, Operation::Commit).unwrap();
                }
                step => take(&mut *engine.session().unwrap(), &note, step),
            }
            let bytes = newest(&path).1;
            let state = rows(&engine, &note);
            if states.last().is_none_or(|last| last.1 != state) {
                // Before the first state behind a snapshot there is none.
                let bytes = if states.is_empty() { 0 } else { bytes };
                states.push((bytes, state));
            }
        }
        drop(engine);
        let (log, bytes) = newest(&path);
        let cut = cut.index(bytes as usize + 1) as u64;
        let mut left = std::fs::read(&log).unwrap()[..cut as usize].to_vec();
        left.extend_from_slice(&garbage);
        std::fs::write(&log, left).unwrap();
        match try_open(&path, "relaxed", tables) {
            Ok(engine) => {
                let wanted = states.iter().rfind(|(bytes, _)| *bytes <= cut).unwrap();
                prop_assert_eq!(&rows(&engine, &note), &wanted.1);
                // And it goes on from there.
                insert(&mut *engine.session().unwrap(), &note, "afterwards").unwrap();
                let wanted = rows(&engine, &note);
                drop(engine);
                prop_assert_eq!(rows(&open(&path, tables), &note), wanted);
            }
            // Cut so short that what a snapshot rests on is gone, or the head.
            Err(error) => {
                prop_assert_eq!(error.kind(), ErrorKind::Invalid);
                prop_assert!(cut < 200, "{}", error);
            }
        }
    }
}

#[test]
fn damage_before_what_was_acknowledged_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.mem");
    let note = note();
    let tables = std::slice::from_ref(&note);
    for durability in ["full", "none"] {
        let engine = try_open(&path, durability, tables).unwrap();
        let mut own = engine.session().unwrap();
        let session = &mut *own;
        let mut ends = Vec::new();
        for body in ["a", "b", "c", "d"] {
            insert(session, &note, &format!("{durability} {body}")).unwrap();
            ends.push(newest(&path).1 as usize);
        }
        drop((own, engine));
        let (log, bytes) = newest(&path);
        let whole = std::fs::read(&log).unwrap();
        for at in 0..bytes as usize {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            std::fs::write(&log, damaged).unwrap();
            let opened = try_open(&path, durability, tables);
            if at >= ends[2] {
                // The last one may never have been written.
                assert_eq!(rows(&opened.unwrap(), &note).len() % 4, 3, "{at}");
                continue;
            }
            let error = opened.err().expect("it is refused");
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(&*log.display().to_string()), "{error}");
            if at >= ends[0] {
                let hit = ends.iter().rfind(|&&end| end <= at).unwrap();
                assert!(error.to_string().contains(&format!("at byte {hit}")), "{error}");
                assert!(error.to_string().contains("restore"), "{error}");
            }
        }
        std::fs::write(&log, &whole).unwrap();
        open(&path, tables).close().unwrap();
    }
}

const ROUNDS: u64 = 20;

#[test]
fn every_acknowledged_row_survives_a_kill() {
    survives_kills(&[], |path| open(path, &[note()]));
}

/// Rounds of a process that writes in such an environment until it is killed.
pub(crate) fn survives_kills(environment: &[(&str, &str)], open: impl Fn(&Path) -> Memory) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.mem");
    let note = note();
    let mut acknowledged = HashSet::new();
    for round in 0..ROUNDS {
        let told = written_until_killed(TEST, &path, round, environment);
        assert!(!told.is_empty(), "round {round} wrote nothing");
        acknowledged.extend(told);
        let engine = open(&path);
        let there: HashSet<String> = bodies(&engine, &note).into_iter().collect();
        let lost: Vec<_> = acknowledged.difference(&there).collect();
        assert!(lost.is_empty(), "round {round} lost {lost:?}");
        // Pairs are written together.
        for body in &there {
            let half = body.strip_suffix(":a").map(|rest| format!("{rest}:b"));
            assert!(half.is_none_or(|half| there.contains(&half)), "half of {body}");
        }
        if round % 5 == 4 {
            engine.close().unwrap();
        }
        assert!(!files(folder.path()).iter().any(|name| name.ends_with(".tmp")));
    }
}

/// The process that is killed: threads that write single rows and pairs, and
/// one that makes snapshots.
#[test]
#[ignore = "a process that another test starts"]
fn writes_until_killed() {
    let path = std::env::var_os("MARMOTA_WRITE").expect("started by another test");
    let round: u64 = std::env::var("MARMOTA_ROUND").unwrap().parse().unwrap();
    let note = note();
    let durability = ["full", "relaxed", "none"][round as usize % 3];
    let engine = try_open(path.as_ref(), durability, std::slice::from_ref(&note)).unwrap();
    writeln!(std::io::stdout()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (engine, note) = (&engine, &note);
            scope.spawn(move || writes(engine, note, &format!("{round}:{thread}")));
        }
        loop {
            engine.snapshot().unwrap();
        }
    });
}

fn writes(engine: &Memory, note: &Table, name: &str) {
    let mut own = engine.session().unwrap();
    let session = &mut *own;
    for number in 0_u64.. {
        let bodies: Vec<String> = match number % 2 {
            0 => vec![format!("{name}:{number}")],
            _ => ["a", "b"].iter().map(|half| format!("{name}:{number}:{half}")).collect(),
        };
        if let [body] = &*bodies {
            insert(session, note, body).unwrap();
        } else {
            run(session, Operation::Begin).unwrap();
            for body in &bodies {
                insert(session, note, body).unwrap();
            }
            run(session, Operation::Commit).unwrap();
        }
        let mut out = std::io::stdout().lock();
        for body in &bodies {
            writeln!(out, "row {body}.").unwrap();
        }
        out.flush().unwrap();
    }
}

#[test]
fn a_full_disk_loses_nothing_and_shows_nothing_that_was_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(folder.path()) else { return };
    let path = disk.0.join("app.mem");
    let note = note();
    let tables = std::slice::from_ref(&note);
    let engine = open(&path, tables);
    let ballast = disk.0.join("ballast");
    std::fs::write(&ballast, vec![0; 1_000_000]).unwrap();
    let mut own = engine.session().unwrap();
    let session = &mut *own;
    let mut wanted = Vec::new();
    loop {
        assert!(wanted.len() < 10_000, "the disk is never full");
        let body = format!("{} {}", wanted.len(), "x".repeat(2_000));
        match insert(session, &note, &body) {
            Ok(_) => wanted.push(body),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                assert!(error.to_string().contains("full"), "{error}");
                break;
            }
        }
        assert_eq!(rows(&engine, &note).len(), wanted.len());
    }
    // Updates, deletes and transactions that the log does not take are undone.
    let (table, long) = (&*note, "y".repeat(100_000));
    let row = [ValueRef::Absent, ValueRef::Text(&long)];
    let key = ValueRef::Int(1);
    let update = Operation::Update { table, key, row: &row, version: None };
    assert_eq!(run(session, update).unwrap_err().kind(), ErrorKind::Io);
    run(session, Operation::Begin).unwrap();
    run(session, Operation::Delete { table, key, version: None }).unwrap();
    insert(session, &note, &long).unwrap();
    assert_eq!(run(session, Operation::Commit).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(run(session, Operation::Commit).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(bodies(&engine, &note), wanted);
    assert_eq!(engine.snapshot().unwrap_err().kind(), ErrorKind::Io);
    drop((own, engine));
    let engine = open(&path, tables);
    assert_eq!(bodies(&engine, &note), wanted);
    // A close needs no room: the log has it all.
    engine.close().unwrap();
    let engine = open(&path, tables);
    assert_eq!(bodies(&engine, &note), wanted);
    // Room again, and it goes on.
    std::fs::remove_file(ballast).unwrap();
    insert(&mut *engine.session().unwrap(), &note, "more").unwrap();
    engine.snapshot().unwrap();
    engine.close().unwrap();
    wanted.push("more".to_owned());
    assert_eq!(bodies(&open(&path, tables), &note), wanted);
}

//! Other processes that use the same file: they are waited for, for a bounded
//! time, and named.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use marmota_model::{ErrorKind, ValueRef};
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::engine::Engine;
use marmota_store::operation::Operation;

use crate::database::{Calls, file, id, options, table, text};

pub(crate) fn note() -> std::sync::Arc<marmota_model::Table> {
    table("note", vec![id(), text("body")])
}

/// Starts this program again, for one of the tests below to do its part.
pub(crate) fn start(
    part: &str,
    variable: &str,
    path: &Path,
) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", part, "--nocapture"])
        .env(variable, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = crate::killed::lines(child.stdout.take().unwrap());
    said.find(|line| line.contains("at work")).unwrap();
    (child, said)
}

#[test]
fn writers_of_other_processes_fail_nobody() {
    let (folder, note) = (tempfile::tempdir().unwrap(), note());
    let path = folder.path().join("a.db");
    let options = SqliteOptions { busy_timeout_ms: 60_000, ..options() };
    let engine = Sqlite::open(Location::File(path.clone()), options).unwrap();
    engine.prepare(std::slice::from_ref(&note), 0).unwrap();
    let mut others: Vec<_> = (0..2)
        .map(|_| start("processes::writes_and_takes_its_time", "MARMOTA_WRITE", &path))
        .collect();
    let (inserted, is_over) = (20, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut session, mut last) = (engine.session().unwrap(), 0);
            while !is_over.load(Ordering::Relaxed) {
                let (started, count) = (Instant::now(), session.count(&note, None));
                assert!(count >= last);
                assert!(started.elapsed() < Duration::from_secs(30), "a reader waited");
                last = count;
            }
        });
        let writers: Vec<_> = (0..3)
            .map(|thread| {
                let (engine, note) = (&engine, &note);
                scope.spawn(move || {
                    let mut session = engine.session().unwrap();
                    for number in 0..inserted {
                        let row = [ValueRef::Absent, ValueRef::Text("ours")];
                        if thread == 0 && number % 4 == 0 {
                            session.run(Operation::Begin).unwrap();
                            session.insert(note, &row).unwrap();
                            session.run(Operation::Commit).unwrap();
                        } else {
                            session.insert(note, &row).unwrap();
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    // And while they go on: another opens the file, and this one closes it.
    let second = file(&path, std::slice::from_ref(&note));
    engine.close().unwrap();
    let mut theirs = 0;
    for (mut child, said) in others.drain(..) {
        drop(child.stdin.take());
        theirs +=
            said.filter_map(|line| line.strip_prefix("wrote ")?.parse::<u64>().ok()).sum::<u64>();
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(second.session().unwrap().count(&note, None), 3 * inserted + theirs);
}

#[cfg(target_os = "linux")]
#[test]
fn processes_that_have_the_file_open_are_listed() {
    let (folder, note) = (tempfile::tempdir().unwrap(), note());
    let path = folder.path().join("a.db");
    let engine = file(&path, std::slice::from_ref(&note));
    engine.session().unwrap().insert(&note, &[ValueRef::Absent, ValueRef::Text("ours")]).unwrap();
    assert_eq!(engine.other_processes().unwrap(), <[&str; 0]>::default());
    let (mut child, said) = start("processes::writes_and_takes_its_time", "MARMOTA_WRITE", &path);
    let others = engine.other_processes().unwrap();
    assert_eq!(others.len(), 1, "{others:?}");
    assert!(others[0].starts_with(&format!("process {} (", child.id())), "{others:?}");
    drop(child.stdin.take());
    said.for_each(drop);
    assert!(child.wait().unwrap().success());
    assert_eq!(engine.other_processes().unwrap(), <[&str; 0]>::default());
}

/// The other process: holds the right to write for 60 ms, again and again.
#[test]
#[ignore = "a process that another test starts"]
fn writes_and_takes_its_time() {
    let path = std::env::var_os("MARMOTA_WRITE").expect("started by another test");
    let note = note();
    let options = SqliteOptions { busy_timeout_ms: 60_000, ..options() };
    let engine = Sqlite::open(Location::File(path.into()), options).unwrap();
    engine.prepare(std::slice::from_ref(&note), 0).unwrap();
    println!("\nat work");
    let is_over = std::sync::Arc::new(AtomicBool::new(false));
    std::thread::spawn({
        let is_over = std::sync::Arc::clone(&is_over);
        move || {
            let _ = std::io::read_to_string(std::io::stdin());
            is_over.store(true, Ordering::Relaxed);
        }
    });
    let (mut session, mut wrote) = (engine.session().unwrap(), 0);
    while !is_over.load(Ordering::Relaxed) {
        session.run(Operation::Begin).unwrap();
        session.insert(&note, &[ValueRef::Absent, ValueRef::Text("theirs")]).unwrap();
        std::thread::sleep(Duration::from_millis(60));
        session.run(Operation::Commit).unwrap();
        wrote += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("\nwrote {wrote}");
}

#[test]
fn all_that_wait_are_told_at_once_who_has_the_file() {
    let (folder, note) = (tempfile::tempdir().unwrap(), note());
    let path = folder.path().join("a.db");
    let options = SqliteOptions { busy_timeout_ms: 2_000, ..options() };
    let engine = Sqlite::open(Location::File(path.clone()), options).unwrap();
    engine.prepare(std::slice::from_ref(&note), 0).unwrap();
    let (mut child, _said) = start("processes::holds_a_write", "MARMOTA_HOLD_WRITE", &path);
    let started = Instant::now();
    let errors: Vec<_> = std::thread::scope(|scope| {
        let insert = || {
            let row = [ValueRef::Absent, ValueRef::Text("ours")];
            engine.session().unwrap().insert(&note, &row).unwrap_err()
        };
        let threads: Vec<_> = (0..10).map(|_| scope.spawn(insert)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // One after another they wait for 20 seconds.
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    assert!(errors.iter().all(|error| error.kind() == ErrorKind::Busy), "{errors:?}");
    let who = format!("process {} (", child.id());
    assert!(errors.iter().any(|error| error.to_string().contains(&who)), "{errors:?}");
    // Killed, it holds nothing, and what it has not committed is not there.
    child.kill().unwrap();
    child.wait().unwrap();
    let mut session = engine.session().unwrap();
    session.insert(&note, &[ValueRef::Absent, ValueRef::Text("ours")]).unwrap();
    assert_eq!(session.count(&note, None), 1);
}

#[test]
#[ignore = "a process that another test starts"]
fn holds_a_write() {
    let path = std::env::var_os("MARMOTA_HOLD_WRITE").expect("started by another test");
    let note = note();
    let engine = file(path.as_ref(), std::slice::from_ref(&note));
    let mut session = engine.session().unwrap();
    session.run(Operation::Begin).unwrap();
    session.insert(&note, &[ValueRef::Absent, ValueRef::Text("theirs")]).unwrap();
    println!("\nat work");
    let _ = std::io::read_to_string(std::io::stdin());
}

#[test]
fn who_has_an_exclusive_file_is_named_until_it_is_killed() {
    let (folder, note) = (tempfile::tempdir().unwrap(), note());
    let path = folder.path().join("a.db");
    let (mut child, _said) = start("processes::has_it_to_itself", "MARMOTA_EXCLUSIVE", &path);
    let open = |exclusive| {
        let options = SqliteOptions { exclusive, busy_timeout_ms: 50, ..options() };
        Sqlite::open(Location::File(path.clone()), options)
    };
    for exclusive in [true, false] {
        let error = open(exclusive).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        let comm = std::fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap();
        let who = format!(
            "process {} ({}) has opened the database exclusively",
            child.id(),
            comm.trim_end()
        );
        assert!(error.to_string().contains(&who), "{error}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let engine = open(true).unwrap();
    engine.prepare(std::slice::from_ref(&note), 0).unwrap();
    assert_eq!(engine.session().unwrap().count(&note, None), 1);
    // The other way round: somebody has the database open who wants it shared.
    drop(engine);
    let _other = file(&path, std::slice::from_ref(&note));
    let error = open(true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains("this process has the database open"), "{error}");
}

#[test]
#[ignore = "a process that another test starts"]
fn has_it_to_itself() {
    let path = std::env::var_os("MARMOTA_EXCLUSIVE").expect("started by another test");
    let note = note();
    let options = SqliteOptions { exclusive: true, ..options() };
    let engine = Sqlite::open(Location::File(path.into()), options).unwrap();
    engine.prepare(std::slice::from_ref(&note), 0).unwrap();
    let mut session = engine.session().unwrap();
    session.insert(&note, &[ValueRef::Absent, ValueRef::Text("theirs")]).unwrap();
    println!("\nat work");
    let _ = std::io::read_to_string(std::io::stdin());
}

//! What an engine says it has done, beside what its disk has seen.

use marmota_model::ValueRef;
use marmota_sqlite::disk::Disk;
use marmota_sqlite::{Durability, Location, Sqlite, SqliteOptions};
use marmota_store::engine::{Engine, Submitted};
use marmota_store::operation::{Operation, Outcome};

use crate::database::{Calls, file, id, table, text};

#[test]
fn waits_for_the_disk_are_counted_as_the_disk_sees_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("a.db");
    let disk = Disk::at(path.parent().unwrap()).unwrap();
    let note = table("note", vec![id(), text("body")]);
    let engine = file(&path, std::slice::from_ref(&note));
    let (before, syncs) = (engine.statistics(), disk.syncs());
    let mut session = engine.session().unwrap();
    let body = "x".repeat(3_000);
    let row = [ValueRef::Absent, ValueRef::Text(&body)];
    for _ in 0..1_500 {
        session.insert(&note, &row).unwrap();
    }
    session.run(Operation::Begin).unwrap();
    session.insert(&note, &row).unwrap();
    session.run(Operation::Commit).unwrap();
    let after = engine.statistics();
    assert_eq!(after.syncs - before.syncs, disk.syncs() - syncs);
    assert_eq!(after.commits - before.commits, 1_501);
    assert_eq!((after.groups - before.groups, after.group_writes_max), (1_500, 1));
    // Each row takes a page and its leaf's parent now and then: three logs.
    assert!((1..=8).contains(&after.checkpoints), "{after:?}");
    assert!(after.syncs - before.syncs >= 1_501 + 2 * after.checkpoints, "{after:?}");
}

#[test]
fn a_group_counts_its_writes_and_those_that_wait_or_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let note = table("note", vec![id(), text("body")]);
    let options = SqliteOptions { writes_waiting_max: 2, ..SqliteOptions::default() };
    let engine = Sqlite::open(Location::File(folder.path().join("a.db")), options).unwrap();
    engine.prepare(std::slice::from_ref(&note), 0).unwrap();
    let (mut holder, mut session) = (engine.session().unwrap(), engine.session().unwrap());
    holder.run(Operation::Begin).unwrap();
    let row = [ValueRef::Absent, ValueRef::Text("a")];
    let mut operation = Operation::insert(&note, &row);
    for _ in 0..2 {
        let submitted = session
            .submit(None, &mut operation, &mut marmota_model::NoRows, &mut Outcome::default())
            .unwrap();
        assert!(matches!(submitted, Submitted::Waiting(_)));
    }
    session.insert(&note, &row).unwrap_err();
    let statistics = engine.statistics();
    assert_eq!((statistics.writes_waiting, statistics.writes_refused), (2, 1));
    holder.run(Operation::Rollback).unwrap();
    session.insert(&note, &row).unwrap();
    let statistics = engine.statistics();
    assert_eq!((statistics.writes_waiting, statistics.group_writes_max), (0, 3));
    assert!((statistics.writes_per_group() - 3.0).abs() < 0.01, "{statistics:?}");
}

#[test]
fn what_waits_for_nothing_counts_no_waits() {
    let folder = tempfile::tempdir().unwrap();
    let note = table("note", vec![id(), text("body")]);
    let options = SqliteOptions { durability: Durability::None, ..SqliteOptions::default() };
    for location in [Location::Memory, Location::File(folder.path().join("a.db"))] {
        let engine = Sqlite::open(location, options.clone()).unwrap();
        engine.prepare(std::slice::from_ref(&note), 0).unwrap();
        let before = engine.statistics();
        let mut session = engine.session().unwrap();
        session.insert(&note, &[ValueRef::Absent, ValueRef::Text("a")]).unwrap();
        assert_eq!(session.count(&note, None), 1);
        let after = engine.statistics();
        assert_eq!((after.commits - before.commits, after.syncs - before.syncs), (1, 0));
    }
}

//! A wait for the disk that fails: the engine stops, says what is unknown, and
//! loses nothing once it is opened again. Faults that were put back are found.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, NoRows, RowQuery, RowSink, ValueRef};
use marmota_sqlite::disk::{Disk, DiskEvent, DiskFault, PowerCut};
use marmota_sqlite::{Durability, Location, Sqlite, SqliteOptions};
use marmota_store::Store;
use marmota_store::operation::Operation;

use crate::database::options;
use crate::power::{check, insert, insert_with, note, numbers};

fn place(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().canonicalize().unwrap().join("a.db")
}

/// Opens the file without what would take a sync by itself.
fn quiet(
    path: &Path,
    options: SqliteOptions,
    fault: Option<DiskFault>,
) -> (Store, impl Fn() + use<>) {
    let engine = Sqlite::open(Location::File(path.to_owned()), options).unwrap();
    let sync = engine.leave_groups_to_callers();
    if let Some(fault) = fault {
        engine.plant(fault).unwrap();
    }
    (Store::builder(engine).schema(note().schema().clone()).open().unwrap(), sync)
}

/// The numbers of the rows.
#[derive(Default)]
struct Numbers(HashSet<i64>);

impl RowSink for Numbers {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.0.extend(row[1].as_int());
        ControlFlow::Continue(())
    }
}

fn rows(store: &Store) -> HashSet<i64> {
    let (table, query) = (store.table("note").unwrap(), RowQuery::new());
    let mut numbers = Numbers::default();
    store.run(&mut Operation::List { table: &table, query: &query }, &mut numbers).unwrap();
    numbers.0
}

fn is_stopped(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let text = error.to_string();
    assert!(text.contains("accepts no more writes") && text.contains("fsync"), "{text}");
    assert!(text.contains("restart"), "{text}");
}

#[test]
fn a_failed_sync_at_the_commit_is_unknown_and_stops_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::at(folder.path()).unwrap();
    for (file, exclusive) in [("a.db", false), ("b.db", true)] {
        let path = folder.path().canonicalize().unwrap().join(file);
        let (store, _) = quiet(&path, SqliteOptions { exclusive, ..options() }, None);
        insert(&store, 1).unwrap();
        disk.fail_after(Some(0));
        let error = insert(&store, 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
        assert!(error.to_string().contains("may or may not have been committed"), "{error}");
        // The disk works again: nothing of it is trusted all the same.
        disk.fail_after(None);
        is_stopped(&insert(&store, 3).unwrap_err());
        is_stopped(&insert_with(&store, 4, Durability::Relaxed).unwrap_err());
        is_stopped(&insert_with(&store, 5, Durability::None).unwrap_err());
        is_stopped(&store.begin_run().unwrap_err());
        assert_eq!(rows(&store), HashSet::from([1]), "reads continue");
        is_stopped(&store.close().unwrap_err());
        let (store, _) = quiet(&path, SqliteOptions { exclusive, ..options() }, None);
        insert(&store, 6).unwrap();
        let there = rows(&store);
        assert!(there.is_superset(&HashSet::from([1, 6])), "{there:?}");
        assert!(there.is_subset(&HashSet::from([1, 2, 6])), "{there:?}");
        store.close().unwrap();
    }
}

#[test]
fn a_failed_sync_of_relaxed_writes_stops_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::at(folder.path()).unwrap();
    let engine = Sqlite::open(Location::File(place(&folder)), options()).unwrap();
    let store = Store::builder(engine).schema(note().schema().clone()).open().unwrap();
    insert(&store, 1).unwrap();
    disk.fail_after(Some(0));
    insert_with(&store, 2, Durability::Relaxed).unwrap();
    let started = Instant::now();
    let error = loop {
        assert!(started.elapsed() < Duration::from_secs(60));
        if let Err(error) = insert_with(&store, 3, Durability::None) {
            break error;
        }
    };
    is_stopped(&error);
    disk.fail_after(None);
    is_stopped(&insert(&store, 4).unwrap_err());
}

#[test]
fn a_folder_that_cannot_be_synced_stops_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::at(folder.path()).unwrap();
    disk.fail_folder(true);
    // The first commit makes the log, whose name may then be lost.
    let engine = Sqlite::open(Location::File(place(&folder)), options()).unwrap();
    let opened = Store::builder(engine).schema(note().schema().clone()).open();
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::Lost);
    disk.fail_folder(false);
    let (store, _) = quiet(&place(&folder), options(), None);
    insert(&store, 1).unwrap();
}

#[test]
fn a_checkpoint_that_cannot_be_synced_stops_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::at(folder.path()).unwrap();
    let (store, _) = quiet(&place(&folder), options(), None);
    insert(&store, 1).unwrap();
    // One sync for each commit; the first that fails is one of a checkpoint.
    let mut number = 1;
    let error = loop {
        let before = disk.syncs();
        number += 1;
        disk.fail_after(Some(1));
        if let Err(error) = insert(&store, number) {
            break error;
        }
        assert!(number < 100_000 && disk.syncs() > before);
    };
    is_stopped(&error);
    disk.fail_after(None);
    assert_eq!(rows(&store).len() as i64, number - 1, "those before are there");
}

#[test]
fn a_transaction_whose_commit_fails_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::at(folder.path()).unwrap();
    let (store, _) = quiet(&place(&folder), options(), None);
    let own = store.begin_run().unwrap();
    let table = own.table("note").unwrap();
    let row = [ValueRef::Absent, ValueRef::Int(1)];
    let mut operation = Operation::insert(&table, &row);
    own.run(&mut operation, &mut NoRows).unwrap();
    disk.fail_after(Some(0));
    assert_eq!(own.commit().run().unwrap_err().kind(), ErrorKind::Lost);
    disk.fail_after(None);
    is_stopped(&insert(&store, 3).unwrap_err());
}

/// What clients were told, by where the record was then.
#[derive(Default)]
struct Told {
    acknowledged: Vec<(i64, usize)>,
    denied: Vec<i64>,
}

/// Fails a sync of relaxed writes and one of a commit, opens again, writes
/// more, and looks for what a loss of power or a kill makes untrue.
fn violations(fault: Option<DiskFault>) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let (disk, path) = (Disk::at(folder.path()).unwrap(), place(&folder));
    disk.record(true);
    let (mut store, mut sync) = quiet(&path, options(), fault);
    let mut told = Told::default();
    for round in 0..8 {
        for step in 0..6 {
            let number = round * 10 + step;
            match step {
                1 => insert_with(&store, number, Durability::Relaxed).unwrap(),
                2 if round % 2 == 0 => {
                    disk.fail_after(Some(0));
                    sync();
                    disk.fail_after(None);
                }
                _ => {
                    disk.fail_after((round % 2 == 1 && step == 4).then_some(0));
                    match insert(&store, number) {
                        Ok(()) => told.acknowledged.push((number, disk.recorded())),
                        Err(error) if error.kind() == ErrorKind::Lost => {}
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                            told.denied.push(number);
                        }
                    }
                    disk.fail_after(None);
                }
            }
        }
        let _ = store.close();
        drop(store);
        (store, sync) = quiet(&path, options(), fault);
    }
    store.close().unwrap();
    cut(&disk.take_record(), &told)
}

fn cut(record: &[DiskEvent], told: &Told) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let (mut disk, mut found, mut cuts) = (PowerCut::new(0x5eed), Vec::new(), 0);
    for (place, event) in record.iter().enumerate() {
        disk.go_on(event);
        if !matches!(event, DiskEvent::Synced { .. } | DiskEvent::SyncFailed { .. }) {
            continue;
        }
        for eighths in [Some(0), Some(4), None] {
            let left = folder.path().join(format!("{cuts}"));
            std::fs::create_dir(&left).unwrap();
            match eighths {
                Some(eighths) => disk.leave(&left, eighths).unwrap(),
                None => disk.leave_killed(&left).unwrap(),
            }
            let there = numbers(&left);
            if left.join("a.db").exists() {
                check(&left.join("a.db"));
            }
            let acknowledged = told.acknowledged.iter().filter(|(_, at)| *at <= place);
            let lost = acknowledged.filter(|(number, _)| !there.contains(number));
            found.extend(lost.map(|(number, _)| format!("{number} is lost at {place}")));
            let back = told.denied.iter().filter(|number| there.contains(number));
            found.extend(back.map(|number| format!("{number} is back at {place}")));
            std::fs::remove_dir_all(&left).unwrap();
            cuts += 1;
        }
    }
    assert!(cuts > 60, "{cuts} cuts");
    found
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_denied_comes_back() {
    assert_eq!(violations(None), Vec::<String>::new());
}

#[test]
fn a_sync_that_is_tried_again_is_found() {
    let found = violations(Some(DiskFault::RetriesSync));
    assert!(found.iter().any(|one| one.contains("lost")), "{found:?}");
}

#[test]
fn a_commit_that_is_denied_though_unknown_is_found() {
    let found = violations(Some(DiskFault::DeniesWrite));
    assert!(found.iter().any(|one| one.contains("back")), "{found:?}");
}

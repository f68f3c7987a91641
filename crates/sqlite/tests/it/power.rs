//! A loss of power at every wait for the disk: what was written since may be
//! there, or not, or in part.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use marmota_model::{RowQuery, ValueRef};
use marmota_sqlite::disk::{Disk, DiskEvent, PowerCut};
use marmota_sqlite::{Durability, Location, Sqlite, SqliteOptions};
use marmota_store::Store;
use marmota_store::engine::Engine;
use marmota_store::operation::Operation;

use crate::database::{Calls, file, id, options, table};

pub(crate) fn note() -> std::sync::Arc<marmota_model::Table> {
    table("note", vec![id(), marmota_model::Field::new("number", marmota_model::Kind::I64)])
}

fn row(number: i64) -> [ValueRef<'static>; 2] {
    [ValueRef::Absent, ValueRef::Int(number)]
}

/// Calls `check` with a folder as it would be left by a loss of power, for
/// every sync of the record: before it, while it lasts and behind it, with
/// nothing, some or most of what was not synced. Gives how many there were.
fn cut_everywhere(record: &[DiskEvent], mut check: impl FnMut(usize, &Path)) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let (mut disk, mut cuts) = (PowerCut::new(0x5eed), 0);
    for (place, event) in record.iter().enumerate() {
        if let DiskEvent::Sync { .. } | DiskEvent::Synced { .. } = event {
            for chance in [0, 3, 7] {
                let left = folder.path().join(format!("{cuts}"));
                std::fs::create_dir(&left).unwrap();
                disk.leave(&left, chance).unwrap();
                check(place, &left);
                std::fs::remove_dir_all(&left).unwrap();
                cuts += 1;
            }
        }
        disk.go_on(event);
    }
    cuts
}

/// Looks at every page of the file.
pub(crate) fn check(path: &Path) {
    #[cfg(not(feature = "encryption"))]
    assert_eq!(marmota_sqlite::disk::integrity(path).unwrap(), "ok");
    // The same check, which needs the key, and the key is then the same again.
    #[cfg(feature = "encryption")]
    Sqlite::rekey(path, Some(&crate::database::key()), Some(&crate::database::key())).unwrap();
}

/// The numbers of the rows that a folder has after a loss of power.
pub(crate) fn numbers(folder: &Path) -> HashSet<i64> {
    let (path, note) = (folder.join("a.db"), note());
    let engine = file(&path, std::slice::from_ref(&note));
    let rows = engine.session().unwrap().rows(&note, &RowQuery::new());
    engine.close().unwrap();
    check(&path);
    rows.iter().filter_map(|row| row[1].as_ref().as_int()).collect()
}

fn store(path: &Path, options: SqliteOptions) -> Store {
    let engine = Sqlite::open(Location::File(path.to_owned()), options).unwrap();
    // Often, so that there are many syncs of the file too.
    engine.execute("PRAGMA wal_autocheckpoint=12").unwrap();
    Store::builder(engine).schema(note().schema().clone()).open().unwrap()
}

pub(crate) fn insert(store: &Store, number: i64) -> marmota_model::Result<()> {
    let table = store.table("note")?;
    store.run(&mut Operation::insert(&table, &row(number)), &mut marmota_model::NoRows).map(drop)
}

pub(crate) fn insert_with(
    store: &Store,
    number: i64,
    durability: Durability,
) -> marmota_model::Result<()> {
    let table = store.table("note")?;
    let (row, mut outcome) = (row(number), Default::default());
    let mut operation = Operation::insert(&table, &row);
    let no_rows = &mut marmota_model::NoRows;
    let submitted = store.submit(Some(durability), &mut operation, no_rows, &mut outcome)?;
    if let marmota_store::Progress::Pending(mut pending) = submitted {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        loop {
            let polled =
                store.poll(&mut pending, &mut operation, no_rows, &mut outcome, &mut context);
            if let std::task::Poll::Ready(done) = polled {
                return done;
            }
        }
    }
    Ok(())
}

#[test]
fn no_acknowledged_row_is_lost_wherever_the_power_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::at(folder.path()).unwrap();
    disk.record(true);
    let store = store(&folder.path().canonicalize().unwrap().join("a.db"), options());
    // A row's number, and how long the record was when it was acknowledged.
    let mut acknowledged: Vec<(i64, usize)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6)
            .map(|thread| {
                let (store, disk) = (&store, &disk);
                scope.spawn(move || {
                    let mut told = Vec::new();
                    for number in (thread * 1000..).step_by(2).take(24) {
                        if number % 16 == 0 {
                            // Both or none; the second has a number one higher.
                            let own = store.begin_run().unwrap();
                            insert_in(&own, number);
                            insert_in(&own, number + 1);
                            own.commit().run().unwrap();
                            told.push((number + 1, disk.recorded()));
                        } else {
                            insert(store, number).unwrap();
                        }
                        told.push((number, disk.recorded()));
                    }
                    told
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    disk.record(false);
    store.close().unwrap();
    acknowledged.sort_by_key(|&(_, at)| at);
    let record = disk.take_record();
    let syncs = record.iter().filter(|event| matches!(event, DiskEvent::Synced { .. })).count();
    let cuts = cut_everywhere(&record, |place, folder| {
        let there = numbers(folder);
        for (number, _) in acknowledged.iter().take_while(|(_, at)| *at <= place) {
            assert!(there.contains(number), "{number} was acknowledged, and is lost at {place}");
        }
        for number in there.iter().filter(|number| *number % 16 == 0) {
            assert!(there.contains(&(number + 1)), "half of a transaction at {place}");
        }
    });
    assert!(cuts > 200 && syncs > 30, "{cuts} cuts, {syncs} syncs");
}

fn insert_in(scope: &marmota_store::Store, number: i64) {
    let table = scope.table("note").unwrap();
    let row = row(number);
    scope.run(&mut Operation::insert(&table, &row), &mut marmota_model::NoRows).unwrap();
}

#[test]
fn a_relaxed_row_is_on_the_disk_within_a_second_and_one_of_none_stays_sound() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::at(folder.path()).unwrap();
    disk.record(true);
    let store = store(&folder.path().canonicalize().unwrap().join("a.db"), options());
    let insert = |number, durability| {
        insert_with(&store, number, durability).unwrap();
        disk.recorded()
    };
    insert(1, Durability::Full);
    let (syncs, none) = (disk.syncs(), insert(2, Durability::None));
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(disk.syncs(), syncs, "nobody sees to what asked for nothing");
    let relaxed = insert(3, Durability::Relaxed);
    assert_eq!(disk.syncs(), syncs, "it is answered before it is on the disk");
    let started = Instant::now();
    while disk.syncs() == syncs {
        assert!(started.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(50));
    let synced = disk.recorded();
    insert(4, Durability::Full);
    disk.record(false);
    store.close().unwrap();
    let (mut lost, mut kept) = (0, 0);
    cut_everywhere(&disk.take_record(), |place, folder| {
        let there = numbers(folder);
        for number in [2, 3] {
            lost += usize::from(place >= none.min(relaxed) && !there.contains(&number));
            if place >= synced {
                assert!(there.contains(&number), "{number} at {place}");
                kept += 1;
            }
        }
    });
    assert!(lost > 0, "the window is there: a loss of power before the sync takes them");
    assert!(kept > 0);
}

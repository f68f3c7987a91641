//! A disk that is full or cannot be written.

use std::path::PathBuf;

use marmota_model::ErrorKind;
use marmota_sqlite::{Location, Sqlite};
use marmota_store::engine::Engine;
use marmota_store::operation::Operation;

use crate::database::{Calls, file, id, options, table, text};
use crate::small_disk::SmallDisk;

/// Inserts until the disk is full; gives how many rows were acknowledged.
fn fill(engine: &Sqlite, note: &marmota_model::Table) -> u64 {
    let mut session = engine.session().unwrap();
    let body = "x".repeat(2_000);
    let row = [marmota_model::ValueRef::Absent, marmota_model::ValueRef::Text(&body)];
    for acknowledged in 0.. {
        match session.insert(note, &row) {
            Ok(_) => assert!(acknowledged < 100_000, "the disk is never full"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                assert!(error.to_string().contains("full"), "{error}");
                assert_eq!(session.count(note, None), acknowledged);
                return acknowledged;
            }
        }
    }
    unreachable!()
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(folder.path()) else { return };
    let note = table("note", vec![id(), text("body")]);
    let path = disk.0.join("a.db");
    let ballast = disk.0.join("ballast");
    std::fs::write(&ballast, vec![0; 300_000]).unwrap();
    let engine = file(&path, std::slice::from_ref(&note));
    let acknowledged = fill(&engine, &note);
    assert!(acknowledged > 100);
    // Whole batches and transactions fail as a whole.
    let mut session = engine.session().unwrap();
    let body = "y".repeat(100_000);
    let row = vec![marmota_model::ValueRef::Absent, marmota_model::ValueRef::Text(&body)];
    let error = session.insert_many(&note, &[row.clone(), row.clone()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    session.run(Operation::Begin).unwrap();
    let in_transaction = session.insert(&note, &row).and_then(|_| session.run(Operation::Commit));
    assert_eq!(in_transaction.unwrap_err().kind(), ErrorKind::Io);
    let _ = session.run(Operation::Rollback);
    assert_eq!(session.count(&note, None), acknowledged);
    drop((session, engine));

    let engine = file(&path, std::slice::from_ref(&note));
    let mut session = engine.session().unwrap();
    assert_eq!(session.count(&note, None), acknowledged);
    engine.execute("PRAGMA integrity_check").unwrap();
    // Room again, and it goes on.
    std::fs::remove_file(ballast).unwrap();
    session.insert(&note, &row).unwrap();
    assert_eq!(session.count(&note, None), acknowledged + 1);
}

#[test]
fn a_bound_on_the_file_is_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let note = table("note", vec![id(), text("body")]);
    let engine = file(&path, std::slice::from_ref(&note));
    engine.execute("PRAGMA max_page_count=100").unwrap();
    let acknowledged = fill(&engine, &note);
    drop(engine);
    let engine = file(&path, std::slice::from_ref(&note));
    assert_eq!(engine.session().unwrap().count(&note, None), acknowledged);
}

#[test]
fn a_folder_that_cannot_be_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(folder.path()) else { return };
    let path = disk.0.join("a.db");
    drop(file(&path, &[]));
    disk.make_readonly();
    let open = |path: PathBuf| Sqlite::open(Location::File(path), options());
    let error = open(path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("writ"), "{error}");
    let error = open(disk.0.join("new.db")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("new.db"), "{error}");
    let error = open(disk.0.join("sub/new.db")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
}

#[test]
fn a_file_that_turned_readonly_is_an_io_error() {
    let folder = tempfile::tempdir().unwrap();
    let note = table("note", vec![id(), text("body")]);
    let engine = file(&folder.path().join("a.db"), std::slice::from_ref(&note));
    engine.execute("PRAGMA query_only=ON").unwrap();
    let mut session = engine.session().unwrap();
    let row = [marmota_model::ValueRef::Absent, marmota_model::ValueRef::Text("a")];
    let error = session.insert(&note, &row).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("right to write"), "{error}");
}

//! The log of the memory engine: what is kept without a close, what belongs
//! together on the disk, and who may have it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use marmota_memory::{FileFormat, Memory};
use marmota_model::{
    Collation, Error, ErrorKind, Field, Kind, Literal, NoRows, Result, Role, RowQuery, Schema,
    Table, Value, ValueRef,
};
use marmota_store::Durability;
use marmota_store::engine::{self, Engine, Session, Submitted};
use marmota_store::operation::{BatchMode, Operation, Outcome, Write};

pub(crate) fn note() -> Arc<Table> {
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("body", Kind::TEXT).unique(true),
    ];
    Arc::new(Table::new(Schema::new("note", fields)).unwrap())
}

fn tag() -> Arc<Table> {
    let name = Kind::Text { chars_max: 0, collation: Collation::NoCase };
    let fields = vec![
        Field::new("name", name).role(Role::Key),
        Field::new("data", Kind::Blob).nullable(true),
    ];
    Arc::new(Table::new(Schema::new("tag", fields)).unwrap())
}

pub(crate) fn try_open(path: &Path, durability: &str, tables: &[Arc<Table>]) -> Result<Memory> {
    let url = format!("memory:{}?durability={durability}", path.display());
    let engine = Memory::from_url(&url)?;
    engine.prepare(tables, 1)?;
    Ok(engine)
}

pub(crate) fn open(path: &Path, tables: &[Arc<Table>]) -> Memory {
    try_open(path, "full", tables).unwrap()
}

pub(crate) fn run(session: &mut dyn Session, mut operation: Operation<'_>) -> Result<Outcome> {
    engine::run(session, &mut operation, &mut NoRows)
}

pub(crate) fn insert(session: &mut dyn Session, table: &Table, body: &str) -> Result<Outcome> {
    run(session, Operation::insert(table, &[ValueRef::Absent, ValueRef::Text(body)]))
}

pub(crate) fn rows(engine: &Memory, table: &Table) -> Vec<Vec<Value>> {
    let mut query = RowQuery::new();
    query.fields = Some(table.all());
    let mut rows = Vec::new();
    let mut sink = |row: &[ValueRef<'_>]| {
        rows.push(row.iter().map(ValueRef::to_value).collect());
        ControlFlow::Continue(())
    };
    let operation = &mut Operation::List { table, query: &query };
    engine::run(&mut *engine.session().unwrap(), operation, &mut sink).unwrap();
    rows
}

pub(crate) fn bodies(engine: &Memory, table: &Table) -> Vec<String> {
    let text = |row: &Vec<Value>| row[1].as_ref().as_text().unwrap().to_owned();
    rows(engine, table).iter().map(text).collect()
}

pub(crate) fn files(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub(crate) fn log(path: &Path, generation: u64) -> PathBuf {
    format!("{}.log.{generation}", path.display()).into()
}

fn refused(opened: Result<Memory>, kind: ErrorKind, parts: &[&str]) -> Error {
    let error = opened.err().expect("it is refused");
    assert_eq!(error.kind(), kind, "{error}");
    for part in parts {
        assert!(error.to_string().contains(part), "{error}: {part}");
    }
    error
}

#[test]
fn what_is_committed_is_there_without_a_close() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.mem");
    let (note, tag) = (note(), tag());
    let tables = [Arc::clone(&note), Arc::clone(&tag)];
    for durability in ["full", "relaxed", "none"] {
        let engine = try_open(&path, durability, &tables).unwrap();
        let mut own = engine.session().unwrap();
        let session = &mut *own;
        run(session, Operation::DeleteWhere { table: &note, filter: None }).unwrap();
        run(session, Operation::DeleteWhere { table: &tag, filter: None }).unwrap();
        for body in ["a", "b", "c", "d"] {
            insert(session, &note, body).unwrap();
        }
        let first = rows(&engine, &note)[0][0].clone();
        let change = [ValueRef::Absent, ValueRef::Text("changed")];
        let key = first.as_ref();
        let update = Operation::Update { table: &note, key, row: &change, version: None };
        run(session, update).unwrap();
        insert(session, &note, "changed").unwrap_err();
        // A row that goes and comes again, and one that only passes through.
        run(session, Operation::Begin).unwrap();
        let row = [ValueRef::Text("Key"), ValueRef::Blob(&[0, 255])];
        run(session, Operation::insert(&tag, &row)).unwrap();
        let key = ValueRef::Text("KEY");
        run(session, Operation::Delete { table: &tag, key, version: None }).unwrap();
        let row = [ValueRef::Text("kEY"), ValueRef::Null];
        run(session, Operation::insert(&tag, &row)).unwrap();
        run(session, Operation::Savepoint(1)).unwrap();
        insert(session, &note, "undone").unwrap();
        run(session, Operation::RollbackTo(1)).unwrap();
        insert(session, &note, "undone").unwrap();
        let key = first.as_ref();
        run(session, Operation::Delete { table: &note, key, version: None }).unwrap();
        run(session, Operation::Commit).unwrap();
        run(session, Operation::Begin).unwrap();
        insert(session, &note, "rolled back").unwrap();
        run(session, Operation::Rollback).unwrap();
        let write =
            |body: &str| Write::insert(Arc::clone(&note), vec![Value::Absent, Value::from(body)]);
        let (writes, mode) = ([write("e"), write("b"), write("f")], BatchMode::Each);
        let results = &mut Vec::new();
        run(session, Operation::Batch { writes: &writes, links: &[], once: None, mode, results })
            .unwrap();
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 2);
        let before = (rows(&engine, &note), rows(&engine, &tag));
        assert_eq!(bodies(&engine, &note), ["b", "c", "d", "undone", "e", "f"]);
        drop((own, engine));
        let engine = try_open(&path, durability, &tables).unwrap();
        assert_eq!((rows(&engine, &note), rows(&engine, &tag)), before, "{durability}");
        engine.snapshot().unwrap();
        assert_eq!((rows(&engine, &note), rows(&engine, &tag)), before);
        insert(&mut *engine.session().unwrap(), &note, "after the snapshot").unwrap();
        let before = rows(&engine, &note);
        drop(engine);
        let engine = try_open(&path, durability, &tables).unwrap();
        assert_eq!(rows(&engine, &note), before);
        engine.close().unwrap();
        assert_eq!(files(folder.path()), ["app.mem", "app.mem.lock"]);
        // A file that was closed is a file like any other.
        let plain = Memory::load(&path).unwrap();
        plain.prepare(&tables, 1).unwrap();
        assert_eq!(rows(&plain, &note), before);
    }
}

#[test]
fn a_close_writes_what_is_new_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.mem");
    let note = note();
    for round in 0..3 {
        let engine = open(&path, std::slice::from_ref(&note));
        assert_eq!(rows(&engine, &note).len(), round);
        insert(&mut *engine.session().unwrap(), &note, &round.to_string()).unwrap();
        engine.close().unwrap();
        let snapshot = std::fs::read(&path).unwrap();
        let engine = open(&path, std::slice::from_ref(&note));
        engine.close().unwrap();
        engine.close().unwrap();
        assert_eq!(engine.session().err().unwrap().kind(), ErrorKind::Closed);
        assert_eq!(std::fs::read(&path).unwrap(), snapshot);
        assert_eq!(files(path.parent().unwrap()), ["app.mem", "app.mem.lock"]);
    }
}

#[test]
fn a_write_is_answered_when_its_durability_says() {
    let folder = tempfile::tempdir().unwrap();
    let note = note();
    let submitted = |store: &str, asked: Option<Durability>| {
        let path = folder.path().join(format!("{store}-{asked:?}"));
        let engine = try_open(&path, store, std::slice::from_ref(&note)).unwrap();
        let mut session = engine.session().unwrap();
        let row = [ValueRef::Absent, ValueRef::Text("a")];
        let operation = &mut Operation::insert(&note, &row);
        let outcome = &mut Outcome::default();
        session.submit(asked, operation, &mut NoRows, outcome).unwrap()
    };
    use Durability::{Full, None as Unsynced, Relaxed};
    for (store, asked) in [("full", None), ("full", Some(Full)), ("relaxed", Some(Full))] {
        assert!(matches!(submitted(store, asked), Submitted::Waiting(_)), "{store} {asked:?}");
    }
    for (store, asked) in [
        ("relaxed", None),
        ("none", None),
        ("full", Some(Relaxed)),
        ("full", Some(Unsynced)),
        ("none", Some(Full)),
    ] {
        assert_eq!(submitted(store, asked), Submitted::Done, "{store} {asked:?}");
    }
}

#[test]
fn a_poll_brings_the_outcome_and_a_cancel_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let note = note();
    let engine = open(&folder.path().join("app.mem"), std::slice::from_ref(&note));
    let mut session = engine.session().unwrap();
    let row = [ValueRef::Absent, ValueRef::Text("a")];
    let operation = &mut Operation::insert(&note, &row);
    let submitted = session.submit(None, operation, &mut NoRows, &mut Outcome::default()).unwrap();
    let Submitted::Waiting(ticket) = submitted else { panic!("{submitted:?}") };
    let context = &mut Context::from_waker(Waker::noop());
    // Whoever polls has an outcome of its own each time.
    let outcome = loop {
        let mut outcome = Outcome::default();
        match session.poll(ticket, operation, &mut NoRows, &mut outcome, context) {
            Poll::Pending => assert_eq!(outcome, Outcome::default()),
            Poll::Ready(result) => break result.map(|()| outcome).unwrap(),
        }
        std::thread::yield_now();
    };
    assert_eq!(
        (outcome.rows, outcome.keys),
        (1, marmota_store::operation::Keys::One(Value::Int(1)))
    );
    // A commit that is given up takes place; its transaction is over.
    run(&mut *session, Operation::Begin).unwrap();
    insert(&mut *session, &note, "b").unwrap();
    let commit = &mut Operation::Commit;
    let submitted = session.submit(None, commit, &mut NoRows, &mut Outcome::default()).unwrap();
    let Submitted::Waiting(ticket) = submitted else { panic!("{submitted:?}") };
    session.cancel(ticket);
    let error = insert(&mut *session, &note, "c").unwrap_err();
    assert!(error.to_string().contains("has ended"), "{error}");
    run(&mut *session, Operation::Begin).unwrap();
    insert(&mut *session, &note, "d").unwrap();
    run(&mut *session, Operation::Commit).unwrap();
    assert_eq!(bodies(&engine, &note), ["a", "b", "d"]);
}

#[test]
fn one_process_has_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.mem");
    let note = note();
    let engine = open(&path, std::slice::from_ref(&note));
    let process = format!("process {}", std::process::id());
    let second = try_open(&path, "relaxed", std::slice::from_ref(&note));
    refused(second, ErrorKind::Busy, &[&process, "app.mem.lock"]);
    insert(&mut *engine.session().unwrap(), &note, "a").unwrap();
    let plain = Memory::from_url(&format!("memory:{}", path.display())).unwrap();
    let error = plain.prepare(std::slice::from_ref(&note), 1).unwrap_err();
    assert!(error.to_string().contains("app.mem.log.1"), "{error}");
    let error = engine.save(&path, FileFormat::Binary).unwrap_err();
    assert!(error.to_string().contains("snapshot"), "{error}");
    engine.save(folder.path().join("copy"), FileFormat::Json).unwrap();
    engine.close().unwrap();
    assert_eq!(bodies(&open(&path, std::slice::from_ref(&note)), &note), ["a"]);
}

#[test]
fn files_of_another_kind_are_taken_over_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.mem");
    let (note, tag) = (note(), tag());
    let plain = Memory::from_url(&format!("memory:{}", path.display())).unwrap();
    plain.prepare(&[Arc::clone(&note), Arc::clone(&tag)], 1).unwrap();
    insert(&mut *plain.session().unwrap(), &note, "plain").unwrap();
    plain.close().unwrap();
    let copy = std::fs::read(&path).unwrap();
    let engine = open(&path, std::slice::from_ref(&note));
    insert(&mut *engine.session().unwrap(), &note, "logged").unwrap();
    drop(engine);
    let engine = open(&path, &[Arc::clone(&note), Arc::clone(&tag)]);
    assert_eq!(bodies(&engine, &note), ["plain", "logged"]);
    drop(engine);
    // The file of before, put in the place of the snapshot.
    let snapshot = std::fs::read(&path).unwrap();
    std::fs::write(&path, copy).unwrap();
    let opened = try_open(&path, "full", std::slice::from_ref(&note));
    refused(opened, ErrorKind::Invalid, &["app.mem.log.1", "another snapshot"]);
    std::fs::write(&path, snapshot).unwrap();
    open(&path, std::slice::from_ref(&note)).snapshot().unwrap();
    // A log of its own kind, but not the one that goes on from the snapshot.
    let newer = log(&path, 2);
    std::fs::rename(&newer, log(&path, 3)).unwrap();
    let opened = try_open(&path, "full", std::slice::from_ref(&note));
    refused(opened, ErrorKind::Invalid, &["app.mem.log.2", "missing"]);
    std::fs::rename(log(&path, 3), &newer).unwrap();
    let other = folder.path().join("other");
    drop(open(&other, std::slice::from_ref(&note)));
    std::fs::rename(&path, folder.path().join("moved")).unwrap();
    let opened = try_open(&path, "full", std::slice::from_ref(&note));
    refused(opened, ErrorKind::Invalid, &["app.mem", "missing"]);
    std::fs::rename(folder.path().join("moved"), &path).unwrap();
    let log_2 = std::fs::read(&newer).unwrap();
    std::fs::copy(log(&other, 1), &newer).unwrap();
    let opened = try_open(&path, "full", std::slice::from_ref(&note));
    refused(opened, ErrorKind::Invalid, &["app.mem.log.2", "another snapshot"]);
    std::fs::write(&newer, log_2).unwrap();
    // An older log is what a killed program has left.
    std::fs::write(log(&path, 1), "old").unwrap();
    let engine = open(&path, std::slice::from_ref(&note));
    assert_eq!(bodies(&engine, &note), ["plain", "logged"]);
    engine.close().unwrap();
    assert!(!log(&path, 1).exists());

    let json = folder.path().join("app.json");
    plain.save(&json, FileFormat::Json).unwrap();
    let opened = Memory::from_url(&format!("memory:{}?durability=full", json.display()));
    assert!(opened.err().unwrap().to_string().contains("JSON"));
    let opened = Memory::from_url("memory:a?durability=some").err().unwrap();
    assert!(opened.to_string().contains("durability=some"), "{opened}");
}

#[test]
fn tables_that_no_model_asks_for_are_kept_with_their_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.mem");
    let (note, tag) = (note(), tag());
    let both = [Arc::clone(&note), Arc::clone(&tag)];
    let engine = open(&path, &both);
    let mut own = engine.session().unwrap();
    let session = &mut *own;
    for number in 0..100 {
        insert(session, &note, &number.to_string()).unwrap();
    }
    engine.snapshot().unwrap();
    for key in (1..=100).step_by(3).map(ValueRef::Int) {
        run(session, Operation::Delete { table: &note, key, version: None }).unwrap();
    }
    let row = [ValueRef::Absent, ValueRef::Text("changed")];
    let key = ValueRef::Int(2);
    run(session, Operation::Update { table: &note, key, row: &row, version: None }).unwrap();
    insert(session, &note, "new").unwrap();
    let wanted = rows(&engine, &note);
    drop((own, engine));
    for way in 0..4 {
        let engine = open(&path, std::slice::from_ref(&tag));
        match way {
            0 => {}
            1 => engine.snapshot().unwrap(),
            2 => engine.save(folder.path().join("copy"), FileFormat::Binary).unwrap(),
            _ => engine.close().unwrap(),
        }
    }
    assert_eq!(rows(&open(&path, &both), &note), wanted);
    let copy = Memory::load(folder.path().join("copy")).unwrap();
    copy.prepare(&both, 1).unwrap();
    assert_eq!(rows(&copy, &note), wanted);
}

#[test]
fn a_changed_schema_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.mem");
    let note = note();
    let engine = open(&path, std::slice::from_ref(&note));
    insert(&mut *engine.session().unwrap(), &note, "a").unwrap();
    drop(engine);
    let with = |default: &str| {
        let mut fields = note.fields().to_vec();
        fields
            .push(Field::new("kind", Kind::TEXT).default(Literal::Text(default.to_owned().into())));
        Arc::new(Table::new(Schema::new("note", fields)).unwrap())
    };
    let engine = try_open(&path, "full", &[with("first")]).unwrap();
    drop(engine);
    // What the row got for the new field stays.
    let second = with("second");
    let engine = open(&path, std::slice::from_ref(&second));
    assert_eq!(rows(&engine, &second)[0][2], Value::from("first"));
    engine.prepare(std::slice::from_ref(&second), 4).unwrap();
    drop(engine);
    let older = try_open(&path, "full", std::slice::from_ref(&second));
    refused(older, ErrorKind::Invalid, &["schema version (4;"]);
}

/// Opens a file whose engine was dropped, not closed: the thread that shortens
/// a long log may hold it a little longer.
#[track_caller]
fn open_when_free(path: &Path, tables: &[Arc<Table>]) -> Memory {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        match try_open(path, "none", tables) {
            Ok(engine) => return engine,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
        }
        assert!(std::time::Instant::now() < until);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Snapshots one after another beside writers, and a start from each kind of
/// file that this leaves.
/// How many transactions a writer makes at most while snapshots are made.
const ROUND_WRITES_MAX: u64 = 5_000;

#[test]
fn snapshots_are_whole_while_rows_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.mem");
    let (note, tag) = (note(), tag());
    let tables = [Arc::clone(&note), Arc::clone(&tag)];
    let filler = "x".repeat(500);
    for round in 0..4 {
        let engine = try_open(&path, "none", &tables).unwrap();
        let stopped = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (engine, note, stopped, filler) = (&engine, &note, &stopped, &filler);
                scope.spawn(move || {
                    let mut own = engine.session().unwrap();
                    let session = &mut *own;
                    let mut number = 0_u64;
                    while !stopped.load(Ordering::Relaxed) || number < 200 {
                        if number >= ROUND_WRITES_MAX {
                            // A slow disk would make the table grow, and each snapshot slower.
                            std::thread::yield_now();
                            continue;
                        }
                        number += 1;
                        let body = format!("{round} {thread} {number} {filler}");
                        run(session, Operation::Begin).unwrap();
                        let keys = insert(session, note, &body).unwrap().keys;
                        let marmota_store::operation::Keys::One(key) = keys else { panic!() };
                        let (table, version) = (&**note, None);
                        match number % 4 {
                            0 => {
                                let key = key.as_ref();
                                run(session, Operation::Delete { table, key, version }).unwrap();
                            }
                            1 => {
                                run(session, Operation::Rollback).unwrap();
                                continue;
                            }
                            // Two rows swap what is unique.
                            _ => {
                                let other = format!("{body} other");
                                let row = [ValueRef::Absent, ValueRef::Text(&other)];
                                let key = key.as_ref();
                                run(session, Operation::Update { table, key, row: &row, version })
                                    .unwrap();
                                insert(session, table, &body).unwrap();
                            }
                        }
                        run(session, Operation::Commit).unwrap();
                    }
                });
            }
            for _ in 0..6 {
                engine.snapshot().unwrap();
            }
            stopped.store(true, Ordering::Relaxed);
        });
        let wanted = rows(&engine, &note);
        if round % 2 == 0 {
            drop(engine);
        } else {
            engine.close().unwrap();
        }
        let engine = open_when_free(&path, &tables);
        let sorted = |rows: Vec<Vec<Value>>| -> BTreeMap<String, Vec<Value>> {
            rows.into_iter().map(|row| (format!("{:?}", row[0]), row)).collect()
        };
        assert!(sorted(rows(&engine, &note)) == sorted(wanted), "round {round}");
    }
}

#[test]
fn a_long_log_is_shortened_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.mem");
    let tag = tag();
    let engine = try_open(&path, "none", std::slice::from_ref(&tag)).unwrap();
    let mut own = engine.session().unwrap();
    let session = &mut *own;
    let data = vec![7; 8 << 20];
    let row = [ValueRef::Text("a"), ValueRef::Blob(&data)];
    run(session, Operation::insert(&tag, &row)).unwrap();
    let change = [ValueRef::Absent, ValueRef::Blob(&data)];
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while log(&path, 1).exists() {
        let key = ValueRef::Text("a");
        run(session, Operation::Update { table: &tag, key, row: &change, version: None }).unwrap();
        assert!(std::time::Instant::now() < until, "{:?}", files(folder.path()));
    }
    let wanted = rows(&engine, &tag);
    drop((own, engine));
    let engine = open_when_free(&path, std::slice::from_ref(&tag));
    assert!(rows(&engine, &tag) == wanted);
}

#[test]
fn commits_and_waits_for_the_disk_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let note = note();
    let engine = open(&folder.path().join("a.mem"), std::slice::from_ref(&note));
    let mut session = engine.session().unwrap();
    let before = engine.statistics();
    for number in 0..5 {
        insert(&mut *session, &note, &format!("note {number}")).unwrap();
    }
    engine.snapshot().unwrap();
    let after = engine.statistics();
    assert_eq!(after.commits - before.commits, 5);
    assert_eq!((after.groups - before.groups, after.group_writes_max), (5, 1));
    assert!(after.syncs - before.syncs >= 5, "{after:?}");
    assert_eq!((after.checkpoints - before.checkpoints, after.writes_waiting), (1, 0));
    assert_eq!(Memory::new().statistics().syncs, 0);
}

#[test]
fn a_table_that_never_had_rows_is_restored() {
    let folder = tempfile::tempdir().unwrap();
    let (path, restored) = (folder.path().join("app.mem"), folder.path().join("restored.mem"));
    let engine = open(&path, &[note(), tag()]);
    insert(&mut *engine.session().unwrap(), &note(), "a").unwrap();
    drop(engine);
    let url = format!("memory:{}?durability=full", restored.display());
    let tables = Memory::install(&url, false, |new| {
        std::fs::copy(log(&path, 1), log(new, 1)).unwrap();
        Ok(())
    });
    let wanted = BTreeMap::from([("note".to_owned(), 1), ("tag".to_owned(), 0)]);
    assert_eq!(tables.unwrap(), wanted);
    let mut tables = Memory::from_url(&url).unwrap().existing_tables().unwrap().unwrap();
    tables.sort();
    assert_eq!(tables, ["note", "tag"]);
}

#[test]
fn a_renamed_table_keeps_its_rows_without_a_close() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.mem");
    let engine = open(&path, &[note()]);
    insert(&mut *engine.session().unwrap(), &note(), "before").unwrap();
    engine.close().unwrap();
    let schema = Schema { was: Some("note".into()), ..note().schema().clone() };
    let memo = Arc::new(Table::new(Schema { name: "memo".into(), ..schema }).unwrap());
    let engine = open(&path, &[Arc::clone(&memo)]);
    insert(&mut *engine.session().unwrap(), &memo, "after").unwrap();
    drop(engine);
    assert_eq!(bodies(&open_when_free(&path, &[Arc::clone(&memo)]), &memo), ["before", "after"]);
}

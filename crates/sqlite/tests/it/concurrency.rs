//! Several sessions, threads and processes at once.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use marmota_model::{ErrorKind, NoRows, RowQuery, Value, ValueRef};
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::Store;
use marmota_store::engine::{Engine, Submitted};
use marmota_store::operation::{Keys, Operation, Outcome};

use crate::database::{Calls, YEAR, city, file, memory, options, person, person_row};

/// Counts how often it was woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn readers_see_whole_commits_while_a_writer_writes() {
    let person = person();
    let folder = tempfile::tempdir().unwrap();
    let engine = file(&folder.path().join("a.db"), &[city(), person.clone()]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut session = engine.session().unwrap();
                let mut seen = 0;
                while !done.load(Ordering::Relaxed) {
                    let rows = session.rows(&person, &RowQuery::new()).len();
                    assert_eq!(rows % 20, 0, "a part of a commit");
                    assert!(rows >= seen, "older than before");
                    seen = rows;
                }
            });
        }
        let mut session = engine.session().unwrap();
        for batch in 0..50 {
            let rows: Vec<_> = (0..20)
                .map(|number| {
                    let mut row = person_row("a");
                    row[YEAR] = ValueRef::Int(batch * 20 + number);
                    row
                })
                .collect();
            session.insert_many(&person, &rows).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn writers_on_many_threads_lose_nothing() {
    let person = person();
    let folder = tempfile::tempdir().unwrap();
    for engine in [
        memory(&[city(), person.clone()]),
        file(&folder.path().join("a.db"), &[city(), person.clone()]),
    ] {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (engine, person) = (&engine, &person);
                scope.spawn(move || {
                    let mut session = engine.session().unwrap();
                    for number in 0..100 {
                        let mut row = person_row("a");
                        row[YEAR] = ValueRef::Int(thread * 100 + number);
                        session.insert(person, &row).unwrap();
                        if number % 10 == 0 {
                            session.run(Operation::Begin).unwrap();
                            session.count(person, None);
                            session.run(Operation::Rollback).unwrap();
                        }
                    }
                });
            }
        });
        assert_eq!(engine.session().unwrap().count(&person, None), 400);
    }
}

#[test]
fn a_future_is_woken_when_its_turn_comes() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut holder = engine.session().unwrap();
    let mut first = engine.session().unwrap();
    let mut second = engine.session().unwrap();
    holder.run(Operation::Begin).unwrap();

    let row = person_row("a");
    let insert = || Operation::insert(&person, &row);
    let bells = [Arc::new(Bell::default()), Arc::new(Bell::default())];
    let wakers = [Waker::from(bells[0].clone()), Waker::from(bells[1].clone())];
    let rung = || [bells[0].0.load(Ordering::SeqCst), bells[1].0.load(Ordering::SeqCst)];

    let (mut tickets, mut outcome) = (Vec::new(), Outcome::default());
    for (session, waker) in [&mut first, &mut second].into_iter().zip(&wakers) {
        let submitted = session.submit(None, &mut insert(), &mut NoRows, &mut outcome).unwrap();
        let Submitted::Waiting(ticket) = submitted else {
            panic!("a write beside a transaction");
        };
        let mut context = Context::from_waker(waker);
        for _ in 0..2 {
            let polled =
                session.poll(ticket, &mut insert(), &mut NoRows, &mut outcome, &mut context);
            assert!(polled.is_pending());
        }
        tickets.push(ticket);
    }
    assert_eq!(rung(), [0, 0]);
    holder.run(Operation::Commit).unwrap();
    assert_eq!(rung(), [1, 0], "one at a time, in the order they came");
    // The one that was woken gives up: the next has to hear of it.
    first.cancel(tickets[0]);
    assert_eq!(rung(), [1, 1]);
    let mut context = Context::from_waker(&wakers[1]);
    let polled = second.poll(tickets[1], &mut insert(), &mut NoRows, &mut outcome, &mut context);
    assert!(matches!(polled, Poll::Ready(Ok(()))));
    assert_eq!(outcome.rows, 1);
    assert_eq!(engine.session().unwrap().count(&person, None), 1);
    // Its ticket is spent.
    let polled = second.poll(tickets[1], &mut insert(), &mut NoRows, &mut outcome, &mut context);
    assert!(matches!(polled, Poll::Ready(Err(error)) if error.kind() == ErrorKind::Bug));
}

#[test]
fn waiting_too_long_is_busy() {
    let person = person();
    let options = SqliteOptions { busy_timeout_ms: 50, ..SqliteOptions::default() };
    let engine = Sqlite::open(Location::Memory, options).unwrap();
    engine.prepare(&[city(), person.clone()], 0).unwrap();
    let mut holder = engine.session().unwrap();
    holder.run(Operation::Begin).unwrap();
    let mut other = engine.session().unwrap();
    let started = Instant::now();
    let error = other.insert(&person, &person_row("a")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains("try again"));
    assert!(started.elapsed() >= Duration::from_millis(50));
    holder.run(Operation::Rollback).unwrap();
    other.insert(&person, &person_row("a")).unwrap();
}

#[test]
fn another_process_that_writes_is_waited_for() {
    let person = person();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let options = SqliteOptions { busy_timeout_ms: 100, ..options() };
    let engine = Sqlite::open(Location::File(path.clone()), options).unwrap();
    engine.prepare(&[city(), person.clone()], 0).unwrap();
    let mut session = engine.session().unwrap();

    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "concurrency::holds_the_writer", "--nocapture"])
        .env("MARMOTA_HOLD", &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Kept open: the other process says more at its end.
    let mut said = crate::killed::lines(child.stdout.take().unwrap());
    said.find(|line| line.contains("holding")).unwrap();
    for operation in [Operation::Begin, Operation::insert(&person, &person_row("a"))] {
        let error = session.run(operation).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        let who = format!("process {} (", child.id());
        assert!(error.to_string().contains(&who), "{error}");
        assert!(
            error.to_string().contains("is writing to the database; gave up after 100 ms"),
            "{error}"
        );
    }
    assert_eq!(session.count(&person, None), 0, "readers wait for nobody");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    session.insert(&person, &person_row("b")).unwrap();
    assert_eq!(session.count(&person, None), 2);
}

/// The other process: begins, writes, and commits when its input ends.
#[test]
#[ignore = "a process that another test starts"]
fn holds_the_writer() {
    let path = std::env::var_os("MARMOTA_HOLD").expect("started by another test");
    let person = person();
    let engine = file(path.as_ref(), &[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    session.run(Operation::Begin).unwrap();
    session.insert(&person, &person_row("a")).unwrap();
    println!("\nholding");
    std::io::read_to_string(std::io::stdin()).unwrap();
    session.run(Operation::Commit).unwrap();
}

#[test]
fn an_exclusive_file_is_for_one() {
    let person = person();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let url = format!("sqlite:{}?exclusive=true&busy_timeout_ms=50", path.display());
    let engine = Sqlite::from_url(&url).unwrap();
    engine.prepare(&[city(), person.clone()], 0).unwrap();
    let mut session = engine.session().unwrap();
    session.insert(&person, &person_row("a")).unwrap();
    assert_eq!(session.count(&person, None), 1);
    let error = Sqlite::from_url(&url).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(
        error.to_string().contains("a.db: this process has opened the database exclusively"),
        "{error}"
    );
    drop((session, engine));
    Sqlite::from_url(&url).unwrap();
}

#[test]
fn a_closed_engine_takes_nothing_more() {
    let person = person();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let engine = file(&path, &[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    let mut idle = engine.session().unwrap();
    session.insert(&person, &person_row("a")).unwrap();
    assert_eq!(idle.count(&person, None), 1);
    engine.close().unwrap();
    engine.close().unwrap();
    assert!(!path.with_extension("db-wal").exists(), "every connection is closed");
    let error = session.insert(&person, &person_row("b")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    let query = RowQuery::new();
    let list = Operation::List { table: &person, query: &query };
    assert_eq!(idle.run(list).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(engine.session().err().map(|error| error.kind()), Some(ErrorKind::Closed));
    assert_eq!(engine.prepare(&[], 0).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn closing_waits_for_a_transaction_and_can_be_tried_again() {
    let person = person();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let options = SqliteOptions { busy_timeout_ms: 20, ..options() };
    let engine = Sqlite::open(Location::File(path.clone()), options).unwrap();
    engine.prepare(&[city(), person.clone()], 0).unwrap();
    let mut session = engine.session().unwrap();
    session.run(Operation::Begin).unwrap();
    session.insert(&person, &person_row("a")).unwrap();
    assert_eq!(engine.close().unwrap_err().kind(), ErrorKind::Busy);
    session.run(Operation::Commit).unwrap();
    engine.close().unwrap();
    assert!(!path.with_extension("db-wal").exists());
    assert_eq!(session.run(Operation::Begin).unwrap_err().kind(), ErrorKind::Closed);
    drop((session, engine));
    assert_eq!(file(&path, &[city(), person.clone()]).session().unwrap().count(&person, None), 1);
}

#[test]
fn a_transaction_that_outlives_the_engine_is_undone() {
    let person = person();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let options = SqliteOptions { busy_timeout_ms: 20, ..options() };
    let engine = Sqlite::open(Location::File(path.clone()), options).unwrap();
    engine.prepare(&[city(), person.clone()], 0).unwrap();
    let mut session = engine.session().unwrap();
    session.run(Operation::Begin).unwrap();
    session.insert(&person, &person_row("a")).unwrap();
    drop(engine);
    drop(session);
    assert!(!path.with_extension("db-wal").exists());
    assert_eq!(file(&path, &[city(), person.clone()]).session().unwrap().count(&person, None), 0);
}

#[test]
fn threads_insert_and_read_their_own_rows() {
    const EACH: usize = 40;
    let folder = tempfile::tempdir().unwrap();
    let note =
        crate::database::table("note", vec![crate::database::id(), crate::database::text("body")]);
    let engine = file(&folder.path().join("a.db"), std::slice::from_ref(&note));
    let mut ids = std::collections::HashSet::new();
    for threads in [1, 2, 5, 10, 30, 50] {
        let own = |thread: usize| {
            let mut session = engine.session().unwrap();
            let bodies: Vec<String> =
                (0..EACH).map(|row| format!("{threads}/{thread}/{row}")).collect();
            let ids: Vec<i64> = bodies
                .iter()
                .map(|body| {
                    let row = [ValueRef::Absent, ValueRef::Text(body)];
                    match session.insert(&note, &row).unwrap().keys {
                        Keys::One(Value::Int(id)) => id,
                        keys => panic!("the key of a row is {keys:?}"),
                    }
                })
                .collect();
            for (id, body) in ids.iter().zip(&bodies) {
                let read = session.row(&note, ValueRef::Int(*id)).unwrap();
                assert_eq!(read[1], Value::Text(body.as_str().into()));
            }
            ids
        };
        let own = &own;
        let given: Vec<i64> = std::thread::scope(|scope| {
            let running: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || own(thread))).collect();
            running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(given.len(), threads * EACH);
        ids.extend(given);
    }
    assert_eq!(ids.len(), 98 * EACH, "ids all distinct");
}

#[test]
fn a_store_that_waits_for_a_transaction_of_its_own_thread_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("sqlite:{}?busy_timeout_ms=50", folder.path().join("a.db").display());
    for url in [&*file, "sqlite::memory:?busy_timeout_ms=50"] {
        let city = city();
        let engine = Sqlite::from_url(url).unwrap();
        let store = Store::builder(engine).schema(city.schema().clone()).open().unwrap();
        let table = store.table("city").unwrap();
        let row = [ValueRef::Text("a"), ValueRef::Text("b")];
        let insert = |scope: &Store| scope.run(&mut Operation::insert(&table, &row), &mut NoRows);
        let own = store.begin_run().unwrap();
        let told = insert(&store).unwrap_err();
        assert_eq!(told.kind(), ErrorKind::Busy);
        assert!(told.to_string().contains("inside the transaction"), "{told}");
        // Another thread's has to wait as well, and made no such mistake.
        let other = std::thread::scope(|scope| scope.spawn(|| insert(&store)).join().unwrap());
        let other = other.unwrap_err();
        assert!(!other.to_string().contains("inside the transaction"), "{other}");
        insert(&own).unwrap();
        own.rollback().run().unwrap();
        insert(&store).unwrap();
    }
}

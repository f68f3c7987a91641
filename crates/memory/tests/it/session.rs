//! Sessions of the memory engine beside each other: what they see, who waits
//! for whom, and that nothing stays half done.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use marmota_memory::Memory;
use marmota_model::{
    ErrorKind, Field, KeyKind, Kind, NoRows, Result, Role, RowQuery, RowSource, Schema, Table,
    Value, ValueRef,
};
use marmota_store::engine::{self, Engine, Session, Submitted, Ticket};
use marmota_store::operation::{BatchMode, Keys, Operation, Outcome, Write};

fn tables() -> Vec<Arc<Table>> {
    let refers = |table: &'static str| Kind::Reference { table: table.into(), key: KeyKind::Auto };
    let make =
        |name: &'static str, fields| Arc::new(Table::new(Schema::new(name, fields)).unwrap());
    let id = || Field::new("id", Kind::I64).role(Role::Key);
    vec![
        make("owner", vec![id(), Field::new("name", Kind::TEXT).unique(true)]),
        make("pet", vec![id(), Field::new("owner", refers("owner")).nullable(true)]),
        make("node", vec![id(), Field::new("parent", refers("node")).nullable(true)]),
    ]
}

struct Fixture {
    engine: Memory,
    owner: Arc<Table>,
    pet: Arc<Table>,
    node: Arc<Table>,
}

impl Fixture {
    fn new() -> Self {
        let engine = Memory::new();
        let tables = tables();
        engine.prepare(&tables, 1).unwrap();
        let [owner, pet, node] = tables.try_into().unwrap();
        Self { engine, owner, pet, node }
    }

    fn session(&self) -> Box<dyn Session> {
        self.engine.session().unwrap()
    }
}

fn run(session: &mut dyn Session, mut operation: Operation<'_>) -> Result<Outcome> {
    engine::run(session, &mut operation, &mut NoRows)
}

fn insert(session: &mut dyn Session, table: &Table, value: ValueRef<'_>) -> Result<Outcome> {
    run(session, Operation::insert(table, &[ValueRef::Absent, value]))
}

fn count(session: &mut dyn Session, table: &Table) -> u64 {
    run(session, Operation::Count { table, filter: None }).unwrap().rows
}

fn delete(session: &mut dyn Session, table: &Table, key: i64) -> Result<Outcome> {
    run(session, Operation::Delete { table, key: ValueRef::Int(key), version: None })
}

fn waiting(session: &mut dyn Session, mut operation: Operation<'_>) -> Ticket {
    let mut outcome = Outcome::default();
    match session.submit(None, &mut operation, &mut NoRows, &mut outcome).unwrap() {
        Submitted::Waiting(ticket) => ticket,
        Submitted::Done => panic!("it did not wait: {outcome:?}"),
    }
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn what_is_not_committed_is_not_seen() {
    let it = Fixture::new();
    let (mut writer, mut reader) = (it.session(), it.session());
    run(&mut *writer, Operation::Begin).unwrap();
    insert(&mut *writer, &it.owner, ValueRef::Text("Ada")).unwrap();
    assert_eq!(count(&mut *writer, &it.owner), 1);
    // Other tables are free meanwhile, to read and to write.
    insert(&mut *reader, &it.node, ValueRef::Null).unwrap();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let mut operation = Operation::Count { table: &it.owner, filter: None };
    let ticket = waiting(&mut *reader, Operation::Count { table: &it.owner, filter: None });
    let mut outcome = Outcome::default();
    let polled = reader.poll(ticket, &mut operation, &mut NoRows, &mut outcome, &mut context);
    assert!(polled.is_pending());
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    run(&mut *writer, Operation::Rollback).unwrap();
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    let polled = reader.poll(ticket, &mut operation, &mut NoRows, &mut outcome, &mut context);
    assert!(matches!(polled, Poll::Ready(Ok(()))), "{polled:?}");
    assert_eq!(outcome.rows, 0);
}

#[test]
fn one_transaction_is_open_at_a_time() {
    let it = Fixture::new();
    let (mut first, mut second) = (it.session(), it.session());
    run(&mut *first, Operation::Begin).unwrap();
    assert_eq!(run(&mut *first, Operation::Begin).unwrap_err().kind(), ErrorKind::Invalid);
    let ticket = waiting(&mut *second, Operation::Begin);
    second.cancel(ticket);
    let (mut outcome, mut context) = (Outcome::default(), Context::from_waker(Waker::noop()));
    let begin = &mut Operation::Begin;
    let polled = second.poll(ticket, begin, &mut NoRows, &mut outcome, &mut context);
    assert!(matches!(polled, Poll::Ready(Err(error)) if error.kind() == ErrorKind::Bug));
    insert(&mut *first, &it.owner, ValueRef::Text("Ada")).unwrap();
    // A session that is dropped undoes its transaction.
    drop(first);
    run(&mut *second, Operation::Begin).unwrap();
    assert_eq!(count(&mut *second, &it.owner), 0);
    insert(&mut *second, &it.owner, ValueRef::Text("Ada")).unwrap();
    run(&mut *second, Operation::Commit).unwrap();
    assert_eq!(count(&mut *second, &it.owner), 1);
    for operation in [Operation::Commit, Operation::Rollback, Operation::Savepoint(1)] {
        assert_eq!(run(&mut *second, operation).unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[test]
fn a_session_may_wait_for_several() {
    let it = Fixture::new();
    let (mut writer, mut waiter) = (it.session(), it.session());
    run(&mut *writer, Operation::Begin).unwrap();
    insert(&mut *writer, &it.owner, ValueRef::Text("Ada")).unwrap();
    let mut tickets = Vec::new();
    for name in ["a", "b", "c"] {
        let row = [ValueRef::Absent, ValueRef::Text(name)];
        let insert = Operation::insert(&it.owner, &row);
        tickets.push((waiting(&mut *waiter, insert), name));
    }
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let mut poll = |ticket, name| {
        let row = [ValueRef::Absent, ValueRef::Text(name)];
        let mut insert = Operation::insert(&it.owner, &row);
        let mut outcome = Outcome::default();
        waiter
            .poll(ticket, &mut insert, &mut NoRows, &mut outcome, &mut context)
            .map_ok(|()| outcome)
    };
    assert!(tickets.iter().all(|&(ticket, name)| poll(ticket, name).is_pending()));
    run(&mut *writer, Operation::Commit).unwrap();
    assert_eq!(woken.0.load(Ordering::SeqCst), 3);
    for (&(ticket, name), key) in tickets.iter().rev().zip(2..) {
        let Poll::Ready(outcome) = poll(ticket, name) else { panic!("it waits still") };
        assert_eq!(outcome.unwrap().keys, Keys::One(Value::Int(key)));
        // What is done is not done again.
        assert!(matches!(poll(ticket, name), Poll::Ready(Err(_))));
    }
}

#[test]
fn a_thread_waits_for_a_transaction_to_end() {
    let it = Fixture::new();
    let mut writer = it.session();
    run(&mut *writer, Operation::Begin).unwrap();
    insert(&mut *writer, &it.owner, ValueRef::Text("Ada")).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| count(&mut *it.session(), &it.owner));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!reader.is_finished());
        run(&mut *writer, Operation::Commit).unwrap();
        assert_eq!(reader.join().unwrap(), 1);
    });
}

#[test]
fn waiting_ends() {
    let it = Fixture::new();
    let mut holder = it.session();
    run(&mut *holder, Operation::Begin).unwrap();
    let error = run(&mut *it.session(), Operation::Begin).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    // What is closed is saved, and must not be in the middle of something.
    assert_eq!(it.engine.close().unwrap_err().kind(), ErrorKind::Busy);
    run(&mut *holder, Operation::Commit).unwrap();
    it.engine.close().unwrap();
}

#[test]
fn references_are_kept() {
    let it = Fixture::new();
    let mut session = it.session();
    let session = &mut *session;
    let error = insert(session, &it.pet, ValueRef::Int(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let violation = &error.violations()[0];
    assert_eq!((&*violation.field, &*violation.rule), ("owner", "reference"));
    insert(session, &it.owner, ValueRef::Text("Ada")).unwrap();
    insert(session, &it.pet, ValueRef::Int(1)).unwrap();
    let row = [ValueRef::Absent, ValueRef::Int(2)];
    let update =
        Operation::Update { table: &it.pet, key: ValueRef::Int(1), row: &row, version: None };
    assert_eq!(run(session, update).unwrap_err().violations()[0].rule, "reference");
    let error = delete(session, &it.owner, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("still referred to by table `pet`"), "{error}");
    let every = Operation::DeleteWhere { table: &it.owner, filter: None };
    assert_eq!(run(session, every).unwrap_err().kind(), ErrorKind::Conflict);
    delete(session, &it.pet, 1).unwrap();
    delete(session, &it.owner, 1).unwrap();
}

#[test]
fn rows_may_refer_to_their_own_table() {
    let it = Fixture::new();
    let mut session = it.session();
    let session = &mut *session;
    // To itself, whose key is not known before it is there.
    insert(session, &it.node, ValueRef::Int(1)).unwrap();
    assert_eq!(insert(session, &it.node, ValueRef::Int(9)).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(count(session, &it.node), 1);
    insert(session, &it.node, ValueRef::Int(1)).unwrap();
    assert_eq!(delete(session, &it.node, 1).unwrap_err().kind(), ErrorKind::Conflict);
    let every = Operation::DeleteWhere { table: &it.node, filter: None };
    assert_eq!(run(session, every).unwrap().rows, 2);
}

#[test]
fn a_batch_is_whole_or_each_for_itself() {
    let it = Fixture::new();
    let mut session = it.session();
    let write =
        |name: &str| Write::insert(Arc::clone(&it.owner), vec![Value::Absent, Value::from(name)]);
    let writes = [write("a"), write("b"), write("a"), write("c")];
    let mut results = Vec::new();
    let mode = BatchMode::AllOrNothing;
    let batch =
        Operation::Batch { writes: &writes, links: &[], once: None, mode, results: &mut results };
    let error = run(&mut *session, batch).unwrap_err();
    assert_eq!((error.kind(), error.violations().len()), (ErrorKind::Conflict, 1));
    assert_eq!(results.len(), 3);
    assert_eq!(count(&mut *session, &it.owner), 0);
    let batch = Operation::Batch {
        writes: &writes,
        links: &[],
        once: None,
        mode: BatchMode::Each,
        results: &mut results,
    };
    assert_eq!(run(&mut *session, batch).unwrap().rows, 3);
    assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1);
    assert_eq!(results[3].as_ref().unwrap().keys, Keys::One(Value::Int(3)));
    assert_eq!(count(&mut *session, &it.owner), 3);
}

struct Bursting(u64);

impl<'a> RowSource<'a> for Bursting {
    fn remaining(&self) -> usize {
        3
    }

    fn next(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool> {
        self.0 += 1;
        assert!(self.0 < 3, "no more rows");
        row[1] = ValueRef::Text(["a", "b"][self.0 as usize - 1]);
        Ok(true)
    }
}

#[test]
fn a_panic_leaves_nothing_half_done() {
    let it = Fixture::new();
    let mut session = it.session();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let rows = &mut Bursting(0);
        run(&mut *session, Operation::insert_many(&it.owner, rows))
    }));
    assert!(result.is_err());
    assert_eq!(count(&mut *session, &it.owner), 0);
    insert(&mut *session, &it.owner, ValueRef::Text("a")).unwrap();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut sink = |_: &[ValueRef<'_>]| -> ControlFlow<()> { panic!("a bad sink") };
        let query = &RowQuery::new();
        engine::run(&mut *session, &mut Operation::List { table: &it.owner, query }, &mut sink)
    }));
    assert!(result.is_err());
    insert(&mut *it.session(), &it.owner, ValueRef::Text("b")).unwrap();
}

#[test]
fn a_sink_may_break_early() {
    let it = Fixture::new();
    let mut session = it.session();
    for _ in 0..5 {
        insert(&mut *session, &it.node, ValueRef::Null).unwrap();
    }
    let mut seen = 0;
    let mut sink = |_: &[ValueRef<'_>]| {
        seen += 1;
        if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let query = &RowQuery::new();
    let list = &mut Operation::List { table: &it.node, query };
    assert_eq!(engine::run(&mut *session, list, &mut sink).unwrap().rows, 2);
}

#[test]
fn automatic_keys_end() {
    let it = Fixture::new();
    let mut session = it.session();
    let row = [ValueRef::Int(i64::MAX), ValueRef::Null];
    run(&mut *session, Operation::insert(&it.node, &row)).unwrap();
    let error = insert(&mut *session, &it.node, ValueRef::Null).unwrap_err();
    assert!(error.to_string().contains("no automatic key is left"), "{error}");
    delete(&mut *session, &it.node, i64::MAX).unwrap();
    let outcome = insert(&mut *session, &it.node, ValueRef::Null).unwrap();
    assert_eq!(outcome.keys, Keys::One(Value::Int(1)));
}

/// Threads insert the same names, read, and run transactions that are undone:
/// each name is there once, and no reader ever sees what was undone.
#[test]
fn threads_keep_a_unique_index() {
    const NAMES: usize = 400;
    let it = Fixture::new();
    let inserted = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (it, inserted) = (&it, &inserted);
            scope.spawn(move || {
                let mut session = it.session();
                for step in 0..NAMES {
                    let name = format!("name {}", (step * 7 + seed * 131) % NAMES);
                    match insert(&mut *session, &it.owner, ValueRef::Text(&name)) {
                        Ok(_) => drop(inserted.fetch_add(1, Ordering::SeqCst)),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict),
                    }
                }
            });
        }
        scope.spawn(|| {
            let mut session = it.session();
            for round in 0..100 {
                run(&mut *session, Operation::Begin).unwrap();
                for row in 0..3 {
                    let name = format!("undone {round} {row}");
                    insert(&mut *session, &it.owner, ValueRef::Text(&name)).unwrap();
                }
                run(&mut *session, Operation::Rollback).unwrap();
            }
        });
        scope.spawn(|| {
            let mut session = it.session();
            for _ in 0..200 {
                let mut last = 0;
                let mut sink = |row: &[ValueRef<'_>]| {
                    assert!(row[1].as_text().unwrap().starts_with("name "), "{row:?}");
                    assert!(row[0].as_int().unwrap() > last);
                    last = row[0].as_int().unwrap();
                    ControlFlow::Continue(())
                };
                let query = &RowQuery::new();
                let mut list = Operation::List { table: &it.owner, query };
                engine::run(&mut *session, &mut list, &mut sink).unwrap();
            }
        });
    });
    assert_eq!(inserted.load(Ordering::SeqCst), NAMES);
    assert_eq!(count(&mut *it.session(), &it.owner), NAMES as u64);
}

#[test]
fn what_waits_is_woken_at_its_deadline() {
    let it = Fixture::new();
    let (mut writer, mut waiter) = (it.session(), it.session());
    run(&mut *writer, Operation::Begin).unwrap();
    insert(&mut *writer, &it.owner, ValueRef::Text("Ada")).unwrap();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let mut count = Operation::Count { table: &it.owner, filter: None };
    let ticket = waiting(&mut *waiter, Operation::Count { table: &it.owner, filter: None });
    let mut poll =
        || waiter.poll(ticket, &mut count, &mut NoRows, &mut Outcome::default(), &mut context);
    assert!(poll().is_pending());
    // The transaction stays open, so nothing else wakes it.
    let begun = Instant::now();
    while woken.0.load(Ordering::SeqCst) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it was not woken");
        std::thread::sleep(Duration::from_millis(10));
    }
    let Poll::Ready(Err(error)) = poll() else { panic!("it waits still") };
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
}

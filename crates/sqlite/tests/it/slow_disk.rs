//! A disk whose syncs take long: what waits for it, and on which thread.

use std::cell::OnceCell;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use marmota_model::{NoRows, Result, Table, ValueRef};
use marmota_sqlite::disk::Disk;
use marmota_store::engine::{Engine, Session, Submitted};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::sql::SqlCall;

use crate::database::{file, id, table, text};

/// The duration of a sync; a call that takes half of it has waited for one.
const SYNC: Duration = Duration::from_millis(60);

/// Runs an operation as an event loop does. Returns its outcome and its longest call.
fn run(session: &mut dyn Session, mut operation: Operation<'_>) -> (Result<Outcome>, Duration) {
    let mut outcome = Outcome::default();
    let mut context = Context::from_waker(Waker::noop());
    let started = Instant::now();
    let submitted = session.submit(None, &mut operation, &mut NoRows, &mut outcome);
    let mut longest = started.elapsed();
    let ticket = match submitted {
        Err(error) => return (Err(error), longest),
        Ok(Submitted::Done) => return (Ok(outcome), longest),
        Ok(Submitted::Waiting(ticket)) => ticket,
    };
    loop {
        std::thread::sleep(Duration::from_millis(1));
        let started = Instant::now();
        let polled = session.poll(ticket, &mut operation, &mut NoRows, &mut outcome, &mut context);
        longest = longest.max(started.elapsed());
        if let Poll::Ready(result) = polled {
            return (result.map(|()| outcome), longest);
        }
    }
}

fn insert(session: &mut dyn Session, note: &Table) -> (Result<Outcome>, Duration) {
    run(session, Operation::insert(note, &[ValueRef::Absent, ValueRef::Text("a")]))
}

fn update(session: &mut dyn Session) -> (Result<Outcome>, Duration) {
    let columns = OnceCell::new();
    let statement = SqlCall {
        text: "UPDATE note SET body = 'b'",
        values: &[],
        writes: true,
        unaudited: false,
        database: None,
        columns: &columns,
    };
    run(session, Operation::Sql { statement, lender: None })
}

#[test]
fn an_event_loop_does_not_wait_for_a_slow_disk() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::at(folder.path()).unwrap();
    let note = table("note", vec![id(), text("body")]);
    let engine = file(&folder.path().join("a.db"), std::slice::from_ref(&note));
    let mut session = engine.session().unwrap();
    disk.slow_down(SYNC);
    // From this one it knows the disk.
    insert(&mut *session, &note).0.unwrap();
    let mut longest = Vec::new();
    let mut note_call = |what: &str, (outcome, call): (Result<Outcome>, Duration)| {
        longest.push((call, what.to_owned()));
        outcome.unwrap_or_else(|error| panic!("{what}: {error}")).rows
    };
    for _ in 0..3 {
        let syncs = disk.syncs();
        note_call("insert", insert(&mut *session, &note));
        assert_eq!(note_call("SQL", update(&mut *session)), 2);
        let delete = Operation::DeleteWhere { table: &note, filter: None };
        assert_eq!(note_call("delete", run(&mut *session, delete)), 2);
        note_call("begin", run(&mut *session, Operation::Begin));
        note_call("step", insert(&mut *session, &note));
        note_call("commit", run(&mut *session, Operation::Commit));
        assert!(disk.syncs() >= syncs + 4, "a write was not synced");
    }
    let (call, what) = longest.into_iter().max().unwrap();
    assert!(call < SYNC / 2, "{what}: a call took {call:?}");
}

#[test]
fn a_commit_that_is_given_up_leaves_no_lock() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::at(folder.path()).unwrap();
    let note = table("note", vec![id(), text("body")]);
    let engine = file(&folder.path().join("a.db"), std::slice::from_ref(&note));
    let mut session = engine.session().unwrap();
    disk.slow_down(SYNC);
    insert(&mut *session, &note).0.unwrap();
    run(&mut *session, Operation::Begin).0.unwrap();
    insert(&mut *session, &note).0.unwrap();
    let outcome = &mut Outcome::default();
    let submitted = session.submit(None, &mut Operation::Commit, &mut NoRows, outcome).unwrap();
    let Submitted::Waiting(ticket) = submitted else { panic!("a commit that does not wait") };
    session.cancel(ticket);
    // It took place or not, and the next write finds the writer free.
    insert(&mut *session, &note).0.unwrap();
    let rows = run(&mut *session, Operation::Count { table: &note, filter: None }).0.unwrap().rows;
    assert!((2..=3).contains(&rows), "{rows} rows");
}

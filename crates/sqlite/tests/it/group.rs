//! Writes that join a group, as callers see them.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use marmota_model::{ErrorKind, NoRows, ValueRef};
use marmota_sqlite::disk::Disk;
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::engine::{Engine, Session, Submitted, Ticket};
use marmota_store::operation::{Operation, Outcome};

use crate::database::{Calls, file, id, table, text};

fn note() -> Arc<marmota_model::Table> {
    table("note", vec![id(), text("body").unique(true)])
}

fn submit(
    session: &mut Box<dyn Session>,
    table: &marmota_model::Table,
    body: &str,
) -> marmota_model::Result<Ticket> {
    let row = [ValueRef::Absent, ValueRef::Text(body)];
    let mut operation = Operation::insert(table, &row);
    match session.submit(None, &mut operation, &mut NoRows, &mut Outcome::default())? {
        Submitted::Waiting(ticket) => Ok(ticket),
        Submitted::Done => panic!("a durable write that does not wait"),
    }
}

fn poll(
    session: &mut Box<dyn Session>,
    table: &marmota_model::Table,
    ticket: Ticket,
) -> Poll<marmota_model::Result<Outcome>> {
    let mut outcome = Outcome::default();
    let mut context = Context::from_waker(Waker::noop());
    let mut operation = Operation::insert(table, &[]);
    session
        .poll(ticket, &mut operation, &mut NoRows, &mut outcome, &mut context)
        .map(|result| result.map(|()| outcome))
}

fn finish(
    session: &mut Box<dyn Session>,
    table: &marmota_model::Table,
    ticket: Ticket,
) -> marmota_model::Result<Outcome> {
    loop {
        if let Poll::Ready(result) = poll(session, table, ticket) {
            return result;
        }
    }
}

#[test]
fn one_wait_for_the_disk_serves_all_that_are_ready() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, note) = (Disk::at(folder.path()).unwrap(), note());
    let engine =
        file(&folder.path().canonicalize().unwrap().join("a.db"), std::slice::from_ref(&note));
    let mut sessions = [engine.session().unwrap(), engine.session().unwrap()];
    let mut other = engine.session().unwrap();
    let syncs = disk.syncs();
    let tickets: Vec<_> = (0..20)
        .map(|number| {
            // The third and the seventh collide with others of the group.
            let number = if number % 10 == 3 { 0 } else { number };
            submit(&mut sessions[number % 2], &note, &format!("note {number}"))
                .map(|t| (number % 2, t))
        })
        .collect();
    assert_eq!(other.count(&note, None), 0, "nobody sees what is not on the disk");
    let results: Vec<_> = tickets
        .into_iter()
        .map(|ticket| ticket.and_then(|(of, ticket)| finish(&mut sessions[of], &note, ticket)))
        .collect();
    assert_eq!(disk.syncs(), syncs + 1);
    for (number, result) in results.into_iter().enumerate() {
        match result {
            Ok(outcome) => assert_eq!(outcome.rows, 1),
            Err(error) => {
                assert_eq!((number % 10, error.kind()), (3, ErrorKind::Conflict), "{error}");
                assert_eq!(error.violations()[0].field, "body");
            }
        }
    }
    assert_eq!(other.count(&note, None), 18);
}

#[test]
fn a_full_queue_is_busy_and_takes_more_once_it_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let note = note();
    let options = SqliteOptions { writes_waiting_max: 2, ..SqliteOptions::default() };
    let engine = Sqlite::open(Location::File(folder.path().join("a.db")), options).unwrap();
    engine.prepare(std::slice::from_ref(&note), 0).unwrap();
    let (mut holder, mut session) = (engine.session().unwrap(), engine.session().unwrap());
    holder.run(Operation::Begin).unwrap();
    let waiting = ["a", "b"].map(|body| submit(&mut session, &note, body).unwrap());
    let error = submit(&mut session, &note, "c").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains("2 writes already wait"), "{error}");
    holder.run(Operation::Commit).unwrap();
    for ticket in waiting {
        finish(&mut session, &note, ticket).unwrap();
    }
    assert_eq!(session.count(&note, None), 2);
    session.insert(&note, &[ValueRef::Absent, ValueRef::Text("c")]).unwrap();
}

#[test]
fn what_was_given_up_is_committed_or_not_and_keeps_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let note = note();
    let path = folder.path().join("a.db");
    let engine = file(&path, std::slice::from_ref(&note));
    let mut session = engine.session().unwrap();
    let mut other = engine.session().unwrap();
    // Carried out and then dropped, by one that was to lead.
    let first = submit(&mut session, &note, "a").unwrap();
    assert!(poll(&mut session, &note, first).is_pending());
    let second = submit(&mut session, &note, "b").unwrap();
    session.cancel(first);
    finish(&mut session, &note, second).unwrap();
    // The only one, and a session with all that it had.
    let third = submit(&mut session, &note, "c").unwrap();
    session.cancel(third);
    assert_eq!(other.count(&note, None), 3);
    submit(&mut session, &note, "d").unwrap();
    drop(session);
    other.insert(&note, &[ValueRef::Absent, ValueRef::Text("e")]).unwrap();
    assert_eq!(other.count(&note, None), 5);
    // And closing commits what is open.
    submit(&mut other, &note, "f").unwrap();
    engine.close().unwrap();
    drop(other);
    assert_eq!(file(&path, std::slice::from_ref(&note)).session().unwrap().count(&note, None), 6);
}

#[test]
fn a_transaction_ends_the_group_before_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let note = note();
    let engine = file(&folder.path().join("a.db"), std::slice::from_ref(&note));
    let (mut session, mut holder) = (engine.session().unwrap(), engine.session().unwrap());
    let first = submit(&mut session, &note, "a").unwrap();
    holder.run(Operation::Begin).unwrap();
    assert!(matches!(poll(&mut session, &note, first), Poll::Ready(Ok(_))));
    let second = submit(&mut session, &note, "b").unwrap();
    assert!(poll(&mut session, &note, second).is_pending());
    holder.insert(&note, &[ValueRef::Absent, ValueRef::Text("c")]).unwrap();
    holder.run(Operation::Rollback).unwrap();
    finish(&mut session, &note, second).unwrap();
    assert_eq!(session.count(&note, None), 2);
}

#[test]
fn a_trigger_that_undoes_all_keeps_writes_apart() {
    let folder = tempfile::tempdir().unwrap();
    let note = note();
    let engine = file(&folder.path().join("a.db"), std::slice::from_ref(&note));
    engine
        .execute(
            "CREATE TRIGGER no BEFORE INSERT ON note WHEN new.body='no' \
             BEGIN SELECT raise(ROLLBACK, 'no such note'); END",
        )
        .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (engine, note) = (&engine, &note);
            scope.spawn(move || {
                let mut session = engine.session().unwrap();
                for number in 0..20 {
                    let body = format!("{thread} {number}");
                    session.insert(note, &[ValueRef::Absent, ValueRef::Text(&body)]).unwrap();
                    let no = [ValueRef::Absent, ValueRef::Text("no")];
                    session.insert(note, &no).unwrap_err();
                }
            });
        }
    });
    assert_eq!(engine.session().unwrap().count(&note, None), 80);
}

#[test]
fn panics_of_a_member_undo_nobody_elses_write_unheard() {
    struct Panics;
    impl<'a> marmota_model::RowSource<'a> for Panics {
        fn remaining(&self) -> usize {
            1
        }
        fn next(&mut self, _: &mut [ValueRef<'a>]) -> marmota_model::Result<bool> {
            std::panic::resume_unwind(Box::new("on purpose"))
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let note = note();
    let engine = file(&folder.path().join("a.db"), std::slice::from_ref(&note));
    let (mut session, mut other) = (engine.session().unwrap(), engine.session().unwrap());
    let first = submit(&mut session, &note, "a").unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let rows = &mut Panics;
        other.run(Operation::insert_many(&note, rows))
    }));
    assert!(panicked.is_err());
    let told = finish(&mut session, &note, first);
    assert_eq!(told.is_ok(), session.count(&note, None) == 1);
    session.insert(&note, &[ValueRef::Absent, ValueRef::Text("b")]).unwrap();
}

/// Counts down to the last clone of a waker, to see that none is kept.
#[test]
fn no_waker_is_kept_longer_than_its_write() {
    struct Bell;
    impl Wake for Bell {
        fn wake(self: Arc<Self>) {}
    }
    let folder = tempfile::tempdir().unwrap();
    let note = note();
    let engine = file(&folder.path().join("a.db"), std::slice::from_ref(&note));
    let store = marmota_store::Store::builder(engine).schema(note.schema().clone()).open().unwrap();
    let bell = Arc::new(Bell);
    let waker = Waker::from(Arc::clone(&bell));
    for number in 0..50 {
        let mut batch = store.batch();
        let table = store.table("note").unwrap();
        let body = marmota_model::Value::Text(format!("{number}"));
        batch.insert_values(&table, &[marmota_model::Value::Absent, body]);
        let mut action = std::pin::pin!(batch.all_or_nothing());
        let mut context = Context::from_waker(&waker);
        while action.as_mut().poll(&mut context).is_pending() {}
    }
    drop(waker);
    assert_eq!(Arc::strong_count(&bell), 1);
}

//! Transactions and savepoints.

use std::task::{Context, Poll, Waker};

use marmota_model::{ErrorKind, NoRows, Value, ValueRef};
use marmota_store::engine::{Engine, Submitted};
use marmota_store::operation::{Operation, Outcome};

use crate::database::{Calls, YEAR, city, file, memory, person, person_row};

#[test]
fn a_transaction_sees_its_writes_and_others_do_not() {
    let person = person();
    let folder = tempfile::tempdir().unwrap();
    let engine = file(&folder.path().join("a.db"), &[city(), person.clone()]);
    let mut writer = engine.session().unwrap();
    let mut reader = engine.session().unwrap();
    writer.run(Operation::Begin).unwrap();
    writer.insert(&person, &person_row("a")).unwrap();
    assert_eq!(writer.count(&person, None), 1);
    assert_eq!(reader.count(&person, None), 0);
    writer.run(Operation::Commit).unwrap();
    assert_eq!(reader.count(&person, None), 1);

    writer.run(Operation::Begin).unwrap();
    writer.insert(&person, &person_row("b")).unwrap();
    writer.run(Operation::Rollback).unwrap();
    assert_eq!(writer.count(&person, None), 1);
}

#[test]
fn a_session_that_is_dropped_undoes_its_transaction() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    session.run(Operation::Begin).unwrap();
    session.insert(&person, &person_row("a")).unwrap();
    drop(session);
    assert_eq!(engine.session().unwrap().count(&person, None), 0);
}

#[test]
fn savepoints_go_back_and_nest() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    session.run(Operation::Begin).unwrap();
    session.insert(&person, &person_row("a")).unwrap();
    session.run(Operation::Savepoint(1)).unwrap();
    session.insert(&person, &person_row("b")).unwrap();
    session.run(Operation::Savepoint(2)).unwrap();
    session.insert(&person, &person_row("c")).unwrap();
    session.run(Operation::RollbackTo(2)).unwrap();
    session.insert(&person, &person_row("d")).unwrap();
    session.run(Operation::Release(2)).unwrap();
    assert_eq!(session.count(&person, None), 3);
    session.run(Operation::RollbackTo(1)).unwrap();
    session.run(Operation::RollbackTo(1)).unwrap();
    assert_eq!(session.count(&person, None), 1);
    session.run(Operation::Commit).unwrap();
    assert_eq!(session.count(&person, None), 1);
}

#[test]
fn a_failed_write_of_many_undoes_itself_and_not_the_transaction() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    session.run(Operation::Begin).unwrap();
    session.insert(&person, &person_row("a")).unwrap();
    let mut rows: Vec<_> = ["b", "c", "d"].map(person_row).into();
    rows[2][YEAR] = ValueRef::Text("x");
    assert!(session.insert_many(&person, &rows).is_err());
    assert_eq!(session.count(&person, None), 1);
    rows.pop();
    session.insert_many(&person, &rows).unwrap();
    session.run(Operation::Commit).unwrap();
    assert_eq!(session.count(&person, None), 3);
}

#[test]
fn steps_out_of_place_are_refused() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    for step in [
        Operation::Commit,
        Operation::Rollback,
        Operation::Savepoint(1),
        Operation::Release(1),
        Operation::RollbackTo(1),
    ] {
        assert_eq!(session.run(step).unwrap_err().kind(), ErrorKind::Invalid);
    }
    session.run(Operation::Begin).unwrap();
    assert_eq!(session.run(Operation::Begin).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(session.run(Operation::RollbackTo(7)).is_err());
    session.insert(&person, &person_row("a")).unwrap();
    session.run(Operation::Commit).unwrap();
    assert_eq!(session.count(&person, None), 1);
}

#[test]
fn a_transaction_that_sqlite_undid_takes_no_more_writes() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    engine
        .execute(
            "CREATE TRIGGER no_bob BEFORE INSERT ON person WHEN new.name='Bob' \
             BEGIN SELECT RAISE(ROLLBACK, 'no Bob here'); END",
        )
        .unwrap();
    let mut session = engine.session().unwrap();
    session.run(Operation::Begin).unwrap();
    session.insert(&person, &person_row("a")).unwrap();
    let error = session.insert(&person, &person_row("Bob")).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Conflict, "no Bob here"));
    // Outside of the transaction this would be kept.
    let error = session.insert(&person, &person_row("b")).unwrap_err();
    assert!(error.to_string().contains("was rolled back"), "{error}");
    assert!(session.run(Operation::Commit).is_err());
    assert_eq!(session.count(&person, None), 0);
    session.insert(&person, &person_row("c")).unwrap();
}

#[test]
fn a_transaction_makes_others_wait() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut first = engine.session().unwrap();
    let mut second = engine.session().unwrap();
    first.run(Operation::Begin).unwrap();
    let mut begin = Operation::Begin;
    let mut outcome = Outcome::default();
    let Submitted::Waiting(ticket) =
        second.submit(None, &mut begin, &mut NoRows, &mut outcome).unwrap()
    else {
        panic!("two transactions at once");
    };
    first.insert(&person, &person_row("a")).unwrap();
    first.run(Operation::Commit).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let polled = second.poll(ticket, &mut begin, &mut NoRows, &mut outcome, &mut context);
    assert!(matches!(polled, Poll::Ready(Ok(()))));
    assert_eq!(second.row(&person, ValueRef::Int(1)).unwrap()[1], Value::from("a"));
    second.run(Operation::Commit).unwrap();
}

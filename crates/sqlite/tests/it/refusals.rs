//! What SQLite refuses names the field, the value and the rule.

use marmota_model::{ErrorKind, KeyKind, NoRows, Value, ValueRef};
use marmota_store::engine::Engine;
use marmota_store::operation::Operation;

use crate::database::{
    CITY, Calls, Collected, EMAIL, Rows, YEAR, city, id, memory, person, person_row, reference,
    run, table, text, told,
};

#[test]
fn a_value_that_another_row_has() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    let mut row = person_row("a");
    (row[EMAIL], row[YEAR]) = (ValueRef::Text("a@b.c"), ValueRef::Int(1));
    session.insert(&person, &row).unwrap();

    let mut other = person_row("b");
    other[EMAIL] = ValueRef::Text("A@B.C");
    let error = session.insert(&person, &other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(told(&error), [("email", "\"A@B.C\"", "unique")]);

    // Both fields of an index over two.
    let mut other = person_row("a");
    other[YEAR] = ValueRef::Int(1);
    let error = session.insert(&person, &other).unwrap_err();
    assert_eq!(told(&error), [("name", "\"a\"", "unique"), ("year", "1", "unique")]);

    let mut other = person_row("c");
    other[0] = ValueRef::Int(1);
    let error = session.insert(&person, &other).unwrap_err();
    assert_eq!((error.kind(), told(&error)), (ErrorKind::Conflict, vec![("id", "1", "unique")]));

    session.insert(&person, &person_row("d")).unwrap();
    let mut change = vec![ValueRef::Absent; 8];
    change[EMAIL] = ValueRef::Text("a@b.c");
    let key = ValueRef::Int(2);
    let update = Operation::Update { table: &person, key, row: &change, version: None };
    let error = session.run(update).unwrap_err();
    assert_eq!(told(&error), [("email", "\"a@b.c\"", "unique")]);
}

#[test]
fn a_text_key_that_is_taken() {
    let city = city();
    let engine = memory(std::slice::from_ref(&city));
    let mut session = engine.session().unwrap();
    let row = [ValueRef::Text("PAR"), ValueRef::Text("Paris")];
    session.insert(&city, &row).unwrap();
    let error = session.insert(&city, &row).unwrap_err();
    assert_eq!(
        (error.kind(), told(&error)),
        (ErrorKind::Conflict, vec![("code", "\"PAR\"", "unique")])
    );
}

#[test]
fn the_row_at_fault_among_many() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    let names: Vec<String> = (0..700).map(|number| format!("n{number}")).collect();
    let emails: Vec<String> = (0..700).map(|number| format!("{}@x", number % 650)).collect();
    let rows: Vec<_> = names
        .iter()
        .zip(&emails)
        .map(|(name, email)| {
            let mut row = person_row(name);
            row[EMAIL] = ValueRef::Text(email);
            row
        })
        .collect();
    let error = session.insert_many(&person, &rows).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(told(&error), [("email", "\"0@x\"", "unique")]);
    assert!(error.to_string().starts_with("row 650: "), "{error}");
    assert_eq!(session.count(&person, None), 0);
}

#[test]
fn a_null_where_none_may_be() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    let mut row = person_row("a");
    row[1] = ValueRef::Null;
    let error = session.insert(&person, &row).unwrap_err();
    assert_eq!(
        (error.kind(), told(&error)),
        (ErrorKind::Invalid, vec![("name", "null", "required")])
    );
    row[1] = ValueRef::Absent;
    let error = session.insert(&person, &row).unwrap_err();
    assert_eq!(told(&error), [("name", "null", "required")]);
}

#[test]
fn a_value_of_another_type() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    let mut row = person_row("a");
    row[YEAR] = ValueRef::Text("long ago");
    let error = session.insert(&person, &row).unwrap_err();
    assert_eq!(
        (error.kind(), told(&error)),
        (ErrorKind::Invalid, vec![("year", "\"long ago\"", "type")])
    );
}

#[test]
fn a_reference_without_a_target() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    let mut row = person_row("a");
    row[CITY] = ValueRef::Text("PAR");
    let expected = vec![("city", "\"PAR\"", "reference")];
    let error = session.insert(&person, &row).unwrap_err();
    assert_eq!((error.kind(), told(&error)), (ErrorKind::Invalid, expected.clone()));
    let error = session.insert_many(&person, &[person_row("b"), row.clone()]).unwrap_err();
    assert_eq!(told(&error), expected);
    assert!(error.to_string().starts_with("row 1: "), "{error}");

    session.insert(&person, &person_row("c")).unwrap();
    let mut change = vec![ValueRef::Absent; 8];
    (change[0], change[CITY]) = (ValueRef::Int(1), ValueRef::Text("PAR"));
    let rows = [change.clone()];
    let error = session
        .run(Operation::UpdateMany { table: &person, rows: &mut Rows::of(&rows) })
        .unwrap_err();
    assert_eq!(told(&error), expected);
    change[0] = ValueRef::Absent;
    let key = ValueRef::Int(1);
    let error = session
        .run(Operation::Update { table: &person, key, row: &change, version: None })
        .unwrap_err();
    assert_eq!(told(&error), expected);
}

#[test]
fn a_row_that_is_still_referred_to() {
    let (city, person) = (city(), person());
    let engine = memory(&[city.clone(), person.clone()]);
    let mut session = engine.session().unwrap();
    session.insert(&city, &[ValueRef::Text("PAR"), ValueRef::Text("Paris")]).unwrap();
    let mut row = person_row("a");
    row[CITY] = ValueRef::Text("PAR");
    session.insert(&person, &row).unwrap();
    let key = ValueRef::Text("PAR");
    let error = session.run(Operation::Delete { table: &city, key, version: None }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(
        error.to_string(),
        "the city \"PAR\" is still referred to by `city` of `person`: first delete or change the \
         rows that refer to it"
    );
    let error = session.run(Operation::DeleteWhere { table: &city, filter: None }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    session.run(Operation::DeleteWhere { table: &person, filter: None }).unwrap();
    session.run(Operation::DeleteWhere { table: &city, filter: None }).unwrap();
}

#[test]
fn rows_that_refer_to_each_other_go_together() {
    let node = table("node", vec![id(), reference("parent", "node", KeyKind::Auto).nullable(true)]);
    let engine = memory(std::slice::from_ref(&node));
    let mut session = engine.session().unwrap();
    session.insert(&node, &[ValueRef::Absent, ValueRef::Null]).unwrap();
    session.insert(&node, &[ValueRef::Absent, ValueRef::Int(1)]).unwrap();
    let deleted = session.run(Operation::DeleteWhere { table: &node, filter: None }).unwrap();
    assert_eq!(deleted.rows, 2);
}

#[test]
fn a_value_that_is_too_big() {
    let notes = table("note", vec![id(), text("body")]);
    let engine = memory(std::slice::from_ref(&notes));
    let mut session = engine.session().unwrap();
    let body = "x".repeat(1_000_000_001);
    let error = session.insert(&notes, &[ValueRef::Absent, ValueRef::Text(&body)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(session.count(&notes, None), 0);
}

#[test]
fn a_stored_value_that_is_none_of_the_field() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    crate::database::file(&path, &[])
        .execute(
            "CREATE TABLE note(id INTEGER PRIMARY KEY, body TEXT NOT NULL); \
         INSERT INTO note VALUES(1, CAST(x'ff' AS TEXT)), (2, x'00'), (3, 'good')",
        )
        .unwrap();
    let notes = table("note", vec![id(), text("body")]);
    let engine = crate::database::file(&path, std::slice::from_ref(&notes));
    let mut session = engine.session().unwrap();
    for (key, part) in [(1, "not UTF-8"), (2, "1 bytes")] {
        let key = ValueRef::Int(key);
        let mut get = Operation::Get { table: &notes, key, fields: notes.all() };
        let error = run(&mut *session, &mut get, &mut NoRows).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Engine);
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.to_string().contains("field `body` of `note`"), "{error}");
    }
    let mut rows = Collected::default();
    let mut get = Operation::Get { table: &notes, key: ValueRef::Int(3), fields: notes.all() };
    run(&mut *session, &mut get, &mut rows).unwrap();
    assert_eq!(rows.0[0][1], Value::from("good"));
}

#[test]
fn a_table_that_was_not_prepared() {
    let engine = memory(&[city()]);
    let mut session = engine.session().unwrap();
    let error = session.insert(&person(), &person_row("a")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("`person` is not prepared"), "{error}");
}

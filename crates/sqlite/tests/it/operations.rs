//! Each operation does what its documentation says.

use std::ops::ControlFlow;

use marmota_model::{
    Currency, Date, ErrorKind, NoRows, RowQuery, Time, Timestamp, Uuid, Value, ValueRef,
};
use marmota_store::engine::Engine;
use marmota_store::operation::{BatchMode, Keys, Operation, Write};

use crate::database::{
    BALANCE, CITY, Calls, Collected, Rows, UPDATED, VERSION, YEAR, city, every_kind, fields,
    memory, person, person_row, run,
};

#[test]
fn every_kind_of_value_comes_back() {
    let thing = every_kind();
    let engine = memory(std::slice::from_ref(&thing));
    let mut session = engine.session().unwrap();
    let key = Uuid::from_u128(7);
    let rows = [
        vec![
            ValueRef::Uuid(key),
            ValueRef::Bool(true),
            ValueRef::Int(i64::MIN),
            ValueRef::Float(-0.1),
            ValueRef::Currency(Currency::from_scaled(i64::MAX)),
            ValueRef::Text("naïve ☃ \u{10ffff}"),
            ValueRef::Blob(&[0, 255, 7]),
            ValueRef::Json("{\"a\":[1]}"),
            ValueRef::Date(Date::from_days(-719_162).unwrap()),
            ValueRef::Time(Time::from_micros(86_399_999_999).unwrap()),
            ValueRef::Timestamp(Timestamp::from_micros(-1).unwrap()),
            ValueRef::Uuid(Uuid::from_u128(u128::MAX)),
            ValueRef::Text("green"),
            ValueRef::Int(2),
        ],
        [vec![ValueRef::Uuid(Uuid::from_u128(8))], vec![ValueRef::Null; 13]].concat(),
        [
            vec![ValueRef::Uuid(Uuid::from_u128(9))],
            vec![ValueRef::Null; 4],
            vec![ValueRef::Text(""), ValueRef::Blob(&[])],
            vec![ValueRef::Null; 7],
        ]
        .concat(),
    ];
    for row in &rows {
        let outcome = session.insert(&thing, row).unwrap();
        assert_eq!((outcome.rows, outcome.keys), (1, Keys::Known));
        let expected: Vec<Value> = row.iter().map(ValueRef::to_value).collect();
        assert_eq!(session.row(&thing, row[0]).unwrap(), expected);
    }
    assert_eq!(session.row(&thing, ValueRef::Uuid(Uuid::nil())), None);
}

#[test]
fn fields_that_were_not_asked_for_are_absent() {
    let thing = every_kind();
    let engine = memory(std::slice::from_ref(&thing));
    let mut session = engine.session().unwrap();
    let key = ValueRef::Uuid(Uuid::from_u128(1));
    let mut row = vec![ValueRef::Null; 14];
    (row[0], row[2], row[6]) = (key, ValueRef::Int(5), ValueRef::Blob(b"photo"));
    session.insert(&thing, &row).unwrap();

    let mut got = Collected::default();
    let mut get = Operation::Get { table: &thing, key, fields: fields(&[2]) };
    run(&mut *session, &mut get, &mut got).unwrap();
    let expected: Vec<Value> =
        (0..14).map(|at| if at == 2 { Value::Int(5) } else { Value::Absent }).collect();
    assert_eq!(got.0, [expected]);

    let listed = session.rows(&thing, &RowQuery::new());
    assert_eq!(listed[0][6], Value::Absent, "blobs are left out");
    let query = RowQuery { fields: Some(thing.all()), ..RowQuery::new() };
    assert_eq!(session.rows(&thing, &query)[0][6], Value::Blob(b"photo".to_vec()));
}

#[test]
fn ids_count_up_and_deleted_ones_at_the_end_come_again() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    for (name, id) in [("a", 1), ("b", 2)] {
        let outcome = session.insert(&person, &person_row(name)).unwrap();
        assert_eq!(outcome.keys, Keys::One(Value::Int(id)));
        assert_eq!(outcome.version, Some(1));
    }
    let mut row = person_row("c");
    row[0] = ValueRef::Int(100);
    assert_eq!(session.insert(&person, &row).unwrap().keys, Keys::Known);
    let keys = |outcome: marmota_store::operation::Outcome| outcome.keys;
    let next = keys(session.insert(&person, &person_row("d")).unwrap());
    assert_eq!(next, Keys::One(Value::Int(101)));
    let key = ValueRef::Int(101);
    session.run(Operation::Delete { table: &person, key, version: None }).unwrap();
    let again = keys(session.insert(&person, &person_row("e")).unwrap());
    assert_eq!(again, Keys::One(Value::Int(101)));
}

#[test]
fn absent_fields_get_the_columns_default() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    let mut row = person_row("a");
    (row[BALANCE], row[YEAR]) = (ValueRef::Absent, ValueRef::Absent);
    session.insert(&person, &row).unwrap();
    let stored = session.row(&person, ValueRef::Int(1)).unwrap();
    assert_eq!(stored[BALANCE], Value::Currency(Currency::from_scaled(0)));
    assert_eq!(stored[YEAR], Value::Null);
}

#[test]
fn many_rows_keep_their_order_whatever_their_number() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    let names: Vec<String> = (0..1_000).map(|number| format!("n{number}")).collect();
    let (mut first, mut total) = (1, 0);
    for count in [1_usize, 7, 8, 9, 63, 256, 257, 600] {
        let rows: Vec<_> = names[..count]
            .iter()
            .map(|name| {
                let mut row = person_row(name);
                row[YEAR] = ValueRef::Int(count as i64);
                row
            })
            .collect();
        let outcome = session.insert_many(&person, &rows).unwrap();
        assert_eq!(outcome.rows, count as u64);
        assert_eq!(outcome.keys, Keys::Range { first });
        (first, total) = (first + count as i64, total + count as u64);
    }
    assert_eq!(session.count(&person, None), total);
    let listed = session.rows(&person, &RowQuery::new());
    let last: Vec<&Value> = listed[listed.len() - 600..].iter().map(|row| &row[1]).collect();
    assert!(last.iter().zip(&names).all(|(value, name)| **value == Value::from(name.as_str())));
    assert_eq!(session.insert_many(&person, &[]).unwrap().rows, 0);
}

#[test]
fn many_rows_may_differ_in_the_fields_they_have() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    let mut rows: Vec<_> = ["a", "b", "c", "d"].map(person_row).into();
    rows[1][YEAR] = ValueRef::Absent;
    rows[2][YEAR] = ValueRef::Absent;
    let outcome = session.insert_many(&person, &rows).unwrap();
    assert_eq!((outcome.rows, outcome.keys), (4, Keys::Range { first: 1 }));
    let listed = session.rows(&person, &RowQuery::new());
    let names: Vec<_> = listed.iter().map(|row| row[1].as_ref().as_text().unwrap()).collect();
    assert_eq!(names, ["a", "b", "c", "d"]);

    rows[3][0] = ValueRef::Int(50);
    let error = session.insert_many(&person, &rows).unwrap_err();
    assert!(error.to_string().contains("row 3"), "{error}");
    assert_eq!(session.count(&person, None), 4);
}

#[test]
fn a_source_that_fails_leaves_nothing() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    let names: Vec<String> = (0..600).map(|number| format!("n{number}")).collect();
    let rows: Vec<_> = names.iter().map(|name| person_row(name)).collect();
    let mut source = Rows::of(&rows);
    source.fails_at = 500;
    let operation = Operation::insert_many(&person, &mut source);
    assert_eq!(session.run(operation).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(session.count(&person, None), 0);
    session.insert_many(&person, &rows).unwrap();
}

#[test]
fn an_update_writes_what_is_there_and_counts_the_version() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    session.insert(&person, &person_row("a")).unwrap();
    let key = ValueRef::Int(1);
    let mut row = vec![ValueRef::Absent; 8];
    row[YEAR] = ValueRef::Int(1815);
    let update = |row, version| Operation::Update { table: &person, key, row, version };
    assert_eq!(session.run(update(&row, None)).unwrap().version, Some(2));
    assert_eq!(session.run(update(&row, Some(2))).unwrap().version, Some(3));
    let error = session.run(update(&row, Some(2))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stale);
    assert_eq!(error.to_string(), "the person with id 1 has version 3, not 2: read it again");
    // Nothing but the version.
    let none = vec![ValueRef::Absent; 8];
    assert_eq!(session.run(update(&none, None)).unwrap().version, Some(4));
    let stored = session.row(&person, key).unwrap();
    assert_eq!((&stored[1], &stored[YEAR]), (&Value::from("a"), &Value::Int(1815)));

    for version in [None, Some(1)] {
        let key = ValueRef::Int(9);
        let operation = Operation::Update { table: &person, key, row: &row, version };
        let error = session.run(operation).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.to_string(), "no person with id 9");
    }
}

#[test]
fn an_update_of_a_table_without_version_has_none() {
    let city = city();
    let engine = memory(std::slice::from_ref(&city));
    let mut session = engine.session().unwrap();
    session.insert(&city, &[ValueRef::Text("BRG"), ValueRef::Text("Bruges")]).unwrap();
    let key = ValueRef::Text("BRG");
    let row = [ValueRef::Absent, ValueRef::Text("Brugge")];
    let outcome =
        session.run(Operation::Update { table: &city, key, row: &row, version: None }).unwrap();
    assert_eq!((outcome.rows, outcome.version), (1, None));
    let none = [ValueRef::Absent, ValueRef::Absent];
    session.run(Operation::Update { table: &city, key, row: &none, version: None }).unwrap();
    let key = ValueRef::Text("XXX");
    let update = Operation::Update { table: &city, key, row: &none, version: None };
    assert_eq!(session.run(update).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn many_updates_are_all_or_none() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    for name in ["a", "b", "c"] {
        session.insert(&person, &person_row(name)).unwrap();
    }
    let row = |id, year| {
        let mut row = vec![ValueRef::Absent; 8];
        (row[0], row[YEAR]) = (ValueRef::Int(id), ValueRef::Int(year));
        row
    };
    let mut rows = vec![row(1, 10), row(2, 20), row(9, 90)];
    let error = session
        .run(Operation::UpdateMany { table: &person, rows: &mut Rows::of(&rows) })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.to_string(), "row 2: no person with id 9");
    assert_eq!(session.row(&person, ValueRef::Int(1)).unwrap()[YEAR], Value::Null);

    rows.pop();
    let done =
        session.run(Operation::UpdateMany { table: &person, rows: &mut Rows::of(&rows) }).unwrap();
    assert_eq!(done.rows, 2);
    let stored = session.row(&person, ValueRef::Int(2)).unwrap();
    assert_eq!((&stored[YEAR], &stored[VERSION]), (&Value::Int(20), &Value::Int(2)));
}

#[test]
fn an_increment_gives_the_sum_and_keeps_to_the_range() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    let mut row = person_row("a");
    row[YEAR] = ValueRef::Int(32_000);
    session.insert(&person, &row).unwrap();
    let key = ValueRef::Int(1);
    let stamp = ValueRef::Timestamp(Timestamp::from_micros(77).unwrap());
    let add = |field, by| Operation::Increment { table: &person, key, field, by, stamp };
    let outcome = session.run(add(YEAR, ValueRef::Int(767))).unwrap();
    assert_eq!((outcome.value, outcome.version), (Value::Int(32_767), Some(2)));
    for by in [1, i64::MAX, i64::MIN] {
        let error = session.run(add(YEAR, ValueRef::Int(by))).unwrap_err();
        assert_eq!(crate::database::told(&error), [("year", "32767", "range")], "{by}");
    }
    let amount = |scaled| ValueRef::Currency(Currency::from_scaled(scaled));
    let outcome = session.run(add(BALANCE, amount(i64::MAX))).unwrap();
    assert_eq!(outcome.value, amount(i64::MAX).to_value());
    assert!(session.run(add(BALANCE, amount(1))).is_err());
    let outcome = session.run(add(BALANCE, amount(i64::MIN))).unwrap();
    assert_eq!(outcome.value, amount(-1).to_value());
    assert!(session.run(add(BALANCE, amount(i64::MIN))).is_err());
    let stored = session.row(&person, key).unwrap();
    assert_eq!((&stored[UPDATED], &stored[VERSION]), (&stamp.to_value(), &Value::Int(4)));

    let nobody = ValueRef::Int(2);
    let by = ValueRef::Int(1);
    let error = session
        .run(Operation::Increment { table: &person, key: nobody, field: YEAR, by, stamp })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    session.insert(&person, &person_row("b")).unwrap();
    let error = session
        .run(Operation::Increment { table: &person, key: nobody, field: YEAR, by, stamp })
        .unwrap_err();
    assert_eq!(crate::database::told(&error), [("year", "null", "required")]);
    let error = session.run(add(1, by)).unwrap_err();
    assert_eq!(crate::database::told(&error)[0].2, "type");
}

#[test]
fn deletes_are_by_key_and_by_filter() {
    let person = person();
    let engine = memory(&[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    for name in ["a", "b", "c", "d"] {
        session.insert(&person, &person_row(name)).unwrap();
    }
    let delete =
        |id, version| Operation::Delete { table: &person, key: ValueRef::Int(id), version };
    assert_eq!(session.run(delete(1, Some(2))).unwrap_err().kind(), ErrorKind::Stale);
    assert_eq!(session.run(delete(1, Some(1))).unwrap().rows, 1);
    assert_eq!(session.run(delete(1, Some(1))).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(session.run(delete(1, None)).unwrap_err().kind(), ErrorKind::NotFound);
    let filter = marmota_model::parse_filter(&person, "name >= \"c\"").unwrap();
    let filter = filter.into_expr_for(&person).unwrap();
    let some = Operation::DeleteWhere { table: &person, filter: Some(&filter) };
    assert_eq!(session.run(some).unwrap().rows, 2);
    let all = Operation::DeleteWhere { table: &person, filter: None };
    assert_eq!(session.run(all).unwrap().rows, 1);
    assert_eq!(session.count(&person, None), 0);
}

#[test]
fn a_sink_ends_a_list_early_and_the_statement_is_free_again() {
    let person = person();
    let folder = tempfile::tempdir().unwrap();
    let engine = crate::database::file(&folder.path().join("a.db"), &[city(), person.clone()]);
    let mut session = engine.session().unwrap();
    for name in ["a", "b", "c"] {
        session.insert(&person, &person_row(name)).unwrap();
    }
    for _ in 0..3 {
        let mut seen = 0;
        let mut sink = |_: &[ValueRef<'_>]| {
            seen += 1;
            ControlFlow::Break(())
        };
        let query = RowQuery::new();
        let mut list = Operation::List { table: &person, query: &query };
        assert_eq!(run(&mut *session, &mut list, &mut sink).unwrap().rows, 1);
        assert_eq!(seen, 1);
    }
    // A read that stayed open would keep its old snapshot.
    session.insert(&person, &person_row("d")).unwrap();
    assert_eq!(session.count(&person, None), 4);
}

#[test]
fn a_batch_is_all_or_nothing() {
    let (city, person) = (city(), person());
    let engine = memory(&[city.clone(), person.clone()]);
    let mut session = engine.session().unwrap();
    let insert = |name: &str| {
        Write::insert(person.clone(), person_row(name).iter().map(ValueRef::to_value).collect())
    };
    let town = Write::insert(city.clone(), vec![Value::from("PAR"), Value::from("Paris")]);
    let mut move_there = vec![Value::Absent; 8];
    move_there[CITY] = Value::from("PAR");
    let update = Write::Update {
        table: person.clone(),
        key: Value::Int(1),
        row: move_there,
        version: Some(1),
    };
    let delete = Write::Delete { table: person.clone(), key: Value::Int(9), version: None };
    let mut results = Vec::new();
    let writes = [insert("a"), town, update, delete, insert("b")];
    let mut batch = Operation::Batch {
        writes: &writes,
        links: &[],
        once: None,
        mode: BatchMode::AllOrNothing,
        results: &mut results,
    };
    let error = run(&mut *session, &mut batch, &mut NoRows).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(results.len(), 4);
    assert_eq!(session.count(&person, None) + session.count(&city, None), 0);

    let mut batch = Operation::Batch {
        writes: &writes,
        links: &[],
        once: None,
        mode: BatchMode::Each,
        results: &mut results,
    };
    assert_eq!(run(&mut *session, &mut batch, &mut NoRows).unwrap().rows, 4);
    let done: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(done, [true, true, true, false, true]);
    assert_eq!(results[0].as_ref().unwrap().keys, Keys::One(Value::Int(1)));
    assert_eq!(results[2].as_ref().unwrap().version, Some(2));
    assert_eq!(session.count(&person, None), 2);
}

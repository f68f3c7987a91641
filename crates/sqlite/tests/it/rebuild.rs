//! Columns that become others: the table is made anew, and all else stays.

use std::sync::Arc;

use marmota_model::{Collation, ErrorKind, Field, KeyKind, Kind, Table, Value, ValueRef};
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::engine::Engine;
use marmota_store::plan::{Destructive, StepEffect};

use crate::database::{Calls, id, reference, table};

fn engine(sql: &str) -> Sqlite {
    let engine = Sqlite::open(Location::Memory, SqliteOptions::default()).unwrap();
    engine.execute(sql).unwrap();
    engine
}

fn allowed() -> Destructive {
    Destructive { needed: true, ..Destructive::default() }
}

fn nocase(name: &'static str) -> Field {
    Field::new(name, Kind::Text { chars_max: 0, collation: Collation::NoCase })
}

fn migrate(engine: &Sqlite, tables: &[Arc<Table>], destructive: &Destructive) -> Vec<String> {
    let plan = engine.migrate(tables, 0, destructive).unwrap();
    assert_eq!(engine.plan(tables, 0).unwrap().steps, [], "a second plan has nothing left");
    plan.steps.iter().map(ToString::to_string).collect()
}

const NOTES: &str = "CREATE TABLE note(id INTEGER PRIMARY KEY, body TEXT NOT NULL, extra REAL \
                     DEFAULT 1.5) STRICT; INSERT INTO note(body) VALUES ('a'), ('12'), ('-7')";

#[test]
fn values_are_converted_when_told() {
    let engine = engine(NOTES);
    let number =
        |nullable| table("note", vec![id(), Field::new("body", Kind::I64).nullable(nullable)]);
    let error = engine.prepare(&[number(false)], 0).unwrap_err();
    for part in ["`body` of `note`", "1 values cannot be converted", "optional"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let note = number(true);
    let error = engine.prepare(std::slice::from_ref(&note), 0).unwrap_err();
    for part in ["of 3 values, 2 would be converted and 1 would be lost", "--drop note.body"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let done = migrate_keeping_extra(&engine, &note);
    assert!(done.contains(&"change column note.body from is TEXT to INTEGER".to_owned()));
    let mut session = engine.session().unwrap();
    let body = |session: &mut Box<dyn marmota_store::engine::Session>, key| {
        session.row(&note, ValueRef::Int(key)).unwrap()[1].clone()
    };
    assert_eq!(body(&mut session, 1), Value::Null);
    assert_eq!(body(&mut session, 2), Value::Int(12));
    assert_eq!(body(&mut session, 3), Value::Int(-7));
    // The column that the model has not is there, default and all.
    session.insert(&note, &[ValueRef::Absent, ValueRef::Int(1)]).unwrap();
    engine.execute("INSERT INTO note(id, extra) SELECT 100 + id, extra FROM note").unwrap();
}

fn migrate_keeping_extra(engine: &Sqlite, note: &Arc<Table>) -> Vec<String> {
    let plan = engine.migrate(std::slice::from_ref(note), 0, &allowed()).unwrap();
    let left = engine.plan(std::slice::from_ref(note), 0).unwrap();
    assert_eq!(left.steps.len(), 1, "{left:?}");
    assert!(matches!(left.steps[0].effect, StepEffect::Destructive { needed: false, .. }));
    plan.steps.iter().map(ToString::to_string).collect()
}

#[test]
fn triggers_indexes_and_references_stay() {
    let engine = engine(
        "CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT; \
         CREATE TABLE note(id INTEGER PRIMARY KEY, by INTEGER REFERENCES person, up INTEGER) STRICT; \
         CREATE INDEX own ON person(name DESC); CREATE VIEW names AS SELECT name FROM person; \
         CREATE TABLE heard(name TEXT); CREATE TRIGGER hear AFTER INSERT ON person BEGIN \
         INSERT INTO heard VALUES (new.name); END; \
         INSERT INTO person(name) VALUES ('Marie'), ('Pierre'); INSERT INTO note VALUES (1, 2, 1)",
    );
    let person = table("person", vec![id(), nocase("name").unique(true)]);
    let by = || reference("by", "person", KeyKind::Auto).nullable(true);
    let up = reference("up", "note", KeyKind::Auto).nullable(true);
    let note = table("note", vec![id(), by(), up]);
    let done = migrate(&engine, &[person.clone(), note], &Destructive::default());
    assert!(done[0].starts_with("change column person.name from compares"), "{done:?}");
    let mut session = engine.session().unwrap();
    assert!(session.insert(&person, &[ValueRef::Absent, ValueRef::Text("MARIE")]).is_err());
    session.insert(&person, &[ValueRef::Absent, ValueRef::Text("Irène")]).unwrap();
    for (sql, works) in [
        ("INSERT INTO person(id) SELECT 1/(count(*)=1)||'x' FROM heard", false),
        ("CREATE INDEX own ON person(name)", false),
        ("SELECT * FROM names", true),
        ("INSERT INTO note VALUES (2, 9, NULL)", false),
        ("INSERT INTO note VALUES (2, 3, 9)", false),
        ("INSERT INTO note VALUES (2, 3, 1)", true),
        ("CREATE TABLE \"marmota:rebuild\"(a)", true),
    ] {
        assert_eq!(engine.execute(sql).is_ok(), works, "{sql}");
    }
}

#[test]
fn generated_columns_of_a_model_stay() {
    let engine = engine(
        "CREATE TABLE note(id INTEGER PRIMARY KEY, name TEXT NOT NULL, \
         size INTEGER NOT NULL GENERATED ALWAYS AS (length(name)) STORED, \
         twice INTEGER AS (size * 2) VIRTUAL) STRICT; \
         INSERT INTO note(name) VALUES ('Marie')",
    );
    let generated = |name, sql: &'static str| Field::new(name, Kind::I64).generated(sql);
    let fields = |size: &'static str| {
        let twice = generated("twice", "size * 2").nullable(true);
        table("note", vec![id(), nocase("name"), generated("size", size), twice])
    };
    // The table cannot be made again without the expressions.
    let refused = engine.prepare(&[fields("")], 0).unwrap_err();
    assert!(refused.to_string().contains("expressions of its generated columns"), "{refused}");
    migrate(&engine, &[fields("length(name)")], &Destructive::default());
    engine.execute("INSERT INTO note(name) VALUES ('Curies')").unwrap();
    let sql = "CREATE TABLE found AS SELECT 1/(sum(size)=11 AND sum(twice)=22) AS one FROM note; \
               CREATE TABLE checked(one INTEGER NOT NULL); INSERT INTO checked SELECT one FROM found";
    engine.execute(sql).unwrap();
}

#[test]
fn rows_that_refer_to_nothing_keep_the_table_as_it_was() {
    let engine = engine(
        "CREATE TABLE note(id INTEGER PRIMARY KEY, up INTEGER) STRICT; \
         INSERT INTO note VALUES (1, 1), (2, 7)",
    );
    let note = table("note", vec![id(), reference("up", "note", KeyKind::Auto).nullable(true)]);
    let error = engine.prepare(std::slice::from_ref(&note), 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("rows of `note` that do not exist"), "{error}");
    engine.execute("UPDATE note SET up=9 WHERE id=1; UPDATE note SET up=1").unwrap();
    engine.prepare(&[note], 0).unwrap();
    assert!(engine.execute("UPDATE note SET up=9").is_err(), "references are checked again");
}

#[test]
fn a_column_may_be_renamed_and_changed_at_once() {
    let engine = engine(NOTES);
    let body = nocase("text").was("body").unique(true);
    let extra = Field::new("extra", Kind::Float).nullable(true);
    let note = table("note", vec![id(), body, extra]);
    let done = migrate(&engine, std::slice::from_ref(&note), &Destructive::default());
    assert_eq!(done.len(), 3, "{done:?}");
    let mut session = engine.session().unwrap();
    assert_eq!(session.row(&note, ValueRef::Int(1)).unwrap()[1], Value::from("a"));
    let upper = [ValueRef::Absent, ValueRef::Text("A"), ValueRef::Null];
    assert!(session.insert(&note, &upper).is_err(), "unique without regard to case");
}

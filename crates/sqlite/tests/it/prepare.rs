//! What is missing is made, what would lose data is refused.

use std::path::Path;
use std::sync::Arc;

use marmota_model::{
    Collation, ErrorKind, Field, Index, KeyKind, Kind, Literal, Role, Schema, Table, Value,
    ValueRef,
};
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::Store;
use marmota_store::engine::Engine;
use marmota_store::plan::Destructive;

use crate::database::{
    Calls, city, file, id, person, person_row, reference, table, table_with, text,
};

/// A file with what `sql` makes.
fn with(sql: &str) -> (tempfile::TempDir, Sqlite) {
    let folder = tempfile::tempdir().unwrap();
    let engine = file(&folder.path().join("a.db"), &[]);
    engine.execute(sql).unwrap();
    (folder, engine)
}

fn refused(sql: &str, table: &Arc<Table>, part: &str) {
    let (_folder, engine) = with(sql);
    // The first table would be made, were it not for the second.
    let other = self::table("made_first", vec![id()]);
    let error = engine.prepare(&[other, Arc::clone(table)], 3).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains(part), "{error}");
    let made = engine.execute("SELECT * FROM made_first").unwrap_err();
    assert!(made.to_string().contains("no such table"), "nothing was changed");
    engine.prepare(&[], 0).unwrap();
}

#[test]
fn preparing_again_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    for round in 1..=3 {
        let person = person();
        let engine = file(&path, &[city(), person.clone()]);
        let mut session = engine.session().unwrap();
        session.insert(&person, &person_row("a")).unwrap();
        assert_eq!(session.count(&person, None), round);
        engine.close().unwrap();
        assert!(!path.with_extension("db-wal").exists(), "the log is in the file");
    }
}

#[test]
fn columns_and_indexes_that_are_missing_are_added() {
    let (_folder, engine) = with(
        "CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT; \
         INSERT INTO person VALUES (1, 'a'), (2, 'b')",
    );
    let grown = table_with(
        "person",
        vec![
            id(),
            text("name").unique(true),
            text("note").nullable(true),
            text("mood").default(Literal::Text("so 'so'".into())),
            Field::new("rank", Kind::I64).default(Literal::Int(-5)),
            Field::new("made", Kind::Timestamp).role(Role::CreatedAt),
            Field::new("version", Kind::I64).role(Role::Version),
            reference("parent", "person", KeyKind::Auto).nullable(true),
        ],
        vec![Index::new(vec![3, 4])],
    );
    engine.prepare(std::slice::from_ref(&grown), 0).unwrap();
    let mut session = engine.session().unwrap();
    let row = session.row(&grown, ValueRef::Int(1)).unwrap();
    assert_eq!(row[2], Value::Null);
    assert_eq!(row[3], Value::from("so 'so'"));
    assert_eq!((&row[4], &row[6], &row[7]), (&Value::Int(-5), &Value::Int(1), &Value::Null));
    assert!(matches!(row[5], Value::Timestamp(made) if made.micros() > 0));
    let mut row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
    row[0] = ValueRef::Absent;
    let error = session.insert(&grown, &row).unwrap_err();
    assert_eq!(error.violations()[0].field, "name");
    (row[1], row[7]) = (ValueRef::Text("c"), ValueRef::Int(9));
    let error = session.insert(&grown, &row).unwrap_err();
    assert_eq!(error.violations()[0].rule, "reference");
}

#[test]
fn an_index_that_the_model_no_longer_has_refuses_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let strict = table("tag", vec![id(), text("name").unique(true)]);
    let row = [ValueRef::Absent, ValueRef::Text("a")];
    let engine = file(&path, std::slice::from_ref(&strict));
    let mut session = engine.session().unwrap();
    session.insert(&strict, &row).unwrap();
    assert!(session.insert(&strict, &row).is_err());
    drop((session, engine));
    let loose = table("tag", vec![id(), text("name")]);
    let engine = file(&path, std::slice::from_ref(&loose));
    engine.session().unwrap().insert(&loose, &row).unwrap();

    let error = engine.prepare(&[strict], 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(
        error.to_string(),
        "table `tag`: name must be unique, but several rows have \"a\"; change or delete all but \
         one of them"
    );
}

#[test]
fn a_column_may_become_optional_and_required_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let required = || table("note", vec![id(), text("body")]);
    let optional = || table("note", vec![id(), text("body").nullable(true)]);
    drop(file(&path, &[required()]));
    let note = optional();
    let engine = file(&path, std::slice::from_ref(&note));
    engine.session().unwrap().insert(&note, &[ValueRef::Absent, ValueRef::Null]).unwrap();
    let error = engine.prepare(&[required()], 0).unwrap_err();
    assert!(error.to_string().contains("has none in 1 row of the database"), "{error}");
    engine.execute("UPDATE note SET body='x'").unwrap();
    let note = required();
    engine.prepare(std::slice::from_ref(&note), 0).unwrap();
    let mut session = engine.session().unwrap();
    let error = session.insert(&note, &[ValueRef::Absent, ValueRef::Null]).unwrap_err();
    assert_eq!(error.violations()[0].rule, "required");
}

#[test]
fn tables_of_other_programs_are_taken_as_they_are() {
    let (_folder, engine) = with(
        "CREATE TABLE Note(ID INTEGER PRIMARY KEY AUTOINCREMENT, Body VARCHAR(40) NOT NULL UNIQUE, \
         extra DATETIME, counted INT NOT NULL DEFAULT 7); INSERT INTO note(body) VALUES ('a')",
    );
    let note = table("note", vec![id(), text("body").unique(true)]);
    engine.prepare(std::slice::from_ref(&note), 0).unwrap();
    let mut session = engine.session().unwrap();
    assert_eq!(session.row(&note, ValueRef::Int(1)).unwrap()[1], Value::from("a"));
    let error = session.insert(&note, &[ValueRef::Absent, ValueRef::Text("a")]).unwrap_err();
    assert_eq!(error.violations()[0].field, "body");
}

#[test]
fn a_column_of_another_type_is_refused() {
    let sql = "CREATE TABLE note(id INTEGER PRIMARY KEY, body INTEGER NOT NULL)";
    let note = table("note", vec![id(), text("body")]);
    refused(sql, &note, "field `body` of `note`: the column is INTEGER");
    let sql = "CREATE TABLE note(id INTEGER PRIMARY KEY, body DATETIME NOT NULL)";
    let dated = table("note", vec![id(), Field::new("body", Kind::Timestamp)]);
    refused(sql, &dated, "give the field another name");
}

#[test]
fn a_column_that_compares_otherwise_is_refused() {
    let sql = "CREATE TABLE note(id INTEGER PRIMARY KEY, body TEXT NOT NULL)";
    let nocase = Kind::Text { chars_max: 0, collation: Collation::NoCase };
    refused(sql, &table("note", vec![id(), Field::new("body", nocase)]), "NOCASE");
}

#[test]
fn a_key_of_another_kind_is_refused() {
    let model = table("note", vec![id(), text("body").nullable(true)]);
    for sql in [
        "CREATE TABLE note(id TEXT PRIMARY KEY, body TEXT)",
        "CREATE TABLE note(id INT PRIMARY KEY, body TEXT)",
        "CREATE TABLE note(number INTEGER PRIMARY KEY, id INTEGER, body TEXT)",
        "CREATE TABLE note(id INTEGER, body TEXT)",
        "CREATE TABLE note(id INTEGER, body TEXT, PRIMARY KEY(id, body))",
    ] {
        refused(sql, &model, "the key of a table cannot be changed");
    }
    let uuid = table("note", vec![Field::new("id", Kind::Uuid).role(Role::Key)]);
    refused("CREATE TABLE note(id INTEGER PRIMARY KEY)", &uuid, "id BLOB in the model");
}

#[test]
fn a_new_required_field_without_default_is_refused_if_there_are_rows() {
    let sql = "CREATE TABLE note(id INTEGER PRIMARY KEY)";
    let note = table("note", vec![id(), text("body")]);
    let with_rows = format!("{sql}; INSERT INTO note DEFAULT VALUES");
    refused(&with_rows, &note, "give it a default");
    let (_folder, engine) = with(sql);
    engine.prepare(&[note], 0).unwrap();

    let parent = reference("parent", "note", KeyKind::Auto);
    let defaulted = parent.clone().default(Literal::Int(1));
    refused(&with_rows, &table("note", vec![id(), defaulted]), "make it optional");
}

#[test]
fn a_required_column_that_the_model_has_not_is_refused() {
    let sql = "CREATE TABLE note(id INTEGER PRIMARY KEY, extra TEXT NOT NULL)";
    refused(sql, &table("note", vec![id()]), "ALTER TABLE note DROP COLUMN extra");
}

#[test]
fn a_column_that_refers_to_nothing_is_refused_for_a_reference() {
    let sql = "CREATE TABLE note(id INTEGER PRIMARY KEY, parent INTEGER NOT NULL)";
    let note = table("note", vec![id(), reference("parent", "note", KeyKind::Auto)]);
    refused(sql, &note, "does not refer to `note`");
}

#[test]
fn a_view_of_the_name_is_refused() {
    refused("CREATE VIEW note AS SELECT 1 AS id", &table("note", vec![id()]), "view");
}

#[test]
fn a_newer_schema_is_refused() {
    let (folder, engine) = with("SELECT 1");
    engine.prepare(&[city()], 5).unwrap();
    engine.prepare(&[city()], 5).unwrap();
    let error = engine.prepare(&[city()], 3).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let path = folder.path().join("a.db");
    assert_eq!(
        error.to_string(),
        format!(
            "the database {} was written with a newer schema version (5; this program has 3): \
             start the newer program or restore a backup",
            path.display()
        )
    );
    engine.prepare(&[city()], 6).unwrap();
    assert_eq!(engine.prepare(&[], u32::MAX).unwrap_err().kind(), ErrorKind::Invalid);
}

fn open(path: &Path) -> marmota_model::Result<Sqlite> {
    Sqlite::open(Location::File(path.to_owned()), SqliteOptions::default())
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("letter.txt");
    let letter = "Dear Ada, this is not a database. ".repeat(200);
    std::fs::write(&path, &letter).unwrap();
    let error = open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Engine);
    for part in ["letter.txt", "not a SQLite database", "move"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), letter);
}

#[test]
fn texts_of_another_encoding_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    // An empty file takes the encoding of its first table.
    let engine = Sqlite::open(Location::Memory, SqliteOptions::default()).unwrap();
    let file = path.display();
    engine
        .execute(&format!("PRAGMA encoding='UTF-16'; CREATE TABLE a(b); VACUUM INTO '{file}'"))
        .unwrap();
    let error = open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("UTF-16"), "{error}");
}

#[test]
fn a_place_that_cannot_be_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let error = open(&folder.path().join("file/a.db")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("file for ") && error.to_string().contains("not a folder"));
    let error = open(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
}

#[test]
fn a_plan_shows_the_index_of_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let note = |fields: &[&'static str]| {
        let searched = |name| text(name).search(fields.contains(&name));
        table("note", vec![id(), searched("title"), searched("body")])
    };
    let steps = |fields: &[&'static str]| -> Vec<String> {
        let engine = file(&path, &[]);
        let plan = engine.plan(&[note(fields)], 0).unwrap();
        let again = engine.plan(&[note(fields)], 0).unwrap();
        assert_eq!(plan, again, "a plan changes nothing");
        let done = engine.migrate(&[note(fields)], 0, &marmota_store::plan::Destructive::default());
        assert_eq!(done.unwrap(), plan, "what is shown is what is done");
        assert!(engine.plan(&[note(fields)], 0).unwrap().steps.is_empty());
        for step in plan.steps.iter().filter(|step| step.to_string().contains("search")) {
            assert!(!step.statements.is_empty());
        }
        plan.steps.iter().map(ToString::to_string).collect()
    };
    assert_eq!(steps(&["title"]), ["add table note", "add search of note over title"]);
    assert_eq!(steps(&["title", "body"]), ["add search of note over title, body"]);
    assert_eq!(steps(&[]), ["drop search of note"]);
    assert_eq!(steps(&["body"]), ["add search of note over body"]);
}

#[test]
fn a_partial_index_of_another_program_serves() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let fields = || vec![id(), text("name"), text("gone").nullable(true)];
    let plan = |filter: &'static str| {
        let index = Index::unique(vec![1]).filter(filter);
        let engine = file(&path, &[]);
        let plan = engine.plan(&[table_with("tag", fields(), vec![index])], 0).unwrap();
        plan.steps.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let engine = file(&path, &[table("tag", fields())]);
    engine.execute("CREATE UNIQUE INDEX mine ON tag(name) WHERE (gone is null)").unwrap();
    drop(engine);
    assert_eq!(plan("gone = null"), [""; 0]);
    let other = "gone != null";
    assert_eq!(plan(other), ["add unique index of tag over name where gone != null"]);
}

#[test]
fn a_query_uses_a_partial_index_if_it_has_its_condition() {
    let fields = vec![id(), text("name"), text("gone").nullable(true)];
    let schema =
        Schema::new("tag", fields).indexes(vec![Index::unique(vec![1]).filter("gone = null")]);
    let sqlite = Sqlite::open(Location::Memory, SqliteOptions::default()).unwrap();
    let store = Store::builder(sqlite).schema(schema).open().unwrap();
    let uses_index = |condition: &str| {
        let sql = format!("EXPLAIN QUERY PLAN SELECT id FROM tag WHERE {condition}");
        let rows = store.sql(sql).rows().run().unwrap();
        format!("{rows:?}").contains("unique:tag:name:")
    };
    assert!(uses_index("name='a' AND gone IS NULL"));
    assert!(!uses_index("name='a'"));
}

#[test]
fn the_column_of_a_filter_is_dropped_with_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let fields = vec![id(), text("name"), text("gone").nullable(true)];
    let engine = file(
        &path,
        &[table_with("tag", fields, vec![Index::unique(vec![1]).filter("gone = null")])],
    );
    engine.execute("INSERT INTO tag VALUES (1, 'a', NULL), (2, 'a', 'b')").unwrap();
    drop(engine);
    let less = table("tag", vec![id(), text("name")]);
    let all = Destructive { columns: vec!["tag.gone".to_owned()], ..Destructive::default() };
    let engine = file(&path, &[]);
    let plan = engine.migrate(&[less], 0, &all).unwrap();
    assert!(plan.steps.iter().any(|step| step.to_string() == "drop column tag.gone"), "{plan:?}");
    engine.execute("INSERT INTO tag VALUES (3, 'a')").unwrap();
}

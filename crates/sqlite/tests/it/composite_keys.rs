//! Composite keys: the table has a primary key over them, and no column for their text.

use std::sync::Arc;

use marmota_model::{ErrorKind, Field, Kind, Schema, Table};
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::engine::Engine;

fn pair(note: Field) -> Arc<Table> {
    let fields = vec![Field::new("a", Kind::I64), Field::new("b", Kind::TEXT), note];
    Arc::new(Table::new(Schema::new("pair", fields).composite_key("key", vec![1, 0])).unwrap())
}

fn engine(sql: &str) -> Sqlite {
    let engine = Sqlite::open(Location::Memory, SqliteOptions::default()).unwrap();
    engine.execute(sql).unwrap();
    engine
}

#[test]
fn a_new_column_and_another_type_keep_the_key() {
    let engine = engine(
        "CREATE TABLE pair(a INTEGER NOT NULL, b TEXT NOT NULL, note INTEGER NOT NULL, \
         PRIMARY KEY (b, a)) STRICT, WITHOUT ROWID; INSERT INTO pair VALUES (1, 'x', 7)",
    );
    let plan = |note| engine.plan(&[pair(note)], 0).unwrap().steps.len();
    assert_eq!(plan(Field::new("note", Kind::I64)), 0, "it is as the model has it");
    engine.prepare(&[pair(Field::new("note", Kind::TEXT))], 0).unwrap_err();
    let destructive = marmota_store::plan::Destructive { needed: true, ..Default::default() };
    engine.migrate(&[pair(Field::new("note", Kind::TEXT))], 0, &destructive).unwrap();
    assert_eq!(plan(Field::new("note", Kind::TEXT)), 0);
    engine.execute("INSERT INTO pair VALUES (1, 'y', 'text'), (2, 'x', 'text')").unwrap();
    engine.execute("INSERT INTO pair VALUES (1, 'x', 'again')").unwrap_err();
}

#[test]
fn another_key_is_refused_with_its_columns() {
    for key in ["PRIMARY KEY (a, b)", "PRIMARY KEY (a)"] {
        let engine = engine(&format!(
            "CREATE TABLE pair(a INTEGER NOT NULL, b TEXT NOT NULL, note TEXT, {key}) STRICT"
        ));
        let error = engine.prepare(&[pair(Field::new("note", Kind::TEXT))], 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("and b, a in the model"), "{error}");
    }
}

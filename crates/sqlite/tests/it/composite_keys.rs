//! Composite keys: the table has a primary key over them, and no column for their text.

use std::sync::Arc;

use marmota_model::{ErrorKind, Field, KeyKind, Kind, OnDelete, Role, Schema, Table};
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

/// A table whose rows refer to a pair, if it has an action.
fn vote(on_delete: Option<OnDelete>) -> Arc<Table> {
    let to_pair = Kind::Reference { table: "pair".into(), key: KeyKind::Text };
    let mut fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("a", Kind::I64).nullable(true),
    ];
    if let Some(on_delete) = on_delete {
        let to_pair = Field::new("to", to_pair).nullable(true).computed("key(b, a)");
        fields.push(Field::new("b", Kind::TEXT).nullable(true));
        fields.push(to_pair.on_delete(on_delete));
    }
    Arc::new(Table::new(Schema::new("vote", fields)).unwrap())
}

#[test]
fn a_reference_is_a_foreign_key_of_its_fields() {
    let engine = engine(
        "CREATE TABLE pair(a INTEGER NOT NULL, b TEXT NOT NULL, note INTEGER NOT NULL, \
         PRIMARY KEY (b, a)) STRICT, WITHOUT ROWID; INSERT INTO pair VALUES (1, 'x', 7)",
    );
    let tables = |on_delete| [pair(Field::new("note", Kind::I64)), vote(on_delete)];
    let steps = |on_delete| {
        let plan = engine.plan(&tables(on_delete), 0).unwrap();
        plan.steps.iter().map(|step| step.statements.join(";")).collect::<Vec<_>>().join(";")
    };
    engine.prepare(&tables(None), 0).unwrap();
    engine.execute("INSERT INTO vote VALUES (1, 7)").unwrap();
    let restrict = Some(OnDelete::Restrict);
    let key = "FOREIGN KEY (\"b\",\"a\") REFERENCES \"pair\"";
    let sql = steps(restrict);
    assert!(sql.contains(key) && sql.contains("ON \"vote\" (\"b\",\"a\")"), "{sql}");
    engine.prepare(&tables(restrict), 0).unwrap();
    assert_eq!(steps(restrict), "");
    engine.execute("INSERT INTO vote VALUES (2, 2, 'x')").unwrap_err();
    engine.execute("INSERT INTO vote VALUES (3, 1, 'x'), (4, 9, NULL)").unwrap();
    engine.execute("DELETE FROM pair").unwrap_err();
    let cascade = Some(OnDelete::Cascade);
    assert!(steps(cascade).contains(&format!("{key} ON DELETE CASCADE")), "{}", steps(cascade));
    engine.prepare(&tables(cascade), 0).unwrap();
    assert_eq!(steps(cascade), "");
    engine.execute("DELETE FROM pair").unwrap();
    engine.execute("INSERT INTO vote VALUES (3, 9, 'a')").unwrap_err();

    // Without the field, the foreign key goes; the column keeps its values.
    let destructive = marmota_store::plan::Destructive { needed: true, ..Default::default() };
    engine.migrate(&tables(None), 0, &destructive).unwrap();
    assert!(!steps(None).contains("CREATE"), "{}", steps(None));
    engine.execute("INSERT INTO vote VALUES (3, 9, 'a')").unwrap();
}

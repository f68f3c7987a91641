//! Files of the memory engine: every kind of field there and back, and files
//! that are damaged, foreign or of another schema.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use marmota_memory::{FileFormat, Memory};
use marmota_model::{
    Collation, Currency, EnumStored, Error, ErrorKind, Field, KeyKind, Kind, NoRows, Role,
    RowQuery, Schema, Table, Uuid, Value, ValueRef, Variant,
};
use marmota_store::engine::{self, Engine, Session};
use marmota_store::operation::Operation;

use super::model::Source;

fn variants(stored: EnumStored) -> Kind {
    let variant = |name: &'static str, number| Variant { name: name.into(), number };
    Kind::Enum { variants: vec![variant("red", 3), variant("green", -1)].into(), stored }
}

fn every_kind() -> Vec<Field> {
    let optional = |name, kind| Field::new(name, kind).nullable(true);
    vec![
        Field::new("id", Kind::I64).role(Role::Key),
        optional("flag", Kind::Bool),
        optional("small", Kind::Int { min: -128, max: 127 }),
        optional("big", Kind::I64),
        optional("ratio", Kind::Float),
        optional("price", Kind::Currency),
        optional("name", Kind::Text { chars_max: 0, collation: Collation::NoCase }),
        optional("photo", Kind::Blob),
        optional("extra", Kind::Json),
        optional("day", Kind::Date),
        optional("hour", Kind::Time),
        optional("at", Kind::Timestamp),
        optional("tag", Kind::Uuid),
        optional("colour", variants(EnumStored::Text)),
        optional("shade", variants(EnumStored::Integer)),
        optional("parent", Kind::Reference { table: "thing".into(), key: KeyKind::Auto }),
        Field::new("must", Kind::TEXT),
        Field::new("version", Kind::I64).role(Role::Version),
    ]
}

fn table_of(name: &'static str, fields: Vec<Field>) -> Arc<Table> {
    Arc::new(Table::new(Schema::new(name, fields)).unwrap())
}

fn rows() -> Vec<Vec<Value>> {
    let full = |id: i64, name: &str, bytes: Vec<u8>| {
        vec![
            Value::Int(id),
            Value::Bool(id % 2 == 0),
            Value::Int(-128),
            Value::Int(i64::MIN + id),
            Value::Float(-1.0e-300 * id as f64),
            Value::Currency(Currency::from_scaled(i64::MAX - id)),
            Value::Text(name.to_owned()),
            Value::Blob(bytes),
            Value::Json(r#"{"a":[1,null,"é\n"]}"#.to_owned()),
            Value::Date("0001-01-01".parse().unwrap()),
            Value::Time("23:59:59.999999".parse().unwrap()),
            Value::Timestamp("9999-12-31T23:59:59.999999Z".parse().unwrap()),
            Value::Uuid(Uuid::from_u128(u128::MAX - id as u128)),
            Value::from("green"),
            Value::Int(3),
            // A row may refer to one that comes behind it.
            Value::Int(7),
            Value::from("\u{1} \"quoted\" \\ 漢字 \u{10FFFF}"),
            Value::Int(9),
        ]
    };
    let mut empty = vec![Value::Null; every_kind().len()];
    (empty[0], empty[16], empty[17]) = (Value::Int(-3), Value::from(""), Value::Int(1));
    vec![
        empty,
        full(1, "", Vec::new()),
        full(2, &"long ".repeat(2000), vec![0xFF; 100_000]),
        full(7, "x", (0..=255).collect()),
    ]
}

fn run(session: &mut dyn Session, mut operation: Operation<'_>) -> Result<(), Error> {
    engine::run(session, &mut operation, &mut NoRows).map(|_| ())
}

fn all(engine: &Memory, table: &Table) -> Vec<Vec<Value>> {
    let mut query = RowQuery::new();
    query.fields = Some(table.all());
    let mut rows = Vec::new();
    let mut sink = |row: &[ValueRef<'_>]| {
        rows.push(row.iter().map(ValueRef::to_value).collect());
        ControlFlow::Continue(())
    };
    let operation = &mut Operation::List { table, query: &query };
    engine::run(&mut *engine.session().unwrap(), operation, &mut sink).unwrap();
    rows
}

fn filled(table: &Arc<Table>) -> Memory {
    let engine = Memory::new();
    engine.prepare(std::slice::from_ref(table), 3).unwrap();
    let mut session = engine.session().unwrap();
    let rows = rows();
    let rows = &mut Source(rows.iter());
    run(&mut *session, Operation::insert_many(table, rows)).unwrap();
    engine
}

#[test]
fn every_kind_of_field_goes_there_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_of("thing", every_kind());
    let engine = filled(&table);
    for format in [FileFormat::Json, FileFormat::Binary] {
        let path = folder.path().join(format!("{format:?}"));
        engine.save(&path, format).unwrap();
        let loaded = Memory::load(&path).unwrap();
        loaded.prepare(std::slice::from_ref(&table), 3).unwrap();
        assert_eq!(all(&loaded, &table), rows(), "{format:?}");
        // Nothing is left beside it.
        assert!(std::fs::read_dir(path.parent().unwrap()).unwrap().count() <= 2);
    }
}

#[test]
fn many_rows_go_there_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let fields = || vec![Field::new("id", Kind::Uuid).role(Role::Key), Field::new("n", Kind::TEXT)];
    let table = table_of("many", fields());
    let rows: Vec<Vec<Value>> = (0..20_000_u128)
        .map(|number| vec![Value::Uuid(Uuid::from_u128(number)), Value::Text(number.to_string())])
        .collect();
    let engine = Memory::new();
    engine.prepare(std::slice::from_ref(&table), 1).unwrap();
    let source = &mut Source(rows.iter());
    let insert = Operation::insert_many(&table, source);
    run(&mut *engine.session().unwrap(), insert).unwrap();
    for format in [FileFormat::Json, FileFormat::Binary] {
        let path = folder.path().join("file");
        engine.save(&path, format).unwrap();
        let loaded = Memory::load(&path).unwrap();
        loaded.prepare(std::slice::from_ref(&table), 1).unwrap();
        assert_eq!(all(&loaded, &table), rows);
    }
}

#[test]
fn tables_that_no_model_asks_for_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let table = table_of("thing", every_kind());
    let other = table_of("other", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    let engine = filled(&table);
    for (format, not) in
        [(FileFormat::Json, FileFormat::Binary), (FileFormat::Binary, FileFormat::Json)]
    {
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        engine.save(&first, format).unwrap();
        let between = Memory::load(&first).unwrap();
        between.prepare(std::slice::from_ref(&other), 4).unwrap();
        between.save(&second, format).unwrap();
        let error = between.save(&second, not).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("`thing`"), "{error}");
        let loaded = Memory::load(&second).unwrap();
        loaded.prepare(&[Arc::clone(&table), Arc::clone(&other)], 4).unwrap();
        assert_eq!(all(&loaded, &table), rows());
    }
}

fn refusal(path: &Path, bytes: &[u8]) -> Error {
    std::fs::write(path, bytes).unwrap();
    let error = Memory::load(path).err().expect("it is refused");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    error
}

#[test]
fn damaged_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.mem");
    filled(&table_of("thing", every_kind())).save(&path, FileFormat::Binary).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for length in 0..whole.len() {
        refusal(&path, &whole[..length]);
    }
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        refusal(&path, &bytes);
    }
    let mut newer = whole.clone();
    newer[8] = 3;
    assert!(refusal(&path, &newer).to_string().contains("file version 3"));
    let mut longer = whole;
    longer.push(0);
    refusal(&path, &longer);
    for (text, part) in [
        ("SQLite format 3\0", "not a file of the memory engine"),
        ("{", "line 1"),
        (r#"{"format":"other","version":1,"schema":1,"tables":{}}"#, "other"),
        (r#"{"format":"marmota-memory","version":2,"schema":1,"tables":{}}"#, "file version 2"),
        (r#"{"format":"marmota-memory","version":1,"schema":1,"tables":[]}"#, "list of rows"),
        (r#"{"format":"marmota-memory","version":1,"schema":1,"tables":{"a":[],"a":[]}}"#, "twice"),
        (r#"{"format":"marmota-memory","version":1,"schema":1,"tables":{}} x"#, "trailing"),
    ] {
        let error = refusal(&path, text.as_bytes());
        assert!(error.to_string().contains(part), "{error}");
    }
    let missing = Memory::load(folder.path().join("missing")).err().unwrap();
    assert_eq!(missing.kind(), ErrorKind::Io);
    assert!(missing.to_string().contains("missing"));
}

/// A content that was made by hand, with a checksum that is right.
#[test]
fn lengths_that_lie_take_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.mem");
    let mut contents = vec![
        // A table of 65,535 fields; a block of 4 GB; a million tables.
        [&1_u32.to_le_bytes()[..], &1_u32.to_le_bytes(), b"\x01a", &[0xFF, 0xFF]].concat(),
        [&1_u32.to_le_bytes()[..], &1_u32.to_le_bytes(), b"\x01a\x00\x00", &[0xFF; 8]].concat(),
        [&1_u32.to_le_bytes()[..], &1_000_000_u32.to_le_bytes()].concat(),
    ];
    contents.push(contents[2][..3].to_vec());
    for content in contents {
        for length in [content.len() as u64, u64::MAX] {
            let mut file = b"MARMOTA\0\x01\0\0\0".to_vec();
            file.extend(zstd::encode_all(&content[..], 1).unwrap());
            file.extend(length.to_le_bytes());
            file.extend(crc32fast::hash(&file).to_le_bytes());
            refusal(&path, &file);
        }
    }
    // A row whose text is said to be longer than its block.
    let rows = [0, 2, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, b'x'];
    let content = [
        &1_u32.to_le_bytes()[..],
        &1_u32.to_le_bytes(),
        b"\x01a\x02\x00\x02id\x02\x01n\x05",
        &(rows.len() as u32).to_le_bytes(),
        &u32::MAX.to_le_bytes(),
        &rows,
        &[0; 4],
    ]
    .concat();
    let mut file = b"MARMOTA\0\x01\0\0\0".to_vec();
    file.extend(zstd::encode_all(&content[..], 1).unwrap());
    file.extend((content.len() as u64).to_le_bytes());
    file.extend(crc32fast::hash(&file).to_le_bytes());
    std::fs::write(&path, &file).unwrap();
    let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("n", Kind::TEXT)];
    let error = Memory::load(&path).unwrap().prepare(&[table_of("a", fields)], 1).unwrap_err();
    assert!(error.to_string().contains("a row is damaged"), "{error}");
}

#[test]
fn rows_that_do_not_fit_their_model_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.json");
    let fields = || {
        vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("name", Kind::TEXT).unique(true),
            Field::new("boss", Kind::Reference { table: "a".into(), key: KeyKind::Auto })
                .nullable(true),
        ]
    };
    for (rows, part) in [
        (r#"[{"id":1,"name":7}]"#, "row 1 of `a`: field `name` = 7"),
        (r#"[{"id":1,"name":"x"},{"id":1,"name":"y"}]"#, "row 2 of `a`: another row"),
        (r#"[{"id":1,"name":"x"},{"id":2,"name":"x"}]"#, "same name"),
        (r#"[{"id":1,"name":"x","age":3}]"#, "no such field"),
        (r#"[{"id":1}]"#, "field `name` of model `a`: rows in the file have no value"),
        (r#"[{"id":1,"name":null}]"#, "must not be null"),
        (r#"[{"id":1,"name":"x","boss":2}]"#, "must be the key of a row of `a`"),
        (r#"[7]"#, "not a JSON object"),
        (r#"{"id":1}"#, "not a list of rows"),
    ] {
        let text = format!(
            r#"{{"format":"marmota-memory","version":1,"schema":1,"tables":{{"a":{rows}}}}}"#
        );
        std::fs::write(&path, text).unwrap();
        let engine = Memory::load(&path).unwrap();
        let error = engine.prepare(&[table_of("a", fields())], 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_url_with_a_file_loads_and_saves() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.mem");
    let url = format!("memory:{}?format=json", path.display());
    let table = table_of("thing", every_kind());
    // Closed without a look at the file, it leaves it alone.
    Memory::from_url(&url).unwrap().close().unwrap();
    assert!(!path.exists());
    let engine = Memory::from_url(&url).unwrap();
    engine.prepare(std::slice::from_ref(&table), 2).unwrap();
    let mut session = engine.session().unwrap();
    let rows = rows();
    run(&mut *session, Operation::insert_many(&table, &mut Source(rows.iter()))).unwrap();
    engine.close().unwrap();
    engine.close().unwrap();
    let count = Operation::Count { table: &table, filter: None };
    assert_eq!(run(&mut *session, count).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(engine.session().err().unwrap().kind(), ErrorKind::Closed);
    assert_eq!(std::fs::read(&path).unwrap()[0], b'{');
    let again = Memory::from_url(&url).unwrap();
    let error = again.prepare(std::slice::from_ref(&table), 1).unwrap_err();
    assert!(error.to_string().contains("schema version (2;"), "{error}");
    again.prepare(std::slice::from_ref(&table), 2).unwrap();
    assert_eq!(all(&again, &table), rows);
    for url in ["sqlite:x", "memory:?format=json", "memory:x?format=xml", "memory:x?y"] {
        assert_eq!(Memory::from_url(url).err().unwrap().kind(), ErrorKind::Invalid, "{url}");
    }
}

#[test]
fn a_changed_schema_keeps_the_rows_or_is_refused() {
    let id = || Field::new("id", Kind::I64).role(Role::Key);
    let old = table_of("a", vec![id(), Field::new("n", Kind::I64)]);
    let engine = Memory::new();
    engine.prepare(std::slice::from_ref(&old), 1).unwrap();
    let mut session = engine.session().unwrap();
    for n in [5, 5] {
        let row = [ValueRef::Absent, ValueRef::Int(n)];
        run(&mut *session, Operation::insert(&old, &row)).unwrap();
    }
    let changed = |fields: Vec<Field>| engine.prepare(&[table_of("a", fields)], 2);
    for (fields, part) in [
        (vec![id()], "add the field, or drop it"),
        (vec![id(), Field::new("n", Kind::TEXT)], "add a field with another name"),
        (vec![id(), Field::new("n", Kind::I64), Field::new("m", Kind::TEXT)], "give it a default"),
        (vec![id(), Field::new("n", Kind::I64).unique(true)], "same n"),
    ] {
        let error = changed(fields).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(part), "{error}");
    }
    let default = marmota_model::Literal::Text("none".into());
    let new = table_of(
        "a",
        vec![
            Field::new("m", Kind::TEXT).default(default),
            id(),
            Field::new("n", Kind::I64).nullable(true),
            Field::new("o", Kind::Bool).nullable(true),
        ],
    );
    engine.prepare(std::slice::from_ref(&new), 2).unwrap();
    let row = |id| vec![Value::from("none"), Value::Int(id), Value::Int(5), Value::Null];
    assert_eq!(all(&engine, &new), [row(1), row(2)]);
    // The session is not left with the old rows, and the old model is refused.
    run(&mut *session, Operation::Delete { table: &new, key: ValueRef::Int(1), version: None })
        .unwrap();
    assert_eq!(all(&engine, &new), [row(2)]);
    let count = Operation::Count { table: &old, filter: None };
    assert_eq!(run(&mut *session, count).unwrap_err().kind(), ErrorKind::Invalid);
}

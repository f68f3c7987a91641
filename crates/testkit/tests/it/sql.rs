//! SQL of one's own, on the engines that have it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use marmota_derive::Model;
use marmota_memory::Memory;
use marmota_model::{Blob, Currency, Date, ErrorKind, Json, Ref, Timestamp, Uuid, Value};
use marmota_sqlite::Sqlite;
use marmota_store::Store;
use marmota_store::migration::Migration;

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Note {
    id: i64,
    text: String,
    number: Option<i64>,
}

#[derive(Clone, Debug, Model, PartialEq)]
struct Sample {
    id: i64,
    flag: bool,
    amount: Currency,
    day: Date,
    at: Timestamp,
    uuid: Uuid,
    json: Json<Vec<i64>>,
    ratio: f64,
    bytes: Blob,
    missing: Option<Timestamp>,
}

fn notes() -> Store {
    let store = in_memory().model::<Note>().open().unwrap();
    let note = |text: &str, number| Note { id: 0, text: text.to_owned(), number };
    store.insert_many(&[note("a", Some(1)), note("b", None), note("it's", Some(3))]).run().unwrap();
    store
}

fn in_memory() -> marmota_store::StoreBuilder {
    Store::builder(Sqlite::from_url("sqlite::memory:").unwrap())
}

fn in_file(folder: &tempfile::TempDir) -> marmota_store::StoreBuilder {
    let url = format!("sqlite:{}", folder.path().join("a.db").display());
    Store::builder(Sqlite::from_url(&url).unwrap())
}

#[test]
fn rows_have_the_names_of_their_columns() {
    let store = notes();
    let rows = store
        .sql("SELECT text, number * 2 AS twice FROM note WHERE text >= ? ORDER BY id")
        .bind("b")
        .rows()
        .run()
        .unwrap();
    assert_eq!(rows.value(0, "text").unwrap(), Some(&Value::from("b")));
    assert_eq!(rows.rows[1], [Value::from("it's"), Value::Int(6)]);
    assert_eq!(rows.value(0, "twice").unwrap(), Some(&Value::Null));
    assert!(rows.value(0, "number").is_err());
    let none = store.sql("SELECT id FROM note WHERE 0").rows().run().unwrap();
    assert_eq!((none.rows.len(), none.columns.list()[0].name.as_str()), (0, "id"));
}

#[test]
fn rows_can_be_anything() {
    let store = notes();
    let pairs: Vec<(String, Option<i64>)> = store
        .sql("SELECT text, number FROM note ORDER BY id DESC")
        .map(|row| Ok((row.read("text")?, row.read_at(1)?)))
        .run()
        .unwrap();
    assert_eq!(pairs[0], ("it's".to_owned(), Some(3)));
    let models = store.sql("SELECT * FROM note WHERE number = ?1 OR ?1 = 0").bind(3);
    assert_eq!(models.models::<Note>().run().unwrap()[0].text, "it's");
    let sum = store.sql("SELECT sum(number) FROM note").value::<i64>().run().unwrap();
    assert_eq!(sum, Some(4));
    let mut out = b"rows=".to_vec();
    let query = store.sql("SELECT id, text FROM note WHERE number IS NOT NULL ORDER BY id");
    assert_eq!(query.json(&mut out).run().unwrap(), 2);
    assert_eq!(out, br#"rows=[{"id":1,"text":"a"},{"id":3,"text":"it's"}]"#);
    out.clear();
    assert_eq!(store.sql("SELECT 1 AS a WHERE 0").json(&mut out).run().unwrap(), 0);
    assert_eq!(out, b"[]");
}

#[test]
fn columns_of_fields_keep_their_kind() {
    let store = in_memory().model::<Sample>().open().unwrap();
    let sample = Sample {
        id: 1,
        flag: true,
        amount: Currency::from_scaled(12_345),
        day: Date::from_days(20_000).unwrap(),
        at: Timestamp::from_micros(1_700_000_000_000_001).unwrap(),
        uuid: Uuid::from_u128(7),
        json: Json(vec![1, 2]),
        ratio: 2.0,
        bytes: Blob::from(vec![1, 2]),
        missing: None,
    };
    store.insert(&sample).run().unwrap();
    let found = store
        .sql("SELECT * FROM sample WHERE uuid = ? AND amount = ? AND at = ? AND day = ? AND flag")
        .bind(sample.uuid)
        .bind(sample.amount)
        .bind(sample.at)
        .bind(sample.day)
        .models::<Sample>()
        .run()
        .unwrap();
    assert_eq!(found, std::slice::from_ref(&sample));
    let mut out = Vec::new();
    store
        .sql("SELECT s.amount AS a, s.at, max(at) AS m FROM sample s")
        .json(&mut out)
        .run()
        .unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text, r#"[{"a":1.2345,"at":"2023-11-14T22:13:20.000001Z","m":1700000000000001}]"#);
    let latest = store.sql("SELECT max(at) FROM sample").value::<Timestamp>().run().unwrap();
    assert_eq!(latest, Some(sample.at));
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let store = notes();
    for (text, kind, words) in [
        ("SELECT nmae FROM note", ErrorKind::Invalid, "byte 7"),
        ("SELECT * FROM nowhere", ErrorKind::Invalid, "nowhere"),
        ("SELECT 1; SELECT 2", ErrorKind::Invalid, "SELECT 2"),
        ("", ErrorKind::Invalid, "a statement"),
        ("-- nothing", ErrorKind::Invalid, "a statement"),
        ("SELECT ?", ErrorKind::Invalid, "1 parameters, but 0 values"),
        ("SELECT 'a\0b'", ErrorKind::Invalid, "NUL"),
        ("DELETE FROM note", ErrorKind::Denied, "execute"),
        ("WITH a AS (SELECT 1) DELETE FROM note", ErrorKind::Denied, "execute"),
        ("INSERT INTO note(text) VALUES('x') RETURNING id", ErrorKind::Denied, "execute"),
        ("DROP TABLE note", ErrorKind::Denied, "`DROP`"),
        ("PRAGMA query_only=OFF", ErrorKind::Denied, "`PRAGMA`"),
        ("BEGIN", ErrorKind::Denied, "`BEGIN`"),
        ("COMMIT", ErrorKind::Denied, "`COMMIT`"),
        ("ATTACH 'x' AS y", ErrorKind::Denied, "`ATTACH`"),
        ("EXPLAIN DROP TABLE note", ErrorKind::Denied, "`EXPLAIN`"),
    ] {
        let error = store.sql(text).rows().run().unwrap_err();
        assert_eq!(error.kind(), kind, "{text}: {error}");
        assert!(error.message().contains(words), "{text}: {error}");
    }
    assert!(store.sql("EXPLAIN QUERY PLAN SELECT * FROM note").rows().run().is_ok());
    let twice = store.sql("SELECT id, id FROM note").json(&mut Vec::new()).run().unwrap_err();
    assert!(twice.message().contains("AS"), "{twice}");
    let missing = store.sql("SELECT id, text FROM note").models::<Note>().run().unwrap_err();
    assert!(missing.message().contains("`number`"), "{missing}");
    let long = format!("SELECT '{}'", "a".repeat(1 << 20));
    assert_eq!(store.sql(long).rows().run().unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(store.count::<Note>().run().unwrap(), 3);
}

#[test]
fn only_writes_are_executed() {
    let store = notes();
    let changed = store.execute("UPDATE note SET number = ? WHERE id > ?").bind(9).bind(1);
    assert_eq!(changed.run().unwrap(), 2);
    assert_eq!(store.get::<Note>(3).run().unwrap().number, Some(9));
    for text in
        ["SELECT 1", "CREATE TABLE a(b)", "BEGIN IMMEDIATE", "PRAGMA user_version=3", "VACUUM"]
    {
        assert!(store.execute(text).run().is_err(), "{text}");
    }
    // What fails in the middle leaves nothing, whatever it says itself.
    let failing = "INSERT OR FAIL INTO note(id, text) VALUES(10, 'x'), (1, 'taken')";
    let error = store.execute(failing).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(store.count::<Note>().run().unwrap(), 3);
    store
        .transaction(|tx| {
            tx.execute("DELETE FROM note WHERE id = 1").run()?;
            assert!(tx.execute(failing).run().is_ok());
            assert!(tx.execute(failing).run().is_err());
            assert_eq!(tx.sql("SELECT count(*) FROM note").value::<i64>().run()?, Some(4));
            Ok(())
        })
        .unwrap();
    assert_eq!(store.count::<Note>().run().unwrap(), 4);
}

#[test]
fn a_transaction_reads_what_it_has_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = in_file(&folder).model::<Note>().open().unwrap();
    let count = "SELECT count(*) FROM note";
    store
        .transaction(|tx| {
            tx.insert(&Note::default()).run()?;
            assert_eq!(tx.sql(count).value::<i64>().run()?, Some(1));
            assert_eq!(store.sql(count).value::<i64>().run()?, Some(0), "others do not");
            Ok(())
        })
        .unwrap();
    assert_eq!(store.sql(count).value::<i64>().run().unwrap(), Some(1));
}

#[test]
fn a_cache_knows_of_what_was_executed() {
    let folder = tempfile::tempdir().unwrap();
    let store = in_file(&folder).model::<Note>().cache(1 << 20).open().unwrap();
    let id = store.insert(&Note::default()).run().unwrap();
    let version = store.table_version(&store.table("note").unwrap());
    for number in 0..20 {
        assert!(store.get::<Note>(id).run().is_ok());
        store.execute("UPDATE note SET number = ?").bind(number).run().unwrap();
        assert_eq!(store.get::<Note>(id).run().unwrap().number, Some(number.into()));
    }
    assert_ne!(store.table_version(&store.table("note").unwrap()), version);
    store.transaction(|tx| tx.execute("UPDATE note SET number = -1").run().map(drop)).unwrap();
    assert_eq!(store.get::<Note>(id).run().unwrap().number, Some(-1));
}

#[test]
fn threads_execute_beside_grouped_writes() {
    let folder = tempfile::tempdir().unwrap();
    let store = in_file(&folder).model::<Note>().open().unwrap();
    let id = store.insert(&Note { number: Some(0), ..Note::default() }).run().unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|threads| {
        let writers: Vec<_> = (0..4)
            .map(|thread| {
                let store = &store;
                threads.spawn(move || {
                    for _ in 0..50 {
                        if thread % 2 == 0 {
                            let sql = "UPDATE note SET number = number + 1 WHERE id = ?";
                            assert_eq!(store.execute(sql).bind(id).run().unwrap(), 1);
                        } else {
                            store.insert(&Note::default()).run().unwrap();
                        }
                    }
                })
            })
            .collect();
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let sql = "SELECT count(*), max(number) FROM note";
                let rows = store.sql(sql).rows().run().unwrap();
                assert_eq!(rows.rows.len(), 1);
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(store.get::<Note>(id).run().unwrap().number, Some(100));
    assert_eq!(store.count::<Note>().run().unwrap(), 101);
}

#[test]
fn an_engine_without_sql_says_so() {
    let store = Store::builder(Memory::new()).model::<Note>().open().unwrap();
    assert!(!store.capability().sql);
    let error = store.sql("SELECT 1").rows().run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("next to it"), "{error}");
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(audit)]
struct Patient {
    id: i64,
    name: String,
    doctor: Option<Ref<Doctor>>,
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Doctor {
    id: i64,
    name: String,
}

#[test]
fn sql_does_not_pass_by_the_history() {
    let store = in_memory().model::<Doctor>().model::<Patient>().model::<Note>().open().unwrap();
    let patient = Patient { id: 0, name: "Ana".to_owned(), doctor: None };
    store.insert(&patient).run().unwrap();
    for (text, table) in [
        ("UPDATE patient SET name = 'x'", "patient"),
        ("DELETE FROM patient", "patient"),
        ("DELETE FROM patient WHERE id = 7", "patient"),
        ("INSERT INTO patient(name) VALUES('y')", "patient"),
        ("WITH one AS (SELECT 1) DELETE FROM Patient WHERE id IN one", "patient"),
        ("DELETE FROM marmota_history", "marmota_history"),
        ("UPDATE marmota_history SET actor = 'nobody'", "marmota_history"),
    ] {
        let error = store.execute(text).run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{text}: {error}");
        assert!(error.message().contains(&format!("`{table}`")), "{error}");
        assert!(error.message().contains(".unaudited()"), "{error}");
        let inside = store.transaction(|tx| tx.execute(text).run());
        assert_eq!(inside.unwrap_err().kind(), ErrorKind::Denied, "{text}");
    }
    assert_eq!(store.get::<Patient>(1).run().unwrap().name, "Ana");
    // Other tables are written, audited ones read.
    store.execute("INSERT INTO note(text) SELECT name FROM patient").run().unwrap();
    store.execute("INSERT INTO doctor(name) VALUES('z')").run().unwrap();
    store.execute("UPDATE note SET number = (SELECT count(*) FROM patient)").run().unwrap();
    assert_eq!(store.get::<Note>(1).run().unwrap().number, Some(1));
    let told = "UPDATE patient SET name = ?";
    assert_eq!(store.execute(told).bind("Bea").unaudited().run().unwrap(), 1);
    assert_eq!(store.execute(told).bind("Cleo").run().unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(store.history::<Patient>(1).run().unwrap().len(), 1);
    // A migration is nobody's write to a row.
    let folder = tempfile::tempdir().unwrap();
    let open = |migrated: bool| {
        let url = format!("sqlite:{}", folder.path().join("a.db").display());
        let builder = Store::builder(Sqlite::from_url(&url).unwrap());
        let builder = builder.model::<Doctor>().model::<Patient>();
        let renamed = Migration::new(1, "names").up_sql(["UPDATE patient SET name = upper(name)"]);
        if migrated { builder.migration(renamed).open() } else { builder.open() }
    };
    let store = open(false).unwrap();
    store.insert(&patient).run().unwrap();
    store.close().unwrap();
    assert_eq!(open(true).unwrap().get::<Patient>(1).run().unwrap().name, "ANA");
}

//! Migrations on files: several programs at once, columns that the models no
//! longer have, and records that were changed by hand.

use std::path::Path;
use std::sync::Barrier;

use marmota_model::{ErrorKind, Field, Kind, Record, Role, Schema, Value};
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::migration::Migration;
use marmota_store::{Store, StoreBuilder};

fn open(path: &Path) -> Sqlite {
    let options = SqliteOptions { busy_timeout_ms: 60_000, ..SqliteOptions::default() };
    Sqlite::open(Location::File(path.to_owned()), options).unwrap()
}

fn id() -> Field {
    Field::new("id", Kind::I64).role(Role::Key)
}

fn counter(path: &Path) -> StoreBuilder {
    let fields = vec![id(), Field::new("count", Kind::I64)];
    let step = |number| {
        Migration::new(number, format!("step {number}"))
            .up_sql(["UPDATE counter SET count = count + 1"])
            .down_sql(["UPDATE counter SET count = count - 1"])
    };
    let first = Migration::new(1, "first row").up(|transaction| {
        let mut row = Record::new(transaction.table("counter")?);
        row.set("count", 1)?;
        transaction.insert_record(&row).run().map(drop)
    });
    let builder = Store::builder(open(path)).schema(Schema::new("counter", fields));
    (2..=5).map(step).fold(builder.migration(first), StoreBuilder::migration)
}

fn count(store: &Store) -> Value {
    let table = store.table("counter").unwrap();
    store.get_record(&table, 1).run().unwrap().value("count").unwrap().clone()
}

#[test]
fn programs_that_start_at_once_migrate_once() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..8 {
        let path = folder.path().join(format!("{round}.db"));
        let begin = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    begin.wait();
                    let store = counter(&path).open().unwrap();
                    assert_eq!(count(&store), Value::Int(5));
                    store.close().unwrap();
                });
            }
        });
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    begin.wait();
                    counter(&path).migrate_to(1).unwrap();
                });
            }
        });
        let status = counter(&path).migration_status().unwrap();
        let done: Vec<u32> =
            status.iter().filter(|one| one.done.is_some()).map(|one| one.number).collect();
        assert_eq!(done, [1]);
        assert_eq!(count(&counter(&path).open().unwrap()), Value::Int(5));
    }
}

#[test]
fn a_column_that_the_models_no_longer_have_is_read_by_sql() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let text = |name| Field::new(name, Kind::TEXT).nullable(true);
    let before = Schema::new("person", vec![id(), text("name")]);
    let store = Store::builder(open(&path)).schema(before).open().unwrap();
    let mut person = Record::new(store.table("person").unwrap());
    person.set("name", "Marie Curie").unwrap();
    store.insert_record(&person).run().unwrap();
    store.close().unwrap();

    let split = |path: &Path| {
        let split = Migration::new(1, "split names")
            .up_sql([
                "UPDATE person SET first_name = substr(name, 1, instr(name, ' ') - 1)",
                "UPDATE person SET last_name = substr(name, instr(name, ' ') + 1)",
            ])
            .skip_empty();
        let fields = vec![id(), text("first_name"), text("last_name")];
        let builder = Store::builder(open(path)).schema(Schema::new("person", fields));
        builder.migration(split)
    };
    let store = split(&path).open().unwrap();
    let marie = store.get_record(&store.table("person").unwrap(), 1).run().unwrap();
    assert_eq!(marie.values()[1..], [Value::from("Marie"), Value::from("Curie")]);
    split(&folder.path().join("new.db")).open().unwrap();
}

#[test]
fn a_record_that_is_gone_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    counter(&path).open().unwrap().close().unwrap();
    let engine = open(&path);
    engine.execute("DELETE FROM marmota_migration WHERE number = 2").unwrap();
    drop(engine);
    let error = counter(&path).open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("migration 3 `step 3`, but not number 2"), "{error}");
}

/// Versions of a program: names are split by the second, and only the parts are left in the third.
fn version(path: &Path, version: u32) -> StoreBuilder {
    let text = |name| Field::new(name, Kind::TEXT);
    let fields = match version {
        1 => vec![id(), text("name")],
        2 => vec![id(), text("name").nullable(true), text("first_name").nullable(true)],
        _ => vec![id(), text("first_name")],
    };
    let builder = Store::builder(open(path)).schema(Schema::new("person", fields));
    let split = Migration::new(1, "split names")
        .up_sql(["UPDATE person SET first_name = substr(name, 1, instr(name, ' ') - 1)"]);
    let trim =
        Migration::new(2, "trim names").up_sql(["UPDATE person SET first_name = trim(first_name)"]);
    match version {
        1 => builder,
        2 => builder.migration(split),
        _ => builder.migration(split).migration(trim),
    }
}

#[test]
fn a_database_that_skipped_a_version_names_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = version(&path, 1).open().unwrap();
    let mut person = Record::new(store.table("person").unwrap());
    person.set("name", "Marie Curie").unwrap();
    store.insert_record(&person).run().unwrap();
    store.close().unwrap();

    let error = version(&path, 3).open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let message = error.to_string();
    for words in [
        "person",
        "first_name",
        "migration 1 `split names` to migration 2 `trim names` are pending",
        "skipped a version of the program, start that version first",
    ] {
        assert!(message.contains(words), "{words}: {message}");
    }
    // Nothing was changed, and the version between is the way out.
    version(&path, 1).open().unwrap().close().unwrap();
    version(&path, 2).open().unwrap().close().unwrap();
    let store = version(&path, 3).open().unwrap();
    let marie = store.get_record(&store.table("person").unwrap(), 1).run().unwrap();
    assert_eq!(marie.value("first_name").unwrap(), &Value::from("Marie"));
}

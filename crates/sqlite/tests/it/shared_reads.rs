//! Reads by key of one call: one snapshot, which begins after the call and ends with it.

use std::sync::atomic::{AtomicBool, Ordering};

use marmota_model::{Error, Field, Kind, Record, Result, Role, Schema, Value};
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::action::{all, block_on};
use marmota_store::{Durability, Store};

fn store(folder: &tempfile::TempDir) -> Store {
    let path = folder.path().join("shared.db");
    let options = SqliteOptions { durability: Durability::None, ..SqliteOptions::default() };
    let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("count", Kind::I64)];
    let engine = Sqlite::open(Location::File(path), options).unwrap();
    let store = Store::builder(engine).schema(Schema::new("counter", fields)).open().unwrap();
    let table = store.table("counter").unwrap();
    for _ in 0..2 {
        let mut row = Record::new(table.clone());
        row.set("count", 0).unwrap();
        store.insert_record(&row).run().unwrap();
    }
    store
}

/// Sets both counters in one transaction.
fn set(store: &Store, count: i64) {
    store
        .transaction(|transaction| {
            for id in [1, 2] {
                let table = transaction.table("counter")?;
                let mut row = transaction.get_record(&table, id).run()?;
                row.set("count", count)?;
                transaction.update_record(id, &row).run()?;
            }
            Ok::<(), Error>(())
        })
        .unwrap();
}

fn read(store: &Store, ids: &[i64]) -> Result<Vec<Value>> {
    let table = store.table("counter")?;
    let read = all(ids.iter().map(|&id| store.get_record(&table, id)));
    let rows = block_on(read)?;
    Ok(rows.iter().map(|row| row.value("count").unwrap().clone()).collect())
}

#[test]
fn reads_of_a_call_share_a_snapshot_and_see_what_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    // The connection of this thread is opened by its first read.
    read(&store, &[1, 2]).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for count in 1..=500 {
                set(&store, count);
                assert_eq!(read(&store, &[1, 2]).unwrap(), [Value::Int(count), Value::Int(count)]);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        read(&store, &[1, 2]).unwrap();
        while !is_over.load(Ordering::Relaxed) {
            let counts = read(&store, &[1, 2, 1, 2, 1, 2]).unwrap();
            assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
        }
    });
}

#[test]
fn a_snapshot_ends_with_its_call_also_if_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    let table = store.table("counter").unwrap();
    for count in 1..10 {
        assert!(read(&store, &[1, 2, 7, 1]).is_err());
        // On another thread, so that the snapshot would stay.
        std::thread::scope(|scope| {
            scope.spawn(|| set(&store, count));
        });
        let row = store.get_record(&table, 1).run().unwrap();
        assert_eq!(row.value("count").unwrap(), &Value::Int(count));
        assert_eq!(store.list_records(&table).run().unwrap().len(), 2);
    }
}

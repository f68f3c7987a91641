//! Rows with composite keys move between engines that store the text of the key and those that do
//! not.

use marmota_memory::Memory;
use marmota_model::{Field, Kind, Record, Schema, Value};
use marmota_postgres::Postgres;
use marmota_sqlite::Sqlite;
use marmota_store::{Store, StoreBuilder};

use crate::postgres_url;

/// More than two pieces of a transfer.
const ROWS: i64 = 4_500;

fn schema() -> Schema {
    let fields = vec![
        Field::new("a", Kind::I64),
        Field::new("b", Kind::TEXT),
        Field::new("note", Kind::TEXT).nullable(true),
    ];
    Schema::new("pair", fields).composite_key("key", vec![0, 1])
}

#[test]
fn rows_move_through_all_engines() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (first, last, memory) = (path("a.db"), path("b.db"), path("a.mem"));
    let postgres = postgres_url();
    let sqlite = |file: &str| Store::builder(Sqlite::from_url(&format!("sqlite:{file}")).unwrap());
    let memory = || Store::builder(Memory::from_url(&format!("memory:{memory}")).unwrap());
    let postgres = || Store::builder(Postgres::from_url(&postgres).unwrap());

    let store = sqlite(&first).schema(schema()).open().unwrap();
    let table = store.table("pair").unwrap();
    let mut batch = store.batch();
    for number in 0..ROWS {
        let mut row = Record::new(std::sync::Arc::clone(&table));
        row.set("a", number % 3).unwrap();
        row.set("b", format!("{number},%")).unwrap();
        batch.insert_values(&table, row.values());
    }
    batch.all_or_nothing().run().unwrap();
    let rows = |store: &Store| -> Vec<Vec<Value>> {
        let listed = store.list_records(&store.table("pair").unwrap()).run().unwrap();
        listed.into_iter().map(|row| row.values().to_vec()).collect()
    };
    let before = rows(&store);
    assert_eq!(before[0][3], Value::from("0,0%2C%25"));
    store.close().unwrap();

    let move_to = |from: StoreBuilder, to: StoreBuilder| {
        // The second transfer finds all rows.
        let moved = from.schema(schema()).transfer_to(to.schema(schema()), &mut |_| {}).unwrap();
        assert_eq!((&*moved[0].table, moved[0].rows), ("pair", ROWS as u64));
    };
    move_to(sqlite(&first), postgres());
    move_to(sqlite(&first), postgres());
    move_to(postgres(), memory());
    move_to(memory(), sqlite(&last));
    move_to(memory(), sqlite(&last));
    let store = sqlite(&last).schema(schema()).open().unwrap();
    assert_eq!(rows(&store), before);
}

//! Files with vectors: the size of their pages.

use std::path::Path;
use std::sync::Barrier;

use marmota_model::{Field, Kind, Metric, Record, Role, Schema, Value};
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::Store;

fn engine(path: &Path) -> Sqlite {
    Sqlite::open(Location::File(path.to_owned()), SqliteOptions::default()).unwrap()
}

fn schema(with_vectors: bool) -> Schema {
    let mut fields = vec![Field::new("id", Kind::I64).role(Role::Key)];
    if with_vectors {
        fields.push(Field::new("embedding", Kind::Vector { dimensions: 2 }).nullable(true));
    }
    Schema::new("document", fields)
}

/// Returns the size in the header of the file.
fn page_bytes(path: &Path) -> u16 {
    let header = std::fs::read(path).unwrap();
    u16::from_be_bytes([header[16], header[17]])
}

/// Inserts two vectors and reads the nearer one.
fn use_vectors(store: &Store) {
    let table = store.table("document").unwrap();
    for x in [1.0_f32, -1.0] {
        let mut row = Record::new(table.clone());
        let bytes: Vec<u8> = [x, 0.5].into_iter().flat_map(f32::to_le_bytes).collect();
        row.set("embedding", Value::Blob(bytes)).unwrap();
        store.insert_record(&row).run().unwrap();
    }
    let by = marmota_model::Ranking::nearest(&table, 1, &[-1.0, 0.4], Metric::L2).unwrap();
    let query = marmota_model::RankedQuery { limit: 1, ..marmota_model::RankedQuery::new(by) };
    let mut ids = Vec::new();
    let mut sink = |row: &[marmota_model::ValueRef<'_>]| {
        ids.extend(row[0].as_int());
        std::ops::ControlFlow::Continue(())
    };
    let mut list = marmota_store::operation::Operation::ListRanked { table: &table, query: &query };
    store.run(&mut list, &mut sink).unwrap();
    assert_eq!(ids, [2]);
}

#[test]
fn a_new_file_with_vectors_has_larger_pages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vectors.db");
    let store = Store::builder(engine(&path)).schema(schema(true)).open().unwrap();
    assert_eq!(page_bytes(&path), 8192);
    use_vectors(&store);
    store.close().unwrap();
    let store = Store::builder(engine(&path)).schema(schema(true)).open().unwrap();
    let table = store.table("document").unwrap();
    assert_eq!(store.list_records(&table).run().unwrap().len(), 2);
    store.close().unwrap();
    assert_eq!(page_bytes(&path), 8192);
}

#[test]
fn other_files_keep_their_pages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plain.db");
    Store::builder(engine(&path)).schema(schema(false)).open().unwrap().close().unwrap();
    assert_eq!(page_bytes(&path), 4096);
    // Vectors that are added later.
    let store = Store::builder(engine(&path)).schema(schema(true)).open().unwrap();
    use_vectors(&store);
    store.close().unwrap();
    assert_eq!(page_bytes(&path), 4096);
}

#[test]
fn a_new_file_that_others_have_open_serves_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shared.db");
    let other = engine(&path);
    let store = Store::builder(engine(&path)).schema(schema(true)).open().unwrap();
    let other = Store::builder(other).schema(schema(true)).open().unwrap();
    use_vectors(&other);
    let table = store.table("document").unwrap();
    assert_eq!(store.list_records(&table).run().unwrap().len(), 2);
}

#[test]
fn programs_that_make_a_file_with_vectors_at_once_all_work() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..8 {
        let path = folder.path().join(format!("{round}.db"));
        let begin = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    begin.wait();
                    let options =
                        SqliteOptions { busy_timeout_ms: 60_000, ..SqliteOptions::default() };
                    let engine = Sqlite::open(Location::File(path.clone()), options).unwrap();
                    let store = Store::builder(engine).schema(schema(true)).open().unwrap();
                    let table = store.table("document").unwrap();
                    store.insert_record(&Record::new(table.clone())).run().unwrap();
                });
            }
        });
        let store = Store::builder(engine(&path)).schema(schema(true)).open().unwrap();
        let table = store.table("document").unwrap();
        assert_eq!(store.list_records(&table).run().unwrap().len(), 4);
    }
}

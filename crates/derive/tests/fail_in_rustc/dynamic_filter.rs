use marmota_derive::Model;
use marmota_model::{Table, parse_filter};
use marmota_store::Store;

#[derive(Model)]
struct Person {
    id: i64,
    name: String,
}

fn verbs(store: &Store, table: &Table) {
    let filter = parse_filter(table, "name = 'x'").unwrap();
    let _ = store.list::<Person>().filter(filter);
}

fn main() {}

//! That a list to JSON allocates nothing for a row, counted by the allocator
//! of this program, which has no other test.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(unsafe_code, reason = "an allocator is unsafe to implement; this one only counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use marmota_model::json::JsonRows;
use marmota_model::{
    Currency, Field, Kind, NoRows, Role, RowQuery, Schema, Timestamp, Uuid, ValueRef,
};
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::operation::Operation;
use marmota_store::{Store, Transaction};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: all is left to the system's allocator; a number is counted up beside
// it, without a destructor and without an allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn store(rows: usize) -> Store {
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("name", Kind::TEXT),
        Field::new("balance", Kind::Currency),
        Field::new("rate", Kind::Float),
        Field::new("met_at", Kind::Timestamp),
        Field::new("born", Kind::Date),
        Field::new("photo", Kind::Blob),
        Field::new("token", Kind::Uuid),
        Field::new("closed", Kind::Bool),
    ];
    let engine = Sqlite::open(Location::Memory, SqliteOptions::default()).unwrap();
    let store = Store::builder(engine).schema(Schema::new("person", fields)).open().unwrap();
    store.transaction(|transaction| fill(transaction, rows)).unwrap();
    store
}

fn fill(transaction: &Transaction, rows: usize) -> marmota_model::Result<()> {
    let table = transaction.table("person")?;
    for number in 0..rows {
        let micros = 1_700_000_000_000_000 + number as i64 * 977;
        let name = format!("Élodie \"{number}\"\n");
        let row = [
            ValueRef::Absent,
            ValueRef::Text(&name),
            ValueRef::Currency(Currency::from_scaled(number as i64 * 7_919)),
            ValueRef::Float(number as f64 / 7.0),
            ValueRef::Timestamp(Timestamp::from_micros(micros).unwrap()),
            ValueRef::Date("2026-11-21".parse().unwrap()),
            ValueRef::Blob(name.as_bytes()),
            ValueRef::Uuid(Uuid::from_u128(number as u128)),
            ValueRef::Bool(number % 2 == 0),
        ];
        transaction.run(&mut Operation::insert(&table, &row), &mut NoRows)?;
    }
    Ok(())
}

/// How often a list of all rows to JSON allocates, once everything is warm.
fn allocations(store: &Store) -> u64 {
    let (table, query) = (store.table("person").unwrap(), RowQuery::new());
    let mut out = Vec::with_capacity(8 << 20);
    let mut counted = 0;
    for _ in 0..2 {
        out.clear();
        let mut rows = JsonRows::new(&mut out, &table, table.all());
        let before = ALLOCATIONS.get();
        store.run(&mut Operation::List { table: &table, query: &query }, &mut rows).unwrap();
        counted = ALLOCATIONS.get() - before;
    }
    counted
}

#[test]
fn a_list_to_json_allocates_nothing_for_a_row() {
    let (few, many) = (store(10), store(10_000));
    let (few, many) = (allocations(&few), allocations(&many));
    assert!(few <= 8, "{few} allocations for a list");
    // A list that takes longer than its first turn continues on a helper thread, in pieces of
    // many rows; each piece is a buffer.
    assert!(many - few <= 10_000 / 100, "{many} allocations for 10,000 rows, {few} for 10");
}

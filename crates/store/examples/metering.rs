//! What counting costs an operation: reads by key and inserts on the memory
//! engine, by a store that counts and by one that does not, in turns.
//! `cargo run --release -p marmota-store --example metering [operations]`

use std::time::{Duration, Instant};

use marmota_memory::Memory;
use marmota_model::{Field, FieldSet, Kind, NoRows, Result, Role, Schema, ValueRef};
use marmota_store::Store;
use marmota_store::meter::Metering;
use marmota_store::operation::Operation;

const ROUNDS: usize = 7;
const ROWS: i64 = 10_000;

fn open(metering: Option<Metering>) -> Result<Store> {
    let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("name", Kind::TEXT)];
    let builder = Store::builder(Memory::new()).schema(Schema::new("sample", fields));
    match metering {
        Some(metering) => builder.metering(metering).open(),
        None => builder.open(),
    }
}

/// Nanoseconds of an insert and of a read by key.
fn time(store: &Store, operations: i64) -> Result<[f64; 2]> {
    let table = store.table("sample")?;
    let per = |began: Instant| began.elapsed().as_nanos() as f64 / operations as f64;
    let began = Instant::now();
    for _ in 0..operations {
        let row = [ValueRef::Absent, ValueRef::Text("a name that is told")];
        store.run(&mut Operation::insert(&table, &row), &mut NoRows)?;
    }
    let insert = per(began);
    let began = Instant::now();
    let fields = FieldSet::first(2);
    for number in 0..operations {
        let key = ValueRef::Int(1 + number % ROWS);
        store.run(&mut Operation::Get { table: &table, key, fields }, &mut NoRows)?;
    }
    Ok([insert, per(began)])
}

fn main() -> Result<()> {
    let operations = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let operations: i64 = operations.unwrap_or(300_000);
    let slow = Metering::default().slow_call(Duration::from_secs(10));
    let kinds =
        [("plain", None), ("counting", Some(Metering::default())), ("with slow calls", Some(slow))];
    let mut best = [[f64::MAX; 2]; 3];
    for _ in 0..ROUNDS {
        for ((_, metering), best) in kinds.iter().zip(&mut best) {
            let times = time(&open(*metering)?, operations.max(ROWS))?;
            for (best, time) in best.iter_mut().zip(times) {
                *best = best.min(time);
            }
        }
    }
    println!("{:<18}{:>14}{:>14}", "ns", "insert", "get by key");
    for ((name, _), [insert, get]) in kinds.iter().zip(best) {
        println!("{name:<18}{insert:>14.0}{get:>14.0}");
    }
    Ok(())
}

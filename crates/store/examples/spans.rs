//! What spans cost a read by key on the memory engine: run under callgrind with two numbers of
//! operations, whose difference has no start in it.
//! `valgrind --tool=callgrind target/release/examples/spans plain|traced|heard OPERATIONS`

use marmota_memory::Memory;
use marmota_model::{
    Error, ErrorKind, Field, FieldSet, Kind, NoRows, Result, Role, Schema, ValueRef,
};
use marmota_store::Store;
use marmota_store::operation::Operation;
use tracing_subscriber::layer::SubscriberExt;

const ROWS: i64 = 10_000;

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let kind = words.next().unwrap_or_default();
    let operations = words.next().and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("name", Kind::TEXT)];
    let builder = Store::builder(Memory::new()).schema(Schema::new("sample", fields));
    let store = match &*kind {
        "plain" => builder.open(),
        "traced" | "heard" => builder.traced().open(),
        _ => Err(Error::new(ErrorKind::Invalid, "say plain, traced or heard")),
    }?;
    let table = store.table("sample")?;
    for _ in 0..ROWS {
        let row = [ValueRef::Absent, ValueRef::Text("a name that is told")];
        store.run(&mut Operation::insert(&table, &row), &mut NoRows)?;
    }
    let fields = FieldSet::first(2);
    let read = || {
        (0..operations).try_for_each(|number: i64| {
            let key = ValueRef::Int(1 + number % ROWS);
            store.run(&mut Operation::Get { table: &table, key, fields }, &mut NoRows).map(drop)
        })
    };
    match &*kind {
        "heard" => {
            tracing::subscriber::with_default(tracing_subscriber::registry().with(Layer), read)
        }
        _ => read(),
    }
}

/// Hears of spans, and keeps nothing.
struct Layer;

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Layer {}

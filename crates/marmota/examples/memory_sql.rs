//! Rows in memory through SQL, beside the memory engine itself: `cargo run
//! --release -p marmota --example memory_sql [rows]`.
//!
//! The record has six fields beside its key. Each figure is the best of some
//! rounds, in rows a second.

use std::ops::ControlFlow;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use marmota::memory::Memory;
use marmota::model::{RowQuery, ValueRef};
use marmota::prelude::*;
use marmota::store::Progress;
use marmota::store::operation::{Operation, Outcome};

const ROUNDS: usize = 5;

#[derive(Clone, Model)]
struct Sample {
    id: i64,
    first: String,
    last: String,
    amount: Currency,
    at: Timestamp,
    created: Timestamp,
    updated: Timestamp,
}

/// Rows a second, the best of the rounds.
fn rate(rows: u64, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        run()?;
        best = best.min(started.elapsed().as_secs_f64());
    }
    Ok(rows as f64 / best)
}

/// Lends all rows to a sink that looks at one text of each.
fn list_directly(store: &Store, query: &RowQuery) -> Result<u64> {
    let table = store.table("sample")?;
    let mut bytes = 0;
    let mut sink = |row: &[ValueRef<'_>]| {
        bytes += row[1].as_text().map_or(0, str::len) as u64;
        ControlFlow::Continue(())
    };
    let mut operation = Operation::List { table: &table, query };
    let mut outcome = Outcome::default();
    match store.submit(None, &mut operation, &mut sink, &mut outcome)? {
        Progress::Done => Ok(bytes),
        // A long list continues in turns; nothing else waits here.
        Progress::Pending(mut pending) => {
            let mut context = Context::from_waker(Waker::noop());
            loop {
                let polled =
                    store.poll(&mut pending, &mut operation, &mut sink, &mut outcome, &mut context);
                if let Poll::Ready(listed) = polled {
                    return listed.map(|()| bytes);
                }
            }
        }
    }
}

fn print(what: &str, direct: f64, sql: f64) {
    println!("{what:28} {direct:>12.0} {sql:>12.0}");
}

fn main() -> Result<()> {
    let rows = std::env::args().nth(1).and_then(|rows| rows.parse().ok()).unwrap_or(100_000_u64);
    let store = marmota::open("sqlite::memory:")?
        .database("live", Memory::new(), |live| live.model::<Sample>())
        .open()?;
    let at = Timestamp::now();
    let samples: Vec<Sample> = (1..=rows as i64)
        .map(|number| Sample {
            id: 0,
            first: format!("first {number}"),
            last: format!("last name {}", number * 7),
            amount: Currency::from_scaled(number * 125),
            at,
            created: at,
            updated: at,
        })
        .collect();
    let started = Instant::now();
    store.insert_many(&samples).run()?;
    let batch = rows as f64 / started.elapsed().as_secs_f64();
    println!("{:28} {:>12} {:>12}", "rows/s", "direct", "SQL");
    println!("{:28} {batch:>12.0} {:>12}", "insert, batch (verb)", "-");

    let query = RowQuery::new();
    let every = "SELECT id, first, last, amount, at, created, updated FROM sample";
    let direct = rate(rows, || list_directly(&store, &query).map(drop))?;
    let sql = rate(rows, || {
        let mut bytes = 0;
        let lent = store.sql(every).map(|row| {
            bytes += row.values()[1].as_text().map_or(0, str::len);
            Ok(())
        });
        lent.run().map(drop)
    })?;
    print("list, rows lent", direct, sql);

    let direct = rate(rows, || store.list::<Sample>().run().map(drop))?;
    let sql = rate(rows, || store.sql(every).models::<Sample>().run().map(drop))?;
    print("list, structs", direct, sql);

    let mut out = Vec::new();
    let sql = rate(rows, || {
        out.clear();
        store.sql(every).json(&mut out).run().map(drop)
    })?;
    println!("{:28} {:>12} {sql:>12.0}", "list, JSON", "-");

    let gets = rows.min(100_000);
    let direct = rate(gets, || {
        (1..=gets as i64)
            .try_for_each(|id| store.get::<Sample>(id * 7 % rows as i64 + 1).run().map(drop))
    })?;
    let by_id = format!("{every} WHERE id = ?");
    let sql = rate(gets, || {
        (1..=gets as i64).try_for_each(|id| {
            let query = store.sql(&*by_id).bind(id * 7 % rows as i64 + 1);
            query.models::<Sample>().run().map(drop)
        })
    })?;
    print("by id, structs", direct, sql);

    let sql = rate(rows, || store.sql("SELECT sum(amount) FROM sample").rows().run().map(drop))?;
    println!("{:28} {:>12} {sql:>12.0}", "sum of a field", "-");
    store.close()
}

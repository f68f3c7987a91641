//! Rates of the memory engine on one core: `cargo run --release -p
//! marmota-memory --example rates [rows]`.
//!
//! The record is the usual one: an id, two texts of up to 40 characters, an
//! amount and three timestamps. Operations go to the engine's session as the
//! store gives them, one virtual call each.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use marmota_memory::Memory;
use marmota_model::{
    Currency, Field, Kind, Result, Role, RowQuery, RowSource, Schema, Table, Timestamp, ValueRef,
};
use marmota_store::engine::{self, Engine, Session};
use marmota_store::operation::Operation;

const ROUNDS: usize = 5;

struct Source<'a> {
    texts: &'a [(String, String)],
    next: usize,
}

impl<'a> RowSource<'a> for Source<'a> {
    fn remaining(&self) -> usize {
        self.texts.len() - self.next
    }

    fn next(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool> {
        let Some((first, last)) = self.texts.get(self.next) else { return Ok(false) };
        self.next += 1;
        fill(row, first, last, self.next as i64);
        Ok(true)
    }
}

fn fill<'a>(row: &mut [ValueRef<'a>], first: &'a str, last: &'a str, number: i64) {
    let stamp = Timestamp::from_micros(1_700_000_000_000_000 + number).unwrap_or_default();
    row.copy_from_slice(&[
        ValueRef::Absent,
        ValueRef::Text(first),
        ValueRef::Text(last),
        ValueRef::Currency(Currency::from_scaled(number * 125)),
        ValueRef::Timestamp(stamp),
        ValueRef::Timestamp(stamp),
        ValueRef::Timestamp(stamp),
    ]);
}

fn table(indexed: bool) -> Result<Arc<Table>> {
    let stamp = |name| Field::new(name, Kind::Timestamp);
    Ok(Arc::new(Table::new(Schema::new(
        "sample",
        vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("first", Kind::TEXT),
            Field::new("last", Kind::TEXT).unique(indexed),
            Field::new("amount", Kind::Currency),
            stamp("at"),
            stamp("created").role(Role::CreatedAt),
            stamp("updated").role(Role::UpdatedAt),
        ],
    ))?))
}

fn run(session: &mut dyn Session, operation: &mut Operation<'_>) -> Result<u64> {
    let mut sum = 0;
    let mut sink = |row: &[ValueRef<'_>]| {
        sum += row[1].as_text().map_or(0, str::len) as u64;
        ControlFlow::Continue(())
    };
    let rows = engine::run(session, operation, &mut sink)?.rows;
    Ok(rows + sum % 2)
}

/// A clock in seconds: this thread's time on a core where the system tells
/// it, so that what else the machine does counts for little.
struct Clock(Instant);

impl Clock {
    fn seconds(&self) -> f64 {
        // The scheduler brings its count up to date when it is called.
        std::thread::yield_now();
        let on_core = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
        let on_core = on_core.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        on_core.map_or_else(|| self.0.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
    }
}

fn rate(best: &mut f64, rows: usize, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let clock = Clock(Instant::now());
    let start = clock.seconds();
    work()?;
    *best = best.max(rows as f64 / (clock.seconds() - start));
    Ok(())
}

/// What a program would do by hand: a vector, a hash index and a lock.
#[derive(Clone)]
struct Sample {
    first: String,
    last: String,
    _rest: [i64; 4],
}

fn floor(texts: &[(String, String)], best: &mut [f64; 8]) -> Result<()> {
    let rows = texts.len();
    let held = parking_lot::RwLock::new((Vec::new(), HashMap::new()));
    rate(&mut best[6], rows, || {
        for (number, (first, last)) in texts.iter().enumerate() {
            let _rest = [number as i64; 4];
            let mut held = held.write();
            held.0.push(Sample { first: first.clone(), last: last.clone(), _rest });
            held.1.insert(number as u64 + 1, number);
        }
        Ok(())
    })?;
    rate(&mut best[7], rows, || {
        let mut sum = 0;
        for key in random_keys(rows) {
            let held = held.read();
            let sample = held.1.get(&key).map(|&place| Sample::clone(&held.0[place]));
            sum += sample.map_or(0, |sample| sample.first.len() + sample.last.len());
        }
        assert!(sum > 0);
        Ok(())
    })
}

fn random_keys(rows: usize) -> impl Iterator<Item = u64> {
    let mut state = 1_u64;
    (0..rows).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        1 + (state >> 33) % rows as u64
    })
}

fn round(texts: &[(String, String)], best: &mut [f64; 8]) -> Result<()> {
    let rows = texts.len();
    let table = table(false)?;
    let open = |table: &Arc<Table>| -> Result<_> {
        let engine = Memory::new();
        engine.prepare(std::slice::from_ref(table), 1)?;
        let session = engine.session()?;
        Ok((engine, session))
    };
    let (_engine, mut session) = open(&table)?;
    rate(&mut best[0], rows, || {
        let mut row = [ValueRef::Absent; 7];
        for (number, (first, last)) in texts.iter().enumerate() {
            fill(&mut row, first, last, number as i64);
            run(&mut *session, &mut Operation::insert(&table, &row))?;
        }
        Ok(())
    })?;
    rate(&mut best[2], rows, || {
        for key in random_keys(rows) {
            let key = ValueRef::Int(key as i64);
            let fields = table.all();
            run(&mut *session, &mut Operation::Get { table: &table, key, fields })?;
        }
        Ok(())
    })?;
    let query = RowQuery::new();
    rate(&mut best[3], rows, || {
        run(&mut *session, &mut Operation::List { table: &table, query: &query }).map(drop)
    })?;
    let mut page = RowQuery::new();
    page.order = vec![marmota_model::SortKey { field: 2, descending: false }];
    page.limit = Some(20);
    rate(&mut best[4], rows, || {
        run(&mut *session, &mut Operation::List { table: &table, query: &page }).map(drop)
    })?;
    let (_engine, mut session) = open(&table)?;
    rate(&mut best[1], rows, || {
        let rows = &mut Source { texts, next: 0 };
        run(&mut *session, &mut Operation::insert_many(&table, rows)).map(drop)
    })?;
    let table = self::table(true)?;
    let (_engine, mut session) = open(&table)?;
    rate(&mut best[5], rows, || {
        let rows = &mut Source { texts, next: 0 };
        run(&mut *session, &mut Operation::insert_many(&table, rows)).map(drop)
    })
}

fn main() -> Result<()> {
    let rows = std::env::args().nth(1).and_then(|rows| rows.parse().ok()).unwrap_or(200_000);
    let texts: Vec<(String, String)> = (0..rows as u64)
        .map(|number| {
            let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            (format!("first name {}", number % 1000), format!("{mixed:016x} name"))
        })
        .collect();
    let mut best = [0.0; 8];
    for _ in 0..ROUNDS {
        round(&texts, &mut best)?;
        floor(&texts, &mut best)?;
    }
    let names = [
        "insert, one an operation",
        "insert many",
        "get by random id",
        "list",
        "scanned for the first 20 by an unindexed text",
        "insert many, one text unique",
        "by hand: a Vec, a HashMap and a lock, add",
        "by hand: get a clone by random id",
    ];
    println!("{rows} rows, best of {ROUNDS}, million rows a second of one core");
    for (name, rate) in names.iter().zip(best) {
        println!("{:8.2}  {name}", rate / 1e6);
    }
    Ok(())
}

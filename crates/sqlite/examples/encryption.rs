//! What encryption costs, for the record of the ORM benchmark: the same store
//! plain and encrypted, turn by turn in one process, medians of all rounds.
//! `cargo run --release -p marmota-sqlite --features encryption --example encryption [rows] [rounds] [folder]`
//!
//! Times are those of the thread, not of the wall, as in `rates.rs`. Files are
//! in the system's cache in every case, so "cold" is SQLite's own cache being
//! empty: each page is read from the system, and opened.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use marmota_model::{
    Currency, Field, FieldSet, Kind, NoRows, Result, Role, RowQuery, RowSink, RowSource, Schema,
    Table, Timestamp, ValueRef,
};
use marmota_sqlite::{Durability, EncryptionKey, Location, Sqlite, SqliteOptions};
use marmota_store::engine::{Engine, Session};
use marmota_store::operation::{Operation, Outcome};

const BATCH: usize = 500;
const NAMES: [&str; 8] =
    ["Anna", "Élodie", "Bartholomew", "Xu", "van den Broek", "O'Sullivan", "Li", "Zimmermann"];

fn people_table() -> Arc<Table> {
    let mut fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("first_name", Kind::TEXT),
        Field::new("last_name", Kind::TEXT),
        Field::new("balance", Kind::Currency),
    ];
    fields
        .extend(["met_at", "modified_at", "created_at"].map(|it| Field::new(it, Kind::Timestamp)));
    Arc::new(Table::new(Schema::new("person", fields)).unwrap())
}

/// The rows of the record from one number to another.
struct People(std::ops::Range<usize>);

impl<'a> RowSource<'a> for People {
    fn remaining(&self) -> usize {
        self.0.len()
    }

    fn next(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool> {
        let Some(at) = self.0.next() else { return Ok(false) };
        let moment = |at: usize| {
            let moment = Timestamp::from_micros(946_684_800_000_000 + at as i64 * 977).unwrap();
            ValueRef::Timestamp(moment)
        };
        let balance = at as i64 * 7_919 % 2_000_000_000 - 500_000_000;
        row.copy_from_slice(&[
            ValueRef::Absent,
            ValueRef::Text(NAMES[at % 8]),
            ValueRef::Text(NAMES[at / 8 % 8]),
            ValueRef::Currency(Currency::from_scaled(balance)),
            moment(at),
            moment(at + 5),
            moment(at + 3),
        ]);
        Ok(true)
    }
}

fn run(session: &mut dyn Session, mut operation: Operation<'_>, sink: &mut dyn RowSink) -> Outcome {
    marmota_store::engine::run(session, &mut operation, sink).unwrap()
}

/// How long this thread had a core.
fn ran() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

fn timed(work: impl FnOnce()) -> Duration {
    let started = ran();
    work();
    ran() - started
}

fn list(session: &mut dyn Session, table: &Table, rows: usize) {
    let mut bytes = 0;
    let mut count = 0;
    let mut sink = |row: &[ValueRef<'_>]| {
        bytes += row[1].as_text().map_or(0, str::len);
        count += 1;
        ControlFlow::Continue(())
    };
    run(session, Operation::List { table, query: &RowQuery::new() }, &mut sink);
    assert!(count == rows && bytes > 0);
}

/// The names of what [`measure`] takes the times of.
const WORKS: [&str; 6] =
    ["batch insert of 500", "one insert a commit", "warm list", "warm by id", "cold list", "open"];

fn measure(path: &Path, options: &SqliteOptions, rows: usize) -> [Duration; 6] {
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", path.display()));
    }
    let table = people_table();
    let open = || {
        let engine = Sqlite::open(Location::File(path.to_owned()), options.clone()).unwrap();
        engine.prepare(std::slice::from_ref(&table), 0).unwrap();
        engine
    };
    let engine = open();
    let mut session = engine.session().unwrap();
    let insert = |session: &mut dyn Session, from: usize, to: usize| {
        let people = &mut People(from..to);
        run(session, Operation::insert_many(&table, people), &mut NoRows);
    };
    insert(&mut *session, 0, BATCH);
    let inserted = timed(|| {
        for from in (BATCH..rows).step_by(BATCH) {
            insert(&mut *session, from, rows.min(from + BATCH));
        }
    });
    list(&mut *session, &table, rows);
    let listed = timed(|| list(&mut *session, &table, rows));
    let got = timed(|| {
        let mut id = 1;
        for _ in 0..rows {
            id = (id + 7_368_787) % rows;
            let key = ValueRef::Int(id as i64 + 1);
            let get = Operation::Get { table: &table, key, fields: FieldSet::first(7) };
            assert_eq!(run(&mut *session, get, &mut NoRows).rows, 1);
        }
    });
    let few = rows / 20;
    let each = timed(|| (rows..rows + few).for_each(|at| insert(&mut *session, at, at + 1)));
    drop((session, engine));
    // Too short for the clock of the thread.
    let begun = Instant::now();
    let engine = open();
    let opened = begun.elapsed();
    let mut session = engine.session().unwrap();
    let cold = timed(|| list(&mut *session, &table, rows + few));
    [inserted, each, listed, got, cold, opened]
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rows = arguments.next().and_then(|rows| rows.parse().ok()).unwrap_or(100_000);
    let rounds = arguments.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(15);
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let path = folder.join(format!("marmota-encryption-{}.db", std::process::id()));
    println!("SQLite {}, {rows} rows, medians of {rounds} rounds", Sqlite::sqlite_version());
    for (title, durability) in [("durable", Durability::Full), ("relaxed", Durability::Relaxed)] {
        let plain = SqliteOptions { durability, ..SqliteOptions::default() };
        let closed = plain.clone().key(|| Ok(EncryptionKey::raw([7; 32])));
        let mut times: Vec<[[Duration; 6]; 2]> = Vec::new();
        for round in 0..rounds {
            let mut pair = [[Duration::ZERO; 6]; 2];
            // Each goes first every other time.
            for turn in 0..2 {
                let which = (turn + round) % 2;
                let options = if which == 0 { &plain } else { &closed };
                pair[which] = measure(&path, options, rows);
            }
            times.push(pair);
        }
        println!("{title:<24}{:>12}{:>12}{:>9}", "plain ms", "encrypted", "ratio");
        for (at, work) in WORKS.iter().enumerate() {
            let of = |which: usize| {
                median(times.iter().map(|it| it[which][at].as_secs_f64() * 1e3).collect())
            };
            let (plain, closed) = (of(0), of(1));
            println!("  {work:<22}{plain:>12.2}{closed:>12.2}{:>9.3}", closed / plain);
        }
    }
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", path.display()));
    }
}

//! Rows a second through the engine, for the record of the ORM benchmark:
//! `cargo run --release -p marmota-sqlite --example sqlite_rates [rows] [folder]`.
//!
//! Times are those of the thread, not of the wall, so that other programs on
//! the machine disturb less; what waits for a disk shows shorter than it is.
//! The floor, plain C calls, is `bench/peers/orm/floor`.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use marmota_model::{
    Currency, Field, FieldSet, Kind, NoRows, Result, Role, RowQuery, RowSink, RowSource, Schema,
    Table, Timestamp, Uuid, ValueRef,
};
use marmota_sqlite::{Durability, Location, Sqlite, SqliteOptions};
use marmota_store::engine::{self, Engine, Session};
use marmota_store::operation::{Operation, Outcome};

/// The record.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "made, and read by nobody")]
struct Person {
    id: i64,
    first_name: String,
    last_name: String,
    balance: Currency,
    met_at: Timestamp,
    modified_at: Timestamp,
    created_at: Timestamp,
}

fn people_table() -> Arc<Table> {
    let moment = |name| Field::new(name, Kind::Timestamp);
    Arc::new(
        Table::new(Schema::new(
            "person",
            vec![
                Field::new("id", Kind::I64).role(Role::Key),
                Field::new("first_name", Kind::TEXT),
                Field::new("last_name", Kind::TEXT),
                Field::new("balance", Kind::Currency),
                moment("met_at"),
                moment("modified_at"),
                moment("created_at"),
            ],
        ))
        .unwrap(),
    )
}

fn people(rows: usize) -> Vec<Person> {
    const NAMES: [&str; 8] =
        ["Anna", "Élodie", "Bartholomew", "Xu", "van den Broek", "O'Sullivan", "Li", "Zimmermann"];
    let moment = |at: usize| Timestamp::from_micros(946_684_800_000_000 + at as i64 * 977).unwrap();
    (0..rows)
        .map(|at| Person {
            id: at as i64 + 1,
            first_name: NAMES[at % 8].to_owned(),
            last_name: NAMES[at / 8 % 8].repeat(1 + at % 5 / 4),
            balance: Currency::from_scaled(at as i64 * 7_919 % 2_000_000_000 - 500_000_000),
            met_at: moment(at),
            modified_at: moment(at + 5),
            created_at: moment(at + 3),
        })
        .collect()
}

impl Person {
    fn write<'a>(&'a self, row: &mut [ValueRef<'a>]) {
        row.copy_from_slice(&[
            ValueRef::Absent,
            ValueRef::Text(&self.first_name),
            ValueRef::Text(&self.last_name),
            ValueRef::Currency(self.balance),
            ValueRef::Timestamp(self.met_at),
            ValueRef::Timestamp(self.modified_at),
            ValueRef::Timestamp(self.created_at),
        ]);
    }

    fn read(row: &[ValueRef<'_>]) -> Option<Self> {
        let [
            ValueRef::Int(id),
            ValueRef::Text(first_name),
            ValueRef::Text(last_name),
            ValueRef::Currency(balance),
            ValueRef::Timestamp(met_at),
            ValueRef::Timestamp(modified_at),
            ValueRef::Timestamp(created_at),
        ] = *row
        else {
            return None;
        };
        let (first_name, last_name) = (first_name.to_owned(), last_name.to_owned());
        Some(Self { id, first_name, last_name, balance, met_at, modified_at, created_at })
    }
}

struct Source<'a>(std::slice::Iter<'a, Person>);

impl<'a> RowSource<'a> for Source<'a> {
    fn remaining(&self) -> usize {
        self.0.len()
    }

    fn next(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool> {
        Ok(self.0.next().map(|person| person.write(row)).is_some())
    }
}

fn run(session: &mut dyn Session, mut operation: Operation<'_>, sink: &mut dyn RowSink) -> Outcome {
    engine::run(session, &mut operation, sink).unwrap()
}

/// How long this thread had a core.
fn ran() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// The best rate of some repeats of `work`, which gives how many rows it did.
fn rate(name: &str, mut work: impl FnMut() -> usize) {
    let mut best = 0.0_f64;
    for _ in 0..5 {
        let started = ran();
        let rows = work();
        best = best.max(rows as f64 / (ran() - started).as_secs_f64());
    }
    println!("  {name:<28}{:>8.0} k", best / 1e3);
}

fn measure(title: &str, location: &Location, options: &SqliteOptions, people: &[Person]) {
    println!("{title}");
    let table = people_table();
    let open = || {
        if let Location::File(path) = location {
            for end in ["db", "db-wal", "db-shm"] {
                let _ = std::fs::remove_file(path.with_extension(end));
            }
        }
        let engine = Sqlite::open(location.clone(), options.clone()).unwrap();
        engine.prepare(std::slice::from_ref(&table), 0).unwrap();
        engine
    };
    let session = |engine: &Sqlite| engine.session().unwrap();
    let insert_each = |session: &mut dyn Session, people: &[Person]| {
        let mut row = [ValueRef::Absent; 7];
        for person in people {
            person.write(&mut row);
            run(session, Operation::insert(&table, &row), &mut NoRows);
        }
    };
    let insert_many = |session: &mut dyn Session, people: &[Person]| {
        for batch in people.chunks(500) {
            let rows = &mut Source(batch.iter());
            run(session, Operation::insert_many(&table, rows), &mut NoRows);
        }
    };
    let few = match options.durability {
        Durability::Full if matches!(location, Location::File(_)) => &people[..500],
        _ => people,
    };
    let timed = |name: &str, people: &[Person], begin: bool, many: bool| {
        let mut best = 0.0_f64;
        for _ in 0..5 {
            let engine = open();
            let mut session = session(&engine);
            // Statements are prepared before.
            insert_many(&mut *session, &people[..people.len().min(500)]);
            insert_each(&mut *session, &people[..1]);
            let started = ran();
            if begin {
                run(&mut *session, Operation::Begin, &mut NoRows);
            }
            if many {
                insert_many(&mut *session, people);
            } else {
                insert_each(&mut *session, people);
            }
            if begin {
                run(&mut *session, Operation::Commit, &mut NoRows);
            }
            best = best.max(people.len() as f64 / (ran() - started).as_secs_f64());
        }
        println!("  {name:<28}{:>8.0} k", best / 1e3);
    };
    timed("insert one", few, false, false);
    timed("batch of 500", people, false, true);
    timed("transaction", people, true, false);
    timed("batch in transaction", people, true, true);

    let engine = open();
    let mut session = session(&engine);
    insert_many(&mut *session, people);
    rate("by id, random", || {
        let mut id = 1;
        for _ in 0..people.len() {
            id = (id + 7_368_787) % people.len();
            let key = ValueRef::Int(id as i64 + 1);
            let mut read = None;
            let mut sink = |row: &[ValueRef<'_>]| {
                read = Person::read(row);
                ControlFlow::Break(())
            };
            let fields = FieldSet::first(7);
            run(&mut *session, Operation::Get { table: &table, key, fields }, &mut sink);
            std::hint::black_box(read.unwrap());
        }
        people.len()
    });
    rate("list of objects", || {
        let mut listed = Vec::new();
        let mut sink = |row: &[ValueRef<'_>]| {
            listed.extend(Person::read(row));
            ControlFlow::Continue(())
        };
        let query = RowQuery::new();
        run(&mut *session, Operation::List { table: &table, query: &query }, &mut sink);
        assert_eq!(listed.len(), people.len());
        people.len()
    });
    rate("list, lent only", || {
        let mut sum = 0;
        let mut sink = |row: &[ValueRef<'_>]| {
            sum += row[0].as_int().unwrap_or(0);
            ControlFlow::Continue(())
        };
        let query = RowQuery::new();
        run(&mut *session, Operation::List { table: &table, query: &query }, &mut sink);
        assert!(sum > 0);
        people.len()
    });
    let mut row = [ValueRef::Absent; 7];
    row[3] = ValueRef::Currency(Currency::from_scaled(1));
    rate("update one field by id", || {
        let mut id = 1;
        for _ in 0..few.len() {
            id = (id + 7_368_787) % people.len();
            let key = ValueRef::Int(id as i64 + 1);
            let operation = Operation::Update { table: &table, key, row: &row, version: None };
            run(&mut *session, operation, &mut NoRows);
        }
        few.len()
    });
}

/// What a table keyed by UUID costs.
fn measure_uuids(rows: usize) {
    println!("memory, keyed by UUID version 7");
    let fields = vec![
        Field::new("id", Kind::Uuid).role(Role::Key),
        Field::new("name", Kind::TEXT),
        Field::new("number", Kind::I64),
    ];
    let table = Arc::new(Table::new(Schema::new("thing", fields)).unwrap());
    let keys: Vec<Uuid> = (0..rows).map(|_| Uuid::now_v7()).collect();
    let engine = Sqlite::open(Location::Memory, SqliteOptions::default()).unwrap();
    engine.prepare(std::slice::from_ref(&table), 0).unwrap();
    let mut session = engine.session().unwrap();
    rate("insert one", || {
        run(&mut *session, Operation::DeleteWhere { table: &table, filter: None }, &mut NoRows);
        for key in &keys {
            let row = [ValueRef::Uuid(*key), ValueRef::Text("Bartholomew"), ValueRef::Int(7)];
            run(&mut *session, Operation::insert(&table, &row), &mut NoRows);
        }
        keys.len()
    });
    rate("by id, random", || {
        let mut at = 1;
        for _ in 0..keys.len() {
            at = (at + 7_368_787) % keys.len();
            let key = ValueRef::Uuid(keys[at]);
            let get = Operation::Get { table: &table, key, fields: FieldSet::first(3) };
            assert_eq!(run(&mut *session, get, &mut NoRows).rows, 1);
        }
        keys.len()
    });
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rows = arguments.next().and_then(|rows| rows.parse().ok()).unwrap_or(200_000);
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let people = people(rows);
    println!("SQLite {}, {rows} rows, by the time of the thread", Sqlite::sqlite_version());
    let path = folder.join(format!("marmota-rates-{}.db", std::process::id()));
    let file = Location::File(path.clone());
    let full = SqliteOptions::default();
    let off =
        SqliteOptions { durability: Durability::None, exclusive: true, ..SqliteOptions::default() };
    measure("memory", &Location::Memory, &full, &people);
    measure("file, synchronous off, exclusive", &file, &off, &people);
    measure("file, synchronous full", &file, &full, &people);
    for end in ["db", "db-wal", "db-shm"] {
        let _ = std::fs::remove_file(path.with_extension(end));
    }
    measure_uuids(rows);
}

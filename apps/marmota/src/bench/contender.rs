//! The contenders: a store of Marmota, and the same statements in direct calls of SQLite.

use std::ops::ControlFlow;
use std::path::Path;

use bench_orm_workload::Sum;
use marmota::model::ValueRef;
use marmota::prelude::*;
use marmota::sqlite::baseline::{Baseline, BaselineRow, Cell, Statement};
use marmota::store::operation::Operation;

use super::engine::Engine;
use super::record::{Person, people};
use super::servers::Servers;

/// Rows of one batch.
pub(super) const BATCH_ROWS: usize = 500;

/// A database into which people are inserted and from which they are read.
pub(super) trait Contender {
    fn begin(&mut self) -> Result<()>;
    fn commit(&mut self) -> Result<()>;
    fn insert_each(&mut self, people: &[Person]) -> Result<()>;
    /// Inserts at most [`BATCH_ROWS`].
    fn insert_batch(&mut self, people: &[Person]) -> Result<()>;
    /// Reads an object for each id.
    fn read_each(&mut self, ids: &[i64], sum: &mut Sum) -> Result<()>;
    /// Reads all rows into objects.
    fn list(&mut self, sum: &mut Sum) -> Result<()>;
    /// Reads all rows without creating objects.
    fn scan(&mut self, sum: &mut Sum) -> Result<()>;
    /// Returns the number of system calls that waited for the disk.
    fn syncs(&self) -> u64;
}

/// A store of Marmota.
pub(super) struct Marmota {
    store: Store,
    by_sql: bool,
    transaction: Option<Transaction>,
    /// The key before that of the first person.
    last_key: i64,
    keeps_rows: bool,
}

impl Marmota {
    pub(super) fn open(engine: &Engine, path: &Path, servers: &Servers) -> Result<Self> {
        let (store, by_sql) = (engine.open(path, servers)?, engine.reads_by_sql());
        let keeps_rows = engine.keeps_rows();
        let mut last_key = 0;
        if keeps_rows {
            if store.count::<Person>().run()? > 0 {
                let message = "the table `person` has rows: measure an empty database";
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            if let Some(probe) = people(1).first() {
                let key = || -> Result<i64> {
                    let key = store.insert(probe).run()?;
                    store.delete::<Person>(key).run()?;
                    Ok(key)
                };
                // SQLite uses the key of the last row again, servers do not.
                let (first, second) = (key()?, key()?);
                last_key = if first == second { first - 1 } else { second };
            }
        }
        Ok(Self { store, by_sql, transaction: None, last_key, keeps_rows })
    }

    fn scope(&self) -> &marmota::store::Store {
        match &self.transaction {
            Some(transaction) => transaction,
            None => &self.store,
        }
    }
}

impl Drop for Marmota {
    fn drop(&mut self) {
        if self.keeps_rows {
            drop(self.transaction.take());
            // If rows remain, the next measurement reports them.
            let _ = self.store.delete_where(Person::ID.gt(self.last_key)).run();
        }
    }
}

fn add(sum: &mut Sum, person: &Person, last_key: i64) {
    // The timestamps are set by the store, so they are not compared.
    sum.add(
        person.id - last_key,
        person.first_name.len(),
        person.last_name.len(),
        person.balance.scaled(),
        person.met_at.micros(),
        0,
        0,
    );
}

/// Adds a row to the checksum. A row that is not a person is not added, which makes the sum wrong.
fn add_row(sum: &mut Sum, row: &[ValueRef<'_>], last_key: i64) {
    if let [
        ValueRef::Int(id),
        ValueRef::Text(first),
        ValueRef::Text(last),
        ValueRef::Currency(balance),
        ValueRef::Timestamp(met_at),
        ..,
    ] = row
    {
        sum.add(*id - last_key, first.len(), last.len(), balance.scaled(), met_at.micros(), 0, 0);
    }
}

impl Contender for Marmota {
    fn begin(&mut self) -> Result<()> {
        self.transaction = Some(self.store.begin_run()?);
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.transaction.take().map_or(Ok(()), |transaction| transaction.commit().run())
    }

    fn insert_each(&mut self, people: &[Person]) -> Result<()> {
        let scope = self.scope();
        people.iter().try_for_each(|person| scope.insert(person).run().map(drop))
    }

    fn insert_batch(&mut self, people: &[Person]) -> Result<()> {
        self.scope().insert_many(people).run().map(drop)
    }

    fn read_each(&mut self, ids: &[i64], sum: &mut Sum) -> Result<()> {
        if self.by_sql {
            let text = format!("{SELECT} WHERE id=?");
            return ids.iter().try_for_each(|&id| {
                let found = self.store.sql(&*text).bind(id).models::<Person>().run()?;
                std::hint::black_box(&found).iter().for_each(|person| add(sum, person, 0));
                Ok(())
            });
        }
        for &id in ids {
            let person = self.store.get::<Person>(id + self.last_key).run()?;
            add(sum, std::hint::black_box(&person), self.last_key);
        }
        Ok(())
    }

    fn list(&mut self, sum: &mut Sum) -> Result<()> {
        let people = match self.by_sql {
            true => self.store.sql(SELECT).models::<Person>().run()?,
            false => self.store.list::<Person>().run()?,
        };
        people.iter().for_each(|person| add(sum, person, self.last_key));
        Ok(())
    }

    fn scan(&mut self, sum: &mut Sum) -> Result<()> {
        if self.by_sql {
            let lent = self.store.sql(SELECT).map(|row| {
                add_row(sum, row.values(), 0);
                Ok(())
            });
            return lent.run().map(drop);
        }
        let table = self.store.table("person")?;
        let mut sink = |row: &[ValueRef<'_>]| {
            add_row(sum, row, self.last_key);
            ControlFlow::Continue(())
        };
        self.store
            .run(&mut Operation::List { table: &table, query: &RowQuery::new() }, &mut sink)?;
        Ok(())
    }

    fn syncs(&self) -> u64 {
        self.store.statistics().engine.syncs
    }
}

/// The same statements in direct calls of SQLite.
pub(super) struct DirectSqlite {
    sqlite: Baseline,
    begin: Statement,
    commit: Statement,
    insert: Statement,
    batch: Statement,
    by_id: Statement,
    all: Statement,
}

const TABLE: &str = "CREATE TABLE person(id INTEGER PRIMARY KEY,first_name TEXT NOT NULL,\
    last_name TEXT NOT NULL,balance INTEGER NOT NULL,met_at INTEGER NOT NULL,\
    modified_at INTEGER NOT NULL,created_at INTEGER NOT NULL)STRICT";
const INSERT: &str = "INSERT INTO person\
    (first_name,last_name,balance,met_at,modified_at,created_at)VALUES(?,?,?,?,?,?)";
const SELECT: &str =
    "SELECT id,first_name,last_name,balance,met_at,modified_at,created_at FROM person";

/// An object, as a program without an ORM reads it.
struct Read {
    id: i64,
    first_name: Vec<u8>,
    last_name: Vec<u8>,
    balance: i64,
    met_at: i64,
    stamps: [i64; 2],
}

impl Read {
    #[inline]
    fn of(row: &BaselineRow<'_>) -> Self {
        Self {
            id: row.int(0),
            first_name: row.bytes(1).to_vec(),
            last_name: row.bytes(2).to_vec(),
            balance: row.int(3),
            met_at: row.int(4),
            stamps: [row.int(5), row.int(6)],
        }
    }

    fn add_to(&self, sum: &mut Sum) {
        std::hint::black_box(self.stamps);
        let (first, last) = (self.first_name.len(), self.last_name.len());
        sum.add(self.id, first, last, self.balance, self.met_at, 0, 0);
    }
}

impl DirectSqlite {
    pub(super) fn open(pragmas: &str, path: Option<&Path>) -> Result<Self> {
        let mut sqlite = Baseline::open(path, &format!("{pragmas};{TABLE}"))?;
        let many = INSERT.to_owned() + &",(?,?,?,?,?,?)".repeat(BATCH_ROWS - 1);
        Ok(Self {
            begin: sqlite.prepare("BEGIN IMMEDIATE")?,
            commit: sqlite.prepare("COMMIT")?,
            insert: sqlite.prepare(INSERT)?,
            batch: sqlite.prepare(&many)?,
            by_id: sqlite.prepare(&format!("{SELECT} WHERE id=?"))?,
            all: sqlite.prepare(SELECT)?,
            sqlite,
        })
    }
}

#[inline]
fn cells(person: &Person) -> [Cell<'_>; 6] {
    [
        Cell::Text(&person.first_name),
        Cell::Text(&person.last_name),
        Cell::Int(person.balance.scaled()),
        Cell::Int(person.met_at.micros()),
        Cell::Int(person.modified_at.micros()),
        Cell::Int(person.created_at.micros()),
    ]
}

impl Contender for DirectSqlite {
    fn begin(&mut self) -> Result<()> {
        self.sqlite.run(self.begin, [])
    }

    fn commit(&mut self) -> Result<()> {
        self.sqlite.run(self.commit, [])
    }

    fn insert_each(&mut self, people: &[Person]) -> Result<()> {
        people.iter().try_for_each(|person| self.sqlite.run(self.insert, cells(person)))
    }

    fn insert_batch(&mut self, people: &[Person]) -> Result<()> {
        if people.len() < BATCH_ROWS {
            return self.insert_each(people);
        }
        self.sqlite.run(self.batch, people.iter().flat_map(cells))
    }

    fn read_each(&mut self, ids: &[i64], sum: &mut Sum) -> Result<()> {
        for &id in ids {
            let mut read = None;
            self.sqlite.read(self.by_id, [Cell::Int(id)], |row| read = Some(Read::of(row)))?;
            std::hint::black_box(&read).iter().for_each(|person| person.add_to(sum));
        }
        Ok(())
    }

    fn list(&mut self, sum: &mut Sum) -> Result<()> {
        let mut people = Vec::new();
        self.sqlite.read(self.all, [], |row| people.push(Read::of(row)))?;
        people.iter().for_each(|person| person.add_to(sum));
        Ok(())
    }

    fn scan(&mut self, sum: &mut Sum) -> Result<()> {
        self.sqlite.read(self.all, [], |row| {
            let (first, last) = (row.bytes(1).len(), row.bytes(2).len());
            std::hint::black_box((row.int(5), row.int(6)));
            sum.add(row.int(0), first, last, row.int(3), row.int(4), 0, 0);
        })
    }

    fn syncs(&self) -> u64 {
        Baseline::thread_syncs()
    }
}

//! diesel, with its query builder and derives.
//!
//! diesel's guide reads one row with `.first()`, which adds a LIMIT. On SQLite, diesel does not
//! cache such a statement, so it is parsed on each call. Reading by id with `.get_result()` is many
//! times faster. Both are measured: `.get_result()` by default, `.first()` with
//! `BENCH_ORM_VARIANT=first`.

use std::process::ExitCode;

use bench_orm_workload::{
    AsPerson, CREATE_TABLE, Contender, Figure, Person, PersonRef, Place, Result, Sum, run,
};
use diesel::connection::{AnsiTransactionManager, SimpleConnection, TransactionManager};
use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::prelude::*;
use diesel::sql_types::Text;
use diesel::sqlite::{Sqlite, SqliteValue};
// Compiles and links SQLite.
use libsqlite3_sys as _;

fn main() -> ExitCode {
    match std::env::var("BENCH_ORM_VARIANT").as_deref() {
        Ok("first") => run::<Diesel<true>>(),
        _ => run::<Diesel<false>>(),
    }
}

diesel::table! {
    person (id) {
        id -> BigInt,
        first_name -> Text,
        last_name -> Text,
        balance -> BigInt,
        met_at -> BigInt,
        modified_at -> BigInt,
        created_at -> BigInt,
    }
}

diesel::define_sql_function! {
    fn last_insert_rowid() -> BigInt;
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = person, check_for_backend(Sqlite))]
struct Row {
    id: i64,
    first_name: String,
    last_name: String,
    balance: i64,
    met_at: i64,
    modified_at: i64,
    created_at: i64,
}

/// Insertable without defaults: only then does diesel insert many rows with one statement on
/// SQLite.
#[derive(Insertable)]
#[diesel(table_name = person, treat_none_as_default_value = false)]
struct NewPerson<'a> {
    first_name: &'a str,
    last_name: &'a str,
    balance: i64,
    met_at: i64,
    modified_at: i64,
    created_at: i64,
}

impl<'a> From<&'a Person> for NewPerson<'a> {
    fn from(p: &'a Person) -> Self {
        Self {
            first_name: &p.first_name,
            last_name: &p.last_name,
            balance: p.balance,
            met_at: p.met_at,
            modified_at: p.modified_at,
            created_at: p.created_at,
        }
    }
}

impl AsPerson for Row {
    fn as_person(&self) -> PersonRef<'_> {
        PersonRef {
            id: self.id,
            first_name: &self.first_name,
            last_name: &self.last_name,
            balance: self.balance,
            met_at: self.met_at,
            modified_at: self.modified_at,
            created_at: self.created_at,
        }
    }
}

/// The length of a text, read without making a `String`.
#[derive(Debug, FromSqlRow)]
struct TextBytes(usize);

impl FromSql<Text, Sqlite> for TextBytes {
    fn from_sql(mut value: SqliteValue<'_, '_, '_>) -> deserialize::Result<Self> {
        Ok(Self(value.read_text().len()))
    }
}

type Scanned = (i64, TextBytes, TextBytes, i64, i64, i64, i64);

/// With `FIRST`, reads by id with `.first()`.
struct Diesel<const FIRST: bool> {
    connection: SqliteConnection,
}

impl<const FIRST: bool> Contender for Diesel<FIRST> {
    const NAME: &'static str = if FIRST { "diesel first()" } else { "diesel" };
    const FIGURES: &'static [Figure] = if FIRST { &[Figure::ReadById] } else { &Figure::ALL };
    const STATEMENT_ROWS: &'static [usize] = &[1, 100, 500];
    type New = Person;
    type Row = Row;

    fn new(person: &Person) -> Person {
        person.clone()
    }

    fn open(place: &Place) -> Result<Self> {
        let mut connection = SqliteConnection::establish(place.path())?;
        for pragma in place.setting.pragmas() {
            connection.batch_execute(pragma)?;
        }
        connection.batch_execute(CREATE_TABLE)?;
        Ok(Self { connection })
    }

    fn begin(&mut self) -> Result<()> {
        Ok(AnsiTransactionManager::begin_transaction(&mut self.connection)?)
    }

    fn commit(&mut self) -> Result<()> {
        Ok(AnsiTransactionManager::commit_transaction(&mut self.connection)?)
    }

    fn insert_each(&mut self, people: &[Person]) -> Result<i64> {
        for p in people {
            diesel::insert_into(person::table)
                .values(NewPerson::from(p))
                .execute(&mut self.connection)?;
        }
        Ok(diesel::select(last_insert_rowid()).get_result(&mut self.connection)?)
    }

    fn insert_batch(&mut self, people: &[Person], statement_rows: usize) -> Result<()> {
        if statement_rows == 1 {
            self.insert_each(people)?;
            return Ok(());
        }
        for chunk in people.chunks(statement_rows) {
            let new: Vec<NewPerson<'_>> = chunk.iter().map(NewPerson::from).collect();
            diesel::insert_into(person::table).values(&new).execute(&mut self.connection)?;
        }
        Ok(())
    }

    fn read_each(&mut self, ids: &[i64], sum: &mut Sum) -> Result<()> {
        for &id in ids {
            let query = person::table.find(id).select(Row::as_select());
            let row: Row = if FIRST {
                query.first(&mut self.connection)?
            } else {
                query.get_result(&mut self.connection)?
            };
            sum.add_person(std::hint::black_box(&row).as_person());
        }
        Ok(())
    }

    fn list(&mut self) -> Result<Vec<Row>> {
        Ok(person::table.select(Row::as_select()).load(&mut self.connection)?)
    }

    fn scan(&mut self, sum: &mut Sum) -> Result<()> {
        for row in person::table.load_iter::<Scanned, _>(&mut self.connection)? {
            let (id, first_name, last_name, balance, met_at, modified_at, created_at) = row?;
            sum.add(id, first_name.0, last_name.0, balance, met_at, modified_at, created_at);
        }
        Ok(())
    }
}

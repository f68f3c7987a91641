//! rusqlite as its users write it for speed: statements from its cache, taken once per call,
//! columns by index, and many rows per statement where that is faster.

use std::process::ExitCode;

use bench_orm_workload::{AsPerson, CREATE_TABLE, Contender, Person, Place, Result, Sum, run};
use rusqlite::{Connection, Row, params};

const INSERT: &str = "INSERT INTO person (first_name, last_name, balance, met_at, modified_at, created_at) VALUES (?,?,?,?,?,?)";
const NEXT_ROW: &str = ",(?,?,?,?,?,?)";
const ALL: &str =
    "SELECT id, first_name, last_name, balance, met_at, modified_at, created_at FROM person";
const BY_ID: &str = "SELECT id, first_name, last_name, balance, met_at, modified_at, created_at FROM person WHERE id = ?";

fn main() -> ExitCode {
    run::<Rusqlite>()
}

struct Rusqlite {
    connection: Connection,
    /// The statement's text for this number of rows, kept for the next batch.
    batch: (usize, String),
}

impl Contender for Rusqlite {
    const NAME: &'static str = "rusqlite";
    const STATEMENT_ROWS: &'static [usize] = &[1, 100, 500];
    type New = Person;
    type Row = Person;

    fn new(person: &Person) -> Person {
        person.clone()
    }

    fn open(place: &Place) -> Result<Self> {
        let connection = Connection::open(place.path())?;
        for pragma in place.setting.pragmas() {
            connection.execute_batch(pragma)?;
        }
        connection.execute_batch(CREATE_TABLE)?;
        Ok(Self { connection, batch: (0, String::new()) })
    }

    fn begin(&mut self) -> Result<()> {
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    fn insert_each(&mut self, people: &[Person]) -> Result<i64> {
        let mut statement = self.connection.prepare_cached(INSERT)?;
        for p in people {
            statement.execute(params![
                p.first_name,
                p.last_name,
                p.balance,
                p.met_at,
                p.modified_at,
                p.created_at
            ])?;
        }
        Ok(self.connection.last_insert_rowid())
    }

    fn insert_batch(&mut self, people: &[Person], statement_rows: usize) -> Result<()> {
        if statement_rows == 1 {
            self.insert_each(people)?;
            return Ok(());
        }
        for chunk in people.chunks(statement_rows) {
            if self.batch.0 != chunk.len() {
                self.batch = (chunk.len(), INSERT.to_owned() + &NEXT_ROW.repeat(chunk.len() - 1));
            }
            let mut statement = self.connection.prepare_cached(&self.batch.1)?;
            let mut index = 0;
            for p in chunk {
                statement.raw_bind_parameter(index + 1, p.first_name.as_str())?;
                statement.raw_bind_parameter(index + 2, p.last_name.as_str())?;
                statement.raw_bind_parameter(index + 3, p.balance)?;
                statement.raw_bind_parameter(index + 4, p.met_at)?;
                statement.raw_bind_parameter(index + 5, p.modified_at)?;
                statement.raw_bind_parameter(index + 6, p.created_at)?;
                index += 6;
            }
            statement.raw_execute()?;
        }
        Ok(())
    }

    fn read_each(&mut self, ids: &[i64], sum: &mut Sum) -> Result<()> {
        let mut statement = self.connection.prepare_cached(BY_ID)?;
        for &id in ids {
            let person = statement.query_row([id], read)?;
            sum.add_person(std::hint::black_box(&person).as_person());
        }
        Ok(())
    }

    fn list(&mut self) -> Result<Vec<Person>> {
        let mut statement = self.connection.prepare_cached(ALL)?;
        let people = statement.query_map([], read)?.collect::<rusqlite::Result<_>>()?;
        Ok(people)
    }

    fn scan(&mut self, sum: &mut Sum) -> Result<()> {
        let mut statement = self.connection.prepare_cached(ALL)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            sum.add(
                row.get(0)?,
                row.get_ref(1)?.as_bytes()?.len(),
                row.get_ref(2)?.as_bytes()?.len(),
                row.get(3)?,
                row.get(4)?,
                row.get(5)?,
                row.get(6)?,
            );
        }
        Ok(())
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Person> {
    Ok(Person {
        id: row.get(0)?,
        first_name: row.get(1)?,
        last_name: row.get(2)?,
        balance: row.get(3)?,
        met_at: row.get(4)?,
        modified_at: row.get(5)?,
        created_at: row.get(6)?,
    })
}

//! sqlx on SQLite.

use std::sync::Arc;

use bench_orm_workload::{AsPerson, CREATE_TABLE, Contender, Person, Place, Result, Sum};
use futures_util::TryStreamExt;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, SqliteConnection};
use tokio::runtime::Runtime;

use crate::row::{self, Row};

const INSERT: &str = "INSERT INTO person (first_name, last_name, balance, met_at, modified_at, created_at) VALUES (?,?,?,?,?,?)";
const NEXT_ROW: &str = ",(?,?,?,?,?,?)";
const ALL: &str =
    "SELECT id, first_name, last_name, balance, met_at, modified_at, created_at FROM person";
const BY_ID: &str = "SELECT id, first_name, last_name, balance, met_at, modified_at, created_at FROM person WHERE id = ?";

pub(crate) struct OnSqlite {
    runtime: Runtime,
    connection: SqliteConnection,
    /// The statement's text for this number of rows, kept for the next batch.
    batch: (usize, Arc<String>),
}

impl Contender for OnSqlite {
    const NAME: &'static str = "sqlx";
    const STATEMENT_ROWS: &'static [usize] = &[1, 100, 500];
    type New = Person;
    type Row = Row;

    fn new(person: &Person) -> Person {
        person.clone()
    }

    fn open(place: &Place) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let options = SqliteConnectOptions::new()
            .filename(place.path())
            .in_memory(!place.setting.is_file())
            .create_if_missing(true)
            .disable_statement_logging();
        let connection = runtime.block_on(async {
            let mut connection = options.connect().await?;
            for pragma in place.setting.pragmas() {
                sqlx::query(*pragma).execute(&mut connection).await?;
            }
            sqlx::query(CREATE_TABLE).execute(&mut connection).await?;
            Ok::<_, sqlx::Error>(connection)
        })?;
        Ok(Self { runtime, connection, batch: (0, Arc::default()) })
    }

    fn begin(&mut self) -> Result<()> {
        self.runtime.block_on(sqlx::query("BEGIN IMMEDIATE").execute(&mut self.connection))?;
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.runtime.block_on(sqlx::query("COMMIT").execute(&mut self.connection))?;
        Ok(())
    }

    fn insert_each(&mut self, people: &[Person]) -> Result<i64> {
        self.runtime.block_on(async {
            let mut last_id = 0;
            for p in people {
                let done = sqlx::query(INSERT)
                    .bind(&*p.first_name)
                    .bind(&*p.last_name)
                    .bind(p.balance)
                    .bind(p.met_at)
                    .bind(p.modified_at)
                    .bind(p.created_at)
                    .execute(&mut self.connection)
                    .await?;
                last_id = done.last_insert_rowid();
            }
            Ok(last_id)
        })
    }

    fn insert_batch(&mut self, people: &[Person], statement_rows: usize) -> Result<()> {
        if statement_rows == 1 {
            self.insert_each(people)?;
            return Ok(());
        }
        for chunk in people.chunks(statement_rows) {
            if self.batch.0 != chunk.len() {
                self.batch =
                    (chunk.len(), Arc::new(INSERT.to_owned() + &NEXT_ROW.repeat(chunk.len() - 1)));
            }
            let mut query = sqlx::query(AssertSqlSafe(Arc::clone(&self.batch.1)));
            for p in chunk {
                query = query
                    .bind(&*p.first_name)
                    .bind(&*p.last_name)
                    .bind(p.balance)
                    .bind(p.met_at)
                    .bind(p.modified_at)
                    .bind(p.created_at);
            }
            self.runtime.block_on(query.execute(&mut self.connection))?;
        }
        Ok(())
    }

    fn read_each(&mut self, ids: &[i64], sum: &mut Sum) -> Result<()> {
        self.runtime.block_on(async {
            for &id in ids {
                let row: Row =
                    sqlx::query_as(BY_ID).bind(id).fetch_one(&mut self.connection).await?;
                sum.add_person(std::hint::black_box(&row).as_person());
            }
            Ok(())
        })
    }

    fn list(&mut self) -> Result<Vec<Row>> {
        Ok(self.runtime.block_on(sqlx::query_as(ALL).fetch_all(&mut self.connection))?)
    }

    fn scan(&mut self, sum: &mut Sum) -> Result<()> {
        self.runtime.block_on(async {
            let mut rows = sqlx::query(ALL).fetch(&mut self.connection);
            while let Some(row) = rows.try_next().await? {
                row::add(sum, &row)?;
            }
            Ok(())
        })
    }
}

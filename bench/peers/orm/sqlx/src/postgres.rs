//! sqlx on PostgreSQL: batches by `UNNEST`, as its documentation recommends.

use bench_orm_workload::{
    AsPerson, CREATE_TABLE_POSTGRES, Contender, Person, Place, Result, Setting, Sum,
};
use futures_util::TryStreamExt;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, PgConnection};
use tokio::runtime::Runtime;

use crate::row::{self, Row};

const INSERT: &str = "INSERT INTO person (first_name, last_name, balance, met_at, modified_at, created_at) VALUES ($1,$2,$3,$4,$5,$6) RETURNING id";
const INSERT_MANY: &str = "INSERT INTO person (first_name, last_name, balance, met_at, modified_at, created_at) SELECT * FROM UNNEST($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])";
const ALL: &str = "SELECT id, first_name, last_name, balance, met_at, modified_at, created_at FROM person ORDER BY id";
const BY_ID: &str = "SELECT id, first_name, last_name, balance, met_at, modified_at, created_at FROM person WHERE id = $1";

pub(crate) struct OnPostgres {
    runtime: Runtime,
    connection: PgConnection,
}

impl Contender for OnPostgres {
    const NAME: &'static str = "sqlx PostgreSQL";
    const SETTINGS: &'static [Setting] = &[Setting::Postgres];
    const STATEMENT_ROWS: &'static [usize] = &[1, 500];
    type New = Person;
    type Row = Row;

    fn new(person: &Person) -> Person {
        person.clone()
    }

    fn open(place: &Place) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // sqlx's URLs need a host; the socket in the options takes precedence.
        let options: PgConnectOptions = place.path().replace("@/", "@localhost/").parse()?;
        let connection = runtime.block_on(async {
            let mut connection = options.disable_statement_logging().connect().await?;
            sqlx::raw_sql(CREATE_TABLE_POSTGRES).execute(&mut connection).await?;
            Ok::<_, sqlx::Error>(connection)
        })?;
        Ok(Self { runtime, connection })
    }

    fn begin(&mut self) -> Result<()> {
        self.runtime.block_on(sqlx::raw_sql("BEGIN").execute(&mut self.connection))?;
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.runtime.block_on(sqlx::raw_sql("COMMIT").execute(&mut self.connection))?;
        Ok(())
    }

    fn insert_each(&mut self, people: &[Person]) -> Result<i64> {
        self.runtime.block_on(async {
            let mut last_id = 0;
            for p in people {
                last_id = sqlx::query_scalar(INSERT)
                    .bind(&*p.first_name)
                    .bind(&*p.last_name)
                    .bind(p.balance)
                    .bind(p.met_at)
                    .bind(p.modified_at)
                    .bind(p.created_at)
                    .fetch_one(&mut self.connection)
                    .await?;
            }
            Ok(last_id)
        })
    }

    fn insert_batch(&mut self, people: &[Person], statement_rows: usize) -> Result<()> {
        if statement_rows == 1 {
            self.insert_each(people)?;
            return Ok(());
        }
        let texts = |of: fn(&Person) -> &str| people.iter().map(of).collect::<Vec<_>>();
        let numbers = |of: fn(&Person) -> i64| people.iter().map(of).collect::<Vec<_>>();
        let query = sqlx::query(INSERT_MANY)
            .bind(texts(|person| &person.first_name))
            .bind(texts(|person| &person.last_name))
            .bind(numbers(|person| person.balance))
            .bind(numbers(|person| person.met_at))
            .bind(numbers(|person| person.modified_at))
            .bind(numbers(|person| person.created_at));
        self.runtime.block_on(query.execute(&mut self.connection))?;
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

//! mysql_async by hand: one connection, prepared statements, batches as inserts of several rows.
//! With `BENCH_ORM_VARIANT=load`, batches use `LOAD DATA LOCAL`.

use std::fmt::Write;
use std::process::ExitCode;

use bench_orm_workload::{
    AsPerson, CREATE_TABLE_MARIADB, Contender, Figure, Person, PersonRef, Place, Result, Setting,
    Sum, run,
};
use futures_util::stream::{self, StreamExt};
use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Conn, FromRowError, Opts, OptsBuilder, Params, Row as Found, Statement, Value};
use tokio::runtime::Runtime;

const FIELDS: &str = "first_name, last_name, balance, met_at, modified_at, created_at";

fn main() -> ExitCode {
    match std::env::var("BENCH_ORM_VARIANT").as_deref() {
        Ok("load") => run::<Hand<true>>(),
        _ => run::<Hand<false>>(),
    }
}

struct Row(Person);

impl AsPerson for Row {
    fn as_person(&self) -> PersonRef<'_> {
        self.0.as_person()
    }
}

impl FromRow for Row {
    fn from_row_opt(row: Found) -> std::result::Result<Self, FromRowError> {
        let found = FromRow::from_row_opt(row)?;
        let (id, first_name, last_name, balance, met_at, modified_at, created_at) = found;
        Ok(Self(Person { id, first_name, last_name, balance, met_at, modified_at, created_at }))
    }
}

/// With `LOAD`, batches use `LOAD DATA LOCAL`.
struct Hand<const LOAD: bool> {
    runtime: Runtime,
    connection: Conn,
    insert: Statement,
    /// The statement of the last number of rows.
    batch: Option<(usize, Statement)>,
    by_id: Statement,
    all: Statement,
    /// The id of the last row of `LOAD DATA`. Its automatic keys would have gaps between statements.
    last_id: i64,
}

fn values(person: &Person) -> [Value; 6] {
    [
        person.first_name.as_str().into(),
        person.last_name.as_str().into(),
        person.balance.into(),
        person.met_at.into(),
        person.modified_at.into(),
        person.created_at.into(),
    ]
}

impl<const LOAD: bool> Contender for Hand<LOAD> {
    const NAME: &'static str = if LOAD { "LOAD DATA LOCAL" } else { "mysql_async" };
    const SETTINGS: &'static [Setting] = &[Setting::Mariadb];
    const FIGURES: &'static [Figure] = match LOAD {
        true => &[Figure::InsertBatch, Figure::InsertBatchTransaction],
        false => &Figure::ALL,
    };
    const STATEMENT_ROWS: &'static [usize] = if LOAD { &[500] } else { &[50, 250, 500] };
    type New = Person;
    type Row = Row;

    fn new(person: &Person) -> Person {
        person.clone()
    }

    fn open(place: &Place) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let url = place.path().replacen("mariadb:", "mysql:", 1);
        let options: Opts = OptsBuilder::from_opts(Opts::from_url(&url)?).into();
        let prepared = runtime.block_on(async {
            let mut connection = Conn::new(options).await?;
            connection.query_drop(CREATE_TABLE_MARIADB).await?;
            let insert = format!("INSERT INTO person ({FIELDS}) VALUES (?,?,?,?,?,?)");
            let insert = connection.prep(insert).await?;
            let by_id = format!("SELECT id, {FIELDS} FROM person WHERE id = ?");
            let by_id = connection.prep(by_id).await?;
            let all = format!("SELECT id, {FIELDS} FROM person ORDER BY id");
            let all = connection.prep(all).await?;
            Ok::<_, mysql_async::Error>((connection, insert, by_id, all))
        });
        let (connection, insert, by_id, all) = prepared?;
        Ok(Self { runtime, connection, insert, batch: None, by_id, all, last_id: 0 })
    }

    fn begin(&mut self) -> Result<()> {
        Ok(self.runtime.block_on(self.connection.query_drop("BEGIN"))?)
    }

    fn commit(&mut self) -> Result<()> {
        Ok(self.runtime.block_on(self.connection.query_drop("COMMIT"))?)
    }

    fn insert_each(&mut self, people: &[Person]) -> Result<i64> {
        self.runtime.block_on(async {
            for person in people {
                let values = Params::Positional(values(person).into());
                self.connection.exec_drop(&self.insert, values).await?;
            }
            Ok(self.connection.last_insert_id().unwrap_or(0) as i64)
        })
    }

    fn insert_batch(&mut self, people: &[Person], statement_rows: usize) -> Result<()> {
        let Self { runtime, connection, batch, last_id, .. } = self;
        runtime.block_on(async {
            if LOAD {
                // The names have no tabulators.
                let mut text = String::with_capacity(people.len() * 80);
                for person in people {
                    let Person { first_name, last_name, balance, .. } = person;
                    let Person { met_at, modified_at, created_at, .. } = person;
                    *last_id += 1;
                    writeln!(
                        text,
                        "{last_id}\t{first_name}\t{last_name}\t{balance}\t{met_at}\t\
                         {modified_at}\t{created_at}"
                    )?;
                }
                let data = async move { Ok(stream::iter([Ok(bytes::Bytes::from(text))]).boxed()) };
                connection.set_infile_handler(data);
                let text = format!(
                    "LOAD DATA LOCAL INFILE 'people' INTO TABLE person CHARACTER SET utf8mb4 \
                     (id, {FIELDS})"
                );
                return Ok(connection.query_drop(text).await?);
            }
            for rows in people.chunks(statement_rows) {
                if batch.as_ref().is_none_or(|(count, _)| *count != rows.len()) {
                    let places = vec!["(?,?,?,?,?,?)"; rows.len()].join(",");
                    let text = format!("INSERT INTO person ({FIELDS}) VALUES {places}");
                    *batch = Some((rows.len(), connection.prep(text).await?));
                }
                if let Some((_, statement)) = batch {
                    let values = rows.iter().flat_map(values).collect();
                    connection.exec_drop(&*statement, Params::Positional(values)).await?;
                }
            }
            Ok(())
        })
    }

    fn read_each(&mut self, ids: &[i64], sum: &mut Sum) -> Result<()> {
        self.runtime.block_on(async {
            for id in ids {
                let row: Option<Row> = self.connection.exec_first(&self.by_id, (id,)).await?;
                let row = row.ok_or("a row is missing")?;
                sum.add_person(std::hint::black_box(&row).as_person());
            }
            Ok(())
        })
    }

    fn list(&mut self) -> Result<Vec<Row>> {
        Ok(self.runtime.block_on(self.connection.exec(&self.all, ()))?)
    }

    fn scan(&mut self, sum: &mut Sum) -> Result<()> {
        let mut add = |row: Row| sum.add_person(row.as_person());
        let read = self.connection.exec_fold(&self.all, (), (), |(), row| add(row));
        Ok(self.runtime.block_on(read)?)
    }
}

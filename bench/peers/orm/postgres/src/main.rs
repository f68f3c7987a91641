//! tokio-postgres by hand: one connection, prepared statements, batches by `UNNEST` (500 rows per
//! statement) or as pipelined inserts (1). With `BENCH_ORM_VARIANT=copy`, batches use binary
//! `COPY`.

use std::process::ExitCode;

use bench_orm_workload::{
    AsPerson, CREATE_TABLE_POSTGRES, Contender, Figure, Person, PersonRef, Place, Result, Setting,
    Sum, run,
};
use futures_util::{TryStreamExt, future, pin_mut};
use tokio::runtime::Runtime;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls, Row as Found, Statement};

const FIELDS: &str = "first_name, last_name, balance, met_at, modified_at, created_at";
const TYPES: [Type; 6] = [Type::TEXT, Type::TEXT, Type::INT8, Type::INT8, Type::INT8, Type::INT8];

fn main() -> ExitCode {
    match std::env::var("BENCH_ORM_VARIANT").as_deref() {
        Ok("copy") => run::<Hand<true>>(),
        _ => run::<Hand<false>>(),
    }
}

struct Row(Person);

impl AsPerson for Row {
    fn as_person(&self) -> PersonRef<'_> {
        self.0.as_person()
    }
}

impl From<Found> for Row {
    fn from(row: Found) -> Self {
        Self(Person {
            id: row.get(0),
            first_name: row.get(1),
            last_name: row.get(2),
            balance: row.get(3),
            met_at: row.get(4),
            modified_at: row.get(5),
            created_at: row.get(6),
        })
    }
}

/// With `COPY`, batches use binary `COPY`.
struct Hand<const COPY: bool> {
    runtime: Runtime,
    client: Client,
    insert: Statement,
    unnest: Statement,
    by_id: Statement,
    all: Statement,
}

fn values(person: &Person) -> [&(dyn ToSql + Sync); 6] {
    [
        &person.first_name,
        &person.last_name,
        &person.balance,
        &person.met_at,
        &person.modified_at,
        &person.created_at,
    ]
}

impl<const COPY: bool> Contender for Hand<COPY> {
    const NAME: &'static str = if COPY { "tokio-postgres COPY" } else { "tokio-postgres" };
    const SETTINGS: &'static [Setting] = &[Setting::Postgres];
    const FIGURES: &'static [Figure] = match COPY {
        true => &[Figure::InsertBatch, Figure::InsertBatchTransaction],
        false => &Figure::ALL,
    };
    const STATEMENT_ROWS: &'static [usize] = if COPY { &[500] } else { &[1, 500] };
    type New = Person;
    type Row = Row;

    fn new(person: &Person) -> Person {
        person.clone()
    }

    fn open(place: &Place) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let prepared = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(place.path(), NoTls).await?;
            tokio::spawn(connection);
            client.batch_execute(CREATE_TABLE_POSTGRES).await?;
            let insert = format!("INSERT INTO person ({FIELDS}) VALUES ($1,$2,$3,$4,$5,$6)");
            let unnest = format!(
                "INSERT INTO person ({FIELDS}) SELECT * FROM UNNEST($1::text[], $2::text[], \
                 $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])"
            );
            let insert = client.prepare(&(insert + " RETURNING id")).await?;
            let unnest = client.prepare(&unnest).await?;
            let by_id = format!("SELECT id, {FIELDS} FROM person WHERE id = $1");
            let by_id = client.prepare(&by_id).await?;
            let all =
                client.prepare(&format!("SELECT id, {FIELDS} FROM person ORDER BY id")).await?;
            Ok::<_, tokio_postgres::Error>((client, insert, unnest, by_id, all))
        });
        let (client, insert, unnest, by_id, all) = prepared?;
        Ok(Self { runtime, client, insert, unnest, by_id, all })
    }

    fn begin(&mut self) -> Result<()> {
        Ok(self.runtime.block_on(self.client.batch_execute("BEGIN"))?)
    }

    fn commit(&mut self) -> Result<()> {
        Ok(self.runtime.block_on(self.client.batch_execute("COMMIT"))?)
    }

    fn insert_each(&mut self, people: &[Person]) -> Result<i64> {
        self.runtime.block_on(async {
            let mut last_id = 0;
            for person in people {
                last_id = self.client.query_one(&self.insert, &values(person)).await?.get(0);
            }
            Ok(last_id)
        })
    }

    fn insert_batch(&mut self, people: &[Person], statement_rows: usize) -> Result<()> {
        self.runtime.block_on(async {
            if COPY {
                let text = format!("COPY person ({FIELDS}) FROM STDIN BINARY");
                let sink = self.client.copy_in(&text).await?;
                let writer = BinaryCopyInWriter::new(sink, &TYPES);
                pin_mut!(writer);
                for person in people {
                    writer.as_mut().write(&values(person)).await?;
                }
                writer.finish().await?;
                return Ok(());
            }
            if statement_rows == 1 {
                let (client, insert) = (&self.client, &self.insert);
                let insert = |person| {
                    let values = values(person);
                    async move { client.execute(insert, &values).await }
                };
                future::try_join_all(people.iter().map(insert)).await?;
                return Ok(());
            }
            let texts = |of: fn(&Person) -> &str| people.iter().map(of).collect::<Vec<_>>();
            let numbers = |of: fn(&Person) -> i64| people.iter().map(of).collect::<Vec<_>>();
            let columns: [&(dyn ToSql + Sync); 6] = [
                &texts(|person| &person.first_name),
                &texts(|person| &person.last_name),
                &numbers(|person| person.balance),
                &numbers(|person| person.met_at),
                &numbers(|person| person.modified_at),
                &numbers(|person| person.created_at),
            ];
            self.client.execute(&self.unnest, &columns).await?;
            Ok(())
        })
    }

    fn read_each(&mut self, ids: &[i64], sum: &mut Sum) -> Result<()> {
        self.runtime.block_on(async {
            for id in ids {
                let row: Row = self.client.query_one(&self.by_id, &[id]).await?.into();
                sum.add_person(std::hint::black_box(&row).as_person());
            }
            Ok(())
        })
    }

    fn list(&mut self) -> Result<Vec<Row>> {
        let found = self.runtime.block_on(self.client.query(&self.all, &[]))?;
        Ok(found.into_iter().map(Row::from).collect())
    }

    fn scan(&mut self, sum: &mut Sum) -> Result<()> {
        self.runtime.block_on(async {
            let none: [&(dyn ToSql + Sync); 0] = [];
            let rows = self.client.query_raw(&self.all, none).await?;
            pin_mut!(rows);
            while let Some(row) = rows.try_next().await? {
                sum.add(
                    row.get(0),
                    row.get::<_, &str>(1).len(),
                    row.get::<_, &str>(2).len(),
                    row.get(3),
                    row.get(4),
                    row.get(5),
                    row.get(6),
                );
            }
            Ok(())
        })
    }
}

//! diesel-async on PostgreSQL, with diesel's query builder and derives.

use std::process::ExitCode;

use bench_orm_workload::{
    AsPerson, CREATE_TABLE_POSTGRES, Contender, Person, PersonRef, Place, Result, Setting, Sum, run,
};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::{
    AnsiTransactionManager, AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection,
    TransactionManager,
};
use futures_util::TryStreamExt;
use tokio::runtime::Runtime;

fn main() -> ExitCode {
    run::<DieselAsync>()
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

#[derive(Queryable, Selectable)]
#[diesel(table_name = person, check_for_backend(Pg))]
struct Row {
    id: i64,
    first_name: String,
    last_name: String,
    balance: i64,
    met_at: i64,
    modified_at: i64,
    created_at: i64,
}

#[derive(Insertable)]
#[diesel(table_name = person)]
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

type Scanned = (i64, String, String, i64, i64, i64, i64);

struct DieselAsync {
    runtime: Runtime,
    connection: AsyncPgConnection,
}

impl Contender for DieselAsync {
    const NAME: &'static str = "diesel-async";
    const SETTINGS: &'static [Setting] = &[Setting::Postgres];
    const STATEMENT_ROWS: &'static [usize] = &[1, 100, 500];
    type New = Person;
    type Row = Row;

    fn new(person: &Person) -> Person {
        person.clone()
    }

    fn open(place: &Place) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let connection = runtime.block_on(async {
            let mut connection = AsyncPgConnection::establish(place.path()).await?;
            connection.batch_execute(CREATE_TABLE_POSTGRES).await?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(connection)
        })?;
        Ok(Self { runtime, connection })
    }

    fn begin(&mut self) -> Result<()> {
        let begun = AnsiTransactionManager::begin_transaction(&mut self.connection);
        Ok(self.runtime.block_on(begun)?)
    }

    fn commit(&mut self) -> Result<()> {
        let done = AnsiTransactionManager::commit_transaction(&mut self.connection);
        Ok(self.runtime.block_on(done)?)
    }

    fn insert_each(&mut self, people: &[Person]) -> Result<i64> {
        self.runtime.block_on(async {
            let mut last_id = 0;
            for p in people {
                last_id = diesel::insert_into(person::table)
                    .values(NewPerson::from(p))
                    .returning(person::id)
                    .get_result(&mut self.connection)
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
        self.runtime.block_on(async {
            for chunk in people.chunks(statement_rows) {
                let new: Vec<NewPerson<'_>> = chunk.iter().map(NewPerson::from).collect();
                diesel::insert_into(person::table)
                    .values(&new)
                    .execute(&mut self.connection)
                    .await?;
            }
            Ok(())
        })
    }

    fn read_each(&mut self, ids: &[i64], sum: &mut Sum) -> Result<()> {
        self.runtime.block_on(async {
            for &id in ids {
                let row: Row = person::table
                    .find(id)
                    .select(Row::as_select())
                    .get_result(&mut self.connection)
                    .await?;
                sum.add_person(std::hint::black_box(&row).as_person());
            }
            Ok(())
        })
    }

    fn list(&mut self) -> Result<Vec<Row>> {
        let all = person::table.order(person::id).select(Row::as_select());
        Ok(self.runtime.block_on(all.load(&mut self.connection))?)
    }

    fn scan(&mut self, sum: &mut Sum) -> Result<()> {
        self.runtime.block_on(async {
            let all = person::table.order(person::id);
            let mut rows = all.load_stream::<Scanned>(&mut self.connection).await?;
            while let Some((id, first_name, last_name, balance, met_at, modified_at, created_at)) =
                rows.try_next().await?
            {
                sum.add(
                    id,
                    first_name.len(),
                    last_name.len(),
                    balance,
                    met_at,
                    modified_at,
                    created_at,
                );
            }
            Ok(())
        })
    }
}

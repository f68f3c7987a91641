//! sea-orm with entities and active models, on a pool of one sqlx connection.

use std::process::ExitCode;

use bench_orm_workload::{
    AsPerson, CREATE_TABLE, CREATE_TABLE_POSTGRES, Contender, Person, PersonRef, Place, Result,
    Setting, Sum, run,
};
use futures_util::TryStreamExt;
use sea_orm::ActiveValue::{NotSet, Set};
use sea_orm::entity::prelude::*;
use sea_orm::{ConnectOptions, Database, DatabaseTransaction, QueryOrder, TransactionTrait};
use tokio::runtime::Runtime;

fn main() -> ExitCode {
    run::<SeaOrm>()
}

mod person {
    //! The entity as sea-orm's generator writes it.
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "person")]
    pub(crate) struct Model {
        #[sea_orm(primary_key)]
        pub(crate) id: i64,
        pub(crate) first_name: String,
        pub(crate) last_name: String,
        pub(crate) balance: i64,
        pub(crate) met_at: i64,
        pub(crate) modified_at: i64,
        pub(crate) created_at: i64,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

impl AsPerson for person::Model {
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

fn active(p: &Person) -> person::ActiveModel {
    person::ActiveModel {
        id: NotSet,
        first_name: Set(p.first_name.clone()),
        last_name: Set(p.last_name.clone()),
        balance: Set(p.balance),
        met_at: Set(p.met_at),
        modified_at: Set(p.modified_at),
        created_at: Set(p.created_at),
    }
}

type Scanned = (i64, String, String, i64, i64, i64, i64);

struct SeaOrm {
    runtime: Runtime,
    connection: DatabaseConnection,
    transaction: Option<DatabaseTransaction>,
}

impl Contender for SeaOrm {
    const NAME: &'static str = "sea-orm";
    const SETTINGS: &'static [Setting] =
        &[Setting::FileFull, Setting::FileOff, Setting::Memory, Setting::Postgres];
    const STATEMENT_ROWS: &'static [usize] = &[1, 100, 500];
    type New = Person;
    type Row = person::Model;

    fn new(person: &Person) -> Person {
        person.clone()
    }

    fn open(place: &Place) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (url, table) = match place.setting {
            // sqlx's URLs need a host; the socket in the options takes precedence.
            Setting::Postgres => (place.path().replace("@/", "@localhost/"), CREATE_TABLE_POSTGRES),
            setting if setting.is_file() => {
                (format!("sqlite://{}?mode=rwc", place.path()), CREATE_TABLE)
            }
            _ => ("sqlite::memory:".to_owned(), CREATE_TABLE),
        };
        let mut options = ConnectOptions::new(url);
        options
            .max_connections(1)
            .min_connections(1)
            .sqlx_logging(false)
            .test_before_acquire(false);
        let connection = runtime.block_on(async {
            let connection = Database::connect(options).await?;
            for sql in place.setting.pragmas().iter().chain([&table]) {
                connection.execute_unprepared(sql).await?;
            }
            Ok::<_, DbErr>(connection)
        })?;
        Ok(Self { runtime, connection, transaction: None })
    }

    fn begin(&mut self) -> Result<()> {
        self.transaction = Some(self.runtime.block_on(self.connection.begin())?);
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        let transaction = self.transaction.take().ok_or("no transaction is open")?;
        Ok(self.runtime.block_on(transaction.commit())?)
    }

    fn insert_each(&mut self, people: &[Person]) -> Result<i64> {
        let last_id = match &self.transaction {
            Some(transaction) => self.runtime.block_on(insert_each(transaction, people)),
            None => self.runtime.block_on(insert_each(&self.connection, people)),
        };
        Ok(last_id?)
    }

    fn insert_batch(&mut self, people: &[Person], statement_rows: usize) -> Result<()> {
        if statement_rows == 1 {
            self.insert_each(people)?;
            return Ok(());
        }
        match &self.transaction {
            Some(transaction) => {
                self.runtime.block_on(insert_many(transaction, people, statement_rows))?
            }
            None => self.runtime.block_on(insert_many(&self.connection, people, statement_rows))?,
        }
        Ok(())
    }

    fn read_each(&mut self, ids: &[i64], sum: &mut Sum) -> Result<()> {
        self.runtime.block_on(async {
            for &id in ids {
                let row = person::Entity::find_by_id(id).one(&self.connection).await?;
                let row = row.ok_or_else(|| format!("no row has the id {id}"))?;
                sum.add_person(std::hint::black_box(&row).as_person());
            }
            Ok(())
        })
    }

    fn list(&mut self) -> Result<Vec<person::Model>> {
        Ok(self.runtime.block_on(all().all(&self.connection))?)
    }

    fn scan(&mut self, sum: &mut Sum) -> Result<()> {
        self.runtime.block_on(async {
            let mut rows = all().into_tuple::<Scanned>().stream(&self.connection).await?;
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

/// All rows in the order of their ids.
fn all() -> Select<person::Entity> {
    person::Entity::find().order_by_asc(person::Column::Id)
}

async fn insert_each(
    on: &impl ConnectionTrait,
    people: &[Person],
) -> std::result::Result<i64, DbErr> {
    let mut last_id = 0;
    for p in people {
        last_id = person::Entity::insert(active(p)).exec(on).await?.last_insert_id;
    }
    Ok(last_id)
}

async fn insert_many(
    on: &impl ConnectionTrait,
    people: &[Person],
    statement_rows: usize,
) -> std::result::Result<(), DbErr> {
    for chunk in people.chunks(statement_rows) {
        person::Entity::insert_many(chunk.iter().map(active)).exec_without_returning(on).await?;
    }
    Ok(())
}

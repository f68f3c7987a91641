//! Marmota as its users call it: a derived model and a store on SQLite, on the memory engine, on
//! PostgreSQL and on MariaDB.
//!
//! The store sets the two stamps, as it does for users, so they are only checked to be from this
//! run.

use std::ops::ControlFlow;
use std::process::ExitCode;

use bench_orm_workload::{
    AsPerson, Contender, PersonRef, Place, Result, Setting, Stamps, Sum, run,
};
use marmota::model::ValueRef;
use marmota::prelude::*;
use marmota::store::operation::Operation;

fn main() -> ExitCode {
    run::<Marmota>()
}

#[derive(Model)]
struct Person {
    id: i64,
    #[model(max = 40)]
    first_name: String,
    #[model(max = 40)]
    last_name: String,
    balance: Currency,
    met_at: Timestamp,
    #[model(updated_at)]
    modified_at: Timestamp,
    #[model(created_at)]
    created_at: Timestamp,
}

impl AsPerson for Person {
    fn as_person(&self) -> PersonRef<'_> {
        PersonRef {
            id: self.id,
            first_name: &self.first_name,
            last_name: &self.last_name,
            balance: self.balance.scaled(),
            met_at: self.met_at.micros(),
            modified_at: self.modified_at.micros(),
            created_at: self.created_at.micros(),
        }
    }
}

struct Marmota {
    store: Store,
    transaction: Option<Transaction>,
}

impl Contender for Marmota {
    const NAME: &'static str = "marmota";
    const STAMPS: Stamps = Stamps::Made;
    const SETTINGS: &'static [Setting] = &Setting::ALL;
    type New = Person;
    type Row = Person;

    fn new(person: &bench_orm_workload::Person) -> Person {
        Person {
            id: 0,
            first_name: person.first_name.clone(),
            last_name: person.last_name.clone(),
            balance: Currency::from_scaled(person.balance),
            met_at: Timestamp::from_micros(person.met_at).unwrap_or_default(),
            modified_at: Timestamp::default(),
            created_at: Timestamp::default(),
        }
    }

    fn open(place: &Place) -> Result<Self> {
        // A cache of 64 MiB, pages of 4 KiB and WAL are Marmota's defaults.
        let url = match place.setting {
            Setting::FileFull => format!("sqlite:{}?durability=full", place.path()),
            Setting::FileOff => format!("sqlite:{}?durability=none&exclusive=true", place.path()),
            Setting::Memory => "sqlite::memory:".to_owned(),
            Setting::Engine => "memory:".to_owned(),
            Setting::Postgres | Setting::Mariadb => place.path().to_owned(),
        };
        let store = marmota::open(&url)?.model::<Person>().open()?;
        Ok(Self { store, transaction: None })
    }

    fn begin(&mut self) -> Result<()> {
        self.transaction = Some(self.store.begin_run()?);
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        let transaction = self.transaction.take().ok_or("no transaction is open")?;
        Ok(transaction.commit().run()?)
    }

    fn insert_each(&mut self, people: &[Person]) -> Result<i64> {
        let scope = self.scope();
        let mut last_id = 0;
        for person in people {
            last_id = scope.insert(person).run()?;
        }
        Ok(last_id)
    }

    fn insert_batch(&mut self, people: &[Person], _: usize) -> Result<()> {
        self.scope().insert_many(people).run()?;
        Ok(())
    }

    fn read_each(&mut self, ids: &[i64], sum: &mut Sum) -> Result<()> {
        for &id in ids {
            let person = self.store.get::<Person>(id).run()?;
            sum.add_unstamped(std::hint::black_box(&person).as_person());
        }
        Ok(())
    }

    fn list(&mut self) -> Result<Vec<Person>> {
        Ok(self.store.list::<Person>().run()?)
    }

    fn scan(&mut self, sum: &mut Sum) -> Result<()> {
        let table = self.store.table("person")?;
        let mut misfit = false;
        let mut sink = |row: &[ValueRef<'_>]| match row {
            [
                ValueRef::Int(id),
                ValueRef::Text(first_name),
                ValueRef::Text(last_name),
                ValueRef::Currency(balance),
                ValueRef::Timestamp(met_at),
                ValueRef::Timestamp(modified_at),
                ValueRef::Timestamp(created_at),
            ] => {
                std::hint::black_box((modified_at, created_at));
                sum.add(
                    *id,
                    first_name.len(),
                    last_name.len(),
                    balance.scaled(),
                    met_at.micros(),
                    0,
                    0,
                );
                ControlFlow::Continue(())
            }
            _ => {
                misfit = true;
                ControlFlow::Break(())
            }
        };
        self.store
            .run(&mut Operation::List { table: &table, query: &RowQuery::new() }, &mut sink)?;
        if misfit { Err("a row does not match the model".into()) } else { Ok(()) }
    }
}

impl Marmota {
    /// The open transaction, or else the store.
    fn scope(&self) -> &marmota::store::Store {
        match &self.transaction {
            Some(transaction) => transaction,
            None => &self.store,
        }
    }
}

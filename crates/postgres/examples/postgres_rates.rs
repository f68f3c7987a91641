//! Rows a second through a store on a server of one's own on this machine:
//! `cargo run --release -p marmota-postgres --features temporary-server
//! --example postgres_rates [rows]`. With `strace -c -f` it tells the system calls.
//!
//! Times are the wall's, because most of the work is the server's.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use marmota_derive::Model;
use marmota_model::{Currency, RowQuery, Timestamp, ValueRef};
use marmota_postgres::{Postgres, TemporaryPostgres};
use marmota_store::Store;
use marmota_store::operation::Operation;

/// The record.
#[derive(Clone, Debug, Default, Model)]
struct Person {
    id: i64,
    first_name: String,
    last_name: String,
    balance: Currency,
    met_at: Timestamp,
    modified_at: Timestamp,
    created_at: Timestamp,
}

/// How long each is measured.
const TIME: Duration = Duration::from_secs(2);

fn people(rows: usize) -> Vec<Person> {
    let person = |number: usize| Person {
        first_name: format!("first {number}"),
        last_name: format!("last {number}"),
        balance: Currency::from_scaled(number as i64),
        ..Person::default()
    };
    (0..rows).map(person).collect()
}

/// Does something that moves so many rows again and again, and tells the rate.
fn measure(name: &str, rows: usize, mut run: impl FnMut(usize)) {
    run(0);
    let (began, mut times) = (Instant::now(), 0);
    while began.elapsed() < TIME {
        times += 1;
        run(times);
    }
    let rate = (times * rows) as f64 / began.elapsed().as_secs_f64();
    println!("{name:<32} {rate:>12.0} rows/s");
}

/// Awaits a number of reads at once, as a server's thread does.
fn pipelined(store: &Store, keys: &[i64]) {
    type Get<'s> = Pin<Box<dyn Future<Output = marmota_model::Result<Person>> + 's>>;
    let mut gets: Vec<Get<'_>> = keys
        .iter()
        .map(|key| -> Get<'_> { Box::pin(async { store.get::<Person>(*key).await }) })
        .collect();
    let mut context = Context::from_waker(Waker::noop());
    while !gets.is_empty() {
        gets.retain_mut(|get| match get.as_mut().poll(&mut context) {
            Poll::Ready(row) => row.is_err(),
            Poll::Pending => true,
        });
    }
}

fn main() {
    let rows = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000);
    let server = TemporaryPostgres::start(&[]).unwrap();
    let engine = Postgres::from_url(&server.socket_url("postgres")).unwrap();
    let store = Store::builder(engine).model::<Person>().open().unwrap();
    let people = people(rows);
    measure("insert, one by one", 1, |at| {
        store.insert(&people[at % rows]).run().unwrap();
    });
    measure("insert, one by one, in one", rows, |_| {
        let insert = |own: &mut marmota_store::Transaction| {
            people.iter().try_for_each(|one| own.insert(one).run().map(drop))
        };
        store.transaction(insert).unwrap();
    });
    measure("insert many", rows, |_| drop(store.insert_many(&people).run().unwrap()));
    let keys: Vec<i64> =
        store.list::<Person>().limit(rows as u64).column(Person::ID).run().unwrap();
    let key = |at: usize| keys[at % keys.len()];
    measure("by id, one by one", 1, |at| drop(store.get::<Person>(key(at)).run().unwrap()));
    measure("by id, 64 at once", 64, |_| pipelined(&store, &keys[..64]));
    let table = store.table("person").unwrap();
    let query = RowQuery { limit: Some(10_000), ..RowQuery::new() };
    let count = store.count::<Person>().run().unwrap().min(10_000) as usize;
    measure("list, lent to a sink", count, |_| {
        let mut sink = |_: &[ValueRef<'_>]| ControlFlow::Continue(());
        store.run(&mut Operation::List { table: &table, query: &query }, &mut sink).unwrap();
    });
}

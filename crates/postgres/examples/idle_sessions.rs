//! What sessions on connections of their own cost the program once they are idle:
//! `cargo run --release -p marmota-postgres --features temporary-server --example idle_sessions [sessions]`.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]

use marmota_derive::Model;
use marmota_postgres::{Postgres, TemporaryPostgres};
use marmota_store::Store;

/// The record.
#[derive(Clone, Debug, Default, Model)]
struct Note {
    id: i64,
    text: String,
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn main() {
    let sessions = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200);
    let server =
        TemporaryPostgres::start(&[&format!("max_connections={}", sessions + 20)]).unwrap();
    // Half of them carry transactions.
    let url = format!("{}&connections_max={}", server.socket_url("postgres"), sessions * 2);
    let store = Store::builder(Postgres::from_url(&url).unwrap()).model::<Note>().open().unwrap();
    let id = store.insert(&Note { id: 0, text: "x".repeat(1_000) }).run().unwrap();
    let before = resident_kib();
    let mut open = Vec::new();
    for _ in 0..sessions {
        let transaction = store.begin_run().unwrap();
        transaction.get::<Note>(id).run().unwrap();
        open.push(transaction);
    }
    println!("{sessions} transactions open: {} KiB more than {before}", resident_kib() - before);
    open.drain(..).for_each(|transaction| transaction.rollback().run().unwrap());
    println!("all idle: {} KiB more", resident_kib() - before);
}

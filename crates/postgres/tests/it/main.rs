//! The engine on a server of its own: what is PostgreSQL's alone. What every
//! engine promises is tested in `conformance`.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod cancel;
mod connect;
mod crowd;
mod disk;
mod existing_tables;
mod failover;
mod faults;
mod feed;
#[allow(dead_code, reason = "an example uses the rest")]
mod feed_race;
mod long_reads;
mod news;
mod pipeline;
mod pooler;
mod replicas;
mod retries;
#[path = "../../../memory/tests/it/small_disk.rs"]
mod small_disk;
mod sql;
mod tables;
mod unreadable;
mod wire_proxy;

use std::sync::OnceLock;

use marmota_derive::Model;
use marmota_postgres::{Postgres, TemporaryPostgres};
use marmota_store::Store;

/// A counter, with what a conflict needs.
#[derive(Clone, Debug, Default, Model, PartialEq)]
#[allow(unreachable_pub, reason = "the derive gives columns the visibility of their fields")]
pub(crate) struct Tally {
    pub(crate) id: i64,
    pub(crate) count: i64,
    #[model(unique)]
    pub(crate) label: Option<String>,
}

/// The server that tests share which do not stop theirs.
fn server() -> &'static TemporaryPostgres {
    static SERVER: OnceLock<TemporaryPostgres> = OnceLock::new();
    SERVER.get_or_init(|| TemporaryPostgres::start(&["fsync=off"]).unwrap())
}

/// A store in a database of its own.
fn store() -> Store {
    open(&server().make_database().unwrap())
}

fn open(url: &str) -> Store {
    Store::builder(Postgres::from_url(url).unwrap()).model::<Tally>().open().unwrap()
}

fn engine(url: &str) -> Postgres {
    Postgres::from_url(url).unwrap()
}

fn label(number: impl std::fmt::Display) -> Tally {
    Tally { label: Some(format!("label {number}")), ..Tally::default() }
}

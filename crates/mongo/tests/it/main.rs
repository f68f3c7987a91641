//! The MongoDB engine on a server that speaks its protocol.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod aggregate;
mod batches;
mod compression;
mod documents;
mod faults;
mod gather;
mod login;
mod pool;
mod promises;
mod related;
mod replica;
mod served;
mod streams;
mod tee;
mod transactions;

use std::sync::OnceLock;

use marmota::prelude::*;
use marmota_mongo::TemporaryMongo;

/// A row to be written and sought.
#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Office {
    #[model(key)]
    code: String,
    #[model(collate = "nocase")]
    name: String,
    opened: Option<Timestamp>,
    options: Option<Json<serde_json::Value>>,
    seats: i64,
}

impl Office {
    fn new(code: &str, name: &str) -> Self {
        Self { code: code.to_owned(), name: name.to_owned(), ..Self::default() }
    }
}

/// A server that tests share which do not stop it.
fn server() -> &'static TemporaryMongo {
    static SERVER: OnceLock<TemporaryMongo> = OnceLock::new();
    SERVER.get_or_init(|| TemporaryMongo::start().unwrap())
}

fn open(url: &str) -> Store {
    marmota::open(url).unwrap().model::<Office>().open().unwrap()
}

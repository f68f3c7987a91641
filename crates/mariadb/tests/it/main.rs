//! The MariaDB engine on a real server.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod caches;
mod event_loop;
mod failover;
mod faults;
mod feed;
#[path = "../../../postgres/tests/it/feed_race.rs"]
#[allow(dead_code, reason = "an example uses the rest")]
mod feed_race;
mod galera;
mod tls;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use marmota_derive::Model;
use marmota_mariadb::{Mariadb, TemporaryMariadb};
use marmota_model::ErrorKind;
use marmota_store::Store;

/// A server that all tests share.
fn server() -> &'static TemporaryMariadb {
    static SERVER: OnceLock<TemporaryMariadb> = OnceLock::new();
    SERVER.get_or_init(|| TemporaryMariadb::start().unwrap())
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
#[allow(unreachable_pub, reason = "the derive gives columns the visibility of their fields")]
pub(crate) struct Tally {
    pub(crate) id: i64,
    pub(crate) count: i64,
    #[model(unique, max = 250)]
    pub(crate) label: Option<String>,
}

fn engine(url: &str) -> Mariadb {
    Mariadb::from_url(url).unwrap()
}

fn open_tally(url: &str) -> Store {
    Store::builder(engine(url)).model::<Tally>().open().unwrap()
}

/// Inserts rows until `ends`; returns the keys of those that were acknowledged.
fn insert_until(store: &Store, ends: &AtomicBool) -> Vec<i64> {
    let mut keys = Vec::new();
    while !ends.load(Ordering::Relaxed) {
        match store.insert(&Tally::default()).run() {
            Ok(key) => keys.push(key),
            Err(error) => {
                let kinds = [ErrorKind::Refused, ErrorKind::Lost, ErrorKind::Busy];
                assert!(kinds.contains(&error.kind()), "{error:?}");
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
    keys
}

/// Waits until a condition holds.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(std::time::Instant::now() < until, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

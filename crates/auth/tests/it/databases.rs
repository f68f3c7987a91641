//! A database of each engine, for tests with one body: servers are started once, and shared.

use std::sync::OnceLock;

use marmota_mariadb::{Mariadb, TemporaryMariadb};
use marmota_memory::Memory;
use marmota_postgres::{Postgres, TemporaryPostgres};
use marmota_sqlite::Sqlite;
use marmota_store::{Store, StoreBuilder};
use tempfile::TempDir;

/// A database that a test has alone.
pub(crate) struct Database {
    open: Box<dyn Fn() -> StoreBuilder>,
    /// Where its file is.
    _folder: Option<TempDir>,
}

impl Database {
    /// Starts a store on it. All stores on one database have the same rows, except in memory.
    pub(crate) fn builder(&self) -> StoreBuilder {
        (self.open)()
    }

    fn at(open: impl Fn() -> StoreBuilder + 'static) -> Self {
        Self { open: Box::new(open), _folder: None }
    }
}

/// Returns a database of each engine with transactions in turn, and prints its name, which a failed test
/// shows. Accounts need transactions, so MongoDB is not among them.
pub(crate) fn databases() -> impl Iterator<Item = Database> {
    [memory, sqlite, postgres, mariadb].into_iter().map(|make| make())
}

/// Returns databases that several processes can use, with whether a store sees what another one has
/// changed at its next request.
#[allow(dead_code, reason = "not each test program has several stores on one database")]
pub(crate) fn shared_databases() -> impl Iterator<Item = (Database, bool)> {
    let each: [(fn() -> Database, bool); 3] =
        [(sqlite_file, true), (postgres, false), (mariadb, false)];
    each.into_iter().map(|(make, at_once)| (make(), at_once))
}

fn memory() -> Database {
    println!("memory");
    Database::at(|| Store::builder(Memory::new()))
}

fn sqlite() -> Database {
    println!("SQLite");
    Database::at(|| Store::builder(Sqlite::from_url("sqlite::memory:").unwrap()))
}

fn sqlite_file() -> Database {
    println!("SQLite in a file");
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("accounts.db").display());
    let open = move || Store::builder(Sqlite::from_url(&url).unwrap());
    Database { _folder: Some(folder), ..Database::at(open) }
}

fn postgres() -> Database {
    println!("PostgreSQL");
    static SERVER: OnceLock<TemporaryPostgres> = OnceLock::new();
    let server = SERVER.get_or_init(|| TemporaryPostgres::start(&["fsync=off"]).unwrap());
    let url = server.make_database().unwrap();
    Database::at(move || Store::builder(Postgres::from_url(&url).unwrap()))
}

fn mariadb() -> Database {
    println!("MariaDB");
    static SERVER: OnceLock<TemporaryMariadb> = OnceLock::new();
    let server = SERVER.get_or_init(|| TemporaryMariadb::start().unwrap());
    let url = server.make_database().unwrap();
    Database::at(move || Store::builder(Mariadb::from_url(&url).unwrap()))
}

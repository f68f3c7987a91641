//! Every engine of Marmota, held to its promises.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod databases;
mod event_loops;
mod feed_over_rest;
mod feed_retention;
mod hosted;
#[path = "../../../memory/tests/it/killed.rs"]
mod killed;
mod killed_hooks;
mod leaks;
mod live_documents;
mod live_moves;
mod moved_generated_columns;
mod other_files;
mod sql;
mod stress;
mod transfers_of_keys;

use std::sync::OnceLock;

use marmota_mariadb::{Mariadb, TemporaryMariadb};
use marmota_memory::Memory;
use marmota_mongo::Mongo;
use marmota_postgres::{Postgres, TemporaryPostgres};
use marmota_sqlite::{Durability, Location, Sqlite, SqliteOptions};
use marmota_store::Store;
use marmota_store::change::ChangeRetention;
use marmota_testkit::conformance;
use marmota_testkit::conformance::Subject;

/// A database in a file of a folder of its own, opened by URL.
fn memory_file(name: &'static str) -> Subject {
    let folder = tempfile::tempdir().unwrap();
    Subject::new(name, move || {
        let url = format!("memory:{}", folder.path().join(name).display());
        Store::builder(Memory::from_url(&url).unwrap())
    })
    .reopening()
}

/// A file with a log beside it.
fn memory_log(name: &'static str, durability: &'static str) -> Subject {
    let folder = tempfile::tempdir().unwrap();
    Subject::new(name, move || {
        let path = folder.path().join("app.mem");
        let url = format!("memory:{}?durability={durability}", path.display());
        Store::builder(Memory::from_url(&url).unwrap())
    })
    .reopening()
}

fn sqlite_file(name: &'static str, options: SqliteOptions) -> Subject {
    let folder = tempfile::tempdir().unwrap();
    Subject::new(name, move || {
        let location = Location::File(folder.path().join("database"));
        Store::builder(Sqlite::open(location, options.clone()).unwrap())
    })
}

/// The URL of a database of its own on a server that all tests share.
fn postgres_url() -> String {
    static SERVER: OnceLock<TemporaryPostgres> = OnceLock::new();
    let server = SERVER.get_or_init(|| TemporaryPostgres::start(&["fsync=off"]).unwrap());
    server.make_database().unwrap()
}

fn postgres(name: &'static str) -> Subject {
    let url = postgres_url();
    Subject::new(name, move || Store::builder(Postgres::from_url(&url).unwrap()))
}

/// The same of a MariaDB server.
fn mariadb_url() -> String {
    static SERVER: OnceLock<TemporaryMariadb> = OnceLock::new();
    let server = SERVER.get_or_init(|| TemporaryMariadb::start().unwrap());
    server.make_database().unwrap()
}

fn mariadb(name: &'static str) -> Subject {
    let url = mariadb_url();
    Subject::new(name, move || Store::builder(Mariadb::from_url(&url).unwrap()))
}

/// The same of a server that speaks MongoDB's protocol.
fn mongo_url() -> String {
    static SERVER: OnceLock<marmota_mongo::TemporaryMongo> = OnceLock::new();
    let server = SERVER.get_or_init(|| marmota_mongo::TemporaryMongo::start().unwrap());
    // It looks through all rows for each key, and the machine may be busy.
    format!("{}?operation_timeout_ms=120000", server.url())
}

fn mongo(name: &'static str) -> Subject {
    let url = mongo_url();
    Subject::new(name, move || Store::builder(Mongo::from_url(&url).unwrap()))
}

fn relaxed() -> SqliteOptions {
    SqliteOptions { durability: Durability::Relaxed, ..SqliteOptions::default() }
}

conformance!(memory, || { Subject::new("memory", || Store::builder(Memory::new())) });
conformance!(memory_saved_as_json, || memory_file("rows.json"));
conformance!(memory_saved_as_binary, || memory_file("rows.bin"));
conformance!(memory_with_a_log, || memory_log("memory with a log", "full"));
conformance!(memory_with_a_relaxed_log, || memory_log("memory with a relaxed log", "relaxed"));
conformance!(sqlite_in_memory, || {
    Subject::new("SQLite in memory", || {
        Store::builder(Sqlite::from_url("sqlite::memory:").unwrap())
    })
});
conformance!(sqlite_in_a_file, || sqlite_file("SQLite in a file", SqliteOptions::default()));
conformance!(sqlite_reopened, || sqlite_file("SQLite opened again", relaxed()).reopening());
conformance!(sqlite_alone_with_its_file, || {
    let options = SqliteOptions { exclusive: true, ..relaxed() };
    sqlite_file("SQLite alone with its file", options)
});
conformance!(postgres_over_tcp, || postgres("PostgreSQL"));
conformance!(mariadb, || mariadb("MariaDB"));
conformance!(mongo, || mongo("MongoDB's protocol"));
// All promises hold with a feed as well.
conformance!(sqlite_with_a_feed, || {
    let folder = tempfile::tempdir().unwrap();
    Subject::new("SQLite with a feed", move || {
        let location = Location::File(folder.path().join("database"));
        let store = Store::builder(Sqlite::open(location, SqliteOptions::default()).unwrap());
        store.changes(ChangeRetention::default())
    })
});
conformance!(memory_with_a_feed, || {
    let folder = tempfile::tempdir().unwrap();
    Subject::new("memory with a feed", move || {
        let url = format!("memory:{}?durability=full", folder.path().join("app.mem").display());
        Store::builder(Memory::from_url(&url).unwrap()).changes(ChangeRetention::default())
    })
});
conformance!(postgres_with_a_feed, || {
    let url = postgres_url();
    Subject::new("PostgreSQL with a feed", move || {
        Store::builder(Postgres::from_url(&url).unwrap()).changes(ChangeRetention::default())
    })
});
conformance!(mariadb_with_a_feed, || {
    let url = mariadb_url();
    Subject::new("MariaDB with a feed", move || {
        Store::builder(Mariadb::from_url(&url).unwrap()).changes(ChangeRetention::default())
    })
});
conformance!(sqlite_behind_a_cache, || {
    let folder = tempfile::tempdir().unwrap();
    Subject::new("SQLite behind a cache", move || {
        let location = Location::File(folder.path().join("database"));
        Store::builder(Sqlite::open(location, relaxed()).unwrap()).cache(1 << 20)
    })
});
conformance!(memory_behind_a_cache, || {
    // So small that rows are let go of all the time.
    Subject::new("memory behind a cache", || Store::builder(Memory::new()).cache(2048))
});
conformance!(several_databases, || {
    let folder = tempfile::tempdir().unwrap();
    Subject::new("several databases", move || {
        let location = Location::File(folder.path().join("database"));
        Store::builder(Sqlite::open(location, relaxed()).unwrap()).database(
            "live",
            Memory::new(),
            |live| live,
        )
    })
});
conformance!(remote_in_process, || {
    hosted::subject("remote in process", hosted::in_process, || Box::new(Memory::new()))
});
conformance!(remote_over_a_unix_socket, || {
    let folder = tempfile::tempdir().unwrap();
    hosted::subject("remote over a Unix socket", hosted::over_unix, move || {
        let location = Location::File(folder.path().join("database"));
        Box::new(Sqlite::open(location, relaxed()).unwrap())
    })
});
conformance!(remote_over_http, || {
    hosted::subject("remote over HTTP", hosted::over_http, || Box::new(Memory::new()))
});
// A server's threads execute the reads themselves.
conformance!(mariadb_over_http, || {
    let url = mariadb_url();
    let open = move || Box::new(Mariadb::from_url(&url).unwrap()) as Box<_>;
    hosted::subject("MariaDB over HTTP", hosted::over_http, open)
});
conformance!(remote_over_a_web_socket, || {
    let reach = hosted::over_a_web_socket;
    hosted::subject("remote over a WebSocket", reach, || Box::new(Memory::new()))
});
#[cfg(feature = "encryption")]
conformance!(memory_encrypted_log, || {
    let folder = tempfile::tempdir().unwrap();
    Subject::new("memory with an encrypted log", move || {
        let url = format!("memory:{}?durability=full", folder.path().join("app.mem").display());
        let engine = Memory::from_url(&url).unwrap();
        Store::builder(engine.key(|| Ok(marmota_store::key::EncryptionKey::raw([7; 32]))).unwrap())
    })
    .reopening()
});
#[cfg(feature = "encryption")]
conformance!(sqlite_encrypted, || {
    let options = relaxed().key(|| Ok(marmota_sqlite::EncryptionKey::raw([7; 32])));
    sqlite_file("SQLite encrypted", options)
});

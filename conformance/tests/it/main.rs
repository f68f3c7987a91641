//! Every engine of Marmota, held to its promises.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod databases;
mod sql;

use marmota_conformance::{Subject, conformance};
use marmota_sqlite::{Durability, Location, Options, Sqlite};
use marmota_store::Store;
use marmota_store::memory::Memory;

/// A database in a file of a folder of its own, opened by URL.
fn memory_file(name: &'static str) -> Subject {
    let folder = tempfile::tempdir().unwrap();
    Subject::new(name, move || {
        let url = format!("memory:{}", folder.path().join(name).display());
        Store::builder(Memory::from_url(&url).unwrap())
    })
    .reads_wait()
    .settles()
}

/// A file with a log beside it.
fn memory_log(name: &'static str, durability: &'static str) -> Subject {
    let folder = tempfile::tempdir().unwrap();
    Subject::new(name, move || {
        let path = folder.path().join("app.mem");
        let url = format!("memory:{}?durability={durability}", path.display());
        Store::builder(Memory::from_url(&url).unwrap())
    })
    .reads_wait()
    .settles()
}

fn sqlite_file(name: &'static str, options: Options) -> Subject {
    let folder = tempfile::tempdir().unwrap();
    Subject::new(name, move || {
        let location = Location::File(folder.path().join("database"));
        Store::builder(Sqlite::open(location, options.clone()).unwrap())
    })
    .keeps()
}

fn relaxed() -> Options {
    Options { durability: Durability::Relaxed, ..Options::default() }
}

conformance!(memory, || {
    Subject::new("memory", || Store::builder(Memory::new())).reads_wait().oracle()
});
conformance!(memory_saved_as_json, || memory_file("rows.json"));
conformance!(memory_saved_as_binary, || memory_file("rows.bin"));
conformance!(memory_with_a_log, || memory_log("memory with a log", "full"));
conformance!(memory_with_a_relaxed_log, || memory_log("memory with a relaxed log", "relaxed"));
conformance!(sqlite_in_memory, || {
    Subject::new("SQLite in memory", || {
        Store::builder(Sqlite::from_url("sqlite::memory:").unwrap())
    })
    .reads_wait()
});
conformance!(sqlite_in_a_file, || sqlite_file("SQLite in a file", Options::default()));
conformance!(sqlite_reopened, || sqlite_file("SQLite opened again", relaxed()).settles());
conformance!(sqlite_alone_with_its_file, || {
    let options = Options { exclusive: true, ..relaxed() };
    sqlite_file("SQLite alone with its file", options).reads_wait()
});
conformance!(sqlite_behind_a_cache, || {
    let folder = tempfile::tempdir().unwrap();
    Subject::new("SQLite behind a cache", move || {
        let location = Location::File(folder.path().join("database"));
        Store::builder(Sqlite::open(location, relaxed()).unwrap()).cache(1 << 20)
    })
    .keeps()
});
conformance!(memory_behind_a_cache, || {
    // So small that rows are let go of all the time.
    Subject::new("memory behind a cache", || Store::builder(Memory::new()).cache(2048)).reads_wait()
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
    .keeps()
});
#[cfg(feature = "encryption")]
conformance!(memory_encrypted_log, || {
    let folder = tempfile::tempdir().unwrap();
    Subject::new("memory with an encrypted log", move || {
        let url = format!("memory:{}?durability=full", folder.path().join("app.mem").display());
        let engine = Memory::from_url(&url).unwrap();
        Store::builder(engine.key(|| Ok(marmota_store::key::Key::raw([7; 32]))).unwrap())
    })
    .reads_wait()
    .settles()
});
#[cfg(feature = "encryption")]
conformance!(sqlite_encrypted, || {
    let options = relaxed().key(|| Ok(marmota_sqlite::Key::raw([7; 32])));
    sqlite_file("SQLite encrypted", options)
});

//! Encrypted databases stay encrypted in the target.

use std::path::Path;
use std::time::Duration;

use marmota_memory::Memory;
use marmota_model::ErrorKind;
use marmota_replication::{ReplicationOptions, RestorePoint};
use marmota_sqlite::{EncryptionKey, SqliteOptions};
use marmota_store::{Store, StoreBuilder};

use crate::database::{
    Kind, Note, Place, Primary, bodies, builder, memory_url, replica, restore_to, wait_for,
};

fn locked(passphrase: &'static str) -> SqliteOptions {
    SqliteOptions::default().key(move || EncryptionKey::passphrase(passphrase.to_owned()))
}

/// Returns true if a file of a folder contains the text.
fn contains(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return contains(&path, text);
        }
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    })
}

#[test]
fn nothing_in_the_target_is_plain_text() {
    let place = Place::new();
    let options = ReplicationOptions::default().window(Duration::from_millis(40));
    let path = place.path("a.db");
    let primary = Primary::open(&path, &place.url, options, &locked("open sesame")).unwrap();
    for number in 0..200 {
        primary.insert(format!("treasure {number}"));
    }
    primary.settle(&place);
    assert!(!contains(&place.path("target"), "treasure"));
    assert!(!contains(&place.path("target"), "SQLite format 3"));

    let restored = place.path("restored.db");
    restore_to(&restored, &place.url, RestorePoint::Latest, &locked("open sesame")).unwrap();
    let store = builder(&restored, &locked("open sesame")).unwrap().open().unwrap();
    assert_eq!(bodies(&store), bodies(&primary.store));
    store.close().unwrap();
    let other = place.path("other.db");
    let wrong = restore_to(&other, &place.url, RestorePoint::Latest, &locked("wrong"));
    assert_eq!(wrong.unwrap_err().kind(), ErrorKind::Denied);

    let path = place.path("replica.db");
    let (store, _follower) = replica(&path, &place.url, &locked("open sesame")).unwrap();
    primary.insert("treasure that follows");
    wait_for("the replica", || bodies(&store) == bodies(&primary.store));
    store.close().unwrap();
    let (store, _follower) = replica(&path, &place.url, &locked("open sesame")).unwrap();
    assert_eq!(bodies(&store), bodies(&primary.store));
    store.close().unwrap();
    primary.store.close().unwrap();
    assert!(!contains(&place.path("target"), "treasure"));
}

#[test]
fn the_records_of_an_encrypted_database_stay_sealed() {
    // The key comes from the environment of a process, so the test runs in a process of its own.
    let test = ["--ignored", "--exact", "encrypted::replicates_sealed_records"];
    let mut process = std::process::Command::new(std::env::current_exe().unwrap());
    let ended = process.args(test).env("MARMOTA_KEY", "open sesame").status().unwrap();
    assert!(ended.success());
}

#[test]
#[ignore = "a process that another test starts"]
fn replicates_sealed_records() {
    let place = Place::of(Kind::Memory);
    let options = ReplicationOptions::default().window(Duration::from_millis(40));
    let path = place.path("a.mem");
    let open = || Primary::of(Kind::Memory.builder(&path).unwrap(), &place.url, options.clone());
    let primary = open().unwrap();
    for number in 0..100 {
        primary.insert(format!("treasure {number}"));
    }
    primary.settle(&place);
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), bodies(&primary.store));
    // A sealed log is not continued by another run, which begins another one.
    drop(primary.store);
    let primary = open().unwrap();
    primary.insert("treasure of the second run");
    primary.settle(&place);
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), bodies(&primary.store));
    assert_eq!(crate::database::snapshots(&place.url), 1);
    // A replica unseals what it gets, and continues after its own restart.
    let (store, _) = place.replica("replica.mem").unwrap();
    primary.insert("treasure that follows");
    wait_for("the replica", || bodies(&store) == bodies(&primary.store));
    store.close().unwrap();
    drop(primary.store);
    let primary = open().unwrap();
    primary.insert("treasure of the third run");
    let (store, _) = place.replica("replica.mem").unwrap();
    wait_for("the replica", || bodies(&store) == bodies(&primary.store));
    store.close().unwrap();
    for name in ["replica.mem", "replica.mem.log.2"] {
        let bytes = std::fs::read(place.path(name)).unwrap_or_default();
        assert!(!bytes.windows(8).any(|part| part == b"treasure"), "{name}");
    }
    primary.store.close().unwrap();
    assert!(!contains(&place.path("target"), "treasure"));
    let wrong = |path: &Path| -> StoreBuilder {
        let key = || EncryptionKey::passphrase("wrong".to_owned());
        let engine = Memory::from_url(&memory_url(path)).unwrap().key(key).unwrap();
        Store::builder(engine).model::<Note>()
    };
    let copy = place.path("copy.mem");
    Kind::Memory.restore_to(&copy, &place.url, RestorePoint::Latest).unwrap();
    assert_eq!(wrong(&copy).open().err().unwrap().kind(), ErrorKind::Denied);
}

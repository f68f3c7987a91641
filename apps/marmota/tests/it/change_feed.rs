//! The change feed of a database that is restored from a backup, or moved.

use marmota::prelude::*;
use marmota::store::change::{ChangeRetention, Position};

#[derive(Clone, Debug, Model)]
struct Note {
    id: i64,
    text: String,
}

fn open(url: &str) -> Store {
    let store = marmota::open(url).unwrap().model::<Note>();
    store.changes(ChangeRetention::default()).open().unwrap()
}

fn write(store: &Store, text: &str) -> Position {
    store.insert(&Note { id: 0, text: text.to_owned() }).run().unwrap();
    store.position().unwrap()
}

/// The commits after a backup are gone after its restore, and others get their numbers. So a reader
/// that has seen them must not continue.
#[test]
fn positions_are_refused_after_a_restore() {
    for scheme in ["sqlite", "memory"] {
        let folder = tempfile::tempdir().unwrap();
        let options = if scheme == "memory" { "?durability=full" } else { "" };
        let url = format!("{scheme}:{}{options}", folder.path().join("notes").display());
        let store = open(&url);
        let before = write(&store, "before the backup");
        let backup = folder.path().join("backup");
        store.backup_to(&backup).unwrap();
        let after = write(&store, "after the backup");
        store.close().unwrap();
        drop(store);
        marmota::restore(&backup, &url, true).unwrap();
        let store = open(&url);
        let again = write(&store, "another one");
        for position in [before, after] {
            let error = store.changes().unwrap().from(position).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.message().contains("another database"), "{error}");
        }
        assert!(store.changes().unwrap().from(again).is_ok());
    }
}

/// The feed belongs to the database: it stays where it is, and is no table that a move misses.
#[test]
fn a_moved_database_has_a_feed_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let url = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
    let store = open(&url("a"));
    let position = write(&store, "moved");
    store.close().unwrap();
    drop(store);
    let builder = |name: &str| marmota::open(&url(name)).unwrap().model::<Note>();
    builder("a").transfer_to(builder("b"), &mut |_| {}).unwrap();
    let store = open(&url("b"));
    assert_eq!(store.count::<Note>().run().unwrap(), 1);
    assert!(store.changes().unwrap().from(position).is_err());
}

//! Encrypted databases stay encrypted in the target.

use std::path::Path;
use std::time::Duration;

use marmota_model::ErrorKind;
use marmota_replication::{ReplicationOptions, RestorePoint};
use marmota_sqlite::{EncryptionKey, SqliteOptions};

use crate::database::{Place, Primary, bodies, builder, replica, restore_to, wait_for};

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

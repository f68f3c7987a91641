//! Another engine on the file of a primary: it reads, and its writes are refused.

use std::time::Duration;

use marmota_model::ErrorKind;
use marmota_replication::{ReplicationOptions, RestorePoint};
use marmota_sqlite::SqliteOptions;

use crate::database::{Place, bodies, builder, note};

#[test]
fn only_the_primary_writes_and_a_backup_is_possible() {
    let place = Place::new();
    let options = ReplicationOptions::default().window(Duration::from_millis(40));
    let primary = place.primary("a.db", options.clone()).unwrap();
    primary.insert("first");
    let error = place.primary("a.db", options.clone()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");

    let backup = place.path("backup");
    let other = builder(&place.path("a.db"), &SqliteOptions::default()).unwrap();
    other.backup_with(&backup, &mut |_, _| {}).unwrap();
    assert!(backup.exists());
    primary.store.backup_to(place.path("second backup")).unwrap();
    let other = builder(&place.path("a.db"), &SqliteOptions::default()).unwrap().open();
    assert_eq!(other.err().unwrap().kind(), ErrorKind::Busy);

    primary.insert("second");
    primary.settle(&place);
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), bodies(&primary.store));
    primary.store.close().unwrap();
    let alone = builder(&place.path("a.db"), &SqliteOptions::default()).unwrap().open().unwrap();
    alone.insert(&note("without replication")).run().unwrap();
    alone.close().unwrap();
    let primary = place.primary("a.db", options).unwrap();
    primary.insert("with replication");
    let expected = bodies(&primary.store);
    assert_eq!(expected.len(), 4);
    crate::database::wait_for("the new chain", || {
        place.restored(RestorePoint::Latest).is_ok_and(|there| there == expected)
    });
}

#[test]
fn an_exclusive_database_is_replicated() {
    let place = Place::new();
    let exclusive = SqliteOptions { exclusive: true, ..SqliteOptions::default() };
    let options = ReplicationOptions::default().window(Duration::from_millis(40));
    let path = place.path("a.db");
    let primary = crate::database::Primary::open(&path, &place.url, options, &exclusive).unwrap();
    for round in 0..30 {
        let notes: Vec<_> =
            (0..100).map(|number| note(format!("{round}:{number}{}", "e".repeat(3_000)))).collect();
        primary.store.insert_many(&notes).run().unwrap();
    }
    primary.settle(&place);
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), bodies(&primary.store));
}

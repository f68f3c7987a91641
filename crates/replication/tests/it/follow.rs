//! Replicas follow their primary, refuse writes, and take over.

use std::sync::Arc;
use std::time::Duration;

use marmota_model::ErrorKind;
use marmota_replication::{Follower, ReplicationMode, ReplicationOptions, RestorePoint};
use marmota_sqlite::Sqlite;

use crate::database::{
    Kind, Note, Place, Primary, bodies, for_each_engine, note, snapshots, wait_for,
};

fn quick() -> ReplicationOptions {
    ReplicationOptions::default().window(Duration::from_millis(40))
}

/// Waits until a replica has the rows of its primary.
fn wait_until_equal(primary: &Primary, store: &marmota_store::Store, follower: &Follower) {
    let expected = bodies(&primary.store);
    let mut there = Vec::new();
    for _ in 0..3_000 {
        there = bodies(store);
        if there == expected {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} of {} rows; {:?}", there.len(), expected.len(), follower.status());
}

fn a_replica_follows_and_survives_restarts(kind: Kind) {
    let place = Place::of(kind);
    let primary = place.primary("a.db", quick()).unwrap();
    primary.insert("first");
    primary.settle(&place);
    let (store, follower) = place.replica("replica.db").unwrap();
    wait_until_equal(&primary, &store, &follower);
    for round in 0..20 {
        let notes: Vec<Note> =
            (0..100).map(|number| note(format!("{round}:{number}{}", "z".repeat(500)))).collect();
        primary.store.insert_many(&notes).run().unwrap();
        primary.store.delete::<Note>(i64::from(round) + 1).run().unwrap();
    }
    wait_until_equal(&primary, &store, &follower);
    // The position of the primary is one of the replica as well.
    let position = primary.store.position().unwrap();
    wait_for("the position", || store.position().unwrap() >= position);
    let error = store.insert(&note("refused")).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.message().contains("marmota promote"), "{error}");
    assert!(store.begin_run().is_err());

    store.close().unwrap();
    primary.insert("while the replica was closed");
    let (store, follower) = place.replica("replica.db").unwrap();
    wait_until_equal(&primary, &store, &follower);
    assert_eq!(follower.status().error, None);
    // A schema that the replica's program does not have yet.
    primary.store.execute("CREATE TABLE other(x); INSERT INTO other VALUES(1)").run().ok();
    primary.insert("after the other table");
    wait_until_equal(&primary, &store, &follower);
    store.close().unwrap();
}

fn a_replica_that_lacks_segments_fetches_a_snapshot_while_it_serves(kind: Kind) {
    let place = Place::of(kind);
    let primary = place.primary("a.db", quick()).unwrap();
    primary.insert("first");
    primary.settle(&place);
    let (store, follower) = place.replica("replica.db").unwrap();
    wait_until_equal(&primary, &store, &follower);
    primary.store.close().unwrap();
    // Written without replication: the next start begins a new chain.
    let alone = kind.builder(&place.path("a.db")).unwrap().open().unwrap();
    let notes: Vec<Note> = (0..3_000).map(|number| note(format!("alone {number}"))).collect();
    alone.insert_many(&notes).run().unwrap();
    alone.close().unwrap();
    let primary = place.primary("a.db", quick()).unwrap();
    primary.insert("with replication");
    wait_until_equal(&primary, &store, &follower);
    assert_eq!(bodies(&store).len(), 3_002);
    primary.insert("and on");
    wait_until_equal(&primary, &store, &follower);
    store.close().unwrap();
}

fn a_promoted_replica_fences_the_old_primary(kind: Kind) {
    let place = Place::of(kind);
    let old = place.primary("a.db", quick()).unwrap();
    old.insert("of the old primary");
    old.settle(&place);
    let (store, follower) = place.replica("replica.db").unwrap();
    wait_until_equal(&old, &store, &follower);
    // It is open.
    assert_eq!(
        kind.promote(&place.path("replica.db"), &place.url).unwrap_err().kind(),
        ErrorKind::Busy
    );
    store.close().unwrap();
    old.insert("while no replica followed");
    assert!(old.replicator.flush(Duration::from_secs(10)));
    assert_eq!(kind.promote(&place.path("replica.db"), &place.url).unwrap().epoch, 2);

    let of_old = snapshots(&place.url);
    let new = place.primary("replica.db", quick()).unwrap();
    assert_eq!(bodies(&new.store), ["of the old primary", "while no replica followed"]);
    new.insert("of the new primary");
    // The old one learns it from the target.
    let lost = old.store.insert(&note("lost")).run();
    assert!(lost.is_ok(), "async: {lost:?}");
    wait_for("the fence", || old.store.insert(&note("lost")).run().is_err());
    let error = old.store.insert(&note("lost")).run().unwrap_err();
    assert!(error.message().contains("epoch 2"), "{error}");
    old.store.close().unwrap();
    let error = place.primary("a.db", quick()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    // A new replica follows the new one, from its first snapshot.
    new.insert("more");
    wait_for("a snapshot of the new primary", || snapshots(&place.url) > of_old);
    let (store, follower) = place.replica("third.db").unwrap();
    wait_until_equal(&new, &store, &follower);
    new.settle(&place);
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), bodies(&new.store));
    store.close().unwrap();
    new.store.close().unwrap();
}

fn in_sync_mode_a_fenced_primary_acknowledges_nothing(kind: Kind) {
    let place = Place::of(kind);
    let old = place.primary("a.db", quick().mode(ReplicationMode::Sync)).unwrap();
    old.insert("first");
    old.settle(&place);
    let (store, _) = place.replica("replica.db").unwrap();
    store.close().unwrap();
    assert_eq!(kind.promote(&place.path("replica.db"), &place.url).unwrap().epoch, 2);
    let error = old.store.insert(&note("late")).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    let error = old.store.insert(&note("later")).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    old.store.close().unwrap();
}

fn a_database_that_is_no_replica_is_not_overwritten(kind: Kind) {
    let place = Place::of(kind);
    let primary = place.primary("a.db", quick()).unwrap();
    primary.insert("first");
    primary.settle(&place);
    let other = kind.builder(&place.path("other.db")).unwrap().open().unwrap();
    other.insert(&note("kept")).run().unwrap();
    other.close().unwrap();
    for name in ["a.db", "other.db"] {
        let error = place.replica(name).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    }
    let other = kind.builder(&place.path("other.db")).unwrap().open().unwrap();
    assert_eq!(bodies(&other), ["kept"]);
}

fn damaged_and_missing_segments_are_named_until_they_are_back(kind: Kind) {
    let place = Place::of(kind);
    let primary = place.primary("a.db", quick()).unwrap();
    primary.insert("first");
    primary.settle(&place);
    let (store, follower) = place.replica("replica.db").unwrap();
    wait_until_equal(&primary, &store, &follower);
    store.close().unwrap();
    for number in 0..3 {
        primary.insert(format!("note {number}"));
        assert!(primary.replicator.flush(Duration::from_secs(60)));
    }
    let index = primary.replicator.status().index - 1;
    let name = format!("segments/{index:020}");
    let path = place.path("target").join(&name);
    let object = std::fs::read(&path).unwrap();
    let mut damaged = object.clone();
    damaged[object.len() / 2] ^= 4;
    std::fs::write(&path, damaged).unwrap();
    let (store, follower) = place.replica("replica.db").unwrap();
    wait_for("the error", || follower.status().error.is_some_and(|error| error.contains(&name)));
    // It answers with what it has.
    assert!(bodies(&store).contains(&"note 0".to_owned()));
    store.close().unwrap();
    // A replica that lacks a segment is fetched again, which needs the segment as well.
    std::fs::remove_file(&path).unwrap();
    let error = place.replica("replica.db").err().unwrap();
    assert!(error.message().contains(&name), "{error}");
    std::fs::write(&path, object).unwrap();
    let (store, follower) = place.replica("replica.db").unwrap();
    wait_until_equal(&primary, &store, &follower);
    wait_for("the end of the error", || follower.status().error.is_none());
}

for_each_engine! {
    damaged_and_missing_segments_are_named_until_they_are_back,
    a_replica_follows_and_survives_restarts,
    a_replica_that_lacks_segments_fetches_a_snapshot_while_it_serves,
    a_promoted_replica_fences_the_old_primary,
    in_sync_mode_a_fenced_primary_acknowledges_nothing,
    a_database_that_is_no_replica_is_not_overwritten,
}

#[test]
fn a_database_in_memory_cannot_be_replicated() {
    let place = Place::new();
    let memory = marmota_store::Store::builder(Sqlite::from_url("sqlite::memory:").unwrap());
    let replicator = marmota_replication::Replicator::new(&place.url, quick()).unwrap();
    let error = memory.commit_sink(Arc::new(replicator)).open().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

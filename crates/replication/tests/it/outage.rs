//! Targets that cannot be reached, in both modes.

use std::time::Duration;

use marmota_model::ErrorKind;
use marmota_replication::{ReplicationMode, ReplicationOptions, RestorePoint};

use crate::database::{Kind, PATIENCE, Place, bodies, for_each_engine, note, snapshots, wait_for};

fn quick() -> ReplicationOptions {
    ReplicationOptions::default().window(Duration::from_millis(40))
}

/// Replaces the folder of segments by a file, so that nothing can be written to it.
fn block(place: &Place) {
    let segments = place.path("target").join("segments");
    std::fs::rename(&segments, place.path("aside")).unwrap();
    std::fs::write(&segments, "").unwrap();
}

fn unblock(place: &Place) {
    let segments = place.path("target").join("segments");
    std::fs::remove_file(&segments).unwrap();
    std::fs::rename(place.path("aside"), &segments).unwrap();
}

fn an_outage_stops_nothing_in_async_mode_and_is_caught_up(kind: Kind) {
    let place = Place::of(kind);
    let primary = place.primary("a.db", quick()).unwrap();
    primary.insert("before");
    primary.settle(&place);
    block(&place);
    for number in 0..200 {
        primary.insert(format!("{number}: {}", "o".repeat(2_000)));
    }
    wait_for("the error", || primary.replicator.status().error.is_some());
    assert!(primary.replicator.status().lag_ms > 0);
    unblock(&place);
    primary.settle(&place);
    assert_eq!(primary.replicator.status().error, None);
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), bodies(&primary.store));
}

fn what_an_outage_has_left_in_the_log_is_caught_up_at_once_after_a_restart(kind: Kind) {
    let place = Place::of(kind);
    let primary = place.primary("a.db", quick()).unwrap();
    primary.insert("before");
    primary.settle(&place);
    block(&place);
    (0..100).for_each(|number| primary.insert(format!("during {number}")));
    primary.store.close().unwrap();
    unblock(&place);
    let segments = || std::fs::read_dir(place.path("target/segments")).unwrap().count();
    let before = segments();
    let primary = place.primary("a.db", quick()).unwrap();
    primary.insert("after");
    primary.settle(&place);
    // Not one for each commit: those are never reported by the engine, and not waited for.
    assert!(segments() <= before + 3, "{} segments more", segments() - before);
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), bodies(&primary.store));
    assert_eq!(snapshots(&place.url), 1);
}

fn an_outage_at_the_start_loses_nothing_of_the_log(kind: Kind) {
    let place = Place::of(kind);
    let primary = place.primary("a.db", quick()).unwrap();
    primary.insert("before");
    primary.settle(&place);
    block(&place);
    primary.insert("only in the log");
    primary.store.close().unwrap();
    // It starts without the target, and would begin its log again.
    let primary = place.primary("a.db", quick()).unwrap();
    for round in 0..10 {
        let notes: Vec<_> =
            (0..250).map(|number| note(format!("{round}:{number}{}", "o".repeat(4_000)))).collect();
        primary.store.insert_many(&notes).run().unwrap();
    }
    unblock(&place);
    primary.settle(&place);
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), bodies(&primary.store));
    assert_eq!(snapshots(&place.url), 1);
}

#[test]
fn an_outage_longer_than_the_log_may_grow_ends_with_a_snapshot() {
    let place = Place::new();
    let options = quick().log_bytes_max(8 << 20);
    let primary = place.primary("a.db", options).unwrap();
    primary.insert("before");
    primary.settle(&place);
    block(&place);
    for round in 0..40 {
        let notes: Vec<_> =
            (0..250).map(|number| note(format!("{round}:{number}{}", "o".repeat(4_000)))).collect();
        primary.store.insert_many(&notes).run().unwrap();
    }
    let log = place.kind.log_bytes(&place.path("a.db"));
    assert!(log < 30 << 20, "the log has {log} bytes");
    unblock(&place);
    wait_for("the second snapshot", || snapshots(&place.url) == 2);
    primary.settle(&place);
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), bodies(&primary.store));
}

fn in_sync_mode_writes_fail_during_an_outage_and_are_accepted_after_it(kind: Kind) {
    let place = Place::of(kind);
    let options = quick().mode(ReplicationMode::Sync).sync_deadline(Duration::from_millis(300));
    let primary = place.primary("a.db", options).unwrap();
    primary.insert("before");
    block(&place);
    let error = primary.store.insert(&note("during")).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(error.message().contains("read the row before you retry"), "{error}");
    let error = primary.store.insert(&note("refused")).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.message().contains("--replicate-mode async"), "{error}");
    unblock(&place);
    wait_for("writes", || primary.store.insert(&note("after")).run().is_ok());
    assert!(primary.replicator.flush(PATIENCE));
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), ["before", "during", "after"]);
}

for_each_engine! {
    an_outage_stops_nothing_in_async_mode_and_is_caught_up,
    what_an_outage_has_left_in_the_log_is_caught_up_at_once_after_a_restart,
    an_outage_at_the_start_loses_nothing_of_the_log,
    in_sync_mode_writes_fail_during_an_outage_and_are_accepted_after_it,
}

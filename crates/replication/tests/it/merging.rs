//! Merged segments: restores, replicas and fences are as without merging.

use std::path::PathBuf;
use std::time::Duration;

use marmota_model::{ErrorKind, Timestamp};
use marmota_replication::{ReplicationOptions, RestorePoint};

use crate::database::{Kind, Note, Place, Primary, bodies, for_each_engine, note, wait_for};

/// Options without merging.
fn plain() -> ReplicationOptions {
    ReplicationOptions::default().window(Duration::from_millis(10)).merge_after(Duration::MAX)
}

/// Options with which all segments but the last are merged soon.
fn merging() -> ReplicationOptions {
    plain().merge_after(Duration::ZERO)
}

fn names(place: &Place, folder: &str) -> Vec<String> {
    let Ok(files) = std::fs::read_dir(place.path("target").join(folder)) else { return Vec::new() };
    let names = files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned());
    // A file that is being written has a `#` in its name.
    let mut names: Vec<String> = names.filter(|name| !name.contains('#')).collect();
    names.sort();
    names
}

/// Writes rounds of notes, each of which becomes a segment, and returns the points between them with
/// their rows.
fn write(
    primary: &Primary,
    place: &Place,
    rounds: std::ops::Range<u32>,
) -> Vec<(RestorePoint, Vec<String>)> {
    let mut points = Vec::new();
    for round in rounds {
        for number in 0..3 {
            primary.insert(format!("{round}:{number} {}", "m".repeat(300)));
        }
        if round % 3 == 2 {
            let first: Vec<Note> = primary.store.list().limit(1).run().unwrap();
            primary.store.delete::<Note>(first[0].id).run().unwrap();
        }
        let there = bodies(&primary.store);
        points.push((RestorePoint::Position(primary.store.position().unwrap()), there.clone()));
        // A time has to be later than the commit, and earlier than the next one.
        std::thread::sleep(Duration::from_millis(2));
        points.push((RestorePoint::Time(Timestamp::now()), there));
        std::thread::sleep(Duration::from_millis(2));
        primary.settle(place);
    }
    points
}

/// Waits until only the segments are left that are not merged: that of the epoch, the first one of each
/// run and the first one that the retention has not deleted, and the last ones.
fn wait_until_merged(place: &Place, left: usize) {
    wait_for("the merging", || names(place, "segments").len() <= left);
}

fn restores_are_exact_before_inside_and_after_merged_segments(kind: Kind) {
    let place = Place::of(kind);
    let primary = place.primary("a.db", plain()).unwrap();
    primary.settle(&place);
    let mut points = write(&primary, &place, 0..4);
    primary.store.close().unwrap();
    let primary = place.primary("a.db", merging()).unwrap();
    points.extend(write(&primary, &place, 4..12));
    wait_until_merged(&place, 5);
    primary.store.close().unwrap();
    let primary = place.primary("a.db", plain()).unwrap();
    points.extend(write(&primary, &place, 12..15));
    assert!(names(&place, "segments").len() >= 6 && !names(&place, "merged").is_empty());
    for (point, there) in &points {
        assert_eq!(&place.restored(*point).unwrap(), there, "{point:?}");
    }
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), bodies(&primary.store));
}

fn a_damaged_merged_object_is_named(kind: Kind) {
    let place = Place::of(kind);
    let primary = place.primary("a.db", merging()).unwrap();
    primary.settle(&place);
    write(&primary, &place, 0..8);
    wait_until_merged(&place, 4);
    primary.insert("after the merged ones");
    primary.store.close().unwrap();
    let whole = place.restored(RestorePoint::Latest).unwrap();
    for name in names(&place, "merged") {
        let path: PathBuf = place.path("target").join("merged").join(&name);
        let object = std::fs::read(&path).unwrap();
        let refused = |what: &str, name: &str| {
            let error = place.restored(RestorePoint::Latest).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Engine, "{what}: {error}");
            assert!(error.message().contains(name), "{what}: {error}");
        };
        let mut damaged = object.clone();
        damaged[object.len() / 2] ^= 0x10;
        std::fs::write(&path, &damaged).unwrap();
        refused("damaged", &name);
        std::fs::write(&path, &object[..object.len() - 9]).unwrap();
        refused("truncated", &name);
        std::fs::remove_file(&path).unwrap();
        refused("missing", name.split('-').next().unwrap());
        std::fs::write(&path, &object).unwrap();
    }
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), whole);
}

fn replicas_follow_and_restores_succeed_while_segments_are_merged(kind: Kind) {
    let place = Place::of(kind);
    let primary = place.primary("a.db", merging()).unwrap();
    primary.settle(&place);
    // A replica that is stopped meanwhile continues in the middle of a merged object.
    let (store, _) = place.replica("slow.db").unwrap();
    store.close().unwrap();
    let (store, follower) = place.replica("replica.db").unwrap();
    for round in 0..30 {
        primary.insert(format!("round {round}"));
        assert!(primary.replicator.flush(Duration::from_secs(60)));
        if round % 5 == 4 {
            let there = bodies(&primary.store);
            assert_eq!(place.restored(RestorePoint::Latest).unwrap(), there);
        }
    }
    wait_until_merged(&place, 3);
    wait_for("the replica", || bodies(&store) == bodies(&primary.store));
    assert_eq!(follower.status().error, None);
    store.close().unwrap();
    let (store, follower) = place.replica("slow.db").unwrap();
    wait_for("the slow replica", || bodies(&store) == bodies(&primary.store));
    // It was not fetched again: it has read the segments, of about 30 that were made meanwhile.
    assert!(follower.status().segments >= 20, "{:?}", follower.status());
    store.close().unwrap();
    // A promotion applies merged segments as well.
    let last = place.path("promoted.db");
    let (store, _) = place.replica("promoted.db").unwrap();
    store.close().unwrap();
    write(&primary, &place, 100..106);
    wait_until_merged(&place, 3);
    let there = bodies(&primary.store);
    assert!(kind.promote(&last, &place.url).unwrap().applied >= 6);
    let promoted = place.primary("promoted.db", merging()).unwrap();
    assert_eq!(bodies(&promoted.store), there);
    // The segment of the epoch stays, so the old primary is fenced off.
    write(&promoted, &place, 200..206);
    wait_for("the fence", || primary.store.insert(&note("lost")).run().is_err());
}

fn an_old_run_is_fenced_off_although_its_numbers_are_merged(kind: Kind) {
    let place = Place::of(kind);
    let old = place.primary("a.db", plain()).unwrap();
    old.insert("of the old run");
    old.settle(&place);
    old.store.close().unwrap();
    // The copy of a machine: the same database twice.
    for suffix in ["", "-replication.json"] {
        let of = |name: &str| place.path(&format!("{name}{suffix}"));
        std::fs::copy(of("a.db"), of("twin.db")).unwrap();
    }
    let old = place.primary("a.db", plain()).unwrap();
    // What its start has written comes before the segments of the twin.
    old.settle(&place);
    let twin = place.primary("twin.db", merging()).unwrap();
    write(&twin, &place, 0..8);
    wait_for("the merging", || !names(&place, "merged").is_empty());
    wait_for("the fence", || old.store.insert(&note("lost")).run().is_err());
    twin.insert("last");
    twin.settle(&place);
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), bodies(&twin.store));
}

#[test]
fn what_the_retention_no_longer_needs_is_deleted_but_not_the_last_segment() {
    let place = Place::new();
    let primary = place.primary("a.db", merging()).unwrap();
    primary.settle(&place);
    write(&primary, &place, 0..6);
    wait_until_merged(&place, 3);
    let merged = names(&place, "merged");
    assert!(!merged.is_empty());
    primary.store.close().unwrap();
    // Nothing is written, so the snapshots begin after the last segment.
    let options = merging().retention(Duration::ZERO).snapshot_interval(Duration::from_millis(100));
    let primary = place.primary("a.db", options).unwrap();
    wait_for("the deletion", || names(&place, "merged").is_empty());
    // The folders of deleted parts stay.
    let parts = names(&place, "parts").len();
    wait_for("two more snapshots", || names(&place, "parts").len() >= parts + 2);
    assert_eq!(primary.replicator.status().error, None);
    let there = bodies(&primary.store);
    primary.store.close().unwrap();
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), there);
    let primary = place.primary("a.db", plain()).unwrap();
    primary.insert("later");
    primary.settle(&place);
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), bodies(&primary.store));
}

#[test]
fn a_snapshot_after_a_kill_needs_no_segment_that_was_deleted() {
    let place = Place::new();
    let primary = place.primary("a.db", plain()).unwrap();
    write(&primary, &place, 0..6);
    primary.store.close().unwrap();
    let written = names(&place, "segments").len();
    // The snapshots begin after the last segment, so that the others are deleted.
    let options = plain().retention(Duration::ZERO).snapshot_interval(Duration::from_millis(100));
    let primary = place.primary("a.db", options.clone()).unwrap();
    wait_for("the deletion", || names(&place, "segments").len() < written);
    primary.insert("in the log");
    primary.settle(&place);
    // What a kill leaves: the database with its log.
    for suffix in ["", "-wal", "-replication.json"] {
        let of = |name: &str| place.path(&format!("{name}{suffix}"));
        std::fs::copy(of("a.db"), of("killed.db")).unwrap();
    }
    let there = bodies(&primary.store);
    primary.store.close().unwrap();
    let killed = place.primary("killed.db", options).unwrap();
    let parts = names(&place, "parts").len();
    wait_for("two more snapshots", || names(&place, "parts").len() >= parts + 2);
    killed.store.close().unwrap();
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), there);
}

for_each_engine! {
    replicas_follow_and_restores_succeed_while_segments_are_merged,
    restores_are_exact_before_inside_and_after_merged_segments,
    a_damaged_merged_object_is_named,
    an_old_run_is_fenced_off_although_its_numbers_are_merged,
}

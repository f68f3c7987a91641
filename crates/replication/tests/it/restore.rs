//! Restores give exactly the rows of a time or a position, or name what is damaged.

use std::path::PathBuf;
use std::time::Duration;

use marmota_model::{ErrorKind, Timestamp};
use marmota_replication::{ReplicationOptions, RestorePoint};

use crate::database::{Kind, Note, Place, bodies, for_each_engine, note, snapshots, wait_for};

fn quick() -> ReplicationOptions {
    ReplicationOptions::default().window(Duration::from_millis(40))
}

fn a_database_is_restored_with_everything_that_was_committed(kind: Kind) {
    let place = Place::of(kind);
    let primary = place.primary("a.db", quick()).unwrap();
    for number in 0..300 {
        primary.insert(format!("note {number}"));
    }
    primary.settle(&place);
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), bodies(&primary.store));
    primary.store.close().unwrap();
    // The next run continues without another snapshot.
    let primary = place.primary("a.db", quick()).unwrap();
    primary.insert("later");
    primary.settle(&place);
    let restored = place.restored(RestorePoint::Latest).unwrap();
    assert_eq!(restored, bodies(&primary.store));
    assert_eq!(restored.len(), 301);
    assert_eq!(snapshots(&place.url), 1);
}

fn times_and_positions_give_exactly_their_rows(kind: Kind) {
    let place = Place::of(kind);
    let primary = place.primary("a.db", quick()).unwrap();
    primary.settle(&place);
    let mut points = Vec::new();
    for round in 0..5 {
        for number in 0..20 {
            primary.insert(format!("{round}:{number} {}", "x".repeat(200)));
        }
        if round == 2 {
            primary.store.delete::<Note>(3).run().unwrap();
        }
        let there = bodies(&primary.store);
        points.push((RestorePoint::Position(primary.store.position().unwrap()), there.clone()));
        // A time has to be later than the commit, and earlier than the next one.
        std::thread::sleep(Duration::from_millis(2));
        points.push((RestorePoint::Time(Timestamp::now()), there));
        std::thread::sleep(Duration::from_millis(2));
    }
    primary.insert("last");
    primary.settle(&place);
    for (point, there) in points {
        assert_eq!(place.restored(point).unwrap(), there, "{point:?}");
    }
    let before = Timestamp::from_micros(1_000_000).unwrap();
    let error = place.restored(RestorePoint::Time(before)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let late = place.primary("other.db", quick()).err().unwrap();
    assert_eq!(late.kind(), ErrorKind::Conflict, "{late}");
}

fn checkpoints_and_large_transactions_lose_no_page(kind: Kind) {
    let place = Place::of(kind);
    let primary = place.primary("a.db", quick()).unwrap();
    // Some 40 MB in a log that is moved to the file every 4 MB.
    for round in 0..40 {
        let notes: Vec<Note> =
            (0..250).map(|number| note(format!("{round}:{number}{}", "y".repeat(4_000)))).collect();
        primary.store.insert_many(&notes).run().unwrap();
        primary.store.delete::<Note>(i64::from(round) * 100 + 1).run().unwrap();
    }
    primary.settle(&place);
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), bodies(&primary.store));
    primary.insert("after");
    primary.settle(&place);
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), bodies(&primary.store));
}

#[test]
fn a_log_that_a_power_cut_has_torn_is_not_continued() {
    let place = Place::new();
    let primary = place.primary("a.db", quick()).unwrap();
    primary.settle(&place);
    for number in 0..20 {
        primary.insert(format!("note {number}"));
    }
    primary.settle(&place);
    // What the disk has after the power cut: the end of the log, but not all before it.
    for suffix in ["", "-wal", "-replication.json"] {
        let of = |name: &str| place.path(&format!("{name}{suffix}"));
        std::fs::copy(of("a.db"), of("b.db")).unwrap();
    }
    let mut log = std::fs::read(place.path("b.db-wal")).unwrap();
    let third_last_page = log.len() - 3 * (4_096 + 24) + 100;
    log[third_last_page] ^= 1;
    std::fs::write(place.path("b.db-wal"), log).unwrap();
    let torn = place.primary("b.db", quick()).unwrap();
    assert!(bodies(&torn.store).len() < 20);
    torn.insert("after the power cut");
    torn.settle(&place);
    let there = bodies(&torn.store);
    wait_for("a new snapshot", || {
        place.restored(RestorePoint::Latest).is_ok_and(|restored| restored == there)
    });
    torn.insert("and more");
    torn.settle(&place);
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), bodies(&torn.store));
}

/// Returns the objects of a folder of the target, in order.
fn objects(place: &Place, folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![place.path("target").join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

fn damaged_truncated_and_missing_objects_are_named(kind: Kind) {
    let place = Place::of(kind);
    let primary = place.primary("a.db", quick()).unwrap();
    primary.settle(&place);
    for number in 0..5 {
        primary.insert(format!("note {number}"));
        primary.settle(&place);
    }
    primary.store.close().unwrap();
    let segments = objects(&place, "segments");
    assert!(segments.len() >= 4, "{segments:?}");
    let segment = &segments[segments.len() - 2];
    let part = objects(&place, "parts").remove(0);
    for path in [segment, &part] {
        let whole = std::fs::read(path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let refused = |what: &str| {
            let error = place.restored(RestorePoint::Latest).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Engine, "{what}: {error}");
            assert!(error.message().contains(name), "{what}: {error}");
        };
        let mut damaged = whole.clone();
        damaged[whole.len() / 2] ^= 0x10;
        std::fs::write(path, &damaged).unwrap();
        refused("damaged");
        std::fs::write(path, &whole[..whole.len() - 9]).unwrap();
        refused("truncated");
        std::fs::remove_file(path).unwrap();
        refused("missing");
        std::fs::write(path, &whole).unwrap();
    }
    assert_eq!(place.restored(RestorePoint::Latest).unwrap().len(), 5);
}

#[test]
fn a_target_without_a_database_is_refused() {
    let place = Place::new();
    let error = place.restored(RestorePoint::Latest).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    std::fs::create_dir(place.path("target")).unwrap();
    let error = place.restored(RestorePoint::Latest).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(!place.path("restored.db").exists());
    for url in ["", "backups", "file://relative", "ftp://host/a", "s3://", "memory://"] {
        let error = marmota_replication::Replicator::new(url, quick()).unwrap_err();
        let is_refused = matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported);
        assert!(is_refused, "{url}: {error}");
    }
}

for_each_engine! {
    a_database_is_restored_with_everything_that_was_committed,
    times_and_positions_give_exactly_their_rows,
    checkpoints_and_large_transactions_lose_no_page,
    damaged_truncated_and_missing_objects_are_named,
}

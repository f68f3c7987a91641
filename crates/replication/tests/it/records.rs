//! What only databases with a log of records have: their own snapshots, logs that are cut short, other
//! tables, and engines that do not fit.

use std::sync::Arc;
use std::time::Duration;

use marmota_derive::Model;
use marmota_memory::Memory;
use marmota_model::ErrorKind;
use marmota_replication::{Follower, ReplicationMode, ReplicationOptions, RestorePoint, promote};
use marmota_store::Store;
use marmota_store::log_copy::{LogKind, log_path};

use crate::database::{Kind, Note, Place, Primary, bodies, memory_url, note, snapshots, wait_for};

fn quick() -> ReplicationOptions {
    ReplicationOptions::default().window(Duration::from_millis(40))
}

#[test]
fn a_log_that_a_power_cut_has_cut_short_is_not_continued() {
    let place = Place::of(Kind::Memory);
    let primary = place.primary("a.mem", quick()).unwrap();
    primary.settle(&place);
    let log = Kind::Memory.log_bytes(&place.path("a.mem"));
    for number in 0..20 {
        primary.insert(format!("note {number}"));
    }
    primary.settle(&place);
    // What the disk has after the power cut: all but the last commits.
    let copy = |name: &str| {
        std::fs::copy(place.path(&format!("a.mem{name}")), place.path(&format!("b.mem{name}")))
    };
    copy("").unwrap();
    copy("-replication.json").unwrap();
    for number in 1..9 {
        let _ = copy(&format!(".log.{number}"));
    }
    let mut logs = (1..9).rev().map(|log| log_path(&place.path("b.mem"), log));
    let last = logs.find(|log| log.exists()).unwrap();
    let bytes = std::fs::read(&last).unwrap();
    assert!(bytes.len() as u64 > log.min(200), "{} bytes", bytes.len());
    std::fs::write(&last, &bytes[..bytes.len() - 100]).unwrap();
    let cut = place.primary("b.mem", quick()).unwrap();
    assert!(bodies(&cut.store).len() < 20);
    cut.insert("after the power cut");
    cut.settle(&place);
    let there = bodies(&cut.store);
    wait_for("a new snapshot", || {
        place.restored(RestorePoint::Latest).is_ok_and(|restored| restored == there)
    });
    cut.insert("and more");
    cut.settle(&place);
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), bodies(&cut.store));
}

#[test]
fn snapshots_of_the_engine_keep_logs_until_they_are_in_the_target() {
    let place = Place::of(Kind::Memory);
    let path = place.path("a.mem");
    let primary = place.primary("a.mem", quick().snapshot_interval(Duration::from_millis(300)));
    let primary = primary.unwrap();
    primary.settle(&place);
    let before = snapshots(&place.url);
    let mut points = Vec::new();
    let mut number = 0;
    wait_for("snapshots", || {
        number += 1;
        primary.insert(format!("note {number} {}", "s".repeat(100)));
        if number % 50 == 0 {
            let position = primary.store.position().unwrap();
            points.push((RestorePoint::Position(position), bodies(&primary.store)));
        }
        std::thread::sleep(Duration::from_millis(1));
        snapshots(&place.url) >= before + 4 && points.len() >= 4
    });
    // Each snapshot of the target is one of the engine, after which older logs are deleted.
    let logs = (1..100).filter(|log| log_path(&path, *log).exists()).count();
    assert!(logs <= 3, "{logs} logs");
    primary.settle(&place);
    for (point, there) in &points {
        assert_eq!(&place.restored(*point).unwrap(), there, "{point:?}");
    }
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), bodies(&primary.store));
}

#[test]
fn what_the_retention_no_longer_needs_is_deleted() {
    let place = Place::of(Kind::Memory);
    let primary = place.primary("a.mem", quick()).unwrap();
    primary.settle(&place);
    (0..5).for_each(|number| {
        primary.insert(format!("note {number}"));
        primary.settle(&place);
    });
    drop(primary.store);
    // Not closed: the log is continued.
    let options = quick().retention(Duration::ZERO).snapshot_interval(Duration::from_millis(100));
    let primary = place.primary("a.mem", options).unwrap();
    let first = place.path("target/segments").join(format!("{:020}", 3));
    wait_for("the deletion", || !first.exists());
    primary.insert("later");
    primary.settle(&place);
    let there = bodies(&primary.store);
    wait_for("a snapshot", || {
        place.restored(RestorePoint::Latest).is_ok_and(|restored| restored == there)
    });
    primary.store.close().unwrap();
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), there);
}

/// [`Note`] with another field, whose value older rows get when the table is changed: that is in no
/// record.
#[derive(Debug, Model)]
#[model(table = "note")]
struct TaggedNote {
    id: i64,
    body: String,
    #[model(default = "none")]
    tag: String,
}

#[test]
fn a_change_of_the_tables_begins_a_new_chain() {
    let place = Place::of(Kind::Memory);
    let primary = place.primary("a.mem", quick()).unwrap();
    primary.insert("old");
    primary.settle(&place);
    primary.store.close().unwrap();
    let of = |path: &std::path::Path| {
        let engine = Memory::from_url(&memory_url(path)).unwrap();
        Store::builder(engine).model::<TaggedNote>()
    };
    // In sync mode the store is open, and writes are answered, once the target has the new snapshot.
    let options = quick().mode(ReplicationMode::Sync);
    let primary = Primary::of(of(&place.path("a.mem")), &place.url, options).unwrap();
    let new = TaggedNote { id: 0, body: "new".to_owned(), tag: "some".to_owned() };
    primary.store.insert(&new).run().unwrap();
    assert_eq!(snapshots(&place.url), 2);
    let copy = place.path("copy.mem");
    Kind::Memory.restore_to(&copy, &place.url, RestorePoint::Latest).unwrap();
    let store = of(&copy).open().unwrap();
    let notes = store.list::<TaggedNote>().run().unwrap();
    let notes: Vec<_> = notes.iter().map(|note| (&*note.body, &*note.tag)).collect();
    assert_eq!(notes, [("old", "none"), ("new", "some")]);
}

#[test]
fn a_restored_database_takes_over() {
    let place = Place::of(Kind::Memory);
    let old = place.primary("a.mem", quick()).unwrap();
    old.insert("kept");
    old.settle(&place);
    let position = old.store.position().unwrap();
    old.insert("undone");
    old.settle(&place);
    let path = place.path("b.mem");
    Kind::Memory.restore_to(&path, &place.url, RestorePoint::Position(position)).unwrap();
    let promoted = promote(&place.url, LogKind::Records, &path).unwrap();
    assert_eq!((promoted.epoch, promoted.applied), (2, 0));
    let before = snapshots(&place.url);
    let new = place.primary("b.mem", quick()).unwrap();
    assert_eq!(bodies(&new.store), ["kept"]);
    new.insert("of the new primary");
    wait_for("the fence", || old.store.insert(&note("lost")).run().is_err());
    let error = old.store.insert(&note("lost")).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.message().contains("epoch 2"), "{error}");
    assert!(!bodies(&old.store).iter().all(|body| body == "lost"));
    wait_for("a snapshot of the new primary", || snapshots(&place.url) > before);
    new.settle(&place);
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), bodies(&new.store));
    old.store.close().unwrap();
    let error = place.primary("a.mem", quick()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

#[test]
fn in_sync_mode_transactions_of_many_threads_are_answered_after_the_target_has_them() {
    let place = Place::of(Kind::Memory);
    let primary = place.primary("a.mem", quick().mode(ReplicationMode::Sync)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (store, place) = (&primary.store, &place);
            scope.spawn(move || {
                for round in 0..5 {
                    let body = format!("{thread}:{round}");
                    store
                        .transaction(|transaction| {
                            transaction.insert(&note(body.clone())).run()?;
                            transaction.insert(&note(format!("{body} again"))).run().map(drop)
                        })
                        .unwrap();
                    if round == 4 && thread == 0 {
                        let there = place.restored(RestorePoint::Latest).unwrap();
                        assert!(there.contains(&body) && there.contains(&format!("{body} again")));
                    }
                }
            });
        }
    });
    assert_eq!(bodies(&primary.store).len(), 80);
    assert_eq!(place.restored(RestorePoint::Latest).unwrap(), bodies(&primary.store));
}

#[test]
fn engines_and_targets_that_do_not_fit_are_refused() {
    let place = Place::of(Kind::Memory);
    let primary = place.primary("a.mem", quick()).unwrap();
    primary.insert("first");
    primary.settle(&place);
    let restored = Kind::Sqlite.restore_to(&place.path("a.db"), &place.url, RestorePoint::Latest);
    let error = restored.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.message().contains("memory:FILE"), "{error}");
    let sqlite = Kind::Sqlite.builder(&place.path("b.db")).unwrap();
    let error = Primary::of(sqlite, &place.url, quick()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.message().contains("memory:FILE"), "{error}");
    // A file without a log, and no file.
    for url in [format!("memory:{}", place.path("c.mem").display()), "memory:".to_owned()] {
        let builder = Store::builder(Memory::from_url(&url).unwrap()).model::<Note>();
        let error = Primary::of(builder, &place.url, quick()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains("durability=full"), "{error}");
    }
    // A file that was not prepared as a replica.
    let follower = Follower::new(&place.url, Duration::from_millis(10)).unwrap();
    let builder = Kind::Memory.builder(&place.path("d.mem")).unwrap();
    let error = builder.commit_sink(Arc::new(follower)).open().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.message().contains("is not a replica"), "{error}");
    let error = Memory::install_replica("memory:d.mem", |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.message().contains("durability=full"), "{error}");
}

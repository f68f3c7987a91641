//! What readers of a replica see while commits are applied, and what a replica of the memory engine has
//! after its log was cut short, its primary began other logs, or its primary has other tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use marmota_derive::Model;
use marmota_memory::Memory;
use marmota_model::{ErrorKind, Result};
use marmota_replication::{Follower, ReplicationOptions, Replicator};
use marmota_store::action::block_on;
use marmota_store::change::{ChangeRetention, FeedEvent};
use marmota_store::log_copy::{LogKind, log_path};
use marmota_store::{Store, StoreBuilder};

use crate::database::{
    Kind, Note, Place, bodies, for_each_engine, has_snapshot, memory_url, note, wait_for,
};

fn quick() -> ReplicationOptions {
    ReplicationOptions::default().window(Duration::from_millis(20))
}

fn readers_see_each_commit_as_a_whole(kind: Kind) {
    let place = Place::of(kind);
    let primary = place.primary("a.db", quick()).unwrap();
    let notes: Vec<Note> = (0..50).map(|_| note("0")).collect();
    primary.store.insert_many(&notes).run().unwrap();
    primary.settle(&place);
    let (store, _follower) = place.replica("replica.db").unwrap();
    let is_over = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let all = bodies(&store);
                assert_eq!(all.len(), 50);
                assert!(all.iter().all(|body| *body == all[0]), "{all:?}");
                if seen.last() != Some(&all[0]) {
                    seen.push(all[0].clone());
                }
            }
            seen
        });
        for round in 1..=100 {
            let rows = (1..=50).map(|id| Note { id, body: round.to_string() });
            let rows: Vec<Note> = rows.collect();
            primary.store.update_many(&rows).run().unwrap();
        }
        wait_for("the last commit", || bodies(&store)[0] == "100");
        is_over.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    let order: Vec<u32> = seen.iter().map(|body| body.parse().unwrap()).collect();
    assert!(order.is_sorted() && order.len() > 1, "{order:?}");
    // A reader that waits for a commit is woken by it.
    let position = primary.store.position().unwrap();
    wait_for("the position", || store.position().unwrap() == position);
    let mut changes = store.changes().unwrap().from(position).unwrap();
    primary.insert("the next one");
    let Some(FeedEvent::Commit(commit)) = block_on(changes.next()).unwrap() else {
        panic!("no commit");
    };
    assert_eq!(commit.position, primary.store.position().unwrap());
    assert_eq!(commit.changes.len(), 1);
}

for_each_engine! { readers_see_each_commit_as_a_whole }

#[test]
fn a_replica_whose_log_was_cut_short_goes_back() {
    let place = Place::of(Kind::Memory);
    let primary = place.primary("a.mem", quick()).unwrap();
    for number in 0..20 {
        primary.insert(format!("note {number} {}", "c".repeat(number)));
    }
    primary.settle(&place);
    let path = place.path("replica.mem");
    let (store, _) = place.replica("replica.mem").unwrap();
    wait_for("the replica", || bodies(&store) == bodies(&primary.store));
    store.close().unwrap();
    let logs = || (1..50).filter(|log| log_path(&path, *log).exists()).collect::<Vec<_>>();
    let base = std::fs::metadata(log_path(&path, *logs().last().unwrap())).unwrap().len();
    for round in 0..12 {
        let (store, _) = place.replica("replica.mem").unwrap();
        for number in 0..=round % 4 {
            primary.insert(format!("round {round} {number} {}", "r".repeat(300)));
        }
        if round == 8 {
            // The primary begins another log.
            primary.store.close().unwrap();
            break;
        }
        wait_for("the replica", || bodies(&store) == bodies(&primary.store));
        store.close().unwrap();
        // Bytes at the end are lost, or were never written while those after them were.
        let last = log_path(&path, *logs().last().unwrap());
        let mut bytes = std::fs::read(&last).unwrap();
        let cut = bytes.len() - (usize::try_from(round).unwrap() * 61 + 7) % 400;
        match round % 3 {
            0 => bytes[cut.saturating_sub(200).max(usize::try_from(base).unwrap())..cut].fill(0),
            _ => bytes.truncate(cut.max(usize::try_from(base).unwrap())),
        }
        std::fs::write(&last, bytes).unwrap();
    }
    let primary = place.primary("a.mem", quick()).unwrap();
    primary.insert("after another start");
    let (store, follower) = place.replica("replica.mem").unwrap();
    wait_for("the replica", || bodies(&store) == bodies(&primary.store));
    assert_eq!(follower.status().error, None);
    // The position is that of the primary, and its rows are found by their keys.
    wait_for("the position", || store.position().unwrap() == primary.store.position().unwrap());
    assert_eq!(store.get::<Note>(3).run().unwrap().body, "note 2 cc");
}

#[test]
fn a_replica_makes_a_snapshot_when_its_primary_does() {
    let place = Place::of(Kind::Memory);
    let options = quick().snapshot_interval(Duration::from_millis(250));
    let primary = place.primary("a.mem", options).unwrap();
    primary.settle(&place);
    let path = place.path("replica.mem");
    let (store, _follower) = place.replica("replica.mem").unwrap();
    let logs = || (1..200).filter(|log| log_path(&path, *log).exists()).collect::<Vec<_>>();
    let first = logs()[0];
    let mut number = 0;
    wait_for("other logs", || {
        number += 1;
        primary.insert(format!("note {number} {}", "s".repeat(200)));
        if number % 7 == 0 {
            primary.store.delete::<Note>(number / 2).run().unwrap();
        }
        logs().first().is_some_and(|log| *log > first + 4)
    });
    wait_for("the replica", || bodies(&store) == bodies(&primary.store));
    assert!(logs().len() <= 4, "{:?}", logs());
    store.close().unwrap();
    primary.insert("while it was closed");
    let (store, _) = place.replica("replica.mem").unwrap();
    wait_for("the replica", || bodies(&store) == bodies(&primary.store));
    store.close().unwrap();
    // The files of the replica have everything.
    let last = bodies(&primary.store);
    primary.store.close().unwrap();
    Kind::Memory.promote(&path, &place.url).unwrap();
    let promoted = place.primary("replica.mem", quick()).unwrap();
    assert_eq!(bodies(&promoted.store), last);
}

#[test]
fn a_replica_that_another_program_has_written_to_is_fetched_again() {
    let place = Place::of(Kind::Memory);
    let primary = place.primary("a.mem", quick()).unwrap();
    primary.insert("of the primary");
    primary.settle(&place);
    let path = place.path("replica.mem");
    let (store, _) = place.replica("replica.mem").unwrap();
    wait_for("the replica", || bodies(&store) == ["of the primary"]);
    store.close().unwrap();
    // What a program leaves that is killed.
    let alone = Kind::Memory.builder(&path).unwrap().open().unwrap();
    alone.insert(&note("of another program")).run().unwrap();
    for file in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        if let Some(suffix) = name.strip_prefix("replica.mem").filter(|end| *end != ".lock") {
            std::fs::copy(place.path(&name), place.path(&format!("killed.mem{suffix}"))).unwrap();
        }
    }
    let (store, _) = place.replica("killed.mem").unwrap();
    wait_for("the rows of the primary", || bodies(&store) == ["of the primary"]);
    primary.insert("the next one");
    wait_for("the replica", || bodies(&store) == ["of the primary", "the next one"]);
    store.close().unwrap();
    // Its log is gone after it was closed.
    alone.close().unwrap();
    let error = place.replica("replica.mem").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.message().contains("delete it"), "{error}");
}

/// A table with a unique index.
#[derive(Clone, Debug, PartialEq, Eq, Model)]
struct Seat {
    id: i64,
    #[model(unique)]
    place: i64,
}

/// The same table with another field.
mod wider {
    #[derive(Clone, Debug, marmota_derive::Model)]
    pub(super) struct Seat {
        pub(super) id: i64,
        #[model(unique)]
        pub(super) place: i64,
        pub(super) row: Option<String>,
    }
}

fn memory(path: &std::path::Path) -> StoreBuilder {
    Store::builder(Memory::from_url(&memory_url(path)).unwrap())
}

fn seats(store: &Store) -> Vec<i64> {
    let mut seats: Vec<Seat> = store.list::<Seat>().run().unwrap();
    seats.sort_by_key(|seat| seat.id);
    seats.into_iter().map(|seat| seat.place).collect()
}

/// Opens a replica with these models.
fn replica(place: &Place, name: &str, builder: StoreBuilder) -> Result<(Store, Follower)> {
    let path = place.path(name);
    let follower = Follower::new(&place.url, Duration::from_millis(10))?;
    follower.prepare(LogKind::Records, &path, |make| {
        Memory::install_replica(&memory_url(&path), make)
    })?;
    let builder = builder.changes(ChangeRetention::default());
    Ok((builder.commit_sink(Arc::new(follower.clone())).open()?, follower))
}

fn primary(place: &Place, builder: StoreBuilder) -> (Store, Replicator) {
    let replicator = Replicator::new(&place.url, quick()).unwrap();
    let builder = builder.changes(ChangeRetention::default());
    let store = builder.commit_sink(Arc::new(replicator.clone())).open().unwrap();
    wait_for("a snapshot", || has_snapshot(&place.url));
    (store, replicator)
}

#[test]
fn tables_without_a_model_and_exchanged_unique_values_are_copied() {
    let place = Place::of(Kind::Memory);
    let path = place.path("a.mem");
    let (store, replicator) = primary(&place, memory(&path).model::<Note>().model::<Seat>());
    for number in 1..=4 {
        store.insert(&Seat { id: number, place: number }).run().unwrap();
    }
    assert!(replicator.flush(Duration::from_secs(60)));
    // One replica has no model of the seats, and gets them all the same.
    let of_notes = place.path("notes.mem");
    let (notes, _) = replica(&place, "notes.mem", memory(&of_notes).model::<Note>()).unwrap();
    let both = place.path("both.mem");
    let both = memory(&both).model::<Note>().model::<Seat>();
    let (both, follower) = replica(&place, "both.mem", both).unwrap();
    store
        .transaction(|transaction| {
            for (id, place) in [(1, 90), (2, 1), (3, 2), (4, 3), (1, 4)] {
                transaction.update(&Seat { id, place }).run()?;
            }
            Ok(())
        })
        .unwrap();
    store.delete::<Seat>(2).run().unwrap();
    store.insert(&Seat { id: 5, place: 1 }).run().unwrap();
    store.insert(&note("the last one")).run().unwrap();
    for replica in [&notes, &both] {
        wait_for("the note", || bodies(replica) == ["the last one"]);
    }
    assert_eq!(seats(&both), [4, 2, 3, 1], "{:?}", follower.status());
    both.close().unwrap();
    notes.close().unwrap();
    assert!(replicator.flush(Duration::from_secs(60)));
    Kind::Memory.promote(&of_notes, &place.url).unwrap();
    let promoted = memory(&of_notes).model::<Note>().model::<Seat>().open().unwrap();
    assert_eq!(seats(&promoted), [4, 2, 3, 1]);
}

#[test]
fn a_replica_of_an_older_program_says_so_and_follows_after_its_upgrade() {
    let place = Place::of(Kind::Memory);
    let path = place.path("a.mem");
    let (store, replicator) = primary(&place, memory(&path).model::<Seat>());
    store.insert(&Seat { id: 1, place: 1 }).run().unwrap();
    assert!(replicator.flush(Duration::from_secs(60)));
    let of_replica = place.path("replica.mem");
    let (old, follower) =
        replica(&place, "replica.mem", memory(&of_replica).model::<Seat>()).unwrap();
    wait_for("the replica", || seats(&old) == [1]);
    store.close().unwrap();
    let (store, _) = primary(&place, memory(&path).model::<wider::Seat>());
    store.insert(&wider::Seat { id: 2, place: 2, row: Some("c".to_owned()) }).run().unwrap();
    wait_for("the error", || {
        follower.status().error.is_some_and(|error| error.contains("program of the primary"))
    });
    // It answers with what it has, and refuses writes.
    assert_eq!(seats(&old), [1]);
    let error = old.insert(&Seat { id: 7, place: 7 }).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    old.close().unwrap();
    let new = memory(&of_replica).model::<wider::Seat>();
    let (new, _follower) = replica(&place, "replica.mem", new).unwrap();
    wait_for("the replica", || new.count::<wider::Seat>().run().unwrap() == 2);
    let seat = new.get::<wider::Seat>(2).run().unwrap();
    assert_eq!((seat.place, seat.row.as_deref()), (2, Some("c")));
}

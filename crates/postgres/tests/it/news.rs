//! Stores with a cache on one database, each with connections of its own, as
//! processes have them: what one writes, the other hears.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use marmota_postgres::Postgres;
use marmota_store::Store;

use crate::cancel::Numbers;
use crate::wire_proxy::WireProxy;
use crate::{Tally, label, server};

/// InvalidationFeed come within this, also on a machine that does much else.
const NEWS_COME: Duration = Duration::from_secs(20);

fn cached(url: &str) -> Store {
    let engine = Postgres::from_url(url).unwrap();
    Store::builder(engine).model::<Tally>().model::<Mark>().cache(8 << 20).open().unwrap()
}

/// What is written last: announcements come in the order of commits.
#[derive(Clone, Debug, marmota_derive::Model)]
struct Mark {
    id: i64,
    round: i64,
}

fn count(store: &Store, key: i64) -> i64 {
    store.get::<Tally>(key).run().unwrap().count
}

fn hits(store: &Store) -> u64 {
    store.cache_stats().unwrap().hits
}

/// Reads until it sees this count.
fn wait_for(store: &Store, key: i64, wanted: i64) {
    let until = Instant::now() + NEWS_COME;
    while count(store, key) != wanted {
        assert!(Instant::now() < until, "{} instead of {wanted}", count(store, key));
        thread::sleep(Duration::from_millis(1));
    }
}

/// Has a row answered by the cache.
fn keep(store: &Store, key: i64) {
    let (before, until) = (hits(store), Instant::now() + NEWS_COME);
    while hits(store) == before {
        assert!(Instant::now() < until, "the cache answers nothing");
        store.get::<Tally>(key).run().unwrap();
    }
}

#[test]
fn what_anybody_writes_is_read_anew() {
    let url = server().make_database().unwrap();
    let (one, other) = (cached(&url), cached(&url));
    let by_hand = Postgres::from_url(&url).unwrap();
    let plain = Store::builder(Postgres::from_url(&url).unwrap()).model::<Tally>();
    let plain = plain.open().unwrap();
    let key = one.insert(&label("a")).run().unwrap();
    let mut wanted = 0;
    for writes in 0..7 {
        keep(&one, key);
        keep(&other, key);
        wanted += 1;
        match writes {
            0 => drop(one.increment(Tally::COUNT, key, 1).run().unwrap()),
            1 => {
                let sql = "UPDATE tally SET count=count+1 WHERE id=$1";
                one.execute(sql).bind(key).run().unwrap();
            }
            2 => one.transaction(|own| own.increment(Tally::COUNT, key, 1).run()).map(drop).unwrap(),
            3 => {
                let row = Tally { id: key, count: wanted, label: None };
                let mut batch = one.batch();
                batch.update(&row);
                drop(batch.all_or_nothing().run().unwrap());
            }
            // A store without a cache, SQL past every store, and past the cache
            // of the store whose engine it is.
            4 => drop(plain.increment(Tally::COUNT, key, 1).run().unwrap()),
            5 => by_hand.execute("UPDATE tally SET count=count+1").unwrap(),
            _ => by_hand
                .execute(
                    "BEGIN; DELETE FROM tally; \
                     COPY tally(id,label) FROM '/dev/null'; ROLLBACK; UPDATE tally SET count=count+1",
                )
                .unwrap(),
        }
        if writes < 4 {
            // One's own is known when it is acknowledged.
            assert_eq!(count(&one, key), wanted);
        }
        wait_for(&other, key, wanted);
        wait_for(&one, key, wanted);
    }
}

#[test]
fn ones_own_writes_are_no_news() {
    let url = server().make_database().unwrap();
    let (one, other) = (cached(&url), cached(&url));
    let key = one.insert(&label("a")).run().unwrap();
    let mark = one.insert(&Mark { id: 0, round: 0 }).run().unwrap();
    one.increment(Tally::COUNT, key, 1).run().unwrap();
    keep(&one, key);
    let (hits_before, until) = (hits(&one), Instant::now() + NEWS_COME);
    while hits(&one) == hits_before {
        assert!(Instant::now() < until, "the cache answers nothing");
        one.get::<Mark>(mark).run().unwrap();
    }
    // Announcements come in order: once this one receives a later write of the other, it has
    // received its own.
    other.update(&Mark { id: mark, round: 1 }).run().unwrap();
    while one.get::<Mark>(mark).run().unwrap().round != 1 {
        assert!(Instant::now() < until, "no news");
        thread::yield_now();
    }
    let before = one.cache_stats().unwrap();
    for _ in 0..10 {
        count(&one, key);
    }
    let after = one.cache_stats().unwrap();
    assert_eq!((after.hits, after.misses), (before.hits + 10, before.misses));
}

#[test]
fn a_listener_that_is_lost_is_not_trusted() {
    let proxy = WireProxy::start(server().port());
    let url = server().make_database().unwrap();
    let one = cached(&url);
    let through = proxy.through(&url, server().port());
    let other = cached(&format!("{through}?sslmode=disable"));
    let by_hand = Postgres::from_url(&url).unwrap();
    let key = one.insert(&label("a")).run().unwrap();
    keep(&other, key);
    // Ended by the server: the next writes may come before it listens again.
    for wanted in 1..=20 {
        keep(&other, key);
        by_hand
            .execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE query LIKE 'LISTEN%' AND datname=current_database()",
            )
            .unwrap();
        one.increment(Tally::COUNT, key, 1).run().unwrap();
        wait_for(&other, key, wanted);
    }
    // While it does not listen, nothing is kept.
    keep(&other, key);
    proxy.close(true);
    by_hand
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE query LIKE 'LISTEN%' AND datname=current_database()",
        )
        .unwrap();
    one.increment(Tally::COUNT, key, 1).run().unwrap();
    wait_for(&other, key, 21);
    let before = hits(&other);
    for wanted in 22..30 {
        one.increment(Tally::COUNT, key, 1).run().unwrap();
        assert_eq!((count(&other, key), hits(&other)), (wanted, before));
    }
    proxy.close(false);
    keep(&other, key);
    one.increment(Tally::COUNT, key, 1).run().unwrap();
    wait_for(&other, key, 30);
}

/// Random operations by two stores and by hand; behind each round, when both
/// have heard the mark that was written last, every row that they have is the
/// one that is there. Meanwhile, no reader sees a row older than it has seen.
#[test]
fn random_operations_leave_nothing_stale() {
    const KEYS: usize = 40;
    let operations: u64 = std::env::var("MARMOTA_NEWS").map_or(3_000, |text| text.parse().unwrap());
    let url = server().make_database().unwrap();
    let stores = [cached(&url), cached(&url)];
    let by_hand =
        Store::builder(Postgres::from_url(&url).unwrap()).model::<Tally>().model::<Mark>();
    let by_hand = by_hand.open().unwrap();
    let rows: Vec<Tally> = (0..KEYS).map(label).collect();
    let keys = by_hand.insert_many(&rows).run().unwrap();
    let mark = by_hand.insert(&Mark { id: 0, round: 0 }).run().unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = stores
            .iter()
            .map(|store| {
                scope.spawn(|| {
                    let mut seen = [0; KEYS];
                    while !stop.load(Ordering::Relaxed) {
                        for (seen, key) in seen.iter_mut().zip(&keys) {
                            let count = count(store, *key);
                            assert!(count >= *seen, "went back from {seen} to {count}");
                            *seen = count;
                        }
                    }
                })
            })
            .collect();
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let (mut done, mut round) = (0, 0);
        while done < operations && !readers.iter().any(thread::ScopedJoinHandle::is_finished) {
            for _ in 0..50 {
                done += 1;
                let key = keys[numbers.below(KEYS as u64) as usize];
                let store = &stores[numbers.below(2) as usize];
                match numbers.below(8) {
                    0 => drop(store.increment(Tally::COUNT, key, 1).run().unwrap()),
                    1 => {
                        let sql = "UPDATE tally SET count=count+1 WHERE id=$1";
                        store.execute(sql).bind(key).run().unwrap();
                    }
                    2 => drop(by_hand.increment(Tally::COUNT, key, 1).run().unwrap()),
                    _ => {
                        // What it has written itself, it sees.
                        store.increment(Tally::COUNT, key, 1).run().unwrap();
                        let own = count(store, key);
                        assert_eq!(own, count(&by_hand, key), "behind one's own write");
                    }
                }
            }
            for store in &stores {
                store.get::<Mark>(mark).run().unwrap();
                store.get::<Mark>(mark).run().unwrap();
            }
            round += 1;
            by_hand.update(&Mark { id: mark, round }).run().unwrap();
            for store in &stores {
                let until = Instant::now() + NEWS_COME;
                while store.get::<Mark>(mark).run().unwrap().round != round {
                    assert!(Instant::now() < until, "no news");
                    thread::yield_now();
                }
                for key in &keys {
                    assert_eq!(count(store, *key), count(&by_hand, *key), "stale");
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    for store in &stores {
        assert!(hits(store) > 0);
    }
}

#[test]
fn a_dropped_trigger_is_noticed() {
    let url = server().make_database().unwrap();
    let store = cached(&url);
    let by_hand = Postgres::from_url(&url).unwrap();
    let key = store.insert(&label("a")).run().unwrap();
    for (round, drop) in [
        "DROP FUNCTION marmota_wrote_1 CASCADE",
        "ALTER TABLE tally DISABLE TRIGGER \"marmota:wrote\"",
    ]
    .into_iter()
    .enumerate()
    {
        let store = cached(&url);
        keep(&store, key);
        by_hand.execute(drop).unwrap();
        by_hand.execute("UPDATE tally SET count=count+1").unwrap();
        // Nothing announces it: the cache is passed by once that is found out.
        wait_for(&store, key, round as i64 + 1);
        by_hand.execute("UPDATE tally SET label='b'").unwrap();
        assert_eq!(store.get::<Tally>(key).run().unwrap().label.as_deref(), Some("b"));
        let before = hits(&store);
        store.get::<Tally>(key).run().unwrap();
        assert_eq!(hits(&store), before);
        by_hand.execute("UPDATE tally SET label='a'").unwrap();
    }
    // Opened again, it is announced again.
    let again = cached(&url);
    keep(&again, key);
    by_hand.execute("UPDATE tally SET count=7").unwrap();
    wait_for(&again, key, 7);
}

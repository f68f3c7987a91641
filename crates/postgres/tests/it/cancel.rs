//! Operations that are given up at any moment: what was acknowledged is there,
//! what was not may be, and no connection is left with another's answer.

use std::collections::HashSet;
use std::future::{Future, IntoFuture as _};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use marmota_model::{ErrorKind, Result};
use marmota_store::Store;

use crate::{Tally, label, store};

/// How many are given up; `MARMOTA_CANCELS` says another number.
fn cancels() -> u64 {
    std::env::var("MARMOTA_CANCELS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

/// The same numbers in every run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

type Answer<'s> = Pin<Box<dyn Future<Output = Result<i64>> + 's>>;

/// An operation whose answer can be checked by itself: a number that only it
/// should get.
fn operation<'s>(store: &'s Store, numbers: &mut Numbers, keys: &[i64], new: i64) -> Answer<'s> {
    let key = keys[numbers.below(keys.len() as u64) as usize];
    match numbers.below(6) {
        0 => Box::pin(async move {
            let row = store.get::<Tally>(key).await?;
            assert_eq!(row.id, key, "another's row");
            Ok(0)
        }),
        1 => Box::pin(async move {
            store.insert(&label(new)).await?;
            Ok(new)
        }),
        2 => Box::pin(async move { store.increment(Tally::COUNT, key, 1).await.map(|_| 0) }),
        3 => Box::pin(async move {
            let rows = store.list::<Tally>().filter(Tally::ID.eq(key)).await?;
            assert_eq!(rows[0].id, key, "another's rows");
            Ok(0)
        }),
        4 => Box::pin(async move {
            let transaction = store.begin().await?;
            transaction.increment(Tally::COUNT, key, 1).await?;
            transaction.insert(&label(new)).await?;
            transaction.commit().await?;
            Ok(new)
        }),
        _ => Box::pin(async move {
            let error = store.insert(&label("taken")).await.unwrap_err();
            match error.kind() {
                ErrorKind::Conflict => Ok(0),
                _ => Err(error),
            }
        }),
    }
}

#[test]
fn operations_may_be_given_up_at_any_moment() {
    let store = store();
    store.insert(&label("taken")).run().unwrap();
    let rows: Vec<Tally> = (0..20).map(|number| label(format!("key {number}"))).collect();
    let keys = store.insert_many(&rows).run().unwrap();
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    // The labels whose inserts were; 0 for what made none.
    let mut acknowledged = HashSet::new();
    let mut context = Context::from_waker(Waker::noop());
    let (mut open, mut given_up, mut new): (Vec<(Answer<'_>, u64)>, u64, i64) = (Vec::new(), 0, 0);
    while given_up < cancels() {
        while open.len() < 12 {
            new += 1;
            let lives = numbers.below(40);
            open.push((operation(&store, &mut numbers, &keys, new), lives));
        }
        let mut at = 0;
        while at < open.len() {
            let (answer, lives) = &mut open[at];
            match answer.as_mut().poll(&mut context) {
                Poll::Ready(Ok(label)) => {
                    if label != 0 {
                        acknowledged.insert(label);
                    }
                    drop(open.swap_remove(at));
                }
                Poll::Ready(Err(error)) => {
                    // Two transactions may be in each other's way.
                    assert!(error.is_retryable(), "{error:?}");
                    drop(open.swap_remove(at));
                }
                Poll::Pending if *lives == 0 => {
                    given_up += 1;
                    drop(open.swap_remove(at));
                }
                Poll::Pending => {
                    *lives -= 1;
                    at += 1;
                }
            }
        }
        std::thread::yield_now();
    }
    drop(open);
    // Every row: those acknowledged are there, once.
    let labels: Vec<String> =
        store.list::<Tally>().run().unwrap().into_iter().filter_map(|row| row.label).collect();
    let known: HashSet<&String> = labels.iter().collect();
    assert_eq!(known.len(), labels.len());
    for new in acknowledged {
        assert!(known.contains(&format!("label {new}")), "{new} is lost");
    }
    // And the connections answer what they are asked.
    for key in keys {
        assert_eq!(store.get::<Tally>(key).run().unwrap().id, key);
        store.increment(Tally::COUNT, key, 1).run().unwrap();
    }
    store.close().unwrap();
}

/// How many statements sleep at the server.
fn asleep(store: &Store) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE state='active' \
               AND datname=current_database() AND query LIKE '%pg_sleep(60)%' \
               AND pid<>pg_backend_pid()";
    store.sql(sql).value::<i64>().run().unwrap().unwrap()
}

fn wait_for(store: &Store, wanted: i64) {
    let until = Instant::now() + Duration::from_secs(20);
    while asleep(store) != wanted {
        assert!(Instant::now() < until, "{} instead of {wanted} sleep", asleep(store));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn what_is_given_up_ends_at_the_server() {
    let url = crate::server().make_database().unwrap();
    let (store, other) = (crate::open(&url), crate::open(&url));
    let key = store.insert(&label("a")).run().unwrap();
    for round in 0..3 {
        let began = Instant::now();
        let sleeps = "UPDATE tally SET count=-1 WHERE id=$1 AND (SELECT true FROM pg_sleep(60))";
        let mut write = Box::pin(store.execute(sleeps).bind(key).into_future());
        let mut read =
            Box::pin(store.sql("SELECT count(*) FROM pg_sleep(60)").rows().into_future());
        while asleep(&other) < 2 {
            assert!(poll(&mut write).is_pending() && poll(&mut read).is_pending());
            std::thread::sleep(Duration::from_millis(5));
            assert!(began.elapsed() < Duration::from_secs(20));
        }
        // Both are sent after one that sleeps, or are given another connection.
        let mut next = Box::pin(store.increment(Tally::COUNT, key, 1).into_future());
        let mut row = Box::pin(store.get::<Tally>(key).into_future());
        let (mut counted, mut got) = (poll(&mut next), poll(&mut row));
        for _ in 0..5 {
            if got.is_pending() {
                got = poll(&mut row);
            }
            if counted.is_pending() {
                counted = poll(&mut next);
            }
        }
        drop((write, read));
        let counted = match counted {
            Poll::Ready(counted) => counted,
            Poll::Pending => futures_lite::future::block_on(next),
        };
        assert_eq!(counted.unwrap(), round + 1);
        let got = match got {
            Poll::Ready(got) => got,
            Poll::Pending => futures_lite::future::block_on(row),
        };
        assert_eq!(got.unwrap().id, key);
        wait_for(&other, 0);
        // In a transaction, which is undone with it.
        let transaction = store.begin_run().unwrap();
        transaction.increment(Tally::COUNT, key, 100).run().unwrap();
        let mut write = Box::pin(transaction.execute(sleeps).bind(key).into_future());
        while asleep(&other) < 1 {
            assert!(poll(&mut write).is_pending());
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(write);
        drop(transaction);
        wait_for(&other, 0);
        let transaction = store.begin_run().unwrap();
        assert_eq!(transaction.get::<Tally>(key).run().unwrap().count, round + 1);
        transaction.commit().run().unwrap();
        assert!(began.elapsed() < Duration::from_secs(40), "nothing was ended");
    }
    store.close().unwrap();
}

#[test]
fn what_is_given_up_has_ended_at_the_server_when_the_store_is_closed() {
    let url = crate::server().make_database().unwrap();
    let (store, other) = (crate::open(&url), crate::open(&url));
    let key = store.insert(&label("a")).run().unwrap();
    let sleeps = "UPDATE tally SET count=-1 WHERE id=$1 AND (SELECT true FROM pg_sleep(60))";
    let mut write = Box::pin(store.execute(sleeps).bind(key).into_future());
    let mut read = Box::pin(store.sql("SELECT count(*) FROM pg_sleep(60)").rows().into_future());
    let until = Instant::now() + Duration::from_secs(20);
    while asleep(&other) < 2 {
        assert!(poll(&mut write).is_pending() && poll(&mut read).is_pending());
        assert!(Instant::now() < until, "they do not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop((write, read));
    store.close().unwrap();
    assert_eq!(asleep(&other), 0);
    assert_eq!(other.get::<Tally>(key).run().unwrap().count, 0);
    other.close().unwrap();
}

#[test]
fn what_is_given_up_does_not_meet_the_next_transaction() {
    let url = crate::server().make_database().unwrap();
    let (store, other) = (crate::open(&format!("{url}?connections_max=4")), crate::open(&url));
    // Of two connections for transactions, so that the next has that of the one given up.
    let kept = store.begin_run().unwrap();
    let key = other.insert(&label("a")).run().unwrap();
    for round in 0..5 {
        let holder = other.begin_run().unwrap();
        holder.increment(Tally::COUNT, key, 1).run().unwrap();
        let transaction = store.begin_run().unwrap();
        let mut waits = Box::pin(transaction.increment(Tally::COUNT, key, 1).into_future());
        for _ in 0..5 {
            assert!(poll(&mut waits).is_pending(), "another transaction holds the row");
        }
        drop(waits);
        drop(transaction);
        let next = store.begin_run().unwrap();
        for number in 0..40 {
            next.insert(&label(format!("{round}.{number}"))).run().unwrap();
        }
        next.commit().run().unwrap();
        assert_eq!(store.count::<Tally>().run().unwrap(), 1 + 40 * (round + 1));
        holder.rollback().run().unwrap();
    }
    assert_eq!(store.get::<Tally>(key).run().unwrap().count, 0);
    kept.rollback().run().unwrap();
    store.close().unwrap();
}

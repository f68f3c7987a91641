//! A server that goes away and comes back, connections that are cut, and
//! statements that take too long.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use futures_lite::future::{block_on, poll_once};
use marmota_model::{ErrorKind, Result};
use marmota_postgres::TemporaryPostgres;
use marmota_store::Store;

use crate::wire_proxy::WireProxy;
use crate::{Tally, label, open, server};

/// A server that is there again is used again within this.
const SERVICE_BACK: Duration = Duration::from_secs(120);

/// Adds to a counter until told to stop, and at least once; gives how many were
/// acknowledged, and of how many it is not known.
fn add_until(store: &Store, key: i64, stop: &AtomicBool) -> (i64, i64) {
    let (mut done, mut unknown) = (0, 0);
    let until = Instant::now() + SERVICE_BACK;
    let is_over = || stop.load(Ordering::Relaxed);
    while !is_over() || done == 0 && Instant::now() < until {
        match store.increment(Tally::COUNT, key, 1).run() {
            Ok(_) => done += 1,
            Err(error) => {
                assert!(
                    matches!(error.kind(), ErrorKind::Lost | ErrorKind::Refused | ErrorKind::Busy),
                    "{error:?}"
                );
                unknown += 1;
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
    (done, unknown)
}

#[test]
fn a_server_that_is_restarted_under_load_loses_nothing() {
    // With what makes a commit last.
    let own = TemporaryPostgres::start(&[]).unwrap();
    let store = open(&own.make_database().unwrap());
    let keys = store.insert_many(&(0..4).map(label).collect::<Vec<_>>()).run().unwrap();
    let (stop, read) = (AtomicBool::new(false), AtomicI64::new(0));
    let told: Vec<(i64, i64)> = thread::scope(|scope| {
        let adders: Vec<_> =
            keys.iter().map(|key| scope.spawn(|| add_until(&store, *key, &stop))).collect();
        scope.spawn(|| {
            // Reads go on by themselves.
            while !stop.load(Ordering::Relaxed) {
                if store.get::<Tally>(keys[0]).run().is_ok() {
                    read.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let restarted = (0..2).try_for_each(|_| {
            thread::sleep(Duration::from_millis(300));
            own.pause();
            thread::sleep(Duration::from_millis(100));
            own.resume()
        });
        if let Err(error) = restarted {
            stop.store(true, Ordering::Relaxed);
            panic!("the server does not come back: {error}");
        }
        let (before, until) = (read.load(Ordering::Relaxed), Instant::now() + SERVICE_BACK);
        while read.load(Ordering::Relaxed) == before && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        // Writes as well.
        thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        assert!(read.load(Ordering::Relaxed) > before, "no read came back");
        adders.into_iter().map(|adder| adder.join().unwrap()).collect()
    });
    for (key, (done, unknown)) in keys.iter().zip(&told) {
        let count = store.get::<Tally>(*key).run().unwrap().count;
        assert!((*done..=done + unknown).contains(&count), "{count} of {done} and {unknown}");
        // None need be unknown: what the server has begun it may answer before it
        // goes, and what it has not is sent to the next one.
        assert!(*done > 0);
    }
}

#[test]
fn a_connection_cut_in_a_pipeline_loses_nothing_that_was_told() {
    let proxy = WireProxy::start(server().port());
    let url = server().make_database().unwrap();
    let store = open(&format!("{}?sslmode=disable", proxy.through(&url, server().port())));
    let keys = store.insert_many(&(0..4).map(label).collect::<Vec<_>>()).run().unwrap();
    let stop = AtomicBool::new(false);
    let told: Vec<(i64, i64)> = thread::scope(|scope| {
        let adders: Vec<_> =
            keys.iter().map(|key| scope.spawn(|| add_until(&store, *key, &stop))).collect();
        for round in 0..20 {
            thread::sleep(Duration::from_millis(20));
            if round % 2 == 0 { proxy.cut() } else { proxy.cut_after(1 + 37 * round) }
        }
        thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::Relaxed);
        adders.into_iter().map(|adder| adder.join().unwrap()).collect()
    });
    for (key, (done, unknown)) in keys.iter().zip(told) {
        let count = store.get::<Tally>(*key).run().unwrap().count;
        assert!((done..=done + unknown).contains(&count), "{count} of {done} and {unknown}");
        assert!(done > 0);
    }
}

#[test]
fn a_result_that_is_cut_is_whole_or_an_error() {
    const ROWS: usize = 2_000;
    let proxy = WireProxy::start(server().port());
    let url = server().make_database().unwrap();
    let store = open(&format!("{}?sslmode=disable", proxy.through(&url, server().port())));
    store.insert_many(&(0..ROWS).map(label).collect::<Vec<_>>()).run().unwrap();
    let list = || -> Result<()> {
        let rows = store.list::<Tally>().run()?;
        assert_eq!(rows.len(), ROWS, "a part of the result was taken for all of it");
        let is_whole = |(at, row): (usize, &Tally)| row.label == label(at).label;
        assert!(rows.iter().enumerate().all(is_whole), "another's rows");
        Ok(())
    };
    list().unwrap();
    // Before its first row is whole nobody has seen anything of it: it is read again.
    for bytes in [1, 5, 9] {
        proxy.cut_after(bytes);
        list().unwrap();
    }
    // Rows that were lent are not lent again, and the next read is a new one.
    for bytes in [5_000, 20_001, 50_000] {
        proxy.cut_after(bytes);
        let error = list().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
        assert!(error.to_string().contains("127.0.0.1"), "{error}");
        list().unwrap();
    }
    // Others on the same connection, behind it and before it.
    let cuts = AtomicI64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..15 {
                    proxy.cut_after(1 + 7_919 * cuts.fetch_add(1, Ordering::Relaxed) as usize);
                    if let Err(error) = list() {
                        assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
                    }
                }
            });
        }
    });
    proxy.cut_after(0);
    while let Err(error) = list() {
        assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
    }
}

#[test]
fn a_transaction_that_is_cut_runs_again() {
    let proxy = WireProxy::start(server().port());
    let url = server().make_database().unwrap();
    let store = open(&format!("{}?sslmode=disable", proxy.through(&url, server().port())));
    let key = store.insert(&label("a")).run().unwrap();
    let mut runs = 0;
    store
        .transaction(|own| {
            runs += 1;
            own.increment(Tally::COUNT, key, 5).run()?;
            if runs == 1 {
                proxy.cut();
            }
            own.increment(Tally::COUNT, key, 5).run()
        })
        .unwrap();
    assert_eq!((runs, store.get::<Tally>(key).run().unwrap().count), (2, 10));
}

#[test]
fn a_server_that_stays_away_is_named_in_time() {
    let proxy = WireProxy::start(server().port());
    let url = server().make_database().unwrap();
    let through = proxy.through(&url, server().port());
    let store = open(&format!("{through}?sslmode=disable&acquire_timeout_ms=4000"));
    let key = store.insert(&label("a")).run().unwrap();
    proxy.close(true);
    proxy.cut();
    // Two: the first may be the one that finds the connection cut.
    for _ in 0..2 {
        let began = Instant::now();
        let error = store.increment(Tally::COUNT, key, 1).run().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Lost | ErrorKind::Refused), "{error:?}");
        assert!(error.to_string().contains("127.0.0.1"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(60));
    }
    proxy.close(false);
    let until = Instant::now() + SERVICE_BACK;
    while let Err(error) = store.get::<Tally>(key).run() {
        assert!(Instant::now() < until, "{error}");
    }
}

#[test]
fn a_statement_past_its_time_is_ended() {
    let url = server().make_database().unwrap();
    let store = open(&format!("{url}?statement_timeout_ms=2000"));
    let key = store.insert(&label("a")).run().unwrap();
    let transaction = store.begin_run().unwrap();
    transaction.increment(Tally::COUNT, key, 1).run().unwrap();
    let error = store.increment(Tally::COUNT, key, 1).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    transaction.commit().run().unwrap();
    assert_eq!(store.increment(Tally::COUNT, key, 1).run().unwrap(), 2);
}

#[test]
fn transactions_beyond_the_limit_wait_and_are_told() {
    let url = server().make_database().unwrap();
    let limited =
        |wait_ms: u32| open(&format!("{url}?connections_max=4&acquire_timeout_ms={wait_ms}"));
    let store = limited(4_000);
    let open: Vec<_> = (0..2).map(|_| store.begin_run().unwrap()).collect();
    let error = store.begin_run().map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error:?}");
    assert!(error.to_string().contains("connections_max"), "{error}");
    drop(open);
    // The end of others is waited for.
    let store = limited(120_000);
    let open: Vec<_> = (0..2).map(|_| store.begin_run().unwrap()).collect();
    let mut waiter = Box::pin(store.begin());
    block_on(async {
        for _ in 0..5 {
            assert!(poll_once(&mut waiter).await.is_none(), "a third transaction began");
        }
        drop(open);
        waiter.await.map(drop).unwrap();
    });
}

#[test]
fn an_idle_connection_finds_out_that_the_server_was_restarted_before_it_writes() {
    // With what makes a commit last: the server is ended as by a crash.
    let own = TemporaryPostgres::start(&[]).unwrap();
    let store = open(&own.make_database().unwrap());
    let key = store.insert(&label("a")).run().unwrap();
    for count in 1..=3 {
        // Of both kinds: a connection for writes, and one for transactions.
        store.transaction(|own| own.increment(Tally::COUNT, key, 10).run().map(drop)).unwrap();
        own.crash();
        own.resume().unwrap();
        // The write fails with an unknown outcome if it is sent on the connection of the
        // server that has ended.
        assert_eq!(store.increment(Tally::COUNT, key, 1).run().unwrap(), 11 * count);
        let transaction = store.begin_run().unwrap();
        assert_eq!(transaction.get::<Tally>(key).run().unwrap().count, 11 * count);
    }
}

#[test]
fn a_write_that_is_refused_before_it_is_sent_keeps_no_connection() {
    let database = server().make_database().unwrap();
    let url = format!("{database}?connections_max=4&acquire_timeout_ms=4000");
    let (store, other) = (open(&url), open(&url));
    let key = store.insert(&label(1)).run().unwrap();
    let holder = other.begin_run().unwrap();
    holder.increment(Tally::COUNT, key, 1).run().unwrap();
    block_on(async {
        let mut waiting = Box::pin(async { store.increment(Tally::COUNT, key, 1).await });
        assert!(poll_once(&mut waiting).await.is_none());
        // Once it has waited for 5 ms, other writes get other connections.
        let until = Instant::now() + Duration::from_millis(200);
        let refused = [Tally { label: Some("a\0b".to_owned()), ..Tally::default() }];
        while Instant::now() < until {
            store.insert_many(&refused).await.unwrap_err();
        }
        let all: Vec<_> = (0..2).map(|_| store.begin_run().unwrap()).collect();
        drop(all);
        holder.commit().run().unwrap();
        waiting.await.unwrap();
    });
    store.close().unwrap();
}

/// The server's last message and the end of the connection may come together, and are reported by
/// one event.
#[test]
fn no_operation_waits_on_a_connection_that_has_ended() {
    let own = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    let store = open(&own.make_database().unwrap());
    let keys = store.insert_many(&(0..4).map(label).collect::<Vec<_>>()).run().unwrap();
    let stop = AtomicBool::new(false);
    let longest: Vec<Duration> = thread::scope(|scope| {
        let adders: Vec<_> = keys
            .iter()
            .map(|&key| {
                let (store, stop) = (&store, &stop);
                scope.spawn(move || {
                    let mut longest = Duration::ZERO;
                    while !stop.load(Ordering::Relaxed) {
                        let begun = Instant::now();
                        // Its waker is not the store's, so that a thread watches the connection.
                        let added = block_on(async { store.increment(Tally::COUNT, key, 1).await });
                        longest = longest.max(begun.elapsed());
                        drop(added);
                    }
                    longest
                })
            })
            .collect();
        for _ in 0..50 {
            thread::sleep(Duration::from_millis(30));
            own.disconnect_all().unwrap();
        }
        // The connections that were closed last have time to be replaced.
        thread::sleep(Duration::from_secs(1));
        stop.store(true, Ordering::Relaxed);
        adders.into_iter().map(|adder| adder.join().unwrap()).collect()
    });
    assert!(longest.iter().all(|&time| time < SERVICE_BACK / 4), "{longest:?}");
}

//! The server goes and comes back; readers give up.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use futures_lite::future::{block_on, poll_once};
use marmota::prelude::*;
use marmota::store::EngineStatistics;
use marmota_mongo::TemporaryMongo;

use crate::{Office, open, server};

#[test]
fn a_server_that_stops_is_said_and_found_again() {
    let server = TemporaryMongo::start().unwrap();
    let store = open(&format!("{}?serverSelectionTimeoutMS=300", server.url()));
    store.insert(&Office::new("1", "Nord")).run().unwrap();
    let (ended, right, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    match store.get::<Office>("1").run() {
                        Ok(office) => {
                            assert_eq!(office.name, "Nord");
                            right.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        let reaches = |count: &AtomicU64, more: u64| {
            let (before, began) = (count.load(Ordering::Relaxed), Instant::now());
            while count.load(Ordering::Relaxed) < before + more {
                assert!(began.elapsed() < Duration::from_secs(60), "it takes too long");
                thread::sleep(Duration::from_millis(5));
            }
        };
        reaches(&right, 20);
        server.stop().unwrap();
        reaches(&refused, 5);
        server.resume().unwrap();
        reaches(&right, 20);
        ended.store(true, Ordering::Relaxed);
    });
    store.insert(&Office::new("2", "Süd")).run().unwrap();
    store.close().unwrap();
}

#[test]
fn a_read_that_is_given_up_gives_its_connection_free() {
    let store = open(&format!("{}?maxPoolSize=2", server().url()));
    let offices: Vec<Office> =
        (0..500).map(|number| Office::new(&number.to_string(), "x")).collect();
    store.insert_many(&offices).run().unwrap();
    block_on(async {
        for _ in 0..50 {
            let list = std::pin::pin!(async { store.list::<Office>().await });
            assert!(poll_once(list).await.is_none(), "a server's answer takes its time");
        }
    });
    assert_eq!(store.count::<Office>().run().unwrap(), 500);
    let began = Instant::now();
    let is_busy = |of: EngineStatistics| of.connections_in_use + of.connections_wanted > 0;
    while is_busy(store.statistics().engine) {
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", store.statistics());
        thread::sleep(Duration::from_millis(5));
    }
    store.close().unwrap();
}

#[test]
fn a_write_that_is_given_up_comes_before_later_ones() {
    let store = open(&server().url());
    store.insert(&Office::new("1", "x")).run().unwrap();
    for number in 1..=20 {
        block_on(async {
            let change = store.patch::<Office>("1").set(Office::SEATS, -number);
            let change = std::pin::pin!(change.into_future());
            let _ = poll_once(change).await;
        });
        store.patch::<Office>("1").set(Office::SEATS, number).run().unwrap();
        assert_eq!(store.get::<Office>("1").run().unwrap().seats, number);
    }
    store.close().unwrap();
}

#[test]
fn what_takes_too_long_and_what_is_too_much_is_refused() {
    let url = server().url();
    let store = open(&format!("{url}?operations_max=3"));
    let mut reads: Vec<_> =
        (0..6).map(|_| Box::pin(async { store.count::<Office>().await })).collect();
    let busy = block_on(async {
        let mut busy = 0;
        for read in &mut reads {
            if let Some(Err(error)) = poll_once(read).await {
                assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                busy += 1;
            }
        }
        busy
    });
    assert!(busy >= 1, "none was refused");
    drop(reads);
    store.close().unwrap();
}

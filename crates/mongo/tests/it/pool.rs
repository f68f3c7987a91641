//! The pool of connections follows the load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Office, open, server};

#[test]
fn the_pool_grows_and_shrinks_again() {
    let store = open(&format!("{}?maxPoolSize=8&maxIdleTimeMS=300", server().url()));
    store.insert(&Office::new("1", "Nord")).run().unwrap();
    // The load goes on until the pool is seen to have grown.
    let ended = AtomicBool::new(false);
    let most = thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    assert_eq!(store.list::<Office>().run().unwrap().len(), 1);
                }
            });
        }
        let (began, mut most) = (Instant::now(), 0);
        while most < 2 && began.elapsed() < Duration::from_secs(60) {
            most = store.statistics().engine.connections;
            thread::sleep(Duration::from_millis(2));
        }
        ended.store(true, Ordering::Relaxed);
        most
    });
    assert!((2..=8).contains(&most), "{most} connections under load");
    let began = Instant::now();
    while store.statistics().engine.connections > 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", store.statistics());
        thread::sleep(Duration::from_millis(20));
    }
    let statistics = store.statistics().engine;
    assert_eq!((statistics.connections_in_use, statistics.connections_wanted), (0, 0));
    store.get::<Office>("1").run().unwrap();
    store.close().unwrap();
}

//! Attempts to connect on helper threads, and when they are made.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result};
use marmota_rpc::{ConnectAttempt, ConnectThreads, Reconnect};
use marmota_store::engine::Watch;

use crate::WITHIN;

fn ended(attempt: &ConnectAttempt<u32>) -> Result<u32> {
    let until = Instant::now() + WITHIN;
    loop {
        if let Some(made) = attempt.take() {
            return made;
        }
        assert!(Instant::now() < until, "the attempt does not end");
        thread::yield_now();
    }
}

#[test]
fn an_attempt_runs_on_another_thread_and_wakes_its_watch() {
    let threads = Arc::new(ConnectThreads::default());
    let watch = Arc::new(Watch::default());
    let caller = thread::current().id();
    let attempt = threads.start(&watch, move || {
        assert_ne!(thread::current().id(), caller);
        Ok(7)
    });
    assert_eq!(ended(&attempt).unwrap(), 7);
    let until = Instant::now() + WITHIN;
    while !watch.has_happened() {
        assert!(Instant::now() < until, "the watch is not woken");
    }
    threads.dismiss();
}

#[test]
fn a_failed_attempt_ends_those_that_waited() {
    let threads = Arc::new(ConnectThreads::default());
    let watch = Arc::new(Watch::default());
    let (release, released) = channel::<()>();
    let released = Arc::new(std::sync::Mutex::new(released));
    let made = Arc::new(AtomicUsize::new(0));
    let attempts: Vec<_> = (0..64)
        .map(|_| {
            let (released, made) = (Arc::clone(&released), Arc::clone(&made));
            threads.start(&watch, move || {
                made.fetch_add(1, Ordering::SeqCst);
                let _ = released.lock().unwrap().recv_timeout(WITHIN);
                Err(Error::new(ErrorKind::Refused, "no server listens"))
            })
        })
        .collect();
    // Every attempt has begun or waits; the closed channel ends those that have begun.
    drop(release);
    for attempt in &attempts {
        assert_eq!(ended(attempt).unwrap_err().kind(), ErrorKind::Refused);
    }
    assert!(made.load(Ordering::SeqCst) < attempts.len());
}

#[test]
fn an_attempt_that_panics_is_an_error() {
    let threads = Arc::new(ConnectThreads::<u32>::default());
    let attempt = threads.start(&Arc::default(), || panic!("as tested"));
    assert_eq!(ended(&attempt).unwrap_err().kind(), ErrorKind::Bug);
}

#[test]
fn pauses_grow_until_the_time_is_over() {
    let mut reconnect =
        Reconnect::new(Duration::from_millis(10)..=Duration::from_secs(9), Some(WITHIN));
    let began = Instant::now();
    let first = reconnect.pause();
    assert!(first <= Instant::now() + Duration::from_millis(10));
    let pauses: Vec<Instant> = (0..8).map(|_| reconnect.pause()).collect();
    assert!(pauses[7] > began + Duration::from_millis(1280));
    assert_eq!(reconnect.next_attempt(), pauses[7]);
    assert!(!reconnect.is_over());
    reconnect.reset();
    assert!(reconnect.pause() <= Instant::now() + Duration::from_millis(10));
    reconnect.begin(began.checked_sub(WITHIN).unwrap());
    assert!(reconnect.is_over());
}

//! A store over a cluster of a primary and a standby: it finds the primary, also after the standby
//! has taken its place.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use marmota_model::ErrorKind;
use marmota_postgres::{Postgres, TemporaryPostgres};
use marmota_store::Store;

use crate::{Tally, label, open};

/// The threads that write, and the time that each of them has after the failover.
const WRITERS: usize = 8;
const AFTER: Duration = Duration::from_secs(3);

fn cluster() -> (TemporaryPostgres, TemporaryPostgres) {
    let primary = TemporaryPostgres::start(&[]).unwrap();
    let standby = primary.start_standby().unwrap();
    (primary, standby)
}

#[test]
fn the_primary_is_found_wherever_it_is_in_the_list() {
    let (primary, standby) = cluster();
    for url in [primary.url_with(&standby, "postgres"), standby.url_with(&primary, "postgres")] {
        let store = open(&url);
        let key = store.insert(&label(&url)).run().unwrap();
        assert!(store.get::<Tally>(key).run().unwrap().label.is_some());
    }
}

#[test]
fn a_cluster_without_a_primary_is_refused_with_the_reason_of_each_server() {
    let (primary, standby) = cluster();
    let url = primary.url_with(&standby, "postgres");
    primary.crash();
    let error = Postgres::from_url(&url).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
    let text = error.to_string();
    for part in [primary.port().to_string(), standby.port().to_string(), "standby".to_owned()] {
        assert!(text.contains(&part), "{part}: {text}");
    }
    // Reads of the standby alone are possible if the URL says so.
    Postgres::from_url(&format!("{url}?target_session_attrs=any")).unwrap();
}

/// Writes until `ends`; returns the keys of the acknowledged rows, and the longest time without one.
fn write_until(store: &Store, ends: &AtomicBool) -> (Vec<i64>, Duration) {
    let (mut keys, mut longest, mut last) = (Vec::new(), Duration::ZERO, Instant::now());
    while !ends.load(Ordering::Relaxed) {
        match store.insert(&Tally::default()).run() {
            Ok(key) => {
                keys.push(key);
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
            Err(error) => {
                let kinds = [ErrorKind::Refused, ErrorKind::Lost, ErrorKind::Busy];
                assert!(kinds.contains(&error.kind()), "{error:?}");
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
    (keys, longest.max(last.elapsed()))
}

#[test]
fn a_standby_that_takes_over_has_every_acknowledged_row() {
    let (primary, standby) = cluster();
    let store = open(&primary.url_with(&standby, "postgres"));
    let ends = AtomicBool::new(false);
    let (written, before) = thread::scope(|scope| {
        let writers: Vec<_> =
            (0..WRITERS).map(|_| scope.spawn(|| write_until(&store, &ends))).collect();
        thread::sleep(Duration::from_secs(1));
        let before = store.count::<Tally>().run().unwrap();
        primary.crash();
        standby.promote().unwrap();
        thread::sleep(AFTER);
        ends.store(true, Ordering::Relaxed);
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        (written, before)
    });
    let mut acknowledged = 0;
    for (keys, longest) in written {
        for key in keys {
            store.get::<Tally>(key).run().unwrap();
            acknowledged += 1;
        }
        assert!(longest < AFTER, "a writer waited {longest:?}");
    }
    assert!(0 < before && before < acknowledged, "{before} rows before, {acknowledged} in all");
}

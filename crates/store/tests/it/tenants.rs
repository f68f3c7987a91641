//! Stores of tenants: one opening for all who ask, a bounded number open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use marmota_memory::Memory;
use marmota_model::{Error, ErrorKind};
use marmota_store::{Store, Tenants};

fn open(_: &str) -> marmota_model::Result<Store> {
    Store::builder(Memory::new()).open()
}

#[test]
fn threads_that_ask_at_once_have_it_opened_once() {
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    let tenants = Tenants::new(move |tenant| {
        count.fetch_add(1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(20));
        open(tenant)
    });
    thread::scope(|threads| {
        for thread in 0..16 {
            let tenants = &tenants;
            threads.spawn(move || tenants.get(["ana", "bob"][thread % 2]).unwrap());
        }
    });
    assert_eq!(opened.load(Ordering::SeqCst), 2);
    let statistics = tenants.statistics();
    assert_eq!((statistics.open, statistics.opened, statistics.hits), (2, 2, 14));
}

#[test]
fn the_one_used_least_recently_goes_unless_it_is_held() {
    let tenants = Tenants::new(open).open_max(2);
    let ana = tenants.get("ana").unwrap();
    tenants.get("bob").unwrap();
    tenants.get("cid").unwrap();
    assert_eq!(tenants.statistics().evicted, 1, "bob: ana is held");
    assert!(ana.begin_run().is_ok());
    let cid = tenants.get("cid").unwrap();
    let error = tenants.get("dan").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.message().contains("open_max"), "{error}");
    let transaction = cid.begin_run().unwrap();
    drop(cid);
    assert_eq!(tenants.get("dan").unwrap_err().kind(), ErrorKind::Busy, "a transaction holds it");
    drop(transaction);
    tenants.get("dan").unwrap();
    assert_eq!((tenants.statistics().open, tenants.statistics().evicted), (2, 2));
}

#[test]
fn names_cannot_leave_the_folder() {
    let tenants = Tenants::new(open);
    let long = "a".repeat(65);
    for name in
        ["", ".", "..", "../a", "a/b", "a\\b", "a.b", "A", "ä", "-a", "_a", "a b", "a\0", &long]
    {
        assert_eq!(tenants.get(name).unwrap_err().kind(), ErrorKind::Invalid, "{name:?}");
    }
    for name in ["a", "0", "a-b_c9", &"a".repeat(64)] {
        assert!(tenants.get(name).is_ok(), "{name}");
    }
}

#[test]
fn a_failure_is_its_own_callers_and_is_tried_again() {
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = Arc::clone(&broken);
    let tenants = Tenants::new(move |tenant| match tenant {
        "bad" if is_broken.load(Ordering::SeqCst) => Err(Error::new(ErrorKind::Io, "no disk")),
        "worse" => panic!("out of order"),
        _ => open(tenant),
    })
    .open_max(2);
    let error = tenants.get("bad").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.message().contains("`bad`"), "{error}");
    for _ in 0..3 {
        let tenants = tenants.clone();
        assert!(thread::spawn(move || tenants.get("worse").map(drop)).join().is_err());
    }
    assert!(tenants.get("good").is_ok());
    broken.store(false, Ordering::SeqCst);
    assert!(tenants.get("bad").is_ok());
    assert_eq!(tenants.statistics().failed, 1);
}

#[test]
fn a_close_closes_all() {
    let tenants = Tenants::new(open);
    let (ana, bob) = (tenants.get("ana").unwrap(), tenants.get("bob").unwrap());
    tenants.close().unwrap();
    for store in [&ana, &bob] {
        assert_eq!(store.begin_run().unwrap_err().kind(), ErrorKind::Closed);
    }
    assert_eq!(tenants.get("ana").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(tenants.get("new").unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn threads_share_few_places() {
    let tenants = Tenants::new(open).open_max(4);
    thread::scope(|threads| {
        for thread in 0..4_usize {
            let tenants = &tenants;
            threads.spawn(move || {
                for round in 0..200_usize {
                    let name = format!("t{}", (thread * 31 + round * 7) % 9);
                    let store = tenants.get(&name).unwrap();
                    assert!(store.begin_run().is_ok(), "it is open while it is held");
                }
            });
        }
    });
    let statistics = tenants.statistics();
    assert!(statistics.open <= 4 && statistics.evicted > 0, "{statistics:?}");
    assert_eq!(statistics.hits + statistics.opened, 800);
}

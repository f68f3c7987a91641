//! Transactions that clients hold: how long, how many, and that others get their turn.

use std::time::{Duration, Instant};

use marmota_model::ErrorKind;
use marmota_remote::Service;
use marmota_store::Store;

use crate::place::Place;
use crate::{Person, client, person};

/// A store with one writer at a time.
fn served() -> Store {
    let engine = marmota_sqlite::Sqlite::from_url("sqlite::memory:").unwrap();
    Store::builder(engine).model::<Person>().open().unwrap()
}

#[test]
fn savepoints_do_not_keep_the_writer_beyond_the_maximum() {
    for place in Place::all() {
        let served = served();
        let service = Service::new(&served)
            .lease(Duration::from_secs(3_600))
            .transaction_timeout(Duration::from_millis(700));
        let server = place.serve(&service);
        let store = client(place.remote()).unwrap();
        let mut held = store.begin_run().unwrap();
        held.insert(&person("Max")).run().unwrap();
        let began = Instant::now();
        let ended = std::thread::spawn(move || {
            loop {
                if let Err(error) = held.savepoint_run() {
                    return (error, held.rollback().run());
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        // The writer waits no longer than the maximum, though savepoints keep coming.
        served.insert(&person("Emmy")).run().unwrap();
        assert!(began.elapsed() < Duration::from_secs(4), "{place:?} {:?}", began.elapsed());
        let (error, rolled_back) = ended.join().unwrap();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(error.message().contains("transaction_timeout"), "{error}");
        rolled_back.unwrap();
        let names = served.list::<Person>().column(Person::NAME).run().unwrap();
        assert_eq!(names, ["Emmy"], "{place:?}");
        // The connection is as good as before.
        let again = store.begin_run().unwrap();
        again.insert(&person("Ada")).run().unwrap();
        again.commit().run().unwrap();
        assert_eq!(served.count::<Person>().run().unwrap(), 2);
        store.close().unwrap();
        server.shutdown().unwrap();
    }
}

#[test]
fn open_transactions_are_limited_by_caller_and_by_server() {
    for place in Place::all() {
        let service = Service::new(&served())
            .admit(|store, credential| match credential {
                b"ann" => Ok(store.with_actor("ann")),
                _ => Ok(store.with_actor("bob")),
            })
            .transactions_max(2)
            .transactions_per_caller_max(1);
        let limited = service.clone().transactions_max(1);
        let server = place.serve(&service);
        let ann = client(place.remote().credential("ann")).unwrap();
        let held = ann.begin_run().unwrap();
        let error = ann.begin_run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert!(error.message().contains("transactions_per_caller_max"), "{error}");
        // What has ended counts no more.
        held.rollback().run().unwrap();
        drop(held);
        ann.begin_run().unwrap().rollback().run().unwrap();
        ann.close().unwrap();
        server.shutdown().unwrap();
        let server = place.serve(&limited);
        let ann = client(place.remote().credential("ann")).unwrap();
        let bob = client(place.remote().credential("bob")).unwrap();
        let held = ann.begin_run().unwrap();
        let error = bob.begin_run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert!(error.message().contains("transactions_max"), "{error}");
        drop(held);
        server.shutdown().unwrap();
    }
}

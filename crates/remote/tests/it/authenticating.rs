//! Clients who have to be looked up, for which their server's thread does not wait.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind};
use marmota_remote::Service;

use crate::place::Place;
use crate::{Person, client, person, served};

#[test]
fn others_are_answered_while_a_client_is_looked_up() {
    for place in Place::all() {
        let served = served();
        served.insert(&person("Emmy")).run().unwrap();
        // True while the slow client's look-up gets no answer.
        let (shut, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (gate, seen) = (Arc::clone(&shut), Arc::clone(&asked));
        let service = Service::new(&served).authenticate(move |store, credential| {
            let (store, is_slow) = (store.clone(), credential == b"slow");
            let is_known = is_slow || credential == b"quick";
            let (gate, seen) = (Arc::clone(&gate), Arc::clone(&seen));
            poll_fn(move |context| {
                if is_slow && gate.load(Ordering::SeqCst) {
                    seen.store(true, Ordering::SeqCst);
                    // Looked at again in each turn of the thread, which others share.
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(match is_known {
                    true => Ok(store.clone()),
                    false => Err(Error::new(ErrorKind::Unauthenticated, "unknown")),
                })
            })
        });
        let server = place.serve(&service);
        let slow = client(place.remote().credential("slow")).unwrap();
        let quick = client(place.remote().credential("quick")).unwrap();
        let error = client(place.remote().credential("other")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{place:?}");
        shut.store(true, Ordering::SeqCst);
        std::thread::scope(|scope| {
            // The operations after the one that is held keep their order.
            let waiting = scope.spawn(|| {
                slow.insert(&person("Max")).run().unwrap();
                slow.count::<Person>().run().unwrap()
            });
            let until = Instant::now() + Duration::from_secs(20);
            while !asked.load(Ordering::SeqCst) {
                assert!(Instant::now() < until, "{place:?}");
                std::thread::yield_now();
            }
            for _ in 0..20 {
                assert_eq!(quick.count::<Person>().run().unwrap(), 1, "{place:?}");
            }
            // A new client is greeted too.
            let new = client(place.remote().credential("quick")).unwrap();
            assert_eq!(new.count::<Person>().run().unwrap(), 1);
            assert!(!waiting.is_finished());
            shut.store(false, Ordering::SeqCst);
            assert_eq!(waiting.join().unwrap(), 2);
        });
        slow.close().unwrap();
        server.shutdown().unwrap();
    }
}

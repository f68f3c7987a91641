//! Servers that go and come back, clients that hang.

use std::future::{Future, IntoFuture};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use marmota_model::ErrorKind;
use marmota_remote::Service;

use crate::place::Place;
use crate::{Person, client, person, served};

/// A client looks at a connection that was idle for 20 ms before it writes.
const IDLE: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn where_nobody_listens_is_refused() {
    for place in Place::all() {
        let remote = place.remote();
        assert_eq!(client(remote).unwrap_err().kind(), ErrorKind::Refused);
    }
}

#[test]
fn a_server_that_comes_back_is_found() {
    for place in Place::all() {
        let served = served();
        let service = Service::new(&served);
        let mut server = place.serve(&service);
        let store = client(place.remote()).unwrap();
        let key = store.insert(&person("Emmy")).run().unwrap();
        for round in 0..3 {
            server.shutdown().unwrap();
            server = place.serve(&service);
            assert_eq!(store.get::<Person>(key).run().unwrap().name, "Emmy");
            server.shutdown().unwrap();
            server = place.serve(&service);
            std::thread::sleep(IDLE);
            // The connection was idle: that it has gone is noticed before a write.
            block_on(async { store.insert(&person(&format!("{round}"))).await }).unwrap();
        }
        assert_eq!(served.count::<Person>().run().unwrap(), 4);
        store.close().unwrap();
        server.shutdown().unwrap();
    }
}

#[test]
fn no_write_fails_while_its_server_is_replaced() {
    for place in Place::all() {
        let served = served();
        let service = Service::new(&served);
        let mut server = place.serve(&service);
        let (ends, stores) = (AtomicBool::new(false), [(); 3].map(|()| client(place.remote())));
        let (written, server): (u64, _) = thread::scope(|scope| {
            let writers = stores.map(|store| {
                let ends = &ends;
                scope.spawn(move || {
                    let (store, mut written) = (store.unwrap(), 0);
                    while !ends.load(Ordering::Relaxed) {
                        store.insert(&person("Emmy")).run().unwrap();
                        written += 1;
                    }
                    written
                })
            });
            for _ in 0..20 {
                server.shutdown().unwrap();
                server = place.serve(&service);
                let before = served.count::<Person>().run().unwrap();
                let until = Instant::now() + PATIENCE;
                while served.count::<Person>().run().unwrap() < before + 10 {
                    assert!(Instant::now() < until, "no rows are written");
                    thread::yield_now();
                }
            }
            ends.store(true, Ordering::Relaxed);
            (writers.into_iter().map(|writer| writer.join().unwrap()).sum(), server)
        });
        assert_eq!(served.count::<Person>().run().unwrap(), written);
        server.shutdown().unwrap();
    }
}

#[test]
fn a_server_that_stays_away_is_given_up() {
    for place in Place::all() {
        let served = served();
        let server = place.serve(&Service::new(&served));
        let remote = place.remote().reconnect_timeout(Duration::from_millis(100));
        let store = client(remote).unwrap();
        store.insert(&person("Emmy")).run().unwrap();
        server.shutdown().unwrap();
        // Writes that find out that the connection has gone are lost.
        let until = Instant::now() + PATIENCE;
        while store.insert(&person("Max")).run().unwrap_err().kind() != ErrorKind::Refused {
            assert!(Instant::now() < until, "the server is not given up");
        }
        for _ in 0..2 {
            let error = store.insert(&person("Max")).run().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
            let error = block_on(async { store.count::<Person>().await }).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        }
        assert_eq!(served.count::<Person>().run().unwrap(), 1);
    }
}

#[test]
fn a_transaction_ends_with_its_server() {
    for place in Place::all() {
        let served = served();
        let service = Service::new(&served);
        let server = place.serve(&service);
        let store = client(place.remote()).unwrap();
        let transaction = store.begin_run().unwrap();
        transaction.insert(&person("Emmy")).run().unwrap();
        drop(server);
        let server = place.serve(&service);
        let error = transaction.insert(&person("Max")).run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
        assert_eq!(transaction.commit().run().unwrap_err().kind(), ErrorKind::Lost);
        drop(transaction);
        store.insert(&person("Max")).run().unwrap();
        assert_eq!(served.count::<Person>().run().unwrap(), 1);
        store.close().unwrap();
        server.shutdown().unwrap();
    }
}

#[test]
fn a_transaction_has_a_lease() {
    for place in Place::all() {
        let served = served();
        let server = place.serve(&Service::new(&served).lease(Duration::from_millis(50)));
        let store = client(place.remote()).unwrap();
        let transaction = store.begin_run().unwrap();
        transaction.insert(&person("Emmy")).run().unwrap();
        // Another one waits no longer than the lease.
        store.insert(&person("Max")).run().unwrap();
        let error = transaction.insert(&person("late")).run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert_eq!(transaction.commit().run().unwrap_err().kind(), ErrorKind::Timeout);
        drop(transaction);
        let names = store.list::<Person>().column(Person::NAME).run().unwrap();
        assert_eq!(names, ["Max"]);
        store.close().unwrap();
        server.shutdown().unwrap();
    }
}

#[test]
fn a_deadline_is_kept() {
    for place in Place::all() {
        let served = served();
        let server = place.serve(&Service::new(&served));
        let remote = place.remote().deadline(Duration::from_millis(80));
        let store = client(remote).unwrap();
        let blocking = served.begin_run().unwrap();
        blocking.insert(&person("Emmy")).run().unwrap();
        let error = store.insert(&person("Max")).run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        blocking.commit().run().unwrap();
        // Where the server did not get to giving it up, it may have taken place.
        assert!((1..=2).contains(&served.count::<Person>().run().unwrap()));
        store.close().unwrap();
        server.shutdown().unwrap();
    }
}

/// Accepts one connection where a server was, and holds it until it is told to close it.
fn accept_silently(place: &Place, accepted: Sender<Sender<()>>) -> JoinHandle<()> {
    enum Silent {
        Unix(UnixListener),
        Net(TcpListener),
    }
    let path = place.address.strip_prefix("unix:").map(str::to_owned);
    let listener = match &path {
        Some(path) => Silent::Unix(UnixListener::bind(path).unwrap()),
        None => Silent::Net(TcpListener::bind(&place.address).unwrap()),
    };
    thread::spawn(move || {
        let stream: Box<dyn Send> = match &listener {
            Silent::Unix(listener) => Box::new(listener.accept().unwrap()),
            Silent::Net(listener) => Box::new(listener.accept().unwrap()),
        };
        let (close, closes) = channel();
        accepted.send(close).unwrap();
        closes.recv_timeout(PATIENCE).unwrap();
        drop(listener);
        path.into_iter().for_each(|path| std::fs::remove_file(path).unwrap());
        drop(stream);
    })
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn a_thread_stays_free_while_its_server_is_connected_to() {
    /// A greeting is waited for up to 5 s.
    const POLL_MAX: Duration = Duration::from_secs(1);
    for place in Place::all() {
        let served = served();
        let service = Service::new(&served);
        let server = place.serve(&service);
        let store = client(place.remote().reconnect_timeout(PATIENCE)).unwrap();
        store.insert(&person("Emmy")).run().unwrap();
        server.shutdown().unwrap();
        let (sender, accepted) = channel();
        let mut silent = Some(accept_silently(&place, sender));
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut count = pin!(store.count::<Person>().into_future());
        let (began, mut longest, mut returned) = (Instant::now(), Duration::ZERO, None);
        let counted = loop {
            let polled = Instant::now();
            let done = count.as_mut().poll(&mut context);
            longest = longest.max(polled.elapsed());
            if let Poll::Ready(counted) = done {
                break counted.unwrap();
            }
            if let Ok(close) = accepted.try_recv() {
                // It is being connected to, and greeted.
                close.send(()).unwrap();
                silent.take().unwrap().join().unwrap();
                returned = Some(place.serve(&service));
            }
            assert!(began.elapsed() < PATIENCE, "{place:?}: the server is not found");
            thread::park_timeout(Duration::from_millis(10));
        };
        assert_eq!(counted, 1);
        assert!(longest < POLL_MAX, "{place:?}: a poll took {longest:?}");
        store.close().unwrap();
        let returned = returned.expect("it was connected to");
        returned.shutdown().unwrap();
    }
}

//! Sessions that leave something under way: nothing blocks for the server's
//! answer, and what is written later comes after it.

use std::future::Future;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use marmota_remote::{Remote, Service};
use marmota_store::Store;
use parking_lot::{Condvar, Mutex};

use crate::place::{Place, Transport};
use crate::{Person, client, person, served};

/// The longest that a call may take which leaves something under way.
const CALL_MAX: Duration = Duration::from_millis(200);

/// What lies between a client and a server, and can be stopped.
#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    opened: Condvar,
}

#[derive(Default)]
struct State {
    connections: usize,
    /// So many of the first connections pass nothing on.
    shut: usize,
}

impl Gate {
    /// Stops the present connections.
    fn shut(&self) {
        let mut state = self.state.lock();
        state.shut = state.connections;
    }

    fn open(&self) {
        self.state.lock().shut = 0;
        self.opened.notify_all();
    }

    fn pass(&self, number: usize, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let mut state = self.state.lock();
            while number < state.shut {
                self.opened.wait(&mut state);
            }
            drop(state);
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }

    /// Passes on what both sides send, while it is open.
    fn before(self: &Arc<Self>, place: &Place) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = place.url().replace(&place.address, &listener.local_addr().unwrap().to_string());
        let (gate, server) = (Arc::clone(self), place.address.clone());
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let Ok(server) = TcpStream::connect(&server) else { return };
                let number = gate.state.lock().connections;
                gate.state.lock().connections += 1;
                let (there, back) = (Arc::clone(&gate), Arc::clone(&gate));
                let (from_client, from_server) =
                    (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || there.pass(number, from_client, server));
                std::thread::spawn(move || back.pass(number, from_server, client));
            }
        });
        url
    }
}

fn timed<T>(run: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = run();
    assert!(began.elapsed() < CALL_MAX, "the thread was kept for {:?}", began.elapsed());
    done
}

/// A store that reaches its server through a gate.
fn gated(run: impl Fn(&Store, &Store, &Gate)) {
    for transport in [Transport::Http, Transport::WebSocket] {
        let (place, served, gate) = (Place::of(transport), served(), Arc::<Gate>::default());
        let server = place.serve(&Service::new(&served));
        let store = client(Remote::from_url(&gate.before(&place)).unwrap()).unwrap();
        run(&store, &served, &gate);
        store.close().unwrap();
        server.shutdown().unwrap();
    }
}

#[test]
fn a_transaction_is_dropped_at_once_and_undone_before_later_writes() {
    gated(|store, served, gate| {
        let transaction = store.begin_run().unwrap();
        transaction.insert(&person("Emmy")).run().unwrap();
        gate.shut();
        timed(|| drop(transaction));
        gate.open();
        store.insert(&person("Max")).run().unwrap();
        let names = served.list::<Person>().column(Person::NAME).run().unwrap();
        assert_eq!(names, ["Max"]);
    });
}

#[test]
fn a_write_is_given_up_at_once_and_later_writes_come_after_it() {
    gated(|store, served, gate| {
        let key = store.insert(&person("Emmy")).run().unwrap();
        gate.shut();
        let renamed = Person { id: key, ..person("late") };
        {
            let mut update: Pin<Box<dyn Future<Output = _>>> =
                Box::pin(async { store.update(&renamed).await });
            let mut context = Context::from_waker(Waker::noop());
            assert!(timed(|| update.as_mut().poll(&mut context)).is_pending());
            timed(|| drop(update));
        }
        // What is written now waits for the end of the other, and its thread does not.
        let other = store.clone();
        let writes = std::thread::spawn(move || {
            let last = Person { id: key, ..person("last") };
            other.update(&last).run()
        });
        let until = Instant::now() + Duration::from_millis(300);
        while !writes.is_finished() && Instant::now() < until {
            std::thread::yield_now();
        }
        gate.open();
        writes.join().unwrap().unwrap();
        assert_eq!(served.get::<Person>(key).run().unwrap().name, "last");
    });
}

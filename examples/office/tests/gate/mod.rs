//! A proxy in front of a database that can hold back the responses to queries, so that a test can
//! rely on queries being in flight.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// A part of the query's message: a BSON string named `find`.
const FIND: &[u8] = b"\x02find\0";

/// A proxy that forwards bytes to a server and back.
pub(crate) struct Gate {
    url: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
struct State {
    is_closed: bool,
    /// Number of responses held back.
    held: usize,
    /// Number of connections from the driver.
    connections: usize,
}

impl Gate {
    /// Starts a proxy for the server of a URL. It forwards all responses.
    pub(crate) fn before(url: &str) -> Self {
        let (host, database) = url["mongodb://".len()..].split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("mongodb://{}/{database}", listener.local_addr().unwrap());
        let (host, shared) = (host.to_owned(), Arc::<Shared>::default());
        let of_all = Arc::clone(&shared);
        thread::spawn(move || {
            for driver in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&host) else { continue };
                let shared = Arc::clone(&of_all);
                thread::spawn(move || serve(driver, server, &shared));
            }
        });
        Self { url, shared }
    }

    /// The URL through the proxy.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Starts or stops holding back responses to queries.
    pub(crate) fn close(&self, is_closed: bool) {
        self.shared.state.lock().unwrap().is_closed = is_closed;
        self.shared.changed.notify_all();
    }

    /// The number of responses held back.
    pub(crate) fn held(&self) -> usize {
        self.shared.state.lock().unwrap().held
    }

    /// The number of connections that the driver has open.
    pub(crate) fn connections(&self) -> usize {
        self.shared.state.lock().unwrap().connections
    }
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
    }

    /// Waits while responses are held back.
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.held += 1;
        let mut state = self.changed.wait_while(state, |state| state.is_closed).unwrap();
        state.held -= 1;
    }
}

/// Forwards one connection in both directions until either side closes.
fn serve(mut driver: TcpStream, mut server: TcpStream, shared: &Arc<Shared>) {
    shared.change(|state| state.connections += 1);
    let asked = Arc::new(Mutex::new(false));
    let (mut answers, mut back) = (server.try_clone().unwrap(), driver.try_clone().unwrap());
    let (asks, gate) = (Arc::clone(&asked), Arc::clone(shared));
    let answering = thread::spawn(move || {
        forward(&mut answers, &mut back, |_| {
            if std::mem::take(&mut *asks.lock().unwrap()) {
                gate.pass();
            }
        });
    });
    forward(&mut driver, &mut server, |bytes| {
        // The driver writes a small message with one call.
        if bytes.windows(FIND.len()).any(|there| there == FIND) {
            *asked.lock().unwrap() = true;
        }
    });
    shared.change(|state| state.connections -= 1);
    let _ = answering.join();
}

fn forward(from: &mut TcpStream, to: &mut TcpStream, mut seen: impl FnMut(&[u8])) {
    let mut buffer = [0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        seen(&buffer[..read]);
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

//! A TCP proxy between an engine and its server, which can cut what goes
//! through it, and counts it.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// See the module.
pub(crate) struct WireProxy {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    streams: Mutex<Vec<TcpStream>>,
    /// Pieces that came from the engine and from the server.
    sent: AtomicUsize,
    received: AtomicUsize,
    is_closed: AtomicBool,
    /// Cut after so many more bytes from the server; 0 for never.
    cut_after: AtomicUsize,
}

impl WireProxy {
    pub(crate) fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                if shared.is_closed.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let both = [client.try_clone().unwrap(), server.try_clone().unwrap()];
                shared.streams.lock().unwrap().extend(both);
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let state = Arc::clone(&shared);
                thread::spawn(move || carry(from, to, &state.sent, None));
                let state = Arc::clone(&shared);
                thread::spawn(move || carry(server, client, &state.received, Some(&state)));
            }
        });
        Self { port, state }
    }

    /// The same URL, through the proxy.
    pub(crate) fn through(&self, url: &str, port: u16) -> String {
        url.replace(&format!(":{port}/"), &format!(":{}/", self.port))
    }

    /// Cuts every connection there is.
    pub(crate) fn cut(&self) {
        for stream in self.state.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Cuts every connection when the server has sent so many bytes more.
    pub(crate) fn cut_after(&self, bytes: usize) {
        self.state.cut_after.store(bytes, Ordering::SeqCst);
    }

    /// Lets nobody in any more, or again.
    pub(crate) fn close(&self, closed: bool) {
        self.state.is_closed.store(closed, Ordering::SeqCst);
    }

    /// How many pieces went to the server and came from it.
    pub(crate) fn pieces(&self) -> (usize, usize) {
        (self.state.sent.load(Ordering::SeqCst), self.state.received.load(Ordering::SeqCst))
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, count: &AtomicUsize, cuts: Option<&State>) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(read) = from.read(&mut bytes) {
        let mut read = read;
        if read == 0 {
            break;
        }
        count.fetch_add(1, Ordering::SeqCst);
        if let Some(state) = cuts {
            let left = state.cut_after.load(Ordering::SeqCst);
            if left > 0 && left <= read {
                state.cut_after.store(0, Ordering::SeqCst);
                read = left;
                let _ = to.write_all(&bytes[..read]);
                break;
            }
            if left > 0 {
                state.cut_after.store(left - read, Ordering::SeqCst);
            }
        }
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

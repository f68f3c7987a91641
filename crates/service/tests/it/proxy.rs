//! Something between clients and a server that cuts connections when a test says
//! so, keeps clients out, and leads them to another server.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A connection of either family.
trait Socket: Read + Write + Send + Sized + 'static {
    fn again(&self) -> Self;
    fn shut(&self);
}

impl Socket for TcpStream {
    fn again(&self) -> Self {
        self.try_clone().unwrap()
    }

    fn shut(&self) {
        // One that has ended cannot be ended.
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Socket for UnixStream {
    fn again(&self) -> Self {
        self.try_clone().unwrap()
    }

    fn shut(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

#[derive(Default)]
struct State {
    /// The server's address.
    to: String,
    is_shut: bool,
    /// What cuts a connection.
    open: Vec<Box<dyn Fn() + Send>>,
}

/// See the module. Its threads end with the process.
pub(crate) struct Proxy {
    pub(crate) address: String,
    state: Arc<Mutex<State>>,
    accepted: Arc<AtomicUsize>,
}

impl Proxy {
    /// One of a port, to a port.
    pub(crate) fn net(to: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let accept = move || listener.accept().unwrap().0;
        Self::start(address, to, accept, |to| TcpStream::connect(to).ok())
    }

    /// One of a Unix socket in the abstract namespace, to another.
    pub(crate) fn unix(to: &str) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("marmota-proxy-{}-{number}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let accept = move || listener.accept().unwrap().0;
        Self::start(format!("@{name}"), to, accept, |to| {
            let to = SocketAddr::from_abstract_name(to.trim_start_matches('@')).unwrap();
            UnixStream::connect_addr(&to).ok()
        })
    }

    fn start<S: Socket>(
        address: String,
        to: &str,
        accept: impl Fn() -> S + Send + 'static,
        reach: impl Fn(&str) -> Option<S> + Send + 'static,
    ) -> Self {
        let state = Arc::new(Mutex::new(State { to: to.to_owned(), ..State::default() }));
        let accepted = Arc::new(AtomicUsize::new(0));
        let (shared, count) = (Arc::clone(&state), Arc::clone(&accepted));
        thread::spawn(move || {
            loop {
                let client = accept();
                let mut state = shared.lock().unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                let server = if state.is_shut { None } else { reach(&state.to) };
                let Some(server) = server else {
                    client.shut();
                    continue;
                };
                let (one, other) = (client.again(), server.again());
                state.open.push(Box::new(move || [one.shut(), other.shut()].into_iter().collect()));
                pass(client.again(), server.again());
                pass(server, client);
            }
        });
        Self { address, state, accepted }
    }

    /// Cuts what is open.
    pub(crate) fn cut(&self) {
        self.state.lock().unwrap().open.drain(..).for_each(|cut| cut());
    }

    /// Cuts what is open and lets nobody in, until [`Proxy::open`].
    pub(crate) fn shut(&self) {
        self.state.lock().unwrap().is_shut = true;
        self.cut();
    }

    pub(crate) fn open(&self) {
        self.state.lock().unwrap().is_shut = false;
    }

    /// Leads those who come from here on to another server.
    pub(crate) fn lead_to(&self, address: &str) {
        address.clone_into(&mut self.state.lock().unwrap().to);
    }

    /// How often somebody came.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

fn pass<S: Socket>(mut from: S, mut to: S) {
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        from.shut();
        to.shut();
    });
}

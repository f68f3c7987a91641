//! Authentication that has to wait for the database holds up the request that it is for, and no
//! other of its thread.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use marmota_auth::{Auth, Settings};
use marmota_http::{Request, Server};
use marmota_memory::Memory;
use marmota_model::{Result, RowSink};
use marmota_rest::{Api, Diagnostics};
use marmota_store::engine::{Session, Submitted, Ticket};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::{Durability, Store};

use crate::auth::PASSWORD;
use crate::client::Client;
use crate::wrapped::Wrapped;

/// While it is closed, reads of sessions wait.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Gate {
    fn close(&self) {
        self.0.lock().unwrap().0 = true;
    }

    fn open(&self) {
        let mut gate = self.0.lock().unwrap();
        gate.0 = false;
        gate.1.drain(..).for_each(Waker::wake);
    }

    /// Whether it is open; if not, this is woken then.
    fn is_open(&self, context: Option<&Context<'_>>) -> bool {
        let mut gate = self.0.lock().unwrap();
        if let (true, Some(context)) = (gate.0, context) {
            gate.1.push(context.waker().clone());
        }
        !gate.0
    }

    fn waits(&self) -> bool {
        !self.0.lock().unwrap().1.is_empty()
    }
}

struct Gated {
    inner: Box<dyn Session>,
    gate: Gate,
}

impl Session for Gated {
    fn submit(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        let waits = match operation {
            Operation::List { table, .. } => table.name() == "marmota_session",
            _ => false,
        };
        if waits && !self.gate.is_open(None) {
            return Ok(Submitted::Waiting(Ticket(1)));
        }
        self.inner.submit(durability, operation, sink, outcome)
    }

    fn poll(
        &mut self,
        _: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        if !self.gate.is_open(Some(context)) {
            return Poll::Pending;
        }
        let done = marmota_store::engine::run(&mut *self.inner, operation, sink);
        Poll::Ready(done.map(|done| *outcome = done))
    }

    fn cancel(&mut self, _: Ticket) {}
}

async fn hello(_: Request) -> &'static str {
    "hello"
}

#[test]
fn a_thread_serves_others_while_a_token_is_read() {
    let gate = Gate::default();
    let of_session = gate.clone();
    let engine = Wrapped::new(Memory::new(), move |inner| {
        Box::new(Gated { inner, gate: of_session.clone() })
    });
    let store = marmota_auth::models(Store::builder(engine)).open().unwrap();
    let auth = Auth::new(&store, Settings::default().password_cost(64, 1)).unwrap();
    auth.set_password("admin", auth.setup_token().unwrap(), PASSWORD, None).unwrap();
    let token = || auth.login("admin", PASSWORD, None).unwrap().token;
    let state = Diagnostics::new(&store).auth(&auth).router();
    let routes = Api::new(&store).auth(&auth).router().nest("", state).get("/hello", hello);
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1).start(routes).unwrap();
    for target in ["/api", "/api/auth/me", "/api/-/statistics", "/api/nothing"] {
        let bearer = format!("Authorization: Bearer {}", token());
        gate.close();
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| {
                let mut client = Client::new(server.local_addr());
                client.send(&format!("GET {target}"), &[&bearer], b"").status
            });
            while !gate.waits() {
                std::thread::yield_now();
            }
            assert!(!asked.is_finished());
            Client::new(server.local_addr()).get("/hello").is(200);
            assert!(!asked.is_finished(), "{target}");
            gate.open();
            assert_eq!(asked.join().unwrap(), if target == "/api/nothing" { 404 } else { 200 });
        });
        // From memory from here on.
        gate.close();
        let mut client = Client::new(server.local_addr());
        client.send("GET /api", &[&bearer], b"").is(200);
        gate.open();
    }
}

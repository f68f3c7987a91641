//! A transaction whose time is over while one of its operations runs: the
//! operation is given up, the transaction is undone, and its client knows why.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use marmota_model::{ErrorKind, Result, RowSink, Table};
use marmota_remote::{Remote, Service};
use marmota_store::engine::{Capability, Engine, Session, Submitted, Ticket};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::plan::{Destructive, Plan};
use marmota_store::{Durability, Store};
use parking_lot::Mutex;

use crate::place::Place;
use crate::{Person, client, person};

/// What happened to the sessions of an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Began,
    Submitted,
    Cancelled,
    Undone,
}

type Events = Arc<Mutex<Vec<Event>>>;

/// An engine whose writes never end.
struct Endless(Capability, Events);

impl Engine for Endless {
    fn capability(&self) -> &Capability {
        &self.0
    }

    fn plan(&self, _: &[Arc<Table>], _: u32) -> Result<Plan> {
        Ok(Plan::default())
    }

    fn migrate(&self, _: &[Arc<Table>], _: u32, _: &Destructive) -> Result<Plan> {
        Ok(Plan::default())
    }

    fn open_table(&self, _: &Arc<Table>) -> Result<bool> {
        Ok(false)
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        Ok(Box::new(EndlessSession { events: Arc::clone(&self.1), is_open: false }))
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

struct EndlessSession {
    events: Events,
    is_open: bool,
}

impl EndlessSession {
    fn undo(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.events.lock().push(Event::Undone);
        }
    }
}

impl Session for EndlessSession {
    fn submit(
        &mut self,
        _: Option<Durability>,
        operation: &mut Operation<'_>,
        _: &mut dyn RowSink,
        _: &mut Outcome,
    ) -> Result<Submitted> {
        match operation {
            Operation::Begin => {
                self.is_open = true;
                self.events.lock().push(Event::Began);
            }
            Operation::Rollback => self.undo(),
            _ => {
                self.events.lock().push(Event::Submitted);
                return Ok(Submitted::Waiting(Ticket(1)));
            }
        }
        Ok(Submitted::Done)
    }

    fn poll(
        &mut self,
        _: Ticket,
        _: &mut Operation<'_>,
        _: &mut dyn RowSink,
        _: &mut Outcome,
        _: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        Poll::Pending
    }

    fn cancel(&mut self, _: Ticket) {
        self.events.lock().push(Event::Cancelled);
    }
}

impl Drop for EndlessSession {
    fn drop(&mut self) {
        self.undo();
    }
}

fn check(store: &Store, events: &Events) {
    let began = Instant::now();
    let transaction = store.begin_run().unwrap();
    let error = transaction.insert(&person("Emmy")).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.message().contains("transaction_timeout"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let seen = events.lock().clone();
    assert_eq!(seen, [Event::Began, Event::Submitted, Event::Cancelled, Event::Undone]);
    // The client ends what the server has ended, and begins again.
    transaction.rollback().run().unwrap();
    drop(transaction);
    store.begin_run().unwrap().rollback().run().unwrap();
    assert_eq!(events.lock()[4..], [Event::Began, Event::Undone]);
}

fn service(events: &Events) -> Service {
    let engine = Endless(Capability::new("endless", false), Arc::clone(events));
    let store = Store::builder(engine).model::<Person>().open().unwrap();
    Service::new(&store).transactions_max(1).transaction_timeout(Duration::from_millis(200))
}

#[test]
fn an_operation_is_given_up_with_its_transaction() {
    let events = Events::default();
    check(&client(Remote::in_process(&service(&events))).unwrap(), &events);
    for place in Place::all() {
        let events = Events::default();
        let server = place.serve(&service(&events));
        let store = client(place.remote()).unwrap();
        check(&store, &events);
        store.close().unwrap();
        server.shutdown().unwrap();
    }
}

//! An engine that lends its rows a few at a time, as those do whose rows come
//! over a socket: each of them reaches the client, once.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll};

use marmota_model::{Result, RowSink, Table, ValueRef};
use marmota_remote::{Remote, Service};
use marmota_store::engine::{Capability, Engine, Session, Submitted, Ticket};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::plan::{Destructive, Plan};
use marmota_store::{Durability, Store};

use crate::place::Place;
use crate::{Person, client};

/// How many rows it lends at each call, the first being that of the submission.
const PIECES: [i64; 7] = [2, 0, 3, 1, 0, 0, 4];

struct Halting(Capability);

impl Engine for Halting {
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
        Ok(Box::new(HaltingSession { piece: 0, last: 0, begins_empty: false }))
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

struct HaltingSession {
    piece: usize,
    last: i64,
    /// Every other list begins with none.
    begins_empty: bool,
}

impl HaltingSession {
    /// Lends the next piece; true if it was the last.
    fn lend(&mut self, sink: &mut dyn RowSink) -> bool {
        for _ in 0..PIECES[self.piece] {
            self.last += 1;
            let row = [ValueRef::Int(self.last), ValueRef::Text("Emmy"), ValueRef::Null];
            assert!(matches!(sink.row(&row), ControlFlow::Continue(())));
        }
        self.piece += 1;
        self.piece == PIECES.len()
    }
}

impl Session for HaltingSession {
    fn submit(
        &mut self,
        _: Option<Durability>,
        _: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        _: &mut Outcome,
    ) -> Result<Submitted> {
        (self.piece, self.last) = (0, 0);
        self.begins_empty = !self.begins_empty;
        if !self.begins_empty {
            self.lend(sink);
        }
        Ok(Submitted::Waiting(Ticket(1)))
    }

    fn poll(
        &mut self,
        _: Ticket,
        _: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        if self.lend(sink) {
            outcome.rows = self.last as u64;
            return Poll::Ready(Ok(()));
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn cancel(&mut self, _: Ticket) {}
}

#[track_caller]
fn check(store: &Store) {
    let all: i64 = PIECES.iter().sum();
    for _ in 0..4 {
        let ids = |rows: Vec<Person>| rows.iter().map(|row| row.id).collect::<Vec<_>>();
        let rows = store.list::<Person>().run().unwrap();
        assert_eq!(ids(rows), (1..=all).collect::<Vec<_>>());
        let rows = futures_lite::future::block_on(store.list::<Person>().into_future()).unwrap();
        assert_eq!(ids(rows), (1..=all).collect::<Vec<_>>());
    }
}

#[test]
fn rows_that_come_in_pieces_all_arrive() {
    let engine = Halting(Capability::new("halting", false));
    let store = Store::builder(engine).model::<Person>().open().unwrap();
    check(&store);
    let service = Service::new(&store);
    check(&client(Remote::in_process(&service)).unwrap());
    for place in Place::all() {
        let server = place.serve(&service);
        check(&client(place.remote()).unwrap());
        server.shutdown().unwrap();
    }
}

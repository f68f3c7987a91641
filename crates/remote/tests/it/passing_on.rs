//! Operations of one session that end in any order: those that are left are woken.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use marmota_model::{Result, RowSink, Table};
use marmota_remote::{Remote, Service};
use marmota_store::engine::{Capability, Engine, Session, Submitted, Ticket};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::plan::{Destructive, Plan};
use marmota_store::{Durability, Store};
use parking_lot::Mutex;

use crate::{Person, client};

/// The operations that may end, by their order, and who is woken when another may.
#[derive(Default)]
struct Gate {
    released: Vec<u64>,
    waiting: Vec<Waker>,
}

type SharedGate = Arc<Mutex<Gate>>;

fn release(gate: &SharedGate, operation: u64) {
    let mut inside = gate.lock();
    inside.released.push(operation);
    let waiting = std::mem::take(&mut inside.waiting);
    drop(inside);
    waiting.into_iter().for_each(Waker::wake);
}

/// An engine whose operations end when they are released.
struct Gated(Capability, SharedGate);

struct GatedSession {
    gate: SharedGate,
    last: u64,
}

impl Engine for Gated {
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
        Ok(Box::new(GatedSession { gate: Arc::clone(&self.1), last: 0 }))
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

impl Session for GatedSession {
    fn submit(
        &mut self,
        _: Option<Durability>,
        _: &mut Operation<'_>,
        _: &mut dyn RowSink,
        _: &mut Outcome,
    ) -> Result<Submitted> {
        self.last += 1;
        Ok(Submitted::Waiting(Ticket(self.last)))
    }

    fn poll(
        &mut self,
        ticket: Ticket,
        _: &mut Operation<'_>,
        _: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let mut gate = self.gate.lock();
        if gate.released.contains(&ticket.0) {
            outcome.rows = ticket.0;
            return Poll::Ready(Ok(()));
        }
        gate.waiting.push(context.waker().clone());
        Poll::Pending
    }

    fn cancel(&mut self, _: Ticket) {}
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A count that is polled by hand.
struct Counting {
    count: Pin<Box<dyn Future<Output = Result<u64>>>>,
    woken: Arc<Woken>,
}

impl Counting {
    /// Polls it for the first time.
    fn start(store: &Store) -> Self {
        let store = store.clone();
        let count = Box::pin(async move { store.count::<Person>().into_future().await });
        let mut counting = Self { count, woken: Arc::default() };
        assert!(counting.poll().is_none());
        counting
    }

    fn poll(&mut self) -> Option<u64> {
        self.woken.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.woken));
        match self.count.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(count) => Some(count.unwrap()),
            Poll::Pending => None,
        }
    }

    fn is_woken(&self) -> bool {
        self.woken.0.load(Ordering::SeqCst)
    }
}

#[test]
fn what_takes_over_reading_and_ends_at_once_passes_it_on() {
    let gate = SharedGate::default();
    let engine = Gated(Capability::new("gated", false), Arc::clone(&gate));
    let served = Store::builder(engine).model::<Person>().open().unwrap();
    let store = client(Remote::in_process(&Service::new(&served))).unwrap();
    let [mut first, mut second, mut third] = [1, 2, 3].map(|_| Counting::start(&store));
    // The third was polled last, and is woken for all.
    release(&gate, 3);
    assert!(third.is_woken());
    assert_eq!(third.poll(), Some(3));
    assert!(first.is_woken(), "nobody reads any more");
    release(&gate, 1);
    assert_eq!(first.poll(), Some(1));
    release(&gate, 2);
    assert!(second.is_woken(), "an answer has come, and nobody is woken");
    assert_eq!(second.poll(), Some(2));
}

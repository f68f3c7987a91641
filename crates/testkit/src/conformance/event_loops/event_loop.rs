//! No call blocks an event loop: while operations wait, their thread serves other requests.
//!
//! A transaction has written a row for each kind of write, and all kinds then write the same rows.
//! At the same time the thread executes slow statements, logins, and requests that do not depend on
//! the transaction. One thread polls all of this, including the transaction, as a server's thread
//! polls its handlers: a call that waits inside `poll` would wait for itself. If another thread
//! serves the store ([`crate::conformance::Served`]), requests that need no database are sent to
//! that thread in the meantime.

mod kinds;
mod scene;
mod turns;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use marmota_model::{ErrorKind, Result};
use marmota_store::Transaction;

use crate::conformance::harness::refusal::refused;
use crate::conformance::harness::subject::{Served, Subject};
use kinds::{Ends, Kind, OTHERS, WRITES, Waits};
use scene::{Counter, Ledger, Scene};
use turns::EventLoop;
pub(crate) use turns::timed;
pub use turns::unscheduled;

/// The maximum duration of one call, and of one request of another client.
const CALL_MAX: Duration = Duration::from_millis(20);
/// The number of measurements on a busy machine; the best counts.
const MEASURED_MAX: usize = 6;
/// The pause between two requests to a server's thread.
const PING_PAUSE: Duration = Duration::from_millis(1);

/// The longest call of a measurement, and its name.
type Longest = (Duration, &'static str);

/// While each kind of write waits for an open transaction, slow statements run and users log in,
/// all on one thread, no call takes longer than 20 ms, and neither does another request to the
/// thread that serves the store.
pub fn no_call_blocks_the_thread(subject: &Subject) {
    if !subject.capability().transactions {
        let refusal = subject.builder_with(scene::models).open();
        refused(refusal, ErrorKind::Unsupported);
    }
    let mut best = (Duration::MAX, "");
    for round in 0..MEASURED_MAX {
        best = best.min(measure(subject, round));
        if best.0 <= CALL_MAX {
            println!("{}: at most {:?}, of {}", subject.name(), best.0, best.1);
            return;
        }
    }
    panic!("{}: {} took {:?} at best", subject.name(), best.1, best.0);
}

/// Sends requests to the thread that serves the store until it is stopped.
struct Pinging {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Pinging {
    fn start(served: Arc<dyn Served>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let (mut longest, mut before) = (Duration::ZERO, served.ping().unwrap());
            while !until.load(Ordering::SeqCst) {
                let (waited, took) = timed(|| served.ping().unwrap());
                longest = longest.max(took.saturating_sub(waited.saturating_sub(before)));
                before = waited;
                thread::park_timeout(PING_PAUSE);
            }
            longest
        });
        Self { is_over, thread }
    }

    fn stop(self) -> Duration {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

fn measure(subject: &Subject, round: usize) -> Longest {
    let scene = Scene::open(subject, round);
    let pinging = subject.server().map(Pinging::start);
    let longest = serve(subject, &scene);
    let pinged = pinging.map_or(Duration::ZERO, Pinging::stop);
    if subject.capability().transactions {
        check_sums(&scene, round);
    }
    longest.max((pinged, "another request of the server's thread"))
}

/// Executes everything on one thread. Returns the longest call.
fn serve(subject: &Subject, scene: &Scene) -> Longest {
    // With several databases, waiting depends on the one that has the rows.
    let (declared, own) = (subject.capability().clone(), scene.store.capability());
    let reads_meanwhile = declared.reads_meanwhile.max(own.reads_meanwhile);
    let capability = &declared.with_reads_meanwhile(reads_meanwhile);
    let mut event_loop = EventLoop::default();
    let transaction = capability.transactions.then(|| event_loop.run("begin", begin(scene)));
    let (mut all, mut free, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, row) in WRITES.iter().chain(OTHERS).zip(&scene.rows) {
        let ends = (kind.ends)(subject);
        if ends == Ends::Unopened {
            continue;
        }
        let task = event_loop.spawn(kind.name, (kind.run)(scene, row.clone()));
        all.push((task, ends));
        let is_unsupported = ends == Ends::Refused(ErrorKind::Unsupported);
        if transaction.is_none() || is_unsupported || kind.waits.is_free(capability) {
            free.push(task);
        } else if kind.waits == Waits::ForItsRow {
            waiting.push(task);
        }
    }
    event_loop.finish(&free);
    let early: Vec<_> = waiting.iter().filter(|task| event_loop.result(**task).is_some()).collect();
    let early: Vec<_> = early.into_iter().map(|task| event_loop.name(*task)).collect();
    assert!(early.is_empty(), "these did not wait for the transaction: {early:?}");
    if let Some(transaction) = transaction {
        event_loop.run("commit", async move { transaction.commit().await });
    }
    event_loop.finish(&all.iter().map(|(task, _)| *task).collect::<Vec<_>>());
    for (task, ends) in all {
        let name = event_loop.name(task);
        match (event_loop.result(task), ends) {
            (Some(Ok(())), Ends::Done) => {}
            (Some(Err(error)), Ends::Refused(kind)) if error.kind() == kind => {}
            (result, _) => panic!("{name} has come to {result:?}, where {ends:?} was due"),
        }
    }
    event_loop.longest
}

/// Begins a transaction that writes the row of each kind of write.
async fn begin(scene: &Scene) -> Result<Transaction> {
    let transaction = scene.store.begin().await?;
    for row in &scene.rows[..WRITES.len()] {
        transaction.increment(Counter::SUM, row.key, 1).await?;
        transaction.increment(Ledger::SUM, row.ledger, 1).await?;
        transaction.insert(&row.taken()).await?;
    }
    Ok(transaction)
}

/// Checks that each write was executed once, after the transaction.
fn check_sums(scene: &Scene, round: usize) {
    let counters = scene.store.list::<Counter>().run().unwrap();
    let sum_of = |kind: &str| {
        let name = format!("{kind} {round}");
        counters.iter().find(|one| one.name == name).map(|one| one.sum)
    };
    for (kind, sum) in [
        ("an update", Some(10)),
        ("a patch", Some(10)),
        ("an increment", Some(11)),
        ("a delete", None),
        ("a delete by a filter", None),
        ("an upsert", Some(10)),
        ("an update of many", Some(10)),
        ("a batch", Some(21)),
        ("a batch of single writes", Some(11)),
        ("a batch with a key", Some(11)),
    ] {
        assert_eq!(sum_of(kind), sum, "{kind}");
    }
    let names: Vec<_> = WRITES.iter().map(|kind: &Kind| kind.name).collect();
    let ledger = |kind| &scene.rows[names.iter().position(|name| *name == kind).unwrap()];
    let audited = ledger("an audited increment").ledger;
    assert_eq!(scene.store.get::<Ledger>(audited).run().unwrap().sum, 11);
    let deleted = ledger("an audited delete").ledger;
    refused(scene.store.get::<Ledger>(deleted).run(), ErrorKind::NotFound);
}

register!($ event_loop_promises event_loop:
    no_call_blocks_the_thread,
);

//! While one operation waits for a lock, its thread serves other requests.
//!
//! A transaction holds a row of each of several models, and every kind of write
//! wants one of these rows. All of it is polled by one thread, as a server's
//! thread polls its handlers, the transaction too: a call that waits inside
//! `poll` would wait for itself.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use marmota_derive::Model;
use marmota_model::Caller;
use marmota_store::engine::ReadsMeanwhile;
use marmota_store::rights::{Grant, Right, Rights};
use marmota_store::{Idempotency, Store, StoreBuilder};

use crate::subject::{Stand, Subject};

/// What a transaction holds rows of.
#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Counter {
    id: i64,
    #[model(unique)]
    name: String,
    sum: i64,
}

/// The same with an entry for each write.
#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(audit)]
struct Ledger {
    id: i64,
    sum: i64,
}

/// What no transaction touches.
#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Page {
    id: i64,
    text: String,
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    let builder = builder.model::<Counter>().model::<Ledger>().model::<Page>();
    builder.idempotency(Idempotency::default())
}

/// The longest that one call of a poll may take.
const POLL_MAX: Duration = Duration::from_millis(20);
/// The machine may be busy: so often is it measured, and the best counts.
const MEASURED_MAX: usize = 6;
/// Until when everything has to be answered.
const ANSWERED_MAX: Duration = Duration::from_secs(60);

/// A future of the loop, and what it came to.
type Task<'t> = Pin<Box<dyn Future<Output = ()> + 't>>;

struct Woken {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// Polls futures by one thread, those that were woken; keeps the longest poll.
#[derive(Default)]
struct EventLoop<'t> {
    tasks: Vec<(&'static str, Option<Task<'t>>, Arc<Woken>)>,
    longest: (Duration, &'static str),
}

impl Default for Woken {
    fn default() -> Self {
        Self { thread: thread::current(), is_woken: AtomicBool::new(true) }
    }
}

impl<'t> EventLoop<'t> {
    fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + 't) -> usize {
        self.tasks.push((name, Some(Box::pin(task)), Arc::default()));
        self.tasks.len() - 1
    }

    fn is_done(&self, task: usize) -> bool {
        self.tasks[task].1.is_none()
    }

    fn turn(&mut self) {
        for (name, task, woken) in &mut self.tasks {
            let Some(future) = task else { continue };
            if !woken.is_woken.swap(false, Ordering::SeqCst) {
                continue;
            }
            let waker = Waker::from(Arc::clone(woken));
            let began = Instant::now();
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            self.longest = self.longest.max((began.elapsed(), name));
            if polled.is_ready() {
                *task = None;
            }
        }
    }

    /// Polls until all of these are done.
    fn finish(&mut self, tasks: &[usize]) {
        let began = Instant::now();
        loop {
            self.turn();
            let waiting: Vec<_> = tasks.iter().filter(|task| !self.is_done(**task)).collect();
            if waiting.is_empty() {
                return;
            }
            let names: Vec<_> = waiting.iter().map(|task| self.tasks[**task].0).collect();
            assert!(began.elapsed() < ANSWERED_MAX, "these were not answered: {names:?}");
            if !self.tasks.iter().any(|(_, _, woken)| woken.is_woken.load(Ordering::SeqCst)) {
                // A wake-up that does not come is found out, but not soon.
                thread::park_timeout(Duration::from_secs(1));
            }
        }
    }

    /// Polls one until it is done.
    fn run(&mut self, name: &'static str, task: impl Future<Output = ()> + 't) {
        let task = self.spawn(name, task);
        self.finish(&[task]);
    }
}

fn counter(name: &str) -> Counter {
    Counter { name: name.to_owned(), ..Counter::default() }
}

/// One thread has an open transaction and, while every kind of write waits for
/// it, answers all that does not need what it holds, and ends it.
pub fn a_thread_stays_free_while_writes_wait(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let mut best = (Duration::MAX, "");
    for round in 0..MEASURED_MAX {
        best = best.min(measure(&stand, subject, round));
        if best.0 <= POLL_MAX {
            return;
        }
    }
    panic!("a poll of `{}` took {:?} at best", best.1, best.0);
}

fn measure(stand: &Stand<'_>, subject: &Subject, round: usize) -> (Duration, &'static str) {
    const HELD: [&str; 8] =
        ["plain", "keyed", "batch", "guarded", "upsert", "each", "deleted", "many"];
    let store: &Store = stand.store();
    let name = |kind: &str| format!("{kind} {round}");
    let counters: Vec<Counter> = HELD.iter().map(|kind| counter(&name(kind))).collect();
    let keys = store.insert_many(&counters).run().unwrap();
    let free = store.insert(&counter(&name("free"))).run().unwrap();
    let ledger = store.insert(&Ledger::default()).run().unwrap();
    let page = store.insert(&Page { text: "read".to_owned(), ..Page::default() }).run().unwrap();
    let caller = Caller { id: "1".to_owned(), name: "one".to_owned(), groups: Vec::new() };
    let grants = [Grant::new("counter", &Right::ALL).rule("sum < 1000000")];
    let rights = Rights::new(store.registry(), Some(caller), &grants).unwrap();
    let guarded = store.with_rights(rights);
    let (opened, ended) = (Rc::new(RefCell::new(None)), Rc::new(RefCell::new(None)));

    let mut keyed = store.batch();
    keyed.idempotency_key(name("key")).increment(Counter::SUM, keys[1], 10);
    let mut batch = store.batch();
    batch.increment(Counter::SUM, keys[2], 10).increment(Counter::SUM, keys[2], 10);
    let mut each = store.batch();
    each.increment(Counter::SUM, keys[5], 10);
    let upsert = Counter { sum: 10, ..counter(&name("upsert")) };

    let mut event_loop = EventLoop::default();
    // The first use of a session opens files or connections.
    event_loop.run("the first read", async {
        store.get::<Page>(page).await.unwrap();
        store.patch::<Page>(page).set(Page::TEXT, "first").await.unwrap();
    });
    {
        let (keys, opened) = (keys.clone(), Rc::clone(&opened));
        event_loop.run("begin", async move {
            let transaction = store.begin().await.unwrap();
            for key in &keys {
                transaction.increment(Counter::SUM, *key, 1).await.unwrap();
            }
            transaction.increment(Ledger::SUM, ledger, 1).await.unwrap();
            *opened.borrow_mut() = Some(transaction);
        });
    }
    event_loop.longest = Default::default();
    let mut waiting = vec![
        event_loop.spawn("a plain write", async {
            store.increment(Counter::SUM, keys[0], 10).await.unwrap();
        }),
        event_loop.spawn("a batch with a key", async {
            keyed.all_or_nothing().await.unwrap();
        }),
        event_loop.spawn("a batch", async {
            batch.all_or_nothing().await.unwrap();
        }),
        event_loop.spawn("a batch of single writes", async {
            each.continue_on_error().await.unwrap()[0].as_ref().unwrap();
        }),
        event_loop.spawn("an audited write", async {
            store.increment(Ledger::SUM, ledger, 10).await.unwrap();
        }),
        event_loop.spawn("an upsert", async {
            store.insert(&upsert).or_update().await.unwrap();
        }),
        event_loop.spawn("an update of many", async {
            let rows = [Counter { id: keys[7], sum: 10, ..counter(&name("many")) }];
            assert_eq!(store.update_many(&rows).await.unwrap(), 1);
        }),
        event_loop.spawn("a delete by a filter", async {
            store.delete_where::<Counter>(Counter::NAME.eq(name("deleted"))).await.unwrap();
        }),
    ];
    if subject.capability().guarded_writes {
        waiting.push(event_loop.spawn("a guarded write", async {
            guarded.increment(Counter::SUM, keys[3], 10).await.unwrap();
        }));
    }
    // Submitted in the same turn, after the writes that wait. None of it needs what the transaction
    // holds, unless that is the whole database.
    let mut others = match store.capability().reads_meanwhile {
        ReadsMeanwhile::Wait => Vec::new(),
        _ => vec![
            event_loop.spawn("a read by key", async {
                store.get::<Page>(page).await.unwrap();
            }),
            event_loop.spawn("a list", async {
                store.list::<Page>().await.unwrap();
            }),
            event_loop.spawn("a count", async {
                store.count::<Page>().await.unwrap();
            }),
        ],
    };
    if store.capability().row_locks {
        let free = async { store.increment(Counter::SUM, free, 1).await.map(drop).unwrap() };
        others.push(event_loop.spawn("a write of another row", free));
        others.push(event_loop.spawn("an insert", async {
            store.insert(&Page::default()).await.unwrap();
        }));
        others.push(event_loop.spawn("an update of many other rows", async {
            let rows = [Page { id: page, text: "many".to_owned() }];
            assert_eq!(store.update_many(&rows).await.unwrap(), 1);
        }));
        let mut other = store.batch();
        other.idempotency_key(name("other")).insert(&Page::default());
        others.push(event_loop.spawn("another batch with a key", async move {
            other.all_or_nothing().await.unwrap();
        }));
    }
    event_loop.finish(&others);
    let name_of = |task: &usize| event_loop.tasks[*task].0;
    let early: Vec<_> =
        waiting.iter().filter(|task| event_loop.is_done(**task)).map(name_of).collect();
    assert!(early.is_empty(), "these did not wait for the transaction: {early:?}");
    {
        let ended = Rc::clone(&ended);
        event_loop.run("commit", async move {
            let transaction = opened.borrow_mut().take().unwrap();
            transaction.commit().await.unwrap();
            *ended.borrow_mut() = Some(());
        });
    }
    event_loop.finish(&waiting);
    let longest = event_loop.longest;
    drop(event_loop);
    assert!(ended.borrow().is_some());
    let sums = store.list::<Counter>().run().unwrap();
    let sum = |kind: &str| sums.iter().find(|one| one.name == name(kind)).map(|one| one.sum);
    assert_eq!((sum("plain"), sum("keyed"), sum("batch")), (Some(11), Some(11), Some(21)));
    assert_eq!((sum("each"), sum("upsert"), sum("deleted")), (Some(11), Some(10), None));
    assert_eq!(sum("many"), Some(10));
    assert_eq!(store.get::<Ledger>(ledger).run().unwrap().sum, 11);
    longest
}

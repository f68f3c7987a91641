//! A read that takes long does not hold up the other reads of its thread.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_lite::future::{block_on, poll_fn};
use marmota_derive::Model;
use marmota_model::Result;
use marmota_postgres::Postgres;
use marmota_store::Store;

use crate::{Tally, label, server};

/// How long a lock is held if nobody ends it before: the others have waited for it then.
const HELD: Duration = Duration::from_secs(10);

/// What a long read reads.
#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Slow {
    id: i64,
    number: i64,
}

/// A lock of the table `slow`, by which a read of it takes as long as wanted.
struct Held {
    store: Store,
    thread: JoinHandle<bool>,
}

impl Held {
    fn new(url: &str) -> Self {
        let (store, hand) = (open(url), Postgres::from_url(url).unwrap());
        let thread = std::thread::spawn(move || {
            let seconds = HELD.as_secs();
            let lock = "BEGIN; LOCK TABLE slow IN ACCESS EXCLUSIVE MODE";
            // It fails when it is cancelled.
            hand.execute(&format!("{lock}; SELECT pg_sleep({seconds}); ROLLBACK")).is_err()
        });
        let held = "SELECT count(*) FROM pg_locks WHERE mode='AccessExclusiveLock' AND granted \
                    AND relation='slow'::regclass";
        reach(&store, held);
        Self { store, thread }
    }

    /// Ends it; true if it was held until now.
    fn end(self) -> bool {
        let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE \
                      'BEGIN; LOCK TABLE slow%' AND datname=current_database()";
        self.store.sql(cancel).value::<bool>().run().unwrap();
        self.thread.join().unwrap()
    }
}

/// Waits until a count is not 0.
fn reach(store: &Store, count: &str) {
    let until = Instant::now() + HELD;
    while store.sql(count).value::<i64>().run().unwrap() == Some(0) {
        assert!(Instant::now() < until, "{count}");
        std::thread::yield_now();
    }
}

fn open(url: &str) -> Store {
    let engine = Postgres::from_url(url).unwrap();
    Store::builder(engine).model::<Tally>().model::<Slow>().open().unwrap()
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

type Read<'s> = Pin<Box<dyn Future<Output = Result<usize>> + 's>>;

/// Reads of each kind.
fn reads<'s>(store: &'s Store, keys: &'s [i64]) -> Vec<Read<'s>> {
    let gets = keys.iter().map(|key| -> Read<'s> {
        Box::pin(async { Ok(usize::from(store.get::<Tally>(*key).await?.id == *key)) })
    });
    let list: Read<'s> =
        Box::pin(async { Ok(store.list::<Tally>().filter(Tally::ID.eq(keys[0])).await?.len()) });
    let count: Read<'s> = Box::pin(async {
        let count = store.count::<Tally>().filter(Tally::ID.eq(keys[1])).await?;
        Ok(usize::try_from(count).unwrap())
    });
    gets.chain([list, count]).collect()
}

/// Polls reads in turn, as a server's thread does, until all are done.
async fn all(mut reads: Vec<Read<'_>>) {
    poll_fn(|context| {
        reads.retain_mut(|read| match read.as_mut().poll(context) {
            Poll::Ready(done) => {
                assert_eq!(done.unwrap(), 1);
                false
            }
            Poll::Pending => true,
        });
        if reads.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[test]
fn reads_of_the_same_turn_and_later_ones_are_answered() {
    let url = server().make_database().unwrap();
    let store = open(&url);
    let keys = store.insert_many(&(0..20).map(label).collect::<Vec<_>>()).run().unwrap();
    store.insert(&Slow { number: 7, ..Slow::default() }).run().unwrap();
    let held = Held::new(&url);
    let mut slow = pin!(store.list::<Slow>());
    let mut waits = || poll_once(slow.as_mut()).is_pending();
    assert!(waits());
    // They are sent behind it, before anybody knows that it takes long.
    block_on(all(reads(&store, &keys)));
    assert!(waits());
    // It is known now.
    block_on(all(reads(&store, &keys)));
    assert!(waits());
    assert!(held.end(), "the reads have waited for the long one");
    assert_eq!(block_on(slow).unwrap()[0].number, 7);
    block_on(all(reads(&store, &keys)));
}

/// The process of the server that waits for the lock of the table `slow`.
fn waiting_process(watcher: &Store) -> Option<i64> {
    let waiting = "FROM pg_locks WHERE NOT granted AND relation='slow'::regclass";
    reach(watcher, &format!("SELECT count(*) {waiting}"));
    watcher.sql(format!("SELECT pid::bigint {waiting}")).value().run().unwrap()
}

#[test]
fn a_list_that_was_long_has_a_connection_of_its_own_the_next_time() {
    let url = server().make_database().unwrap();
    let (store, watcher) = (open(&url), open(&url));
    let shared = store.sql("SELECT pg_backend_pid()::bigint").value::<i64>().run().unwrap();
    for was_long in [false, true] {
        let held = Held::new(&url);
        let mut slow = pin!(store.list::<Slow>());
        // It is sent by the second poll.
        for _ in 0..2 {
            assert!(poll_once(slow.as_mut()).is_pending());
        }
        assert_eq!(waiting_process(&watcher) == shared, !was_long);
        // It takes at least so long.
        std::thread::sleep(Duration::from_millis(50));
        assert!(held.end());
        assert!(block_on(slow).unwrap().is_empty());
    }
}

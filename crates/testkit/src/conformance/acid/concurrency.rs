//! Concurrent threads and tasks: no write is lost, and no read sees a partial write.

use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use futures_lite::future::block_on;
use marmota_model::{ErrorKind, Result, RowQuery, ValueRef};
use marmota_store::Transaction;
use marmota_store::operation::Operation;

use crate::conformance::harness::models;
use crate::conformance::harness::models::{Account, Note, Seat};
use crate::conformance::harness::refusal::refused;
use crate::conformance::harness::subject::{Stand, Subject};
use crate::conformance::harness::waiting::{DEADLINE, after_first_poll, receive};

const THREADS: i64 = 8;

/// Concurrent increments of many threads, blocking and async, add up.
pub fn no_increment_is_lost(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let key = stand.insert(&Account::default()).run().unwrap();
    thread::scope(|scope| {
        for number in 0..THREADS {
            let store = stand.store();
            scope.spawn(move || {
                for _ in 0..50 {
                    if number % 2 == 0 {
                        store.increment(Account::VISITS, key, 1).run().unwrap();
                    } else {
                        block_on(store.increment(Account::VISITS, key, 1)).unwrap();
                    }
                }
            });
        }
    });
    stand.settle();
    let account = stand.get::<Account>(key).run().unwrap();
    assert_eq!((account.visits, account.version), (50 * THREADS, 1 + 50 * THREADS));
}

/// If many threads write a row with the same version, exactly one succeeds.
pub fn one_writer_of_a_version_wins(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let key = stand.insert(&Account::default()).run().unwrap();
    let (won, barrier) = (AtomicU64::new(0), Barrier::new(THREADS as usize));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for version in 1..=20 {
                    let patch = stand.patch::<Account>(key).set(Account::SMALL, 1).version(version);
                    match patch.run() {
                        Ok(_) => drop(won.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Stale, "{error:?}"),
                    }
                    barrier.wait();
                }
            });
        }
    });
    assert_eq!(won.into_inner(), 20);
    assert_eq!(stand.get::<Account>(key).run().unwrap().version, 21);
}

/// If many threads insert the same unique value, exactly one succeeds.
pub fn unique_holds_among_threads(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let (won, barrier) = (AtomicU64::new(0), Barrier::new(THREADS as usize));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (stand, won, barrier) = (&stand, &won, &barrier);
            scope.spawn(move || {
                for round in 0..20 {
                    barrier.wait();
                    let seat =
                        Seat::new(Some("r"), round, Some(&format!("holder {thread} {round}")));
                    match stand.insert(&seat).run() {
                        Ok(_) => drop(won.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}"),
                    }
                }
            });
        }
    });
    assert_eq!(won.into_inner(), 20);
    stand.settle();
    assert_eq!(stand.count::<Seat>().run().unwrap(), 20);
}

/// Keys that are assigned to concurrent threads are all different.
pub fn keys_are_given_once(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let mut keys: Vec<i64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let store = stand.store();
                scope.spawn(move || -> Vec<i64> {
                    (0..20)
                        .flat_map(|round| {
                            let notes = Note::numbered(0..1 + (round + number) % 4);
                            store.insert_many(&notes).run().unwrap()
                        })
                        .collect()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), count);
    stand.settle();
    assert_eq!(stand.count::<Note>().run().unwrap(), count as u64);
}

/// Amounts move between accounts in transactions, batches and updates of many rows. Every list of
/// the accounts has the same sum.
pub fn readers_see_whole_writes(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let keys = stand.insert_many(&vec![Account { visits: 100, ..Account::default() }; 6]).run();
    let (keys, done) = (keys.unwrap(), AtomicBool::new(false));
    let sum =
        || -> i64 { stand.list::<Account>().column(Account::VISITS).run().unwrap().iter().sum() };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(sum(), 600);
                    thread::yield_now();
                }
            });
        }
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (stand, keys) = (&stand, &keys);
                scope.spawn(move || {
                    for round in 0..40_usize {
                        let (from, to) = (keys[(round + writer) % 6], keys[(round * 5 + 3) % 6]);
                        if round % 2 == 0 {
                            let mut batch = stand.store().batch();
                            batch.increment(Account::VISITS, from, -7);
                            batch.increment(Account::VISITS, to, 7);
                            batch.all_or_nothing().run().unwrap();
                        } else {
                            stand
                                .transaction(|own| -> Result<()> {
                                    own.increment(Account::VISITS, from, -3).run()?;
                                    own.increment(Account::VISITS, to, 3).run()?;
                                    Ok(())
                                })
                                .unwrap();
                        }
                    }
                })
            })
            .collect();
        let ended: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(std::result::Result::is_ok));
    });
    assert_eq!(sum(), 600);
}

/// A list has each row once and completely while other threads write.
pub fn lists_are_whole_while_rows_change(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    stand.insert_many(&Note::numbered(0..300)).run().unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..40 {
                let mut notes = stand.list::<Note>().filter(Note::NUMBER.lt(300)).run().unwrap();
                notes
                    .iter_mut()
                    .for_each(|note| note.text = format!("{} {round}", "x".repeat(round)));
                stand.update_many(&notes).run().unwrap();
                let key = stand.insert(&Note::new("more", 1000)).run().unwrap();
                stand.delete::<Note>(key).run().unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            let notes = stand.list::<Note>().filter(Note::NUMBER.lt(300)).run().unwrap();
            assert_eq!(notes.len(), 300);
            assert!(
                notes
                    .iter()
                    .all(|note| note.text == notes[0].text || note.text.starts_with("note"))
            );
            assert!(notes.is_sorted_by_key(|note| note.id));
        }
    });
}

/// A call of the store within a row callback is refused, and the store works afterwards.
pub fn a_row_callback_cannot_call_the_store(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    stand.insert_many(&Note::numbered(0..3)).run().unwrap();
    let (table, query) = (stand.table("note").unwrap(), RowQuery::new());
    let (mut inner, mut rows) = (Vec::new(), 0);
    let mut sink = |_: &[ValueRef<'_>]| {
        rows += 1;
        inner.push(stand.count::<Note>().run().map(drop));
        inner.push(stand.insert(&Note::new("x", 1)).run().map(drop));
        inner.push(block_on(async { stand.get::<Note>(1).await }).map(drop));
        inner.push(stand.begin_run().map(drop));
        ControlFlow::Continue(())
    };
    let mut operation = Operation::List { table: &table, query: &query };
    stand.run(&mut operation, &mut sink).unwrap();
    assert_eq!(rows, 3);
    assert_eq!(inner.len(), 12);
    for result in inner {
        refused(result, ErrorKind::Unsupported);
    }
    assert_eq!(stand.count::<Note>().run().unwrap(), 3);
}

/// A sink can stop a read. A panic in a sink leaves the store usable.
pub fn a_sink_may_end_a_read(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    stand.insert_many(&Note::numbered(0..10)).run().unwrap();
    let (table, query) = (stand.table("note").unwrap(), RowQuery::new());
    let mut rows = 0;
    let mut sink = |_: &[ValueRef<'_>]| {
        rows += 1;
        if rows == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    stand.run(&mut Operation::List { table: &table, query: &query }, &mut sink).unwrap();
    assert_eq!(rows, 4);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut sink = |_: &[ValueRef<'_>]| std::panic::resume_unwind(Box::new("on purpose"));
        stand.run(&mut Operation::List { table: &table, query: &query }, &mut sink)
    }));
    assert!(panicked.is_err());
    assert_eq!(stand.count::<Note>().run().unwrap(), 10);
    stand.insert(&Note::new("a", 1)).run().unwrap();
    stand.transaction(|own| own.insert(&Note::new("b", 1)).run()).unwrap();
}

/// A write that is awaited while a transaction is open does not block its thread, is woken when it
/// can continue, and can be cancelled.
pub fn a_write_that_waits_leaves_its_thread(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let key = stand.insert(&Account::default()).run().unwrap();
    let transaction = stand.begin_run().unwrap();
    transaction.increment(Account::VISITS, key, 1).run().unwrap();
    let (sender, receiver) = channel();
    let store = stand.store().clone();
    let waiter = thread::spawn(move || {
        let mut context = Context::from_waker(Waker::noop());
        let given_up = {
            let mut first = pin!(store.increment(Account::VISITS, key, 10));
            first.as_mut().poll(&mut context).is_pending()
        };
        sender.send(given_up).unwrap();
        block_on(store.increment(Account::VISITS, key, 100)).unwrap()
    });
    let free = receiver.recv_timeout(Duration::from_secs(60));
    transaction.commit().run().unwrap();
    assert_eq!(
        free,
        Ok(true),
        "the thread was blocked, or the write did not wait for the transaction"
    );
    let sum = waiter.join().unwrap();
    // The cancelled write may have been executed or not.
    assert!(sum == 101 || sum == 111, "{sum}");
    let account = stand.get::<Account>(key).run().unwrap();
    assert!(account.visits == 101 || account.visits == 111, "{account:?}");
}

/// Several waiting operations of one thread each get their own result.
pub fn waiting_actions_get_their_own_answers(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let keys = stand.insert_many(&vec![Account::default(); 3]).run().unwrap();
    let transaction = stand.begin_run().unwrap();
    transaction.insert(&Account::default()).run().unwrap();
    let (sender, receiver) = channel();
    let (done, sums) = channel();
    let store = stand.store().clone();
    let waiter = thread::spawn(move || {
        let mut actions: Vec<_> = keys
            .iter()
            .zip(1..)
            .map(|(key, by)| Box::pin(store.increment(Account::VISITS, *key, by)))
            .collect();
        let mut sums = vec![None; actions.len()];
        // In reverse order: results are matched by tickets.
        let all = poll_fn(|context| {
            for (action, sum) in actions.iter_mut().zip(&mut sums).rev() {
                if sum.is_none()
                    && let Poll::Ready(result) = action.as_mut().poll(context)
                {
                    *sum = Some(result.unwrap());
                }
            }
            if sums.iter().any(Option::is_none) { Poll::Pending } else { Poll::Ready(()) }
        });
        block_on(after_first_poll(all, || sender.send(()).unwrap()));
        done.send(sums).unwrap();
    });
    let polled = receiver.recv_timeout(DEADLINE);
    transaction.commit().run().unwrap();
    polled.expect("a poll held its thread");
    assert_eq!(sums.recv_timeout(DEADLINE), Ok(vec![Some(1), Some(2), Some(3)]));
    waiter.join().unwrap();
}

/// Threads whose writes wait for a transaction do not prevent other threads from reading or from
/// ending that transaction, for any number of threads.
pub fn waiting_threads_do_not_block_others(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let key = stand.insert(&Account::default()).run().unwrap();
    let transaction = stand.begin_run().unwrap();
    transaction.increment(Account::VISITS, key, 1).run().unwrap();
    let (sender, begun) = channel();
    thread::scope(|scope| {
        for _ in 0..100 {
            let (store, begun) = (stand.store(), sender.clone());
            scope.spawn(move || {
                begun.send(()).unwrap();
                store.increment(Account::VISITS, key, 1).run().unwrap()
            });
        }
        receive(&begun, 100);
        let (sender, receiver) = channel();
        let store = stand.store().clone();
        if !stand.makes_reads_wait() {
            scope.spawn(move || sender.send(store.count::<Note>().run().unwrap()).unwrap());
            let count = receiver.recv_timeout(Duration::from_secs(60));
            transaction.commit().run().unwrap();
            assert_eq!(count, Ok(0), "a read waited for the writes of others");
        } else {
            transaction.commit().run().unwrap();
        }
    });
    assert_eq!(stand.get::<Account>(key).run().unwrap().visits, 101);
}

/// Every read of a row, by key or in a list, sees at least the writes acknowledged before it began,
/// and at least what the same reader saw before. The writes are single ones, transactions and
/// batches, with deletes in between.
pub fn no_read_is_older_than_what_was_acknowledged(subject: &Subject) {
    const ROWS: usize = 4;
    const WRITES: i64 = 60;
    let stand = Stand::open(subject, models::all);
    let keys: Vec<i64> =
        (0..ROWS).map(|_| stand.insert(&Account::default()).run().unwrap()).collect();
    let acknowledged: Vec<AtomicI64> = (0..ROWS).map(|_| AtomicI64::new(0)).collect();
    let written = AtomicUsize::new(0);
    thread::scope(|scope| {
        for (at, &key) in keys.iter().enumerate() {
            let (store, acknowledged, written) = (stand.store(), &acknowledged, &written);
            scope.spawn(move || {
                for count in 1..=WRITES {
                    match count % 4 {
                        0 => drop(store.increment(Account::VISITS, key, 1).run().unwrap()),
                        1 => {
                            block_on(store.patch::<Account>(key).set(Account::VISITS, count))
                                .unwrap();
                        }
                        2 => {
                            let add = |own: &mut Transaction| {
                                own.increment(Account::VISITS, key, 5).run()?;
                                own.increment(Account::VISITS, key, -4).run()
                            };
                            store.transaction(add).unwrap();
                        }
                        _ => {
                            let mut batch = store.batch();
                            batch.increment(Account::VISITS, key, 2);
                            batch.increment(Account::VISITS, key, -1);
                            batch.all_or_nothing().run().unwrap();
                        }
                    }
                    acknowledged[at].store(count, Ordering::SeqCst);
                }
                written.fetch_add(1, Ordering::SeqCst);
            });
        }
        for reader in 0..THREADS {
            let (keys, acknowledged, written) = (&keys, &acknowledged, &written);
            let store = stand.store();
            scope.spawn(move || {
                let mut seen = [0; ROWS];
                let mut round = reader as usize;
                while written.load(Ordering::SeqCst) < ROWS {
                    round += 1;
                    let at = round % ROWS;
                    let before = acknowledged[at].load(Ordering::SeqCst);
                    let visits = match round % 7 {
                        0 => store.list::<Account>().run().unwrap()[at].visits,
                        1 => block_on(store.get::<Account>(keys[at])).unwrap().visits,
                        _ => store.get::<Account>(keys[at]).run().unwrap().visits,
                    };
                    assert!(visits >= before, "{visits} read after an acknowledged {before}");
                    assert!(visits >= seen[at], "{visits} read after {}", seen[at]);
                    seen[at] = visits;
                }
            });
        }
    });
    for key in keys {
        assert_eq!(stand.get::<Account>(key).run().unwrap().visits, WRITES);
        stand.delete::<Account>(key).run().unwrap();
        refused(stand.get::<Account>(key).run(), ErrorKind::NotFound);
    }
}

register!($ concurrency_promises concurrency:
    no_increment_is_lost,
    one_writer_of_a_version_wins,
    unique_holds_among_threads,
    keys_are_given_once,
    a_row_callback_cannot_call_the_store,
; by transactions:
    readers_see_whole_writes,
    lists_are_whole_while_rows_change,
    a_sink_may_end_a_read,
    a_write_that_waits_leaves_its_thread,
    waiting_actions_get_their_own_answers,
    waiting_threads_do_not_block_others,
    no_read_is_older_than_what_was_acknowledged,
);

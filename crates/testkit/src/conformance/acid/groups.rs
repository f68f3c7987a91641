//! Group commit: each of the writes that are committed together gets its own result.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::thread;

use futures_lite::future::{block_on, poll_once};
use marmota_model::{ErrorKind, Result};
use marmota_store::Durability;

use crate::conformance::harness::models;
use crate::conformance::harness::models::{Account, Note, Seat};
use crate::conformance::harness::subject::{Stand, Subject};

const THREADS: i64 = 8;

/// With many concurrent writers, blocking and async, and all durabilities, an acknowledged row
/// exists, a refused one does not, and each writer gets its own result.
pub fn each_writer_gets_its_own_result(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let taken = Seat::new(Some("taken"), 0, Some("taken"));
    stand.insert(&taken).run().unwrap();
    let told: Vec<(i64, i64)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let store = stand.store();
                scope.spawn(move || {
                    let mut told = Vec::new();
                    for round in 0..15 {
                        let number = thread * 100 + round;
                        let holder = format!("holder {number}");
                        let seat = Seat::new(Some("r"), number, Some(&holder));
                        let durability = [Durability::Full, Durability::Relaxed, Durability::None]
                            [(number % 3) as usize];
                        let insert = |seat| store.insert(seat).durability(durability);
                        let key = if thread % 2 == 0 {
                            insert(&seat).run().unwrap()
                        } else {
                            block_on(insert(&seat)).unwrap()
                        };
                        told.push((key, number));
                        let again = Seat::new(None, number, Some("TAKEN"));
                        let refused = insert(&again).run().unwrap_err();
                        assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
                        assert_eq!(refused.violations()[0].field, "holder");
                        let missing = store.delete::<Seat>(-number - 1).run().unwrap_err();
                        assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
                    }
                    told
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    stand.settle();
    assert_eq!(stand.count::<Seat>().run().unwrap(), 1 + told.len() as u64);
    for (key, number) in told {
        assert_eq!(stand.get::<Seat>(key).run().unwrap().number, number);
    }
}

/// Concurrent futures of one thread, some of which are refused, each return their own result.
/// Dropping one does not block the others.
pub fn futures_of_one_thread_get_their_own_results(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let seats: Vec<Seat> = (0..30)
        .map(|number| Seat::new(Some("r"), number % 20, Some(&format!("holder {number}"))))
        .collect();
    let mut inserts: Vec<Pin<Box<dyn Future<Output = Result<i64>> + '_>>> = Vec::new();
    for seat in &seats {
        inserts.push(Box::pin(async { stand.insert(seat).await }));
    }
    block_on(async {
        let mut first = Vec::new();
        for insert in &mut inserts {
            first.push(poll_once(insert).await);
        }
        // Futures that wait, in another order than they began.
        let mut results: Vec<(usize, Result<i64>)> = Vec::new();
        for (number, insert) in inserts.into_iter().enumerate().rev() {
            match first[number].take() {
                Some(done) => results.push((number, done)),
                // The 25th is dropped: it may have been executed or not.
                None if number == 25 => drop(insert),
                None => results.push((number, insert.await)),
            }
        }
        for (number, result) in results {
            match result {
                Ok(key) => {
                    let seat = stand.get::<Seat>(key).await.unwrap();
                    assert_eq!(seat.holder, Some(format!("holder {number}")));
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
            }
        }
    });
    assert_eq!(stand.count::<Seat>().run().unwrap(), 20);
}

/// Every thread sees a write that was acknowledged, while others write.
pub fn a_reader_sees_what_was_acknowledged(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let account = stand.insert(&Account::default()).run().unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..25 {
                    let key = stand.insert(&Note::new("mine", number)).run().unwrap();
                    assert_eq!(stand.get::<Note>(key).run().unwrap().number, Some(number));
                    let sum = stand.increment(Account::VISITS, account, 1).run().unwrap();
                    assert!(stand.get::<Account>(account).run().unwrap().visits >= sum);
                    let elsewhere = thread::scope(|inner| {
                        inner.spawn(|| stand.get::<Note>(key).run()).join().unwrap()
                    });
                    assert_eq!(elsewhere.unwrap().number, Some(number));
                }
            });
        }
    });
    assert_eq!(stand.get::<Account>(account).run().unwrap().visits, 100);
}

/// Writes whose futures are polled once and dropped are executed completely or not at all.
pub fn writes_that_are_given_up_are_whole(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let mut context = Context::from_waker(Waker::noop());
    for number in 0..10 {
        let note = Note::new("given up", number);
        let mut insert = pin!(stand.insert(&note));
        let _ = insert.as_mut().poll(&mut context);
    }
    stand.insert(&Note::new("kept", 1)).run().unwrap();
    stand.settle();
    let notes = stand.list::<Note>().run().unwrap();
    assert!(notes.iter().any(|note| note.text == "kept"));
    assert!(notes.len() <= 11 && notes.iter().all(|note| note.number.is_some()));
}

register!($ groups_promises groups:
    each_writer_gets_its_own_result,
    futures_of_one_thread_get_their_own_results,
    a_reader_sees_what_was_acknowledged,
    writes_that_are_given_up_are_whole,
);

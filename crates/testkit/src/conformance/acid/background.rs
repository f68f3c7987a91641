//! Background writes: all are executed, soon and in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_lite::future::block_on;
use marmota_model::ErrorKind;
use marmota_store::Store;

use crate::conformance::harness::models;
use crate::conformance::harness::models::{City, Country, Note, Seat};
use crate::conformance::harness::refusal::{blamed, refused};
use crate::conformance::harness::subject::{Stand, Subject};
use crate::conformance::harness::waiting::receive;

/// So long that no write is due by time.
const LONG: Duration = Duration::from_secs(3600);

fn numbers(store: &Store) -> Vec<Option<i64>> {
    store.list::<Note>().order(Note::ID.ascending()).column(Note::NUMBER).run().unwrap()
}

/// Accepted writes are executed when the limit of writes, bytes or milliseconds is reached, and on
/// `flush`.
pub fn background_writes_are_executed(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let store = stand.store().clone();
    let add = |batch: &marmota_store::background::BackgroundBatch, number: i64| {
        batch
            .add(|batch| {
                batch.insert(&Note::new("x".repeat(100), number));
            })
            .unwrap()
    };
    let by_number = store.background_batch().flush_after(LONG).flush_writes(3).start().unwrap();
    let accepted: Vec<_> = (0..3).map(|number| add(&by_number, number)).collect();
    for accepted in accepted {
        assert_eq!(accepted.wait().unwrap()[0].rows, 1);
    }
    let by_bytes = store.background_batch().flush_after(LONG).flush_bytes(150).start().unwrap();
    let accepted = (add(&by_bytes, 3), add(&by_bytes, 4));
    block_on(async { accepted.1.await.and(accepted.0.await) }).unwrap();
    let soon = Duration::from_millis(5);
    let by_time = store.background_batch().flush_after(soon).start().unwrap();
    add(&by_time, 5).wait().unwrap();
    let asked = store.background_batch().flush_after(LONG).start().unwrap();
    drop(add(&asked, 6));
    assert_eq!(asked.waiting(), 1);
    asked.flush();
    assert_eq!((asked.waiting(), numbers(&store).len()), (0, 7));
    drop((by_number, by_bytes, by_time, asked));
    stand.settle();
    assert_eq!(numbers(stand.store()), (0..7).map(Some).collect::<Vec<_>>());
}

/// Closing or dropping the queue executes the remaining writes of all threads, in the order of each
/// thread.
pub fn a_close_writes_what_is_left(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    for closes in [true, false] {
        let background = stand.store().background_batch().flush_after(LONG).start().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let background = &background;
                scope.spawn(move || {
                    for number in 0..50 {
                        let note = Note::new(format!("{thread}"), number);
                        drop(
                            background
                                .add(|batch| {
                                    batch.insert(&note);
                                })
                                .unwrap(),
                        );
                    }
                });
            }
        });
        if closes {
            background.close();
            let late = background.add(|batch| {
                batch.insert(&Note::new("late", 1));
            });
            refused(late.map(drop), ErrorKind::Closed);
        }
        drop(background);
    }
    stand.settle();
    let notes = stand.list::<Note>().order(Note::ID.ascending()).run().unwrap();
    assert_eq!(notes.len(), 400);
    for thread in ["0", "1", "2", "3"] {
        let of_thread = notes.iter().filter(|note| note.text == thread);
        let numbers: Vec<i64> = of_thread.filter_map(|note| note.number).collect();
        assert!(numbers.iter().copied().eq((0..50).chain(0..50)), "{numbers:?}");
    }
}

/// Closing the store executes all writes accepted before.
pub fn a_close_of_the_store_flushes(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let store = stand.store().clone();
    let background = store.background_batch().flush_after(LONG).start().unwrap();
    let accepted = background
        .add(|batch| {
            batch.insert(&Note::new("a", 1));
        })
        .unwrap();
    store.close().unwrap();
    assert_eq!(accepted.wait().unwrap().len(), 1);
    let late = background
        .add(|batch| {
            batch.insert(&Note::new("late", 2));
        })
        .unwrap();
    background.flush();
    refused(late.wait().map(drop), ErrorKind::Closed);
    drop((background, store));
    if subject.capability().persistent {
        stand.reopen();
        assert_eq!(stand.count::<Note>().run().unwrap(), 1);
    }
}

/// A write that fails does not prevent other writes, except those added together with it.
pub fn each_background_write_gets_its_own_error(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let background = stand.store().background_batch().flush_after(LONG).start().unwrap();
    let seat = |number, holder| Seat::new(None, number, Some(holder));
    let accepted = [
        background.add(|batch| {
            batch.insert(&seat(1, "x"));
        }),
        background.add(|batch| {
            batch.insert(&seat(2, "y")).insert(&seat(3, "X"));
        }),
        background.add(|batch| {
            let country = batch.insert(&Country::new("fr", "France")).handle();
            batch.insert(&City::new("Angers", "?")).set_ref(City::COUNTRY, country);
        }),
        background.add(|batch| {
            batch.insert(&seat(4, "y"));
        }),
    ]
    .map(Result::unwrap);
    background.flush();
    let [first, second, third, fourth] = accepted.map(marmota_store::background::Accepted::wait);
    assert_eq!((first.unwrap().len(), third.unwrap().len(), fourth.unwrap().len()), (1, 2, 1));
    blamed(second, ErrorKind::Conflict, "holder", "unique");
    drop(background);
    stand.settle();
    let numbers = stand.list::<Seat>().order(Seat::NUMBER.ascending()).column(Seat::NUMBER).run();
    assert_eq!(numbers.unwrap(), [1, 4]);
    assert_eq!(stand.get::<City>(1).run().unwrap().country.key(), "fr");
}

/// The callback receives errors of writes whose result no caller awaits, and no other errors.
pub fn an_unawaited_error_reaches_the_callback(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let background = stand
        .store()
        .background_batch()
        .flush_after(LONG)
        .on_error(move |error| {
            assert_eq!(error.kind(), ErrorKind::NotFound);
            count.fetch_add(1, Ordering::Relaxed);
        })
        .start()
        .unwrap();
    drop(
        background
            .add(|batch| {
                batch.delete::<Note>(7);
            })
            .unwrap(),
    );
    let waited_for = background
        .add(|batch| {
            batch.delete::<Note>(8);
        })
        .unwrap();
    drop(
        background
            .add(|batch| {
                batch.insert(&Note::new("a", 1));
            })
            .unwrap(),
    );
    background.close();
    refused(waited_for.wait(), ErrorKind::NotFound);
    assert_eq!(told.load(Ordering::Relaxed), 1);
    assert_eq!(stand.count::<Note>().run().unwrap(), 1);
}

/// The queue is bounded: if it is full, a caller waits or gets [`ErrorKind::Busy`].
pub fn the_background_queue_is_bounded(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let store = stand.store();
    let background =
        store.background_batch().flush_after(LONG).waiting_writes_max(2).start().unwrap();
    let add = |number: i64| {
        let note = Note::new("a", number);
        background
            .try_add(|batch| {
                batch.insert(&note);
            })
            .map(drop)
    };
    // No write can be executed while this transaction is open.
    let transaction = store.begin_run().unwrap();
    transaction.insert(&Note::new("first", 0)).run().unwrap();
    add(1).unwrap();
    add(2).unwrap();
    refused(add(3), ErrorKind::Busy);
    let (sender, begun) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let note = Note::new("a", 3);
            sender.send(()).unwrap();
            drop(
                background
                    .add(|batch| {
                        batch.insert(&note);
                    })
                    .unwrap(),
            );
        });
        receive(&begun, 1);
        assert!(!waits.is_finished(), "a write was accepted beyond the bound");
        transaction.commit().run().unwrap();
        waits.join().unwrap();
    });
    background.close();
    assert_eq!(numbers(store), [0, 1, 2, 3].map(Some));
}

/// A row that violates a rule is refused before it is accepted.
pub fn a_bad_row_is_refused_at_once(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let background = stand.store().background_batch().start().unwrap();
    let bad = Country::new("", "nowhere");
    let added = background.add(|batch| {
        batch.insert(&Note::new("a", 1)).insert(&bad);
    });
    blamed(added.map(drop), ErrorKind::Invalid, "code", "not_empty");
    background.close();
    assert_eq!(stand.count::<Note>().run().unwrap(), 0);
}

register!($ background_promises background:
    background_writes_are_executed,
    a_close_writes_what_is_left,
    a_close_of_the_store_flushes,
    an_unawaited_error_reaches_the_callback,
    a_bad_row_is_refused_at_once,
; by transactions:
    each_background_write_gets_its_own_error,
    the_background_queue_is_bounded,
);

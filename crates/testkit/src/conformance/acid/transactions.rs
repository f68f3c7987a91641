//! Transactions and savepoints: all writes are executed, or none.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use futures_lite::future::block_on;
use marmota_model::{Error, ErrorKind, Field, Kind, Role, Schema};
use marmota_store::Idempotency;
use marmota_store::migration::Migration;

use crate::conformance::harness::models;
use crate::conformance::harness::models::{Account, City, Country, Note, Seat};
use crate::conformance::harness::refusal::{refused, says};
use crate::conformance::harness::subject::{Stand, Subject};
use crate::conformance::harness::waiting::{after_first_poll, receive};

fn texts(stand: &marmota_store::Store) -> Vec<String> {
    stand.list::<Note>().column(Note::TEXT).run().unwrap()
}

/// An engine without transactions refuses operations that need them, with an error that states the
/// reason, and writes nothing.
pub(crate) fn refused_without(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    assert!(!stand.store().capability().transactions, "the capability has transactions");
    let unsupported = ErrorKind::Unsupported;
    says(&refused(stand.begin_run().map(drop), unsupported), &["transactions"]);
    let mut batch = stand.store().batch();
    batch.insert(&Note::new("a", 1)).insert(&Note::new("b", 2));
    says(&refused(batch.all_or_nothing().run(), unsupported), &["transactions"]);
    assert_eq!(stand.count::<Note>().run().unwrap(), 0);
    stand.close().unwrap();
    let once = models::all(subject.builder()).idempotency(Idempotency::default());
    says(&refused(once.open(), unsupported), &["transactions"]);
    let migration = Migration::new(1, "one").up(|_| Ok(()));
    let migrated = models::all(subject.builder()).migration(migration);
    says(&refused(migrated.open(), unsupported), &["transactions"]);
    let id = Field::new("id", Kind::I64).role(Role::Key);
    let audited = Schema::new("audited", vec![id]).audit(true);
    says(&refused(subject.builder().schema(audited).open(), unsupported), &["transactions"]);
}

/// The writes of a committed transaction are kept.
pub fn a_commit_keeps_all(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let transaction = stand.begin_run().unwrap();
    let key = transaction.insert(&Note::new("a", 1)).run().unwrap();
    transaction.insert_many(&[Note::new("b", 2), Note::new("c", 3)]).run().unwrap();
    transaction.patch::<Note>(key).set(Note::TEXT, "z").run().unwrap();
    transaction.insert(&Country::new("fr", "France")).run().unwrap();
    transaction.insert(&City::new("Bourges", "fr")).run().unwrap();
    transaction.commit().run().unwrap();
    drop(transaction);
    stand.settle();
    assert_eq!(texts(&stand), ["z", "b", "c"]);
    assert_eq!(stand.count::<City>().run().unwrap(), 1);
}

/// Inserts, updates, increments and deletes of a transaction that was rolled back, dropped, or
/// ended by an error or panic have no effect, in any index.
pub fn uncommitted_writes_are_undone(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let seats: Vec<Seat> =
        (0..5).map(|number| Seat::new(Some("r"), number, Some(&format!("h{number}")))).collect();
    let keys = stand.insert_many(&seats).run().unwrap();
    let account = stand.insert(&Account::default()).run().unwrap();
    let before = stand.list::<Seat>().run().unwrap();
    for how in 0..4 {
        let change = |scope: &marmota_store::Store| {
            scope.insert(&Seat::new(Some("new"), 9, Some("new"))).run().unwrap();
            scope.patch::<Seat>(keys[0]).set(Seat::HOLDER, "other").run().unwrap();
            scope.update(&Seat { id: keys[1], ..Seat::new(None, 0, None) }).run().unwrap();
            scope.delete::<Seat>(keys[2]).run().unwrap();
            scope.increment(Account::VISITS, account, 9).run().unwrap();
            assert_eq!(scope.delete_where::<Seat>(Seat::NUMBER.eq(4)).run().unwrap(), 1);
            assert_eq!(scope.count::<Seat>().run().unwrap(), 4);
        };
        match how {
            0 => {
                let transaction = stand.begin_run().unwrap();
                change(&transaction);
                transaction.rollback().run().unwrap();
            }
            1 => {
                let transaction = stand.begin_run().unwrap();
                change(&transaction);
            }
            2 => {
                let result = stand.transaction(|transaction| -> Result<(), Error> {
                    change(transaction);
                    Err(Error::new(ErrorKind::Denied, "no"))
                });
                refused(result, ErrorKind::Denied);
            }
            _ => {
                let store = stand.store().clone();
                let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    store.transaction(|transaction| -> Result<(), Error> {
                        change(transaction);
                        std::panic::resume_unwind(Box::new("on purpose"));
                    })
                }));
                assert!(panicked.is_err());
            }
        }
        stand.settle();
        assert_eq!(stand.list::<Seat>().run().unwrap(), before, "way {how}");
        assert_eq!(stand.get::<Account>(account).run().unwrap().visits, 0);
        // In the indexes too: values of inserted rows are free, values of deleted rows are taken.
        let found = stand.list::<Seat>().filter(Seat::HOLDER.eq("H0")).run().unwrap();
        assert_eq!(found.len(), 1);
        refused(stand.insert(&Seat::new(None, 1, Some("h2"))).run(), ErrorKind::Conflict);
        let key = stand.insert(&Seat::new(Some("new"), 9, Some("new"))).run().unwrap();
        stand.delete::<Seat>(key).run().unwrap();
    }
}

/// `transaction` commits if the closure returns `Ok`, and returns its value.
pub fn a_closure_that_succeeds_commits(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let key =
        stand.transaction(|transaction| transaction.insert(&Note::new("a", 1)).run()).unwrap();
    stand.settle();
    assert_eq!(stand.get::<Note>(key).run().unwrap().text, "a");
}

/// A transaction sees its own writes, by key, filter and order.
pub fn a_transaction_sees_its_writes(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let key = stand.insert(&Note::new("a", 1)).run().unwrap();
    let transaction = stand.begin_run().unwrap();
    transaction.patch::<Note>(key).set(Note::NUMBER, 50).run().unwrap();
    let new = transaction.insert(&Note::new("b", 10)).run().unwrap();
    assert_eq!(transaction.get::<Note>(key).run().unwrap().number, Some(50));
    assert_eq!(transaction.get::<Note>(new).run().unwrap().text, "b");
    let ordered = transaction.list::<Note>().order(Note::NUMBER.ascending()).run().unwrap();
    assert_eq!(ordered.iter().map(|note| note.id).collect::<Vec<_>>(), [new, key]);
    assert_eq!(transaction.count::<Note>().filter(Note::NUMBER.gt(5)).run().unwrap(), 2);
    transaction.delete::<Note>(key).run().unwrap();
    refused(transaction.get::<Note>(key).run(), ErrorKind::NotFound);
    transaction.rollback().run().unwrap();
    assert_eq!(stand.get::<Note>(key).run().unwrap().number, Some(1));
}

/// Other callers do not see an uncommitted write: a read during an open transaction returns the
/// state before it, or waits and returns the committed state.
pub fn others_do_not_see_an_open_transaction(subject: &Subject) {
    for commits in [true, false] {
        let stand = Stand::open(subject, models::all);
        stand.delete_where::<Note>(Note::ID.gt(0)).run().unwrap();
        stand.insert(&Note::new("before", 1)).run().unwrap();
        let transaction = stand.begin_run().unwrap();
        transaction.insert(&Note::new("within", 2)).run().unwrap();
        transaction.delete_where::<Note>(Note::TEXT.eq("before")).run().unwrap();
        let (sender, receiver) = channel();
        let store = stand.store().clone();
        let reader = thread::spawn(move || sender.send(texts(&store)).unwrap());
        let early = receiver.recv_timeout(Duration::from_millis(150));
        if let Ok(early) = &early {
            assert_eq!(early, &["before"], "a read during the transaction");
        }
        let end = if commits { transaction.commit() } else { transaction.rollback() };
        end.run().unwrap();
        if early == Err(RecvTimeoutError::Timeout) {
            // A read that began late, on a busy machine, may still see the state before it.
            let late = receiver.recv_timeout(Duration::from_secs(20));
            let late = late.expect("a reader never came back");
            assert!(late == ["before"] || commits && late == ["within"], "{late:?}");
        }
        reader.join().unwrap();
        drop(transaction);
        stand.close().unwrap();
    }
}

/// On engines that declare it, a read during an open transaction returns the state before it
/// without waiting.
pub fn reads_do_not_wait_for_a_transaction(subject: &Subject) {
    if subject.makes_reads_wait() {
        return;
    }
    let stand = Stand::open(subject, models::all);
    stand.insert(&Note::new("before", 1)).run().unwrap();
    let transaction = stand.begin_run().unwrap();
    transaction.insert(&Note::new("within", 2)).run().unwrap();
    transaction.insert(&Seat::new(None, 1, None)).run().unwrap();
    // On the same thread: waiting here would be a deadlock.
    assert_eq!(texts(&stand), ["before"]);
    assert_eq!(stand.count::<Country>().run().unwrap(), 0);
    assert_eq!(block_on(async { stand.count::<Note>().await }).unwrap(), 1);
    transaction.commit().run().unwrap();
    assert_eq!(texts(&stand), ["before", "within"]);
}

/// A write during an open transaction waits for its end, and is executed then.
pub fn writes_wait_for_a_transaction(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let key = stand.insert(&Account::default()).run().unwrap();
    let transaction = stand.begin_run().unwrap();
    transaction.increment(Account::VISITS, key, 1).run().unwrap();
    let (sender, receiver) = channel();
    let writers: Vec<_> = (0..3)
        .map(|way| {
            let (store, sender) = (stand.store().clone(), sender.clone());
            thread::spawn(move || {
                match way {
                    0 => drop(store.increment(Account::VISITS, key, 10).run().unwrap()),
                    1 => block_on(async {
                        store.increment(Account::VISITS, key, 100).await.unwrap();
                    }),
                    _ => store
                        .transaction(|own| {
                            let visits = own.get::<Account>(key).run()?.visits;
                            own.patch::<Account>(key).set(Account::VISITS, visits + 1000).run()
                        })
                        .map(drop)
                        .unwrap(),
                }
                sender.send(way).unwrap();
            })
        })
        .collect();
    let early = receiver.recv_timeout(Duration::from_millis(150));
    assert_eq!(early, Err(RecvTimeoutError::Timeout), "a write did not wait");
    assert_eq!(transaction.increment(Account::VISITS, key, 1).run().unwrap(), 2);
    transaction.commit().run().unwrap();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(stand.get::<Account>(key).run().unwrap().visits, 1112);
}

/// A row that a transaction has read does not change before it ends, so a sum that is written back
/// loses no concurrent write. A concurrent writer waits, or the transaction fails and must be
/// repeated.
pub fn what_a_transaction_has_read_stays(subject: &Subject) {
    const ROUNDS: i64 = 40;
    let stand = Stand::open(subject, models::all);
    let key = stand.insert(&Account::default()).run().unwrap();
    let transaction = stand.begin_run().unwrap();
    let before = transaction.get::<Account>(key).run().unwrap().visits;
    let store = stand.store().clone();
    let (sender, begun) = channel();
    let writer = thread::spawn(move || {
        let first = async { store.increment(Account::VISITS, key, 1).await };
        block_on(after_first_poll(first, || sender.send(()).unwrap())).unwrap();
        for _ in 1..ROUNDS {
            store.increment(Account::VISITS, key, 1).run().unwrap();
        }
    });
    receive(&begun, 1);
    let sum = before + 1000;
    let written = transaction.patch::<Account>(key).set(Account::VISITS, sum).run();
    let first = match written.and_then(|_| transaction.commit().run()) {
        Ok(()) => 1000,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
            assert!(error.is_retryable(), "{error:?}");
            0
        }
    };
    drop(transaction);
    let add = |own: &mut marmota_store::Transaction| {
        let listed = own.list::<Account>().filter(Account::ID.eq(key)).run()?;
        thread::yield_now();
        own.patch::<Account>(key).set(Account::VISITS, listed[0].visits + 100).run()
    };
    for _ in 0..ROUNDS {
        stand.transaction(add).unwrap();
    }
    writer.join().unwrap();
    assert_eq!(stand.get::<Account>(key).run().unwrap().visits, first + ROUNDS * 101);
}

/// After an error of an operation, a transaction can continue with its earlier writes.
pub fn an_error_leaves_a_transaction_usable(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    stand.insert(&Seat::new(None, 1, Some("x"))).run().unwrap();
    let transaction = stand.begin_run().unwrap();
    transaction.insert(&Note::new("a", 1)).run().unwrap();
    refused(transaction.insert(&Seat::new(None, 2, Some("x"))).run(), ErrorKind::Conflict);
    refused(transaction.get::<Note>(999).run(), ErrorKind::NotFound);
    refused(transaction.insert(&City::new("nowhere", "zz")).run(), ErrorKind::Invalid);
    let many = [Seat::new(None, 3, Some("y")), Seat::new(None, 4, Some("Y"))];
    refused(transaction.insert_many(&many).run(), ErrorKind::Conflict);
    let stale = Account { level: 9, ..Account::default() };
    refused(transaction.insert(&stale).run(), ErrorKind::Invalid);
    transaction.insert(&Note::new("b", 2)).run().unwrap();
    transaction.commit().run().unwrap();
    drop(transaction);
    stand.settle();
    assert_eq!(texts(&stand), ["a", "b"]);
    assert_eq!(stand.count::<Seat>().run().unwrap(), 1);
}

/// Rolling back to a savepoint undoes the writes after it. Savepoints can be nested, and reused
/// after a rollback.
pub fn savepoints_nest(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let mut transaction = stand.begin_run().unwrap();
    let insert = |transaction: &marmota_store::Transaction, text: &str| {
        transaction.insert(&Note::new(text, 1)).run().unwrap();
    };
    insert(&transaction, "a");
    let outer = transaction.savepoint_run().unwrap();
    insert(&transaction, "b");
    let inner = transaction.savepoint_run().unwrap();
    insert(&transaction, "c");
    transaction.rollback_to(&inner).run().unwrap();
    assert_eq!(texts(&transaction), ["a", "b"]);
    insert(&transaction, "d");
    transaction.rollback_to(&inner).run().unwrap();
    insert(&transaction, "e");
    transaction.release(inner).run().unwrap();
    assert_eq!(texts(&transaction), ["a", "b", "e"]);
    transaction.rollback_to(&outer).run().unwrap();
    assert_eq!(texts(&transaction), ["a"]);
    insert(&transaction, "f");
    let third = transaction.savepoint_run().unwrap();
    insert(&transaction, "g");
    // Releasing the outer savepoint releases those within it.
    transaction.release(outer).run().unwrap();
    assert!(transaction.rollback_to(&third).run().is_err());
    insert(&transaction, "h");
    transaction.commit().run().unwrap();
    drop(transaction);
    stand.settle();
    assert_eq!(texts(&stand), ["a", "f", "g", "h"]);
}

/// A transaction and its operations can be awaited.
pub fn a_transaction_can_be_awaited(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let store = stand.store().clone();
    block_on(async {
        let mut transaction = store.begin().await.unwrap();
        transaction.insert(&Note::new("a", 1)).await.unwrap();
        let savepoint = transaction.savepoint().await.unwrap();
        transaction.insert(&Note::new("b", 2)).await.unwrap();
        assert_eq!(transaction.count::<Note>().await.unwrap(), 2);
        transaction.rollback_to(&savepoint).await.unwrap();
        transaction.release(savepoint).await.unwrap();
        transaction.insert(&Note::new("c", 3)).await.unwrap();
        transaction.commit().await.unwrap();
        drop(transaction);
        let transaction = store.begin().await.unwrap();
        transaction.insert(&Note::new("d", 4)).await.unwrap();
        transaction.rollback().await.unwrap();
    });
    drop(store);
    stand.settle();
    assert_eq!(texts(&stand), ["a", "c"]);
}

/// A transaction that has ended refuses every operation, and nothing is written.
pub fn a_transaction_ends_once(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    for commits in [true, false] {
        let transaction = stand.begin_run().unwrap();
        let end = if commits { transaction.commit() } else { transaction.rollback() };
        end.run().unwrap();
        assert!(
            transaction.insert(&Note::new("late", 1)).run().is_err(),
            "an insert after the end"
        );
        assert!(transaction.commit().run().is_err(), "a commit after the end");
        assert!(transaction.rollback().run().is_err(), "a rollback after the end");
        drop(transaction);
        assert_eq!(stand.count::<Note>().run().unwrap(), 0);
    }
}

/// Many consecutive transactions do not block each other.
pub fn transactions_follow_each_other(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    for number in 0..50 {
        let transaction = stand.begin_run().unwrap();
        transaction.insert(&Note::new("a", number)).run().unwrap();
        if number % 2 == 0 {
            transaction.commit().run().unwrap();
        }
    }
    stand.settle();
    assert_eq!(stand.count::<Note>().run().unwrap(), 25);
}

register!($ transactions_promises transactions: ; by transactions:
    a_commit_keeps_all,
    uncommitted_writes_are_undone,
    a_closure_that_succeeds_commits,
    a_transaction_sees_its_writes,
    others_do_not_see_an_open_transaction,
    reads_do_not_wait_for_a_transaction,
    writes_wait_for_a_transaction,
    what_a_transaction_has_read_stays,
    an_error_leaves_a_transaction_usable,
    savepoints_nest,
    a_transaction_can_be_awaited,
    a_transaction_ends_once,
    transactions_follow_each_other,
);

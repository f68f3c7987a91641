//! Durability: acknowledged writes survive a close, and a closed store executes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use marmota_model::{ErrorKind, Record};

use crate::conformance::harness::models;
use crate::conformance::harness::models::{Account, City, Country, Document, Note, Seat};
use crate::conformance::harness::refusal::refused;
use crate::conformance::harness::subject::{Stand, Subject};
use crate::conformance::harness::waiting::{is_closed, until};

fn write_all(stand: &Stand<'_>) {
    stand.insert_many(&Note::numbered(0..500)).run().unwrap();
    stand.delete_where::<Note>(Note::NUMBER.ge(400)).run().unwrap();
    stand.insert(&Country::new("fr", "France")).run().unwrap();
    stand.insert(&City::new("Bourges", "fr")).run().unwrap();
    stand.insert(&Document::new("d", &[7; 100_000])).run().unwrap();
    let key = stand.insert(&Account::default()).run().unwrap();
    stand.increment(Account::VISITS, key, 3).run().unwrap();
    stand.transaction(|own| own.insert(&Seat::new(Some("r"), 1, Some("x"))).run()).unwrap();
}

fn look_at_all(stand: &Stand<'_>) {
    let notes = stand.list::<Note>().run().unwrap();
    assert!(notes.iter().map(|note| note.number).eq((0..400).map(Some)));
    assert_eq!(stand.list::<City>().filter(City::NAME.eq("Bourges")).run().unwrap().len(), 1);
    let document = stand.list::<Document>().with_blobs().run().unwrap().remove(0);
    assert_eq!(document.body.bytes(), Some(&[7; 100_000][..]));
    let account = stand.list::<Account>().run().unwrap().remove(0);
    assert_eq!((account.visits, account.version), (3, 2));
    // Indexes and references are enforced as before.
    refused(stand.insert(&Seat::new(None, 2, Some("X"))).run(), ErrorKind::Conflict);
    refused(stand.insert(&Seat::new(Some("r"), 1, None)).run(), ErrorKind::Conflict);
    refused(stand.delete::<Country>("fr").run(), ErrorKind::Conflict);
    refused(stand.insert(&City::new("nowhere", "zz")).run(), ErrorKind::Invalid);
}

/// All rows exist after the store is closed and opened, repeatedly.
pub fn a_close_keeps_all(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let mut stand = Stand::open(subject, models::all);
    write_all(&stand);
    for _ in 0..3 {
        stand.reopen();
        look_at_all(&stand);
    }
    let key = stand.insert(&Note::new("next", 1)).run().unwrap();
    assert!(key > stand.list::<Note>().run().unwrap()[399].id);
}

/// Dropping a store keeps all rows, like closing it.
pub fn a_drop_is_a_close(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let stand = Stand::open(subject, models::all);
    write_all(&stand);
    drop(stand);
    look_at_all(&Stand::open(subject, models::all));
}

/// A close waits for open transactions, which can continue; other operations are refused.
pub fn a_close_waits_for_what_is_open(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    stand.insert(&Note::new("kept", 1)).run().unwrap();
    let transaction = stand.begin_run().unwrap();
    transaction.insert(&Note::new("open", 2)).run().unwrap();
    let store = stand.store().clone();
    let closer = std::thread::spawn(move || store.close());
    until("the close begins", || is_closed(stand.count::<Note>()));
    refused(stand.insert(&Note::new("outside", 3)).run(), ErrorKind::Closed);
    refused(stand.begin_run().map(drop), ErrorKind::Closed);
    transaction.insert(&Note::new("late", 4)).run().unwrap();
    transaction.commit().run().unwrap();
    drop(transaction);
    closer.join().unwrap().unwrap();
    refused(stand.count::<Note>().run(), ErrorKind::Closed);
    if subject.capability().persistent {
        stand.reopen();
        let texts = stand.list::<Note>().column(Note::TEXT).run().unwrap();
        assert_eq!(texts, ["kept", "open", "late"]);
    }
}

/// A close fails if a transaction does not end, and can be repeated. Neither the store nor the
/// transaction loses anything.
pub fn a_close_can_be_tried_again(subject: &Subject) {
    for commits in [true, false] {
        let mut stand = Stand::open(subject, models::all);
        stand.delete_where::<Note>(Note::ID.gt(0)).run().unwrap();
        stand.insert(&Note::new("kept", 1)).run().unwrap();
        let transaction = stand.begin_run().unwrap();
        transaction.insert(&Note::new("open", 2)).run().unwrap();
        refused(stand.close(), ErrorKind::Busy);
        if commits {
            transaction.commit().run().unwrap();
        }
        drop(transaction);
        let wanted: &[&str] = if commits { &["kept", "open"] } else { &["kept"] };
        assert_eq!(stand.list::<Note>().column(Note::TEXT).run().unwrap(), wanted);
        stand.close().unwrap();
        if subject.capability().persistent {
            stand.reopen();
            assert_eq!(stand.list::<Note>().column(Note::TEXT).run().unwrap(), wanted);
        }
    }
}

/// A transaction can continue after the last store was dropped. The engine is closed when it ends,
/// without a deadlock.
pub fn a_transaction_may_outlive_its_store(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let transaction = stand.begin_run().unwrap();
    transaction.insert(&Note::new("a", 1)).run().unwrap();
    drop(stand);
    transaction.insert(&Note::new("b", 2)).run().unwrap();
    transaction.commit().run().unwrap();
    drop(transaction);
    if subject.capability().persistent {
        let mut stand = Stand::open(subject, models::all);
        assert_eq!(stand.list::<Note>().column(Note::TEXT).run().unwrap(), ["a", "b"]);
        let undone = stand.begin_run().unwrap();
        undone.insert(&Note::new("c", 3)).run().unwrap();
        drop(undone);
        stand.reopen();
        assert_eq!(stand.count::<Note>().run().unwrap(), 2);
    }
}

/// A closed store refuses every verb, in every clone. Closing it again has no effect.
pub fn a_closed_store_refuses(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let key = stand.insert(&Note::new("a", 1)).run().unwrap();
    let clone = stand.store().clone();
    stand.close().unwrap();
    let note = Note { id: key, ..Note::new("b", 2) };
    let closed = ErrorKind::Closed;
    refused(clone.get::<Note>(key).run(), closed);
    refused(clone.get::<Note>(key).optional().run(), closed);
    refused(clone.list::<Note>().run(), closed);
    refused(clone.count::<Note>().run(), closed);
    refused(clone.insert(&note).run(), closed);
    refused(clone.insert_many(std::slice::from_ref(&note)).run(), closed);
    refused(clone.update(&note).run(), closed);
    refused(clone.update_many(std::slice::from_ref(&note)).run(), closed);
    refused(clone.patch::<Note>(key).set(Note::TEXT, "x").run(), closed);
    refused(clone.increment(Note::NUMBER, key, 1).run(), closed);
    refused(clone.delete::<Note>(key).run(), closed);
    refused(clone.delete_where::<Note>(Note::ID.gt(0)).run(), closed);
    refused(futures_lite::future::block_on(clone.count::<Note>()), closed);
    let mut batch = clone.batch();
    batch.insert(&note);
    refused(batch.all_or_nothing().run(), closed);
    refused(clone.begin_run().map(drop), closed);
    let table = clone.table("note").unwrap();
    refused(clone.list_records(&table).run(), closed);
    let mut record = Record::new(Arc::clone(&table));
    record.set("text", "x").unwrap();
    refused(clone.insert_record(&record).run(), closed);
    clone.close().unwrap();
    stand.close().unwrap();
}

/// Verbs may be called while another thread closes the store. Each is executed or refused, and
/// executed writes are kept.
pub fn a_close_among_writes_keeps_what_was_done(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let all_done = AtomicUsize::new(0);
    let counts: Vec<u64> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let (store, all_done) = (stand.store().clone(), &all_done);
                scope.spawn(move || {
                    let mut done = 0;
                    loop {
                        match store.insert(&Note::new("a", 1)).run() {
                            Ok(_) => {
                                done += 1;
                                all_done.fetch_add(1, Ordering::SeqCst);
                            }
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Closed, "{error:?}");
                                return done;
                            }
                        }
                    }
                })
            })
            .collect();
        until("each writer is at work", || all_done.load(Ordering::SeqCst) >= 40);
        stand.close().unwrap();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    if subject.capability().persistent {
        stand.reopen();
        assert_eq!(stand.count::<Note>().run().unwrap(), counts.iter().sum::<u64>());
    }
}

register!($ durability_promises durability:
    a_close_among_writes_keeps_what_was_done,
; by transactions:
    a_drop_is_a_close,
    a_close_keeps_all,
    a_close_waits_for_what_is_open,
    a_close_can_be_tried_again,
    a_transaction_may_outlive_its_store,
    a_closed_store_refuses,
);

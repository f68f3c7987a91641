//! Timestamps and versions: the store sets them, and a stale write is refused.

use std::thread::sleep;
use std::time::Duration;

use marmota_model::{Currency, ErrorKind, Record, Timestamp, Value};

use crate::conformance::harness::models;
use crate::conformance::harness::models::{Account, Document, Note};
use crate::conformance::harness::refusal::{refused, says};
use crate::conformance::harness::subject::{Stand, Subject};

/// Values that a caller writes to timestamps and version are overwritten.
pub fn stamps_and_version_are_the_stores(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let before = Timestamp::now();
    let lie = Document { version: 99, ..Document::new("a", b"x") };
    let key = stand.insert(&lie).run().unwrap();
    let many = stand.insert_many(&[lie.clone(), lie.clone()]).run().unwrap();
    let after = Timestamp::now();
    stand.settle();
    for key in [key, many[0], many[1]] {
        let found = stand.get::<Document>(key).run().unwrap();
        assert_eq!(found.version, 1);
        assert_eq!(found.created, found.updated);
        assert!((before..=after).contains(&found.created), "{found:?}");
    }
}

/// All writes of a transaction have the time of the first one.
pub fn a_transaction_has_one_time(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let transaction = stand.begin_run().unwrap();
    let before = Timestamp::now();
    let first = transaction.insert(&Document::new("a", b"x")).run().unwrap();
    let after = Timestamp::now();
    sleep(Duration::from_millis(2));
    let second = transaction.insert_many(&[Document::new("b", b"x")]).run().unwrap()[0];
    let mut batch = transaction.batch();
    batch.insert(&Document::new("c", b"x"));
    batch.all_or_nothing().run().unwrap();
    transaction.patch::<Document>(first).set(Document::TITLE, "d").run().unwrap();
    transaction.commit().run().unwrap();
    drop(transaction);
    let later = stand.insert(&Document::new("e", b"x")).run().unwrap();
    stand.settle();
    let all = stand.list::<Document>().run().unwrap();
    let time = stand.get::<Document>(first).run().unwrap().created;
    assert!((before..=after).contains(&time));
    assert!(stand.get::<Document>(later).run().unwrap().created > time);
    let within: Vec<_> = all.iter().filter(|document| document.id != later).collect();
    assert_eq!((within.len(), within.iter().any(|document| document.id == second)), (3, true));
    assert!(within.iter().all(|document| (document.created, document.updated) == (time, time)));
}

/// Each write increments the version and sets `updated`, but not `created`.
pub fn each_write_counts(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let key = stand.insert(&Document::new("a", b"x")).run().unwrap();
    let first = stand.get::<Document>(key).run().unwrap();
    sleep(Duration::from_millis(2));
    let lie = Document { created: Timestamp::default(), title: "b".to_owned(), ..first.clone() };
    assert_eq!(stand.update(&lie).run().unwrap(), 2);
    stand.settle();
    let second = stand.get::<Document>(key).run().unwrap();
    assert_eq!((second.version, second.created), (2, first.created));
    assert!(second.updated > first.updated);
    sleep(Duration::from_millis(2));
    assert_eq!(stand.patch::<Document>(key).set(Document::TITLE, "c").run().unwrap(), 3);
    stand.settle();
    let third = stand.get::<Document>(key).run().unwrap();
    assert_eq!((third.version, third.created, &*third.title), (3, first.created, "c"));
    assert!(third.updated > second.updated);
    stand.update_many(&[third]).run().unwrap();
    let mut record = Record::new(stand.table("document").unwrap());
    record.set("title", "d").unwrap();
    assert_eq!(stand.update_record(key, &record).run().unwrap(), 5);

    let account = stand.insert(&Account::default()).run().unwrap();
    let before = stand.get::<Account>(account).run().unwrap();
    sleep(Duration::from_millis(2));
    stand.increment(Account::VISITS, account, 1).run().unwrap();
    stand.settle();
    let after = stand.get::<Account>(account).run().unwrap();
    assert_eq!((after.version, after.visits), (2, 1));
    assert!(after.updated > before.updated);
}

/// A model without a version returns version 0.
pub fn a_model_without_version_gives_zero(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let key = stand.insert(&Note::new("a", 1)).run().unwrap();
    assert_eq!(stand.update(&Note { id: key, ..Note::new("b", 1) }).run().unwrap(), 0);
    assert_eq!(stand.patch::<Note>(key).set(Note::TEXT, "c").run().unwrap(), 0);
}

/// If two callers have read the same row, the second write is refused as stale.
pub fn a_stale_write_is_refused(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let key = stand.insert(&Document::new("a", b"x")).run().unwrap();
    let mine = stand.get::<Document>(key).run().unwrap();
    let theirs = Document { title: "theirs".to_owned(), ..mine.clone() };
    stand.update(&theirs).run().unwrap();
    stand.settle();
    refused(stand.update(&mine).run(), ErrorKind::Stale);
    let patch = || stand.patch::<Document>(key).set(Document::TITLE, "mine");
    refused(patch().version(1).run(), ErrorKind::Stale);
    refused(patch().version(3).run(), ErrorKind::Stale);
    refused(stand.delete::<Document>(key).version(1).run(), ErrorKind::Stale);
    let mut record = Record::new(stand.table("document").unwrap());
    record.set("title", "mine").unwrap();
    refused(stand.update_record(key, &record).version(1).run(), ErrorKind::Stale);
    let found = stand.get::<Document>(key).run().unwrap();
    assert_eq!((&*found.title, found.version), ("theirs", 2));

    assert_eq!(patch().version(2).run().unwrap(), 3);
    assert_eq!(stand.update_record(key, &record).version(3).run().unwrap(), 4);
    stand.delete::<Document>(key).version(4).run().unwrap();
    assert_eq!(stand.count::<Document>().run().unwrap(), 0);
}

/// A write with a version to a missing row is [`ErrorKind::NotFound`], not stale.
pub fn a_version_of_nothing_is_not_found(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let key = stand.insert(&Document::new("a", b"x")).run().unwrap();
    let read = stand.get::<Document>(key).run().unwrap();
    stand.delete::<Document>(key).run().unwrap();
    refused(stand.update(&read).run(), ErrorKind::NotFound);
    refused(stand.delete::<Document>(key).version(1).run(), ErrorKind::NotFound);
    let patch = stand.patch::<Document>(key).set(Document::TITLE, "b").version(1);
    refused(patch.run(), ErrorKind::NotFound);
}

/// Version 0 is not compared, and updates of many rows do not compare versions.
pub fn a_write_without_version_goes_through(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let key = stand.insert(&Account::default()).run().unwrap();
    stand.increment(Account::VISITS, key, 1).run().unwrap();
    let blind = Account { id: key, balance: Currency::from(3), ..Account::default() };
    assert_eq!(stand.update(&blind).run().unwrap(), 3);
    assert_eq!(stand.update_many(&[Account { version: 1, ..blind }]).run().unwrap(), 1);
    assert_eq!(stand.get::<Account>(key).run().unwrap().version, 4);
}

/// A version for a model without a version field is refused.
pub fn a_version_needs_its_field(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let key = stand.insert(&Note::new("a", 1)).run().unwrap();
    let patch = stand.patch::<Note>(key).set(Note::TEXT, "b").version(1);
    says(&refused(patch.run(), ErrorKind::Invalid), &["note", "version"]);
    refused(stand.delete::<Note>(key).version(1).run(), ErrorKind::Invalid);
    let table = stand.table("note").unwrap();
    let mut record = Record::new(std::sync::Arc::clone(&table));
    record.set("text", "b").unwrap();
    refused(stand.update_record(key, &record).version(1).run(), ErrorKind::Invalid);
    let mut batch = stand.store().batch();
    batch.update_values(&table, Value::Int(key), record.values(), Some(1));
    refused(batch.all_or_nothing().run(), ErrorKind::Invalid);
    let mut batch = stand.store().batch();
    batch.delete_value(table, Value::Int(key), Some(1));
    refused(batch.all_or_nothing().run(), ErrorKind::Invalid);
    assert_eq!(stand.get::<Note>(key).run().unwrap().text, "a");
}

register!($ versions_promises versions:
    stamps_and_version_are_the_stores,
    each_write_counts,
    a_model_without_version_gives_zero,
    a_stale_write_is_refused,
    a_version_of_nothing_is_not_found,
    a_write_without_version_goes_through,
    a_version_needs_its_field,
; by transactions:
    a_transaction_has_one_time,
);

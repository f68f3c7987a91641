//! Keys: assigned by the engine, by the store, or by the caller.

use marmota_model::{ErrorKind, Key as _, Record, Uuid, Value};

use crate::conformance::harness::models;
use crate::conformance::harness::models::{Country, Document, Note};
use crate::conformance::harness::refusal::{blamed, refused, says};
use crate::conformance::harness::subject::{Stand, Subject};

/// An automatic key is positive and greater than all assigned before.
pub fn automatic_keys_ascend(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let first = stand.insert(&Note::new("a", 1)).run().unwrap();
    assert!(first > 0, "{first}");
    stand.settle();
    let second = stand.insert(&Note::new("b", 2)).run().unwrap();
    assert!(second > first, "{second} after {first}");
    let many = stand.insert_many(&Note::numbered(0..300)).run().unwrap();
    assert!(many[0] > second && many.is_sorted() && many.len() == 300, "{many:?}");
    stand.settle();
    for (number, key) in many.iter().enumerate() {
        assert_eq!(stand.get::<Note>(*key).run().unwrap().number, Some(number as i64));
    }
}

/// The caller may set an automatic key. Later keys are greater than it.
pub fn a_given_automatic_key_is_kept(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let given = Note { id: 5000, ..Note::new("given", 1) };
    assert_eq!(stand.insert(&given).run().unwrap(), 5000);
    stand.settle();
    assert_eq!(stand.get::<Note>(5000).run().unwrap(), given);
    assert!(stand.insert(&Note::new("next", 2)).run().unwrap() > 5000);
    // A key below existing ones is permitted too.
    assert_eq!(stand.insert(&Note { id: 7, ..given.clone() }).run().unwrap(), 7);
    let many = [Note { id: 90, ..given.clone() }, Note { id: 80, ..given.clone() }];
    assert_eq!(stand.insert_many(&many).run().unwrap(), [90, 80]);
    let largest = Note { id: i64::MAX, ..given };
    assert_eq!(stand.insert(&largest).run().unwrap(), i64::MAX);
    stand.settle();
    assert_eq!(stand.get::<Note>(i64::MAX).run().unwrap(), largest);
}

/// After the largest key, an insert is refused; keys do not wrap around.
pub fn keys_do_not_wrap(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    stand.insert(&Note { id: i64::MAX, ..Note::new("last", 1) }).run().unwrap();
    if let Ok(key) = stand.insert(&Note::new("one more", 2)).run() {
        assert!(key > 0, "{key}");
        assert_eq!(stand.get::<Note>(key).run().unwrap().text, "one more");
    }
    assert_eq!(stand.get::<Note>(i64::MAX).run().unwrap().text, "last");
}

/// The key of a deleted row is not assigned again, also after the store was closed. Only an engine
/// that declares it may reuse the highest key.
pub fn a_deleted_key_is_not_given_again(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let keys = stand.insert_many(&Note::numbered(0..10)).run().unwrap();
    for key in &keys[2..5] {
        stand.delete::<Note>(*key).run().unwrap();
    }
    stand.delete_where::<Note>(Note::ID.eq(keys[6])).run().unwrap();
    stand.settle();
    let next = stand.insert(&Note::new("next", 1)).run().unwrap();
    assert!(next > keys[9], "{next} after {keys:?}");
    let declared = subject.capability().reuses_last_key;
    let many = stand.insert_many(&Note::numbered(0..3)).run().unwrap();
    stand.delete::<Note>(many[2]).run().unwrap();
    let after = stand.insert(&Note::new("after", 1)).run().unwrap();
    assert_eq!(after == many[2], declared, "{after} after {many:?} was deleted");
    assert!(after >= many[2], "{after} after {many:?}");
    stand.delete_where::<Note>(Note::ID.gt(0)).run().unwrap();
    if subject.capability().persistent {
        stand.reopen();
    }
    let first = stand.insert(&Note::new("first", 1)).run().unwrap();
    assert_eq!(first <= after, declared, "{first} after all rows were deleted");
}

/// A key that is taken is refused with its field.
pub fn a_taken_key_conflicts(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let note = Note { id: 4, ..Note::new("a", 1) };
    stand.insert(&note).run().unwrap();
    let again = Note { text: "b".to_owned(), ..note.clone() };
    blamed(stand.insert(&again).run(), ErrorKind::Conflict, "id", "unique");
    assert_eq!(stand.get::<Note>(4).run().unwrap(), note);

    let france = Country::new("fr", "France");
    stand.insert(&france).run().unwrap();
    let error = blamed(stand.insert(&france).run(), ErrorKind::Conflict, "code", "unique");
    says(&error, &["code"]);
    assert_eq!(error.violations()[0].value, "\"fr\"");
}

/// An insert of many rows names the row whose key is taken.
pub fn a_taken_key_among_many_is_named(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    stand.insert(&Country::new("c", "taken")).run().unwrap();
    let many: Vec<Country> = ["a", "b", "c", "d"].map(|code| Country::new(code, "new")).into();
    let error = blamed(stand.insert_many(&many).run(), ErrorKind::Conflict, "code", "unique");
    says(&error, &["row 2"]);
    assert_eq!(stand.count::<Country>().run().unwrap(), 1);
}

/// A negative automatic key is refused.
pub fn a_negative_key_is_refused(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let note = Note { id: -1, ..Note::new("a", 1) };
    blamed(stand.insert(&note).run(), ErrorKind::Invalid, "id", "range");
    refused(stand.get::<Note>(-1).run(), ErrorKind::NotFound);
}

/// The store assigns UUIDs of version 7, which sort by the time of the insert.
pub fn uuids_are_given_in_order(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let documents: Vec<Document> = (0..40).map(|_| Document::new("a", b"")).collect();
    let keys = stand.insert_many(&documents).run().unwrap();
    let last = stand.insert(&documents[0]).run().unwrap();
    assert!(keys.iter().all(|key| key.get_version_num() == 7), "{keys:?}");
    assert!(keys.is_sorted() && last > keys[39], "{keys:?} {last}");
    stand.settle();
    let listed = stand.list::<Document>().run().unwrap();
    assert!(listed.iter().map(|one| one.id).eq(keys.into_iter().chain([last])));
}

/// A UUID from the caller is stored unchanged.
pub fn a_given_uuid_is_kept(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    for id in [Uuid::from_u128(1), Uuid::max(), Uuid::from_u128(0x00ff_0000 << 96)] {
        assert_eq!(stand.insert(&Document { id, ..Document::new("a", b"") }).run().unwrap(), id);
    }
    stand.settle();
    assert_eq!(stand.get::<Document>(Uuid::max()).run().unwrap().id, Uuid::max());
    assert_eq!(stand.count::<Document>().run().unwrap(), 3);
}

/// A text key is any non-empty text, compared byte by byte.
pub fn text_keys_are_exact(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let codes =
        ["a", "A", " a", "a ", "é", "e\u{301}", "🦫", "1", "01", "it's", "a\"b", "a%", "\n"];
    for code in codes {
        assert_eq!(stand.insert(&Country::new(code, code)).run().unwrap(), code);
    }
    stand.settle();
    for code in codes {
        assert_eq!(stand.get::<Country>(code).run().unwrap().name, code);
    }
    blamed(stand.insert(&Country::new("", "x")).run(), ErrorKind::Invalid, "code", "not_empty");
    let long = "x".repeat(700);
    stand.insert(&Country::new(&long, "long")).run().unwrap();
    assert_eq!(stand.get::<Country>(long).run().unwrap().name, "long");
    // A database may limit the length of its keys.
    let longer = "x".repeat(10_000);
    match stand.insert(&Country::new(&longer, "longer")).run() {
        Ok(_) => assert_eq!(stand.get::<Country>(longer).run().unwrap().name, "longer"),
        refused => drop(blamed(refused, ErrorKind::Invalid, "code", "max")),
    }
}

/// A missing row is [`ErrorKind::NotFound`], or `None` for an optional read.
pub fn what_is_missing_is_not_found(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let error = refused(stand.get::<Note>(77).run(), ErrorKind::NotFound);
    says(&error, &["note", "id", "77"]);
    assert_eq!(stand.get::<Note>(77).optional().run().unwrap(), None);
    assert_eq!(stand.get::<Country>("zz").optional().run().unwrap(), None);
    refused(stand.get::<Document>(Uuid::max()).run(), ErrorKind::NotFound);
    refused(stand.update(&Note { id: 77, ..Note::default() }).run(), ErrorKind::NotFound);
    refused(stand.patch::<Note>(77).set(Note::TEXT, "x").run(), ErrorKind::NotFound);
    refused(stand.increment(Note::NUMBER, 77, 1).run(), ErrorKind::NotFound);
    refused(stand.delete::<Note>(77).run(), ErrorKind::NotFound);
    let table = stand.table("note").unwrap();
    refused(stand.get_record(&table, 77).run(), ErrorKind::NotFound);
    refused(stand.delete_record(&table, 77).run(), ErrorKind::NotFound);
    let mut record = Record::new(std::sync::Arc::clone(&table));
    record.set("text", "x").unwrap();
    refused(stand.update_record(77, &record).run(), ErrorKind::NotFound);
    refused(stand.table("missing"), ErrorKind::NotFound);
}

/// A key of the wrong kind is refused with its field.
pub fn a_key_of_another_kind_is_refused(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    stand.insert(&Country::new("1", "one")).run().unwrap();
    let (note, country) = (stand.table("note").unwrap(), stand.table("country").unwrap());
    blamed(stand.get_record(&note, "1").run(), ErrorKind::Invalid, "id", "type");
    blamed(stand.get_record(&country, 1).run(), ErrorKind::Invalid, "code", "type");
    refused(stand.get_record(&country, Value::Null).run(), ErrorKind::Invalid);
    refused(stand.delete_record(&country, Value::Absent).run(), ErrorKind::Invalid);
}

/// Records are assigned keys like structs.
pub fn records_are_given_keys(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let mut note = Record::new(stand.table("note").unwrap());
    note.set("text", "a").unwrap();
    let Value::Int(key) = stand.insert_record(&note).run().unwrap() else { panic!("no integer") };
    let mut document = Record::new(stand.table("document").unwrap());
    document.set("title", "t").unwrap();
    document.set("body", vec![1_u8]).unwrap();
    let uuid = stand.insert_record(&document).run().unwrap();
    let mut country = Record::new(stand.table("country").unwrap());
    country.set("name", "n").unwrap();
    blamed(stand.insert_record(&country).run(), ErrorKind::Invalid, "code", "required");
    country.set("code", "c").unwrap();
    assert_eq!(stand.insert_record(&country).run().unwrap(), Value::from("c"));
    stand.settle();
    assert_eq!(stand.get::<Note>(key).run().unwrap().text, "a");
    let uuid = Uuid::from_value(&uuid).unwrap();
    assert_eq!(stand.get::<Document>(uuid).run().unwrap().title, "t");
    assert_eq!(stand.get::<Country>("c").run().unwrap().name, "n");
}

register!($ keys_promises keys:
    automatic_keys_ascend,
    a_given_automatic_key_is_kept,
    a_deleted_key_is_not_given_again,
    keys_do_not_wrap,
    a_taken_key_conflicts,
    a_taken_key_among_many_is_named,
    a_negative_key_is_refused,
    uuids_are_given_in_order,
    a_given_uuid_is_kept,
    text_keys_are_exact,
    what_is_missing_is_not_found,
    a_key_of_another_kind_is_refused,
    records_are_given_keys,
);

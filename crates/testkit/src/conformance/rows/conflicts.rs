//! Conflict actions of inserts: refuse, ignore, replace, update.

use std::sync::Arc;

use futures_lite::future::block_on;
use marmota_model::{Blob, ErrorKind, Record, Ref, Uuid, Value};
use marmota_store::operation::{Keys, UpsertEffect, UpsertResult};

use crate::conformance::harness::models;
use crate::conformance::harness::models::{City, Country, Document, Maybe, Note, Seat};
use crate::conformance::harness::refusal::{blamed, refused, says};
use crate::conformance::harness::subject::{Stand, Subject};

fn placed<K>(key: K, effect: UpsertEffect) -> UpsertResult<K> {
    UpsertResult { key, effect }
}

fn seats(stand: &Stand<'_>) -> Vec<Seat> {
    stand.list::<Seat>().order(Seat::ID.ascending()).run().unwrap()
}

/// A row without a conflict is inserted, with every conflict action.
pub fn a_new_row_is_inserted(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let note = Note::new("a", 1);
    let first = stand.insert(&note).or_ignore().run().unwrap();
    let second = stand.insert(&note).or_replace().run().unwrap();
    let third = block_on(async { stand.upsert(&note).await }).unwrap();
    for (row, key) in [first, second, third].into_iter().zip(1..) {
        assert_eq!(row, placed(key, UpsertEffect::Inserted));
    }
    let document = stand.upsert(&Document::new("d", b"x")).run().unwrap();
    assert_eq!(document.effect, UpsertEffect::Inserted);
    stand.settle();
    assert_eq!(stand.count::<Note>().run().unwrap(), 3);
    assert_eq!(stand.get::<Document>(document.key).run().unwrap().version, 1);
}

/// With `or_ignore`, the existing row remains unchanged, and its key is returned.
pub fn or_ignore_keeps_the_existing_row(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let there = stand.insert(&Seat::new(Some("a"), 1, Some("x"))).run().unwrap();
    for other in [
        Seat::new(Some("b"), 2, Some("X")),
        Seat::new(Some("a"), 1, Some("y")),
        Seat { id: there, ..Seat::new(None, 9, None) },
    ] {
        let row = stand.insert(&other).or_ignore().run().unwrap();
        assert_eq!(row, placed(there, UpsertEffect::Ignored));
    }
    // NULL conflicts with nothing.
    let row = stand.insert(&Seat::new(None, 1, None)).or_ignore().run().unwrap();
    assert_eq!(row.effect, UpsertEffect::Inserted);
    stand.settle();
    assert_eq!(seats(&stand)[0], Seat { id: there, ..Seat::new(Some("a"), 1, Some("x")) });
    assert_eq!(stand.count::<Seat>().run().unwrap(), 2);
}

/// With `or_replace`, the new row replaces all rows that it conflicts with.
pub fn a_row_takes_the_place_of_others(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let ticket = Some(Uuid::from_u128(7));
    stand.insert(&Seat::new(Some("a"), 1, Some("x"))).run().unwrap();
    let second = stand.insert(&Seat { ticket, ..Seat::new(None, 2, None) }).run().unwrap();
    let spared = stand.insert(&Seat::new(Some("a"), 3, None)).run().unwrap();
    // It conflicts with two rows, and its key differs from both.
    let new = Seat { ticket, ..Seat::new(Some("b"), 5, Some("X")) };
    let row = stand.insert(&new).or_replace().run().unwrap();
    assert_eq!(row, placed(spared + 1, UpsertEffect::Replaced));
    let same_key = Seat { id: spared, ..Seat::new(Some("c"), 6, None) };
    assert_eq!(
        stand.insert(&same_key).or_replace().run().unwrap(),
        placed(spared, UpsertEffect::Replaced)
    );
    stand.settle();
    assert_eq!(stand.get::<Seat>(second).optional().run().unwrap(), None);
    assert_eq!(seats(&stand), [same_key, Seat { id: row.key, ..new }]);
}

/// A row that replaces another is new: its version, timestamps and blob are those of an insert.
pub fn a_replaced_row_is_new(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let id = stand.insert(&Document::new("old", b"x")).run().unwrap();
    stand.patch::<Document>(id).set(Document::TITLE, "older").run().unwrap();
    let old = stand.get::<Document>(id).run().unwrap();
    let new = Document { id, ..Document::new("new", b"") };
    assert_eq!(stand.insert(&new).or_replace().run().unwrap(), placed(id, UpsertEffect::Replaced));
    stand.settle();
    let found = stand.get::<Document>(id).run().unwrap();
    assert_eq!((&*found.title, found.version), ("new", 1));
    assert!(found.created >= old.updated);
    assert_eq!(
        stand.list::<Document>().column(Document::BODY).run().unwrap(),
        [Blob::from(Vec::new())]
    );
}

/// A row that others refer to can be replaced only by a row with the same key.
pub fn a_row_referred_to_is_replaced_by_its_like(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    stand.insert(&Country::new("fr", "France")).run().unwrap();
    let city = stand.insert(&City::new("Bourges", "fr")).run().unwrap();
    let row = stand.insert(&Country::new("fr", "la France")).or_replace().run().unwrap();
    assert_eq!(row, placed("fr".to_owned(), UpsertEffect::Replaced));
    let twin = Some(Ref::new(city));
    stand.insert(&City { twin, ..City::new("Augsburg", "fr") }).run().unwrap();
    let row = stand.insert(&City { id: city, ..City::new("Avaricum", "fr") }).or_replace().run();
    assert_eq!(row.unwrap(), placed(city, UpsertEffect::Replaced));
    let nowhere = City { id: city, ..City::new("Atlantis", "zz") };
    blamed(stand.insert(&nowhere).or_replace().run(), ErrorKind::Invalid, "country", "reference");
    stand.settle();
    assert_eq!(stand.get::<Country>("fr").run().unwrap().name, "la France");
    let names = stand.list::<City>().order(City::ID.ascending()).column(City::NAME).run();
    assert_eq!(names.unwrap(), ["Avaricum", "Augsburg"]);
}

/// An upsert updates the existing row: its key and creation time remain, and its version is
/// incremented.
pub fn an_upsert_writes_over(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let id = stand.upsert(&Document::new("a", b"kept")).run().unwrap().key;
    let first = stand.get::<Document>(id).run().unwrap();
    // An old version is not compared.
    let other = Document { id, version: 77, ..Document::new("b", b"new") };
    assert_eq!(stand.upsert(&other).run().unwrap(), placed(id, UpsertEffect::Updated));
    // A row that was read without its blob leaves the stored blob unchanged.
    let blob = Some(Blob::from(b"kept".to_vec()));
    let maybe = stand.insert(&Maybe { blob, ..Maybe::default() }).run().unwrap();
    let read = Maybe { text: Some("x".into()), ..stand.get::<Maybe>(maybe).run().unwrap() };
    assert_eq!(stand.upsert(&read).run().unwrap(), placed(maybe, UpsertEffect::Updated));
    stand.settle();
    let second = stand.get::<Document>(id).run().unwrap();
    assert_eq!((&*second.title, second.version), ("b", 2));
    assert_eq!(second.created, first.created);
    assert!(second.updated >= first.updated);
    let bodies = stand.list::<Document>().column(Document::BODY).run().unwrap();
    assert_eq!(bodies, [Blob::from(b"new".to_vec())]);
    assert_eq!(stand.get::<Maybe>(maybe).run().unwrap().text.as_deref(), Some("x"));
    let blobs = stand.list::<Maybe>().column(Maybe::BLOB).run().unwrap();
    assert_eq!(blobs, [Some(Blob::from(b"kept".to_vec()))]);
}

/// An upsert updates the row with its key, or else the row of the first unique index with a
/// conflict. A conflict with another row is an error.
pub fn the_key_decides_before_an_index(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let first = stand.insert(&Seat::new(Some("a"), 1, Some("x"))).run().unwrap();
    let second = stand.insert(&Seat::new(Some("b"), 2, Some("y"))).run().unwrap();
    let by_holder = Seat { id: 99, ..Seat::new(Some("c"), 3, Some("X")) };
    assert_eq!(stand.upsert(&by_holder).run().unwrap(), placed(first, UpsertEffect::Updated));
    let by_key = Seat { id: second, ..Seat::new(Some("b"), 4, Some("z")) };
    assert_eq!(stand.upsert(&by_key).run().unwrap(), placed(second, UpsertEffect::Updated));
    let both = Seat { id: second, ..Seat::new(Some("b"), 5, Some("X")) };
    blamed(stand.upsert(&both).run(), ErrorKind::Conflict, "holder", "unique");
    stand.settle();
    assert_eq!(seats(&stand), [Seat { id: first, ..by_holder }, by_key]);
}

/// Rules are checked before conflicts, and references last.
pub fn rules_are_checked_before_conflicts(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    stand.insert(&Country::new("fr", "France")).run().unwrap();
    let city = stand.insert(&City::new("Bourges", "fr")).run().unwrap();
    blamed(
        stand.insert(&Country::new("", "x")).or_ignore().run(),
        ErrorKind::Invalid,
        "code",
        "not_empty",
    );
    let nowhere = City { id: city, ..City::new("Atlantis", "zz") };
    assert_eq!(stand.insert(&nowhere).or_ignore().run().unwrap().effect, UpsertEffect::Ignored);
    blamed(stand.upsert(&nowhere).run(), ErrorKind::Invalid, "country", "reference");
    blamed(
        stand.insert(&City::new("Atlantis", "zz")).or_ignore().run(),
        ErrorKind::Invalid,
        "country",
        "reference",
    );
}

/// In an insert of many rows, each row has its own outcome, and may conflict with an earlier row.
pub fn many_rows_are_placed(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let there = stand.insert(&Seat::new(Some("a"), 1, Some("x"))).run().unwrap();
    let rows = |holders: [&str; 3]| holders.map(|holder| Seat::new(None, 7, Some(holder)));
    let ignored = stand.insert_many(&rows(["u", "X", "U"])).or_ignore().run().unwrap();
    let u = ignored[0].key;
    let effects =
        |rows: &[UpsertResult<i64>]| rows.iter().map(|row| row.effect).collect::<Vec<_>>();
    assert_eq!(
        effects(&ignored),
        [UpsertEffect::Inserted, UpsertEffect::Ignored, UpsertEffect::Ignored]
    );
    assert_eq!((ignored[1].key, ignored[2].key), (there, u));
    let updated = stand.upsert_many(&rows(["v", "U", "V"])).run().unwrap();
    assert_eq!(
        effects(&updated),
        [UpsertEffect::Inserted, UpsertEffect::Updated, UpsertEffect::Updated]
    );
    assert_eq!((updated[1].key, updated[2].key), (u, updated[0].key));
    let replaced = stand.insert_many(&rows(["w", "x", "W"])).or_replace().run().unwrap();
    assert_eq!(
        effects(&replaced),
        [UpsertEffect::Inserted, UpsertEffect::Replaced, UpsertEffect::Replaced]
    );
    assert_eq!(stand.upsert_many::<Seat>(&[]).run().unwrap(), []);
    stand.settle();
    let holders = stand.list::<Seat>().order(Seat::HOLDER.ascending()).column(Seat::HOLDER).run();
    let found: Vec<String> = holders.unwrap().into_iter().flatten().collect();
    assert_eq!(found, ["U", "V", "W", "x"]);
    // Many rows as well, and with keys from the caller.
    let notes: Vec<Note> = (0..1500).map(|n| Note { id: n + 1, ..Note::new("n", n) }).collect();
    stand.upsert_many(&notes[700..]).run().unwrap();
    let placed = stand.upsert_many(&notes).run().unwrap();
    let inserted = placed.iter().filter(|row| row.effect == UpsertEffect::Inserted).count();
    assert_eq!((inserted, placed.len()), (700, 1500));
    assert!(placed.iter().zip(1..).all(|(row, key)| row.key == key));
    stand.settle();
    assert_eq!(stand.count::<Note>().run().unwrap(), 1500);
}

/// If one of many rows cannot be written, the error names it, and no row is written.
pub fn a_row_that_cannot_be_placed_is_named(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    stand.insert(&Country::new("fr", "France")).run().unwrap();
    let rows = [City::new("Bourges", "fr"), City::new("Atlantis", "zz")];
    let error = blamed(stand.upsert_many(&rows).run(), ErrorKind::Invalid, "country", "reference");
    says(&error, &["row 1"]);
    let some = Maybe { blob: Some(Blob::from(vec![1])), ..Maybe::default() };
    let rows = [some.clone(), Maybe { blob: Some(Blob::NotRead), ..some }];
    says(&refused(stand.upsert_many(&rows).run(), ErrorKind::Invalid), &["row 1", "same fields"]);
    stand.settle();
    assert_eq!(stand.count::<City>().run().unwrap(), 0);
    assert_eq!(stand.count::<Maybe>().run().unwrap(), 0);
}

/// An upsert of a record writes the fields that are set; others of an existing row remain.
pub fn an_upsert_of_a_record_leaves_the_rest(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let key = stand.insert(&Note::new("a", 5)).run().unwrap();
    let mut record = Record::new(stand.table("note").unwrap());
    record.set("id", key).unwrap();
    record.set("text", "b").unwrap();
    let row = stand.upsert_record(&record).run().unwrap();
    assert_eq!(row, placed(Value::Int(key), UpsertEffect::Updated));
    let row = stand.insert_record(&record).or_ignore().run().unwrap();
    assert_eq!(row.effect, UpsertEffect::Ignored);
    stand.settle();
    assert_eq!(stand.get::<Note>(key).run().unwrap(), Note { id: key, ..Note::new("b", 5) });
    let mut record = Record::new(stand.table("note").unwrap());
    record.set("id", key).unwrap();
    record.set("text", "b").unwrap();
    let row = stand.insert_record(&record).or_replace().run().unwrap();
    assert_eq!(row.effect, UpsertEffect::Replaced);
    stand.settle();
    assert_eq!(stand.get::<Note>(key).run().unwrap(), Note { id: key, ..Note::new("b", None) });
}

/// Conflict actions work in a batch with other writes.
pub fn a_batch_places_rows(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let there = stand.insert(&Seat::new(None, 1, Some("x"))).run().unwrap();
    let seat = stand.table("seat").unwrap();
    let number = Seat::NUMBER.position();
    let mut changes = vec![Value::Absent; seat.fields().len()];
    changes[number] = Value::Int(8);
    changes[Seat::HOLDER.position()] = Value::from("X");
    let mut batch = stand.store().batch();
    batch
        .insert(&Seat::new(None, 2, Some("x")))
        .or_ignore()
        .upsert(&Seat::new(None, 3, Some("x")))
        .insert(&Seat::new(None, 4, Some("y")))
        .or_replace()
        .insert_values(&Arc::clone(&seat), &changes)
        .or_update()
        .increment(Seat::NUMBER, there, 1);
    let results = batch.all_or_nothing().run().unwrap();
    let results: Vec<_> = results.into_iter().map(Result::unwrap).collect();
    let effects: Vec<UpsertEffect> = results.iter().map(|outcome| outcome.effect).collect();
    assert_eq!(
        effects[..4],
        [
            UpsertEffect::Ignored,
            UpsertEffect::Updated,
            UpsertEffect::Inserted,
            UpsertEffect::Updated
        ]
    );
    let rows: Vec<u64> = results.iter().map(|outcome| outcome.rows).collect();
    assert_eq!(rows, [0, 1, 1, 1, 1]);
    assert_eq!(results[3].keys, Keys::One(Value::Int(there)));
    stand.settle();
    assert_eq!(stand.get::<Seat>(there).run().unwrap().number, 9);
    let mut batch = stand.store().batch();
    batch
        .insert(&Seat::new(None, 5, Some("x")))
        .insert(&Seat::new(None, 6, Some("x")))
        .or_replace()
        .delete::<Seat>(999);
    let results = batch.continue_on_error().run().unwrap();
    let ok: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(ok, [false, true, false]);
    stand.settle();
    assert_eq!(stand.list::<Seat>().filter(Seat::HOLDER.eq("x")).run().unwrap()[0].number, 6);
}

/// A transaction that is rolled back undoes inserts with conflict actions.
pub fn a_transaction_undoes_what_was_placed(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let there = stand.insert(&Seat::new(Some("a"), 1, Some("x"))).run().unwrap();
    let before = seats(&stand);
    let transaction = stand.begin_run().unwrap();
    let new = Seat::new(Some("b"), 2, Some("X"));
    assert_eq!(transaction.upsert(&new).run().unwrap(), placed(there, UpsertEffect::Updated));
    let row = transaction.insert(&new).or_replace().run().unwrap();
    assert_eq!(row.effect, UpsertEffect::Replaced);
    assert_eq!(transaction.upsert_many(std::slice::from_ref(&new)).run().unwrap()[0].key, row.key);
    transaction.rollback().run().unwrap();
    drop(transaction);
    stand.settle();
    assert_eq!(seats(&stand), before);
}

/// Threads that upsert the same row concurrently create one row.
pub fn threads_upsert_one_row(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let store = stand.store();
    std::thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                for _ in 0..25 {
                    store.upsert(&Seat::new(None, number, Some("one"))).run().unwrap();
                    store.insert(&Seat::new(None, number, Some("two"))).or_ignore().run().unwrap();
                }
            });
        }
    });
    assert_eq!(stand.count::<Seat>().run().unwrap(), 2);
}

register!($ conflicts_promises conflicts:
    a_new_row_is_inserted,
    or_ignore_keeps_the_existing_row,
    a_row_takes_the_place_of_others,
    a_replaced_row_is_new,
    a_row_referred_to_is_replaced_by_its_like,
    an_upsert_writes_over,
    the_key_decides_before_an_index,
    rules_are_checked_before_conflicts,
    many_rows_are_placed,
    a_row_that_cannot_be_placed_is_named,
    an_upsert_of_a_record_leaves_the_rest,
    threads_upsert_one_row,
; by transactions:
    a_batch_places_rows,
    a_transaction_undoes_what_was_placed,
);

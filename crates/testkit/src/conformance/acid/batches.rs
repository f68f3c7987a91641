//! Batches: several writes to several tables, executed all or nothing, or each separately.

use futures_lite::future::block_on;
use marmota_model::{ErrorKind, Record, Ref, Value};
use marmota_store::operation::Keys;

use crate::conformance::harness::models;
use crate::conformance::harness::models::{Account, City, Country, Document, Note, Seat};
use crate::conformance::harness::refusal::{blamed, refused, says};
use crate::conformance::harness::subject::{Stand, Subject};

/// All writes of a batch are executed in order, and each has an outcome.
pub fn a_batch_writes_all(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let old = stand.insert(&Note::new("old", 1)).run().unwrap();
    let gone = stand.insert(&Note::new("gone", 1)).run().unwrap();
    let account = stand.insert(&Account::default()).run().unwrap();
    let mut read = stand.get::<Account>(account).run().unwrap();
    read.small = 9;
    let mut batch = stand.store().batch();
    assert!(batch.is_empty());
    batch
        .insert(&Country::new("fr", "France"))
        .insert(&City::new("Bourges", "fr"))
        .insert(&Note::new("new", 2))
        .update(&Note { id: old, ..Note::new("newer", 3) })
        .update(&read)
        .increment(Account::VISITS, account, 5)
        .delete::<Note>(gone)
        .insert(&Document::new("d", b"x"));
    assert_eq!(batch.len(), 8);
    let outcomes = batch.all_or_nothing().run().unwrap();
    let outcomes: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
    assert_eq!(outcomes.len(), 8);
    assert!(outcomes.iter().all(|outcome| outcome.rows == 1), "{outcomes:?}");
    assert_eq!(outcomes[0].keys, Keys::One(Value::from("fr")));
    let Keys::One(Value::Int(new)) = outcomes[2].keys else { panic!("{:?}", outcomes[2]) };
    assert_eq!((outcomes[4].version, outcomes[5].version), (Some(2), Some(3)));
    assert_eq!(outcomes[5].value, Value::Int(5));
    let Keys::One(Value::Uuid(document)) = outcomes[7].keys else { panic!("{:?}", outcomes[7]) };
    stand.settle();
    assert_eq!(stand.get::<City>(1).run().unwrap().country, Ref::new("fr".to_owned()));
    assert_eq!(stand.get::<Note>(new).run().unwrap().text, "new");
    assert_eq!(stand.get::<Note>(old).run().unwrap().text, "newer");
    assert_eq!(stand.get::<Note>(gone).optional().run().unwrap(), None);
    let account = stand.get::<Account>(account).run().unwrap();
    assert_eq!((account.small, account.visits, account.version), (9, 5, 3));
    assert_eq!(stand.get::<Document>(document).run().unwrap().title, "d");
}

/// A batch accepts rows as values, as REST submits them.
pub fn a_batch_takes_values(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let (note, account) = (stand.table("note").unwrap(), stand.table("account").unwrap());
    let key = stand.insert(&Account::default()).run().unwrap();
    let mut record = Record::new(std::sync::Arc::clone(&note));
    record.set("text", "a").unwrap();
    let mut changes = vec![Value::Absent; account.fields().len()];
    changes[Account::SMALL.position()] = Value::Int(7);
    let visits = Account::VISITS.position();
    let mut batch = stand.store().batch();
    batch
        .insert_record(&record)
        .insert_values(&note, &[Value::Int(70), Value::from("b"), Value::Null])
        .update_values(&account, Value::Int(key), &changes, Some(1))
        .increment_value(std::sync::Arc::clone(&account), Value::Int(key), visits, Value::Int(2));
    let outcomes = block_on(async { batch.all_or_nothing().await }).unwrap();
    assert_eq!(outcomes[1].as_ref().unwrap().keys, Keys::One(Value::Int(70)));
    let mut batch = stand.store().batch();
    batch.delete_value(note, Value::Int(70), None).delete_value(
        account.clone(),
        Value::Int(key),
        Some(3),
    );
    batch.all_or_nothing().run().unwrap();
    stand.settle();
    assert_eq!(stand.list::<Note>().column(Note::TEXT).run().unwrap(), ["a"]);
    assert_eq!(stand.count::<Account>().run().unwrap(), 0);
    let mut batch = stand.store().batch();
    batch.update_values(&account, Value::from("x"), &changes, None);
    blamed(batch.all_or_nothing().run(), ErrorKind::Invalid, "id", "type");
}

/// Later writes of a batch can refer to a row that an earlier write inserts, before its key is
/// known.
pub fn later_writes_refer_to_earlier_ones(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    stand.insert(&Country::new("fr", "France")).run().unwrap();
    let nowhere = |name: &str| City::new(name, "?");
    let mut batch = stand.store().batch();
    let spain = batch.insert(&Country::new("es", "Spain")).handle();
    let france = batch.insert(&Country::new("fr", "x")).or_ignore().handle();
    let charter = batch.insert(&Document::new("charter", b"x")).handle();
    let seville = batch
        .insert(&nowhere("Seville"))
        .set_ref(City::COUNTRY, spain)
        .set_ref(City::CHARTER, charter)
        .handle();
    batch.insert(&nowhere("Angers")).set_ref(City::COUNTRY, france).set_ref(City::TWIN, seville);
    let account = batch.insert(&Account::default()).handle();
    let gone = batch.insert(&Note::new("gone", 1)).handle();
    batch
        .increment_made(Account::VISITS, account, 3)
        .patch_new(account)
        .set(Account::SMALL, 4)
        .delete_made(gone)
        .patch_new(seville)
        .set(City::NAME, "Sevilla")
        .set_ref(City::TWIN, seville);
    let results = batch.all_or_nothing().run().unwrap();
    assert!(results.len() == 11 && results.iter().all(Result::is_ok), "{results:?}");
    stand.settle();
    let cities = stand.list::<City>().order(City::ID.ascending()).run().unwrap();
    let names: Vec<&str> = cities.iter().map(|city| &*city.name).collect();
    assert_eq!(names, ["Sevilla", "Angers"]);
    let countries: Vec<&str> = cities.iter().map(|city| &**city.country.key()).collect();
    assert_eq!(countries, ["es", "fr"]);
    let twin = Some(Ref::new(cities[0].id));
    assert_eq!((&cities[0].twin, &cities[1].twin), (&twin, &twin));
    let charter = cities[0].charter.clone().unwrap();
    assert_eq!(stand.get::<Document>(*charter.key()).run().unwrap().title, "charter");
    let account = stand.list::<Account>().run().unwrap().remove(0);
    assert_eq!((account.visits, account.small, account.version), (3, 4, 3));
    assert_eq!(stand.count::<Note>().run().unwrap(), 0);
}

/// A reference to a write that inserts no row is refused, with the index of the write.
pub fn a_bad_reference_of_a_batch_is_named(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let elsewhere = stand.store().batch().insert(&Country::new("es", "Spain")).handle();
    let mut batch = stand.store().batch();
    batch.insert(&Note::new("a", 1)).insert(&City::new("x", "?")).set_ref(City::COUNTRY, elsewhere);
    says(&refused(batch.all_or_nothing().run(), ErrorKind::Invalid), &["write 1", "another batch"]);
    // By index, as REST does; this reference is checked when it is added.
    let (note, city) = (stand.table("note").unwrap(), stand.table("city").unwrap());
    let row = [Value::Absent, Value::from("x"), Value::from("?"), Value::Null, Value::Null];
    let mut batch = stand.store().batch();
    let made = batch.insert_values(&note, &[Value::Absent, Value::from("a"), Value::Null]).handle();
    batch.insert_values(&city, &row).set_ref_at(City::COUNTRY.position(), made);
    let error = blamed(batch.all_or_nothing().run(), ErrorKind::Invalid, "country", "reference");
    says(&error, &["write 1"]);
    assert_eq!(stand.count::<Note>().run().unwrap(), 0);
    // With `continue_on_error`, a write that refers to a failed one fails too.
    stand.insert(&Country::new("fr", "France")).run().unwrap();
    let mut batch = stand.store().batch();
    let taken = batch.insert(&Country::new("fr", "again")).handle();
    batch.insert(&City::new("Angers", "?")).set_ref(City::COUNTRY, taken);
    batch.insert(&City::new("Bourges", "fr"));
    let results = batch.continue_on_error().run().unwrap();
    let kinds: Vec<_> =
        results.iter().map(|one| one.as_ref().err().map(marmota_model::Error::kind)).collect();
    assert_eq!(kinds, [Some(ErrorKind::Conflict), Some(ErrorKind::Invalid), None]);
}

/// A patch in a batch writes the given fields, and its rules are checked with the other writes.
pub fn a_batch_patches(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let account = stand.insert(&Account::default()).run().unwrap();
    let mut batch = stand.store().batch();
    batch
        .patch::<Account>(account)
        .set(Account::SMALL, 3)
        .set(Account::LEVEL, -5)
        .version(1)
        .patch::<Account>(account)
        .set(Account::VISITS, 9);
    batch.all_or_nothing().run().unwrap();
    stand.settle();
    let found = stand.get::<Account>(account).run().unwrap();
    assert_eq!((found.small, found.level, found.visits, found.version), (3, -5, 9, 3));
    let mut batch = stand.store().batch();
    batch.insert(&Note::new("a", 1)).patch::<Account>(account).set(Account::LEVEL, 6);
    says(
        &blamed(batch.continue_on_error().run(), ErrorKind::Invalid, "level", "range"),
        &["write 1"],
    );
    let mut batch = stand.store().batch();
    batch.patch::<Account>(account).set(Account::LEVEL, 1).version(1);
    refused(batch.all_or_nothing().run(), ErrorKind::Stale);
    assert_eq!(stand.count::<Note>().run().unwrap(), 0);
}

/// In an all-or-nothing batch, a write that fails is named and undoes the batch.
pub fn a_failed_write_undoes_the_batch(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let key = stand.insert(&Seat::new(None, 1, Some("x"))).run().unwrap();
    let note = stand.insert(&Note::new("kept", 1)).run().unwrap();
    for awaited in [false, true] {
        let mut batch = stand.store().batch();
        batch
            .delete::<Note>(note)
            .insert(&Seat::new(None, 2, Some("y")))
            .insert(&Seat::new(None, 3, Some("X")))
            .insert(&Seat::new(None, 4, Some("z")));
        let action = batch.all_or_nothing();
        let result = if awaited { block_on(action) } else { action.run() };
        let error = blamed(result, ErrorKind::Conflict, "holder", "unique");
        says(&error, &["write 2"]);
    }
    stand.settle();
    assert_eq!(
        stand.list::<Seat>().run().unwrap(),
        [Seat { id: key, ..Seat::new(None, 1, Some("x")) }]
    );
    assert_eq!(stand.get::<Note>(note).run().unwrap().text, "kept");
    let mut batch = stand.store().batch();
    batch.insert(&Note::new("new", 1)).delete::<Note>(999);
    says(&refused(batch.all_or_nothing().run(), ErrorKind::NotFound), &["write 1"]);
    assert_eq!(stand.count::<Note>().run().unwrap(), 1);
}

/// With `continue_on_error`, writes other than failed ones are executed, and each has its result.
pub fn each_write_stands_for_itself(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    stand.insert(&Seat::new(Some("a"), 1, Some("x"))).run().unwrap();
    let account = stand.insert(&Account::default()).run().unwrap();
    let stale = Account { id: account, version: 7, ..Account::default() };
    let mut batch = stand.store().batch();
    batch
        .insert(&Seat::new(Some("b"), 1, Some("X")))
        .insert(&Seat::new(Some("b"), 1, Some("y")))
        .insert(&Seat::new(Some("b"), 1, Some("z")))
        .insert(&City::new("nowhere", "zz"))
        .update(&stale)
        .delete::<Note>(5)
        .increment(Account::SMALL, account, 300)
        .increment(Account::SMALL, account, 3)
        .insert(&Seat::new(Some("c"), 1, Some("z")));
    let results = batch.continue_on_error().run().unwrap();
    let kinds: Vec<Option<ErrorKind>> = results
        .iter()
        .map(|result| result.as_ref().err().map(marmota_model::Error::kind))
        .collect();
    use ErrorKind::{Conflict, Invalid, NotFound, Stale};
    assert_eq!(
        kinds,
        [
            Some(Conflict),
            None,
            Some(Conflict),
            Some(Invalid),
            Some(Stale),
            Some(NotFound),
            Some(Invalid),
            None,
            None
        ]
    );
    stand.settle();
    let holders = stand.list::<Seat>().order(Seat::HOLDER.ascending()).column(Seat::HOLDER).run();
    assert_eq!(holders.unwrap(), ["x", "y", "z"].map(|text| Some(text.to_owned())));
    let account = stand.get::<Account>(account).run().unwrap();
    assert_eq!((account.small, account.version), (3, 2));
    assert_eq!(stand.count::<City>().run().unwrap(), 0);
}

/// A refused write leaves nothing that changes the results of later batches: a driver may take the
/// first savepoint of a transaction for part of the one before.
pub fn each_write_stands_for_itself_after_a_refusal(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    for number in 1..=3 {
        let mut batch = stand.store().batch();
        batch.insert(&City::new("nowhere", "zz"));
        refused(batch.all_or_nothing().run(), ErrorKind::Invalid);
        let mut batch = stand.store().batch();
        batch.insert(&City::new("nowhere", "zz")).insert(&Note::new("kept", number));
        let results = batch.continue_on_error().run().unwrap();
        let kinds: Vec<_> =
            results.iter().map(|result| result.as_ref().err().map(|it| it.kind())).collect();
        assert_eq!(kinds, [Some(ErrorKind::Invalid), None]);
    }
    stand.settle();
    assert_eq!(stand.count::<Note>().run().unwrap(), 3);
    assert_eq!(stand.count::<City>().run().unwrap(), 0);
}

/// A row that violates a rule is refused before any write of the batch is executed.
pub fn a_bad_row_stops_the_batch(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let bad = Account { level: 6, ..Account::default() };
    for each in [false, true] {
        let mut batch = stand.store().batch();
        batch.insert(&Note::new("a", 1)).insert(&bad).insert(&Note::new("b", 2));
        let action = if each { batch.continue_on_error() } else { batch.all_or_nothing() };
        let error = blamed(action.run(), ErrorKind::Invalid, "level", "range");
        says(&error, &["write 1"]);
        assert_eq!(stand.count::<Note>().run().unwrap(), 0);
    }
}

/// A batch without writes succeeds without results.
pub fn an_empty_batch_is_fine(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    assert_eq!(stand.store().batch().all_or_nothing().run().unwrap().len(), 0);
    assert_eq!(stand.store().batch().continue_on_error().run().unwrap().len(), 0);
}

/// Later writes of a batch see earlier ones.
pub fn writes_see_those_before(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let mut batch = stand.store().batch();
    batch
        .insert(&Account { id: 7, ..Account::default() })
        .increment(Account::VISITS, 7, 1)
        .increment(Account::VISITS, 7, 1)
        .insert(&Seat { id: 1, ..Seat::new(None, 1, Some("x")) })
        .delete::<Seat>(1)
        .insert(&Seat { id: 2, ..Seat::new(None, 2, Some("x")) });
    let results = batch.all_or_nothing().run().unwrap();
    assert_eq!(results[2].as_ref().unwrap().value, Value::Int(2));
    stand.settle();
    assert_eq!(stand.get::<Account>(7).run().unwrap().version, 3);
    assert_eq!(stand.list::<Seat>().column(Seat::ID).run().unwrap(), [2]);
}

/// A large batch is a single transaction too.
pub fn a_large_batch_is_one(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let notes = Note::numbered(0..2000);
    let mut batch = stand.store().batch();
    for note in &notes {
        batch.insert(note);
    }
    let results = batch.all_or_nothing().run().unwrap();
    assert!(results.len() == 2000 && results.iter().all(Result::is_ok));
    let mut batch = stand.store().batch();
    for note in &notes {
        batch.insert(note);
    }
    batch.delete::<Note>(1_000_000);
    let error = refused(batch.all_or_nothing().run(), ErrorKind::NotFound);
    says(&error, &["write 2000"]);
    stand.settle();
    assert_eq!(stand.count::<Note>().run().unwrap(), 2000);
}

/// A batch in a transaction is rolled back with it. A batch that fails leaves the transaction as it
/// was before the batch.
pub fn a_batch_in_a_transaction_is_its_own(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let transaction = stand.begin_run().unwrap();
    transaction.insert(&Note::new("a", 1)).run().unwrap();
    let mut batch = transaction.batch();
    batch.insert(&Note::new("b", 2)).insert(&Note::new("c", 3));
    batch.all_or_nothing().run().unwrap();
    let mut batch = transaction.batch();
    batch.insert(&Note::new("d", 4)).delete::<Note>(999);
    refused(batch.all_or_nothing().run(), ErrorKind::NotFound);
    let mut batch = transaction.batch();
    batch.insert(&Note::new("e", 5)).delete::<Note>(999).insert(&Note::new("f", 6));
    assert_eq!(
        batch.continue_on_error().run().unwrap().iter().filter(|result| result.is_ok()).count(),
        2
    );
    assert_eq!(transaction.count::<Note>().run().unwrap(), 5);
    transaction.commit().run().unwrap();
    drop(transaction);
    let undone = stand.begin_run().unwrap();
    let mut batch = undone.batch();
    batch.insert(&Note::new("g", 7));
    batch.all_or_nothing().run().unwrap();
    drop(undone);
    stand.settle();
    let texts = stand.list::<Note>().column(Note::TEXT).run().unwrap();
    assert_eq!(texts, ["a", "b", "c", "e", "f"]);
}

register!($ batches_promises batches:
    each_write_stands_for_itself,
    each_write_stands_for_itself_after_a_refusal,
; by transactions:
    a_batch_writes_all,
    a_batch_takes_values,
    later_writes_refer_to_earlier_ones,
    a_bad_reference_of_a_batch_is_named,
    a_batch_patches,
    a_failed_write_undoes_the_batch,
    a_bad_row_stops_the_batch,
    an_empty_batch_is_fine,
    writes_see_those_before,
    a_large_batch_is_one,
    a_batch_in_a_transaction_is_its_own,
);

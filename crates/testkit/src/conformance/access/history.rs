//! The history of audited models: every write of every verb adds an entry in its own transaction.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use futures_lite::future::block_on;
use marmota_derive::Model;
use marmota_model::{
    Blob, Currency, ErrorKind, Field, FieldSet, Json, Kind, Record, Role, RowQuery, Schema,
    Timestamp, Uuid, Value,
};
use marmota_store::{History, HistoryAction, Store, StoreBuilder};
use serde_json::json;

use crate::conformance::harness::models::Note;
use crate::conformance::harness::refusal::{blamed, refused};
use crate::conformance::harness::subject::{Stand, Subject};
use crate::conformance::harness::waiting::{after_first_poll, receive};

#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(audit)]
struct Patient {
    id: i64,
    #[model(max = 9, unique)]
    name: String,
    owed: Currency,
    visits: Option<i64>,
    scan: Blob,
    #[model(version)]
    version: i64,
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(audit)]
struct Key {
    id: Uuid,
    door: i64,
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Patient>().model::<Key>().model::<Note>()
}

fn patient(name: &str) -> Patient {
    Patient { name: name.to_owned(), scan: vec![1, 2, 3].into(), ..Patient::default() }
}

fn actions(store: &Store, key: i64) -> Vec<&'static str> {
    let entries = store.history::<Patient>(key).run().unwrap();
    entries.iter().map(|entry| entry.action.name()).collect()
}

fn entries(store: &Store) -> u64 {
    store.count::<History>().run().unwrap()
}

/// Insert, update, patch, increment and delete of a row each add an entry with the changed fields,
/// the version, the time and the actor.
pub fn every_write_leaves_an_entry(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    let before = Timestamp::now();
    let ana = stand.with_actor("ana");
    let key = ana.insert(&patient("Bo")).run().unwrap();
    let bo = Patient { id: key, owed: Currency::from(7), scan: Blob::NotRead, ..patient("Bo") };
    ana.update(&bo).run().unwrap();
    stand.patch::<Patient>(key).set(Patient::NAME, "Bob").version(2).run().unwrap();
    assert_eq!(
        stand.increment(Patient::OWED, key, Currency::from(2)).run().unwrap(),
        Currency::from(9)
    );
    stand.delete::<Patient>(key).run().unwrap();
    let other = stand.insert(&Key::default()).run().unwrap();
    stand.insert(&Note::new("not audited", 1)).run().unwrap();
    stand.settle();

    let found = stand.history::<Patient>(key).run().unwrap();
    let fields: Vec<_> =
        found.iter().map(|entry| entry.fields.clone().map(|json| json.0)).collect();
    assert_eq!(
        fields,
        [
            Some(json!({"name": "Bo", "owed": 0, "visits": null, "scan": 3, "version": 1})),
            Some(json!({"owed": 7})),
            Some(json!({"name": "Bob"})),
            Some(json!({"owed": 9})),
            None,
        ]
    );
    use HistoryAction::{Delete, Increment, Insert, Update};
    let done: Vec<_> = found.iter().map(|entry| (entry.action, entry.version)).collect();
    assert_eq!(
        done,
        [
            (Insert, Some(1)),
            (Update, Some(2)),
            (Update, Some(3)),
            (Increment, Some(4)),
            (Delete, None),
        ]
    );
    let actors: Vec<_> = found.iter().map(|entry| entry.actor.as_deref()).collect();
    assert_eq!(actors, [Some("ana"), Some("ana"), None, None, None]);
    assert!(found.iter().all(|entry| entry.at >= before && entry.at <= Timestamp::now()));
    assert!(
        found.iter().all(|entry| entry.of_table == "patient" && entry.of_key == key.to_string())
    );
    let of_key = stand.history::<Key>(other).run().unwrap();
    assert_eq!(of_key[0].of_key, other.to_string());
    assert_eq!(of_key[0].version, None);
    assert_eq!(entries(&stand), 6);
    // The history is listed like any model.
    let last =
        stand.history::<Patient>(key).order(History::ID.descending()).limit(1).run().unwrap();
    assert_eq!(last[0].action, Delete);
}

#[derive(Clone, Debug, Model, PartialEq)]
#[model(audit)]
struct Chart {
    id: i64,
    #[model(unique)]
    number: i64,
    text: Option<String>,
    data: Json<serde_json::Value>,
    scan: Blob,
    share: f64,
    #[model(updated_at)]
    updated: Timestamp,
    #[model(version)]
    version: i64,
}

/// A history entry has the fields whose values changed, not all that were sent. A write that
/// changes no value adds no entry.
pub fn an_entry_has_what_changed(subject: &Subject) {
    let stand = Stand::open(subject, |builder| builder.model::<Chart>());
    let data = Json(json!({ "b": [1, 2.5], "a": null }));
    let (scan, updated) = (Blob::from(vec![1, 2]), Timestamp::now());
    let chart = Chart { id: 0, number: 1, text: None, data, scan, share: 0.5, updated, version: 0 };
    let key = stand.insert(&chart).run().unwrap();
    let read = || stand.get::<Chart>(key).with_blobs().run().unwrap();
    // No verb changes a value here, but each increments the version.
    stand.update(&read()).run().unwrap();
    stand.patch::<Chart>(key).set(Chart::NUMBER, 1).set(Chart::TEXT, None::<String>).run().unwrap();
    stand.upsert(&read()).run().unwrap();
    stand.increment(Chart::NUMBER, key, 0).run().unwrap();
    stand.update_many(&[read()]).run().unwrap();
    assert_eq!(read().version, 6);
    // One of the sent fields changes.
    let row = read();
    stand.update(&Chart { text: Some("a".into()), ..row.clone() }).run().unwrap();
    stand
        .patch::<Chart>(key)
        .set(Chart::TEXT, "a".to_owned())
        .set(Chart::SHARE, 0.25)
        .run()
        .unwrap();
    stand.upsert(&Chart { data: Json(json!([])), ..read() }).run().unwrap();
    let row = read();
    stand.update_many(&[Chart { scan: vec![1, 3].into(), ..row }]).run().unwrap();
    let found = stand.history::<Chart>(key).run().unwrap();
    let told: Vec<_> = found
        .iter()
        .skip(1)
        .map(|entry| {
            let mut fields = entry.fields.clone().unwrap().0;
            assert!(fields.as_object_mut().unwrap().remove("updated").is_some(), "{entry:?}");
            (entry.action, fields)
        })
        .collect();
    let update = HistoryAction::Update;
    assert_eq!(
        told,
        [
            (update, json!({ "text": "a" })),
            (update, json!({ "share": 0.25 })),
            (update, json!({ "data": [] })),
            (update, json!({ "scan": 2 })),
        ]
    );
}

/// A write of many rows adds an entry for each row, and returns the keys as for other models.
pub fn many_rows_leave_an_entry_each(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    let keys = stand.insert_many(&[patient("a"), patient("b"), patient("c")]).run().unwrap();
    let found = stand.list::<Patient>().run().unwrap();
    assert_eq!(keys, found.iter().map(|patient| patient.id).collect::<Vec<_>>());
    let changed: Vec<Patient> =
        found.iter().map(|found| Patient { visits: Some(1), ..found.clone() }).collect();
    assert_eq!(stand.update_many(&changed).run().unwrap(), 3);
    let gone = stand.delete_where::<Patient>(Patient::NAME.ne("b")).run().unwrap();
    assert_eq!(gone, 2);
    assert_eq!(stand.delete_where::<Patient>(Patient::NAME.eq("x")).run().unwrap(), 0);
    let uuids =
        stand.insert_many(&[Key::default(), Key { door: 1, ..Key::default() }]).run().unwrap();
    stand.settle();
    assert_eq!(actions(&stand, keys[0]), ["insert", "update", "delete"]);
    assert_eq!(actions(&stand, keys[1]), ["insert", "update"]);
    assert_eq!(actions(&stand, keys[2]), ["insert", "update", "delete"]);
    assert_eq!(stand.history::<Key>(uuids[1]).run().unwrap().len(), 1);
    assert_eq!(stand.get::<Key>(uuids[1]).run().unwrap().door, 1);
    assert_eq!(entries(&stand), 10);
}

/// A write that fails adds no entry, and returns the same error as without history.
pub fn a_failed_write_leaves_none(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let key = stand.insert(&patient("a")).run().unwrap();
    blamed(stand.insert(&patient("a")).run(), ErrorKind::Conflict, "name", "unique");
    blamed(stand.insert(&patient("much too long")).run(), ErrorKind::Invalid, "name", "max");
    let patch = stand.patch::<Patient>(key).set(Patient::NAME, "b").version(9);
    refused(patch.run(), ErrorKind::Stale);
    refused(stand.delete::<Patient>(99).run(), ErrorKind::NotFound);
    refused(stand.increment(Patient::VISITS, 99, 1).run(), ErrorKind::NotFound);
    let many = stand.insert_many(&[patient("b"), patient("a")]).run();
    let error = blamed(many, ErrorKind::Conflict, "name", "unique");
    assert!(error.message().starts_with("row 1: "), "{error}");
    assert_eq!(actions(&stand, key), ["insert"]);
    assert_eq!(entries(&stand), 1);
}

/// A transaction adds its entries when it commits. Their actor is that of the store that began it,
/// unless the transaction sets another.
pub fn a_transaction_enters_what_it_commits(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    let key = stand.insert(&patient("a")).run().unwrap();
    let eve = stand.with_actor("eve");
    let undone = eve.begin_run().unwrap();
    undone.delete::<Patient>(key).run().unwrap();
    assert_eq!(undone.history::<Patient>(key).run().unwrap().len(), 2);
    undone.rollback().run().unwrap();
    drop(undone);
    eve.transaction(|transaction| {
        transaction.patch::<Patient>(key).set(Patient::VISITS, 1).run()?;
        let savepoint = transaction.savepoint_run()?;
        transaction.patch::<Patient>(key).set(Patient::VISITS, 2).run()?;
        transaction.rollback_to(&savepoint).run()?;
        transaction.act_as("adam");
        transaction.increment(Patient::VISITS, key, 5).run()?;
        refused(transaction.insert(&patient("a")).run(), ErrorKind::Conflict);
        Ok(())
    })
    .unwrap();
    stand.settle();
    let found = stand.history::<Patient>(key).run().unwrap();
    let told: Vec<_> =
        found.iter().map(|entry| (entry.action.name(), entry.actor.as_deref())).collect();
    assert_eq!(told, [("insert", None), ("update", Some("eve")), ("increment", Some("adam"))]);
    assert_eq!(found[1].at, found[2].at, "a transaction has one time");
    assert_eq!(entries(&stand), 3);
}

/// A batch adds an entry for each write that was executed, and returns the same results as without
/// history.
pub fn a_batch_enters_what_it_did(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let mut batch = stand.batch();
    batch
        .insert(&patient("a"))
        .insert(&Note::new("n", 1))
        .insert(&patient("a"))
        .insert(&patient("b"));
    let results = batch.continue_on_error().run().unwrap();
    assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false, true]);
    assert_eq!(entries(&stand), 2);
    let mut batch = stand.batch();
    batch.delete::<Patient>(1).delete::<Patient>(99);
    refused(batch.all_or_nothing().run(), ErrorKind::NotFound);
    assert_eq!(entries(&stand), 2);
    let mut batch = stand.batch();
    batch.delete::<Patient>(1).insert(&Note::new("m", 1));
    assert_eq!(batch.all_or_nothing().run().unwrap().len(), 2);
    assert_eq!(actions(&stand, 1), ["insert", "delete"]);
}

/// Entries remain unchanged when fields are added or removed, and when the model is no longer
/// audited.
pub fn history_outlives_the_fields(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let id = || Field::new("id", Kind::I64).role(Role::Key);
    let old = || Field::new("old", Kind::TEXT).nullable(true);
    let new = || Field::new("new", Kind::I64).nullable(true);
    let schema = |fields: Vec<Field>| Schema::new("patient", fields).audit(true);
    let first = schema(vec![id(), old()]);
    let second = schema(vec![new(), id(), old()]);
    for (schema, field, value) in [(first, "old", Value::from("x")), (second, "new", Value::Int(7))]
    {
        let store = subject.builder().schema(schema).open().unwrap();
        let mut record = Record::new(store.table("patient").unwrap());
        record.set(field, value).unwrap();
        store.insert_record(&record).run().unwrap();
        store.close().unwrap();
    }
    let plain = Schema::new("patient", vec![id(), old(), new()]);
    let store = subject.builder().schema(plain).model::<Key>().open().unwrap();
    let found = store.list::<History>().run().unwrap();
    let fields: Vec<_> = found.iter().map(|entry| entry.fields.clone().unwrap().0).collect();
    assert_eq!(fields, [json!({"old": "x"}), json!({"new": 7, "old": null})]);
    store.insert_record(&Record::new(store.table("patient").unwrap())).run().unwrap();
    assert_eq!(entries(&store), 2);
}

/// No verb can insert, change or delete history entries.
pub fn history_is_read_only(subject: &Subject) {
    let stand = Stand::open(subject, models);
    stand.insert(&patient("a")).run().unwrap();
    let entry = stand.list::<History>().run().unwrap().remove(0);
    let denied = ErrorKind::Denied;
    refused(stand.insert(&History { id: 0, ..entry.clone() }).run(), denied);
    refused(stand.insert_many(&[History { id: 0, ..entry.clone() }]).run(), denied);
    refused(stand.update(&entry).run(), denied);
    refused(stand.delete::<History>(entry.id).run(), denied);
    refused(stand.delete_where::<History>(History::ID.gt(0)).run(), denied);
    let mut batch = stand.batch();
    batch.insert(&patient("b")).delete::<History>(entry.id);
    refused(batch.continue_on_error().run(), denied);
    refused(stand.transaction(|transaction| transaction.delete::<History>(entry.id).run()), denied);
    assert_eq!(stand.list::<History>().run().unwrap(), [entry]);
}

/// A store that deletes entries at once.
fn forgetful(builder: StoreBuilder) -> StoreBuilder {
    models(builder).history_age_max(Duration::ZERO)
}

/// Later writes delete entries that are older than the store's maximum age.
pub fn entries_grow_too_old(subject: &Subject) {
    let store = subject.builder_with(forgetful).open().unwrap();
    let keys: Vec<i64> = (0..600)
        .map(|number| store.insert(&patient(&format!("{number}"))).run().unwrap())
        .collect();
    assert_eq!(keys.len(), 600);
    let left = entries(&store);
    assert!((1..=300).contains(&left), "{left} of 600 entries are left");
}

/// An audited write that waits adds its entry when it is executed. This also holds for models made
/// at run time.
pub fn an_audited_write_that_waits_is_entered(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let (sender, begun) = channel();
    let keys = std::thread::scope(|scope| {
        let transaction = stand.begin_run().unwrap();
        transaction.insert(&patient("first")).run().unwrap();
        let waits: Vec<_> = (0..4)
            .map(|number| {
                let store = stand.store().with_actor(format!("thread {number}"));
                let begun = sender.clone();
                scope.spawn(move || {
                    let patient = patient(&format!("n{number}"));
                    let insert = async { store.insert(&patient).await };
                    let tell = || begun.send(()).unwrap();
                    let key = block_on(after_first_poll(insert, tell)).unwrap();
                    (key, number)
                })
            })
            .collect();
        receive(&begun, 4);
        transaction.commit().run().unwrap();
        waits.into_iter().map(|wait| wait.join().unwrap()).collect::<Vec<_>>()
    });
    for (key, number) in keys {
        let entry = stand.history::<Patient>(key).run().unwrap().remove(0);
        assert_eq!(entry.actor, Some(format!("thread {number}")));
        assert_eq!(entry.fields.unwrap().0["name"], format!("n{number}"));
    }
    let table: Arc<_> = stand.table(marmota_store::history::HISTORY_TABLE).unwrap();
    let filter = History::OF_TABLE.eq("patient").into_expr();
    let query =
        RowQuery { filter: Some(filter), fields: Some(FieldSet::EMPTY.with(0)), ..RowQuery::new() };
    assert_eq!(stand.list_records(&table).query(query).run().unwrap().len(), 5);
}

register!($ history_promises history: ; by transactions:
    every_write_leaves_an_entry,
    an_entry_has_what_changed,
    many_rows_leave_an_entry_each,
    a_failed_write_leaves_none,
    a_transaction_enters_what_it_commits,
    a_batch_enters_what_it_did,
    history_outlives_the_fields,
    history_is_read_only,
    entries_grow_too_old,
    an_audited_write_that_waits_is_entered,
);

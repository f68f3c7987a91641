//! What a store counts of what is done with it.

use std::sync::Arc;
use std::time::Duration;

use marmota_memory::Memory;
use marmota_model::{Caller, Field, Kind, Record, Role, Schema, parse_filter};
use marmota_store::Store;
use marmota_store::meter::{Activity, CallStatistics, Metering};
use marmota_store::rights::{Grant, Right, Rights};

fn open(metering: Metering) -> Store {
    let id = || Field::new("id", Kind::I64).role(Role::Key);
    let note = vec![id(), Field::new("text", Kind::TEXT).unique(true)];
    Store::builder(Memory::new())
        .schema(Schema::new("note", note))
        .schema(Schema::new("other", vec![id()]))
        .metering(metering)
        .open()
        .unwrap()
}

fn note(store: &Store, text: &str) -> Record {
    let mut note = Record::new(store.table("note").unwrap());
    note.set("text", text).unwrap();
    note
}

#[track_caller]
fn of(activity: &Activity, table: &str, verb: &str) -> (u64, u64, u64, u64) {
    let found = activity.verbs.iter().find(|one| one.table == table && one.verb == verb);
    let found = found.unwrap_or_else(|| panic!("no {verb} of {table}: {activity:?}"));
    (found.done.count, found.done.rows, found.done.errors, found.in_batches)
}

#[test]
fn operations_are_counted_by_table_and_verb_with_their_rows_and_errors() {
    let store = open(Metering::default());
    let table = store.table("note").unwrap();
    let id = store.insert_record(&note(&store, "a")).run().unwrap();
    assert!(store.insert_record(&note(&store, "a")).run().is_err());
    store.transaction(|own| own.insert_record(&note(&store, "b")).run().map(drop)).unwrap();
    assert!(store.get_record(&table, id.clone()).run().is_ok());
    assert!(store.get_record(&table, 77).run().is_err(), "found nothing");
    assert_eq!(store.list_records(&table).run().unwrap().len(), 2);
    let mut batch = store.batch();
    batch.insert_record(&note(&store, "c"));
    batch.delete_value(table.clone(), id, None);
    batch.all_or_nothing().run().unwrap();

    let done = store.activity().unwrap();
    assert_eq!(of(&done, "note", "insert"), (3, 3, 1, 1));
    assert_eq!(of(&done, "note", "get"), (2, 1, 0, 0));
    assert_eq!(of(&done, "note", "list"), (1, 2, 0, 0));
    assert_eq!(of(&done, "note", "delete"), (0, 1, 0, 1));
    assert_eq!(of(&done, "", "batch"), (1, 2, 0, 0));
    assert_eq!(of(&done, "", "commit").0, 1);
    assert!(done.verbs.iter().all(|one| one.table != "other"), "{done:?}");
    for one in &done.verbs {
        assert_eq!(one.done.classes.iter().sum::<u64>(), one.done.count, "{one:?}");
    }
    assert!(done.slow.is_empty() && done.sessions.is_empty());
}

#[test]
fn threads_count_together_and_lose_nothing() {
    let store = open(Metering::default());
    std::thread::scope(|scope| {
        // More than there are slots, so that some share one.
        for thread in 0..100 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..20 {
                    store.insert_record(&note(store, &format!("{thread} {number}"))).run().unwrap();
                }
            });
        }
    });
    assert_eq!(of(&store.activity().unwrap(), "note", "insert"), (2_000, 2_000, 0, 0));
}

#[test]
fn what_takes_long_is_told_without_a_value() {
    let store = open(Metering::default().slow_call(Duration::ZERO));
    let table = store.table("note").unwrap();
    let ann = Caller { id: "7".into(), name: "ann".into(), groups: vec![] };
    let grants = [Grant::new("note", &Right::ALL)];
    let rights: Arc<Rights> = Rights::new(store.registry(), Some(ann), &grants).unwrap();
    let hers = store.with_rights(rights).in_session("session 3");
    hers.insert_record(&note(&store, "secret")).run().unwrap();
    let filter = parse_filter(&table, "text = 'secret' and id > 5").unwrap();
    hers.list_records(&table).filter(filter).run().unwrap();
    store.note_call(Duration::from_secs(1), || "calculator.add".into());

    let slow = store.activity().unwrap().slow;
    let told: Vec<&str> = slow.iter().map(|call| &*call.what).collect();
    assert_eq!(told, ["insert of note", "list of note by id, text", "calculator.add"]);
    for call in &slow[..2] {
        assert_eq!(call.who.as_deref(), Some("ann"));
        assert_eq!(call.session.as_deref(), Some("session 3"));
    }
    assert_eq!((&slow[2].who, &slow[2].session), (&None, &None));
    assert!(!format!("{slow:?}").contains("secret"), "{slow:?}");

    // The last hundred are kept.
    for number in 0..150 {
        store.insert_record(&note(&store, &number.to_string())).run().unwrap();
    }
    assert_eq!(store.activity().unwrap().slow.len(), 100);
    // Nothing takes this long.
    let patient = open(Metering::default().slow_call(Duration::from_secs(86_400)));
    patient.insert_record(&note(&patient, "a")).run().unwrap();
    assert!(patient.activity().unwrap().slow.is_empty());
}

#[test]
fn sessions_are_counted_by_name_and_their_number_is_bounded() {
    let store = open(Metering::default().sessions_max(4));
    let table = store.table("note").unwrap();
    for session in ["a", "b", "a"] {
        let _ = store.in_session(session).get_record(&table, 1).run();
    }
    // What is not of a session is of none, and a transaction of its own.
    let _ = store.get_record(&table, 1).run();
    let own = store.in_session("b");
    own.transaction(|own| own.insert_record(&note(&store, "x")).run().map(drop)).unwrap();
    let counted = |name: &str| -> Option<CallStatistics> {
        let sessions = store.activity().unwrap().sessions;
        sessions.into_iter().find(|one| one.session == name).map(|one| one.done)
    };
    assert_eq!(counted("a").unwrap().count, 2);
    assert_eq!(counted("b").unwrap().rows, 1);
    for number in 0..50 {
        let _ = store.in_session(&number.to_string()).get_record(&table, 1).run();
        assert!(store.activity().unwrap().sessions.len() <= 4);
    }
    assert!(counted("a").is_none() && counted("49").is_some());
}

#[test]
fn a_store_that_was_not_asked_to_counts_nothing() {
    let store = Store::builder(Memory::new()).open().unwrap();
    assert!(store.activity().is_none());
    assert!(store.in_session("a").activity().is_none());
}

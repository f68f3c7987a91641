//! The change feed: each commit is read once, in order, with the rows that it has changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use marmota_model::{Blob, ErrorKind, NoRows, Result, Value};
use marmota_store::action::block_on;
use marmota_store::change::{
    Change, ChangeKind, ChangeRetention, ChangeStream, Commit, FeedEvent, Position,
};
use marmota_store::operation::{BatchMode, Fingerprint, OnceKey, Operation, Outcome, Write};
use marmota_store::{Idempotency, Store, StoreBuilder};

use crate::conformance::harness::models::{self, Document, Note, Seat};
use crate::conformance::harness::subject::{AddModels, Stand, Subject};

register!($ changes_promises changes:
    an_engine_without_a_feed_refuses_it,
    each_write_is_a_commit_with_its_changes,
    what_is_undone_is_not_in_the_feed,
    concurrent_commits_are_in_the_order_of_each_row,
    positions_are_valid_after_a_restart,
    blobs_are_not_copied_into_the_feed,
    a_repeated_batch_has_a_position_with_its_writes,
);

fn recording(builder: StoreBuilder) -> StoreBuilder {
    models::all(builder).changes(ChangeRetention::default())
}

/// Opens the subject with a feed, if its engine has one.
fn open(subject: &Subject) -> Option<Stand<'_>> {
    subject.capability().change_feed.then(|| Stand::open(subject, recording))
}

/// Returns the next commit.
fn next(stream: &mut ChangeStream) -> Arc<Commit> {
    match block_on(stream.next()).unwrap() {
        Some(FeedEvent::Commit(commit)) => commit,
        other => panic!("no commit: {other:?}"),
    }
}

fn kinds(commit: &Commit) -> Vec<ChangeKind> {
    commit.changes.iter().map(|change| change.kind).collect()
}

/// Returns a value of a row by the name of its field.
fn value<'c>(change: &'c Change, row: Option<&'c Vec<Value>>, field: &str) -> &'c Value {
    &row.unwrap()[change.table.position(field).unwrap()]
}

/// An engine that records no changes refuses a store with a feed, with its name.
pub fn an_engine_without_a_feed_refuses_it(subject: &Subject) {
    if subject.capability().change_feed {
        return;
    }
    let error = subject.builder_with(recording).open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.message().contains("change feed"), "{error}");
}

/// A single write, a write of many rows, a batch, SQL and a transaction are one commit each.
pub fn each_write_is_a_commit_with_its_changes(subject: &Subject) {
    use ChangeKind::{Delete, Insert, Update};
    let Some(stand) = open(subject) else { return };
    let mut stream = stand.changes().unwrap();
    let ann = stand.with_actor("ann");
    let id = ann.insert(&Note::new("first", 1)).run().unwrap();
    let commit = next(&mut stream);
    let change = &commit.changes[0];
    assert_eq!((kinds(&commit), change.actor.as_deref()), (vec![Insert], Some("ann")));
    assert_eq!((change.key(), change.table.name()), (&Value::Int(id), "note"));
    assert_eq!(value(change, change.after.as_ref(), "text"), &Value::Text("first".into()));
    assert!(change.before.is_none());
    assert_eq!(stand.position().unwrap(), commit.position);

    stand.patch::<Note>(id).set(Note::NUMBER, Some(5)).run().unwrap();
    let commit = next(&mut stream);
    let change = &commit.changes[0];
    assert_eq!((kinds(&commit), change.actor.as_deref()), (vec![Update], None));
    assert_eq!(change.changed.iter().collect::<Vec<_>>(), [2]);
    assert_eq!(value(change, change.before.as_ref(), "number"), &Value::Int(1));
    assert_eq!(value(change, change.after.as_ref(), "number"), &Value::Int(5));

    stand.insert_many(&Note::numbered(0..3)).run().unwrap();
    assert_eq!(kinds(&next(&mut stream)), [Insert; 3]);
    stand.delete_where(Note::TEXT.starts_with("note")).run().unwrap();
    assert_eq!(kinds(&next(&mut stream)), [Delete; 3]);
    stand.increment(Note::NUMBER, id, 2_i64).run().unwrap();
    let commit = next(&mut stream);
    let change = &commit.changes[0];
    assert_eq!(value(change, change.after.as_ref(), "number"), &Value::Int(7));

    let mut batch = stand.batch();
    batch.insert(&Note::new("of a batch", None));
    batch.delete::<Note>(id);
    batch.all_or_nothing().run().unwrap();
    let commit = next(&mut stream);
    assert_eq!(kinds(&commit), [Insert, Delete]);
    assert_eq!(commit.changes[1].key(), &Value::Int(id));
    if stand.capability().sql {
        stand.execute("DELETE FROM note").run().unwrap();
        assert_eq!(kinds(&next(&mut stream)), [Delete]);
    }
}

/// Refused writes, rolled back savepoints and transactions leave no changes.
pub fn what_is_undone_is_not_in_the_feed(subject: &Subject) {
    use ChangeKind::{Delete, Insert};
    let Some(stand) = open(subject) else { return };
    let seat = |number: i64, holder: &str| Seat::new(Some("r"), number, Some(holder));
    let first = stand.insert(&seat(1, "ann")).run().unwrap();
    let mut stream = stand.changes().unwrap();
    stand.insert_many(&[seat(2, "bob"), seat(3, "ann")]).run().unwrap_err();
    let mut transaction = stand.begin_run().unwrap();
    transaction.insert(&seat(4, "cid")).run().unwrap();
    let savepoint = transaction.savepoint_run().unwrap();
    transaction.insert(&seat(5, "dan")).run().unwrap();
    transaction.insert(&seat(6, "ann")).run().unwrap_err();
    transaction.rollback_to(&savepoint).run().unwrap();
    transaction.delete::<Seat>(first).run().unwrap();
    transaction.commit().run().unwrap();
    let commit = next(&mut stream);
    assert_eq!(kinds(&commit), [Insert, Delete]);
    let change = &commit.changes[0];
    assert_eq!(value(change, change.after.as_ref(), "number"), &Value::Int(4));
    let transaction = stand.begin_run().unwrap();
    transaction.insert(&seat(7, "eve")).run().unwrap();
    drop(transaction);
    stand.insert(&seat(8, "fay")).run().unwrap();
    let commit = next(&mut stream);
    let change = &commit.changes[0];
    assert_eq!(value(change, change.after.as_ref(), "number"), &Value::Int(8));

    // An engine may insert both rows, and begin again when the second exists.
    let id = stand.insert(&Note::new("first", 1)).run().unwrap();
    next(&mut stream);
    let again = Note { id, ..Note::new("again", 2) };
    stand.upsert_many(&[Note { id: id + 1, ..Note::new("new", 1) }, again]).run().unwrap();
    let commit = next(&mut stream);
    let of_new = commit.changes.iter().filter(|change| *change.key() == Value::Int(id + 1));
    assert_eq!(of_new.map(|change| change.kind).collect::<Vec<_>>(), [Insert]);
}

/// Writers on several threads: the changes of each row are in the order of its versions, positions
/// ascend, and the rows that the changes lead to are the rows of the table.
pub fn concurrent_commits_are_in_the_order_of_each_row(subject: &Subject) {
    const THREADS: i64 = 4;
    const WRITES: i64 = 40;
    let Some(stand) = open(subject) else { return };
    let mut stream = stand.changes().unwrap();
    let shared = stand.insert(&Note::new("shared", 0)).run().unwrap();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let store: &Store = stand.store();
            scope.spawn(move || {
                for number in 0..WRITES {
                    store.increment(Note::NUMBER, shared, 1_i64).run().unwrap();
                    let note = Note::new(format!("{thread} {number}"), number);
                    let id = store.insert(&note).run().unwrap();
                    if number % 2 == 0 {
                        store.delete::<Note>(id).run().unwrap();
                    }
                }
            });
        }
    });
    let end = stand.position().unwrap();
    let (mut rows, mut last) = (BTreeMap::new(), None::<Position>);
    loop {
        let commit = next(&mut stream);
        assert!(last.is_none_or(|last| last < commit.position), "positions do not ascend");
        last = Some(commit.position);
        for change in &commit.changes {
            let Value::Int(key) = *change.key() else { panic!("no key: {change:?}") };
            let before = match &change.after {
                Some(after) => rows.insert(key, after.clone()),
                None => rows.remove(&key),
            };
            assert_eq!(before, change.before, "the row before change {change:?}");
        }
        if commit.position == end {
            break;
        }
    }
    let notes = stand.list::<Note>().run().unwrap();
    assert_eq!(notes.len() as i64, 1 + THREADS * WRITES / 2);
    assert_eq!(notes.len(), rows.len());
    for note in notes {
        assert_eq!(
            rows[&note.id][1..],
            [Value::Text(note.text), note.number.map_or(Value::Null, Value::Int)]
        );
    }
}

/// A reader continues where it ended, in a store that was opened again; a position of another
/// database is refused.
pub fn positions_are_valid_after_a_restart(subject: &Subject) {
    let Some(mut stand) = open(subject) else { return };
    if !subject.capability().persistent {
        return;
    }
    let start = stand.position().unwrap();
    let notes = Note::numbered(0..300);
    for note in &notes {
        stand.insert(note).run().unwrap();
    }
    let end = stand.position().unwrap();
    stand.reopen();
    assert_eq!(stand.position().unwrap(), end);
    let mut stream = stand.changes().unwrap().from(start).unwrap();
    for note in &notes {
        let commit = next(&mut stream);
        let change = &commit.changes[0];
        assert_eq!(value(change, change.after.as_ref(), "text"), &Value::Text(note.text.clone()));
    }
    assert_eq!(stream.position(), end);
    let other: Position = "0123456789abcdef0000000000000001".parse().unwrap();
    let error = stand.changes().unwrap().from(other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.message().contains("another database"), "{error}");
}

/// A blob is absent in the rows of a change; that it has changed is known.
pub fn blobs_are_not_copied_into_the_feed(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    let mut stream = stand.changes().unwrap();
    let id = stand.insert(&Document::new("a", b"some bytes")).run().unwrap();
    let commit = next(&mut stream);
    let change = &commit.changes[0];
    assert_eq!(value(change, change.after.as_ref(), "body"), &Value::Absent);
    assert_eq!(value(change, change.after.as_ref(), "title"), &Value::Text("a".into()));
    stand.patch::<Document>(id).set(Document::BODY, Blob::from(b"other".to_vec())).run().unwrap();
    let commit = next(&mut stream);
    let change = &commit.changes[0];
    assert!(change.changed.contains(change.table.position("body").unwrap()));
    assert_eq!(value(change, change.after.as_ref(), "body"), &Value::Absent);
}

/// A batch whose stored answer is repeated has a position at which its writes are visible: that of
/// the first execution, or of a later commit.
pub fn a_repeated_batch_has_a_position_with_its_writes(subject: &Subject) {
    let once: AddModels = |builder| recording(builder).idempotency(Idempotency::default());
    if !subject.capability().change_feed {
        return;
    }
    let stand = Stand::open(subject, once);
    let table = stand.table("note").unwrap();
    let execute = || {
        let mut print = Fingerprint::default();
        print.add(b"a note");
        let key = OnceKey::new("k", &print).unwrap();
        let (mut results, mut answered) = (Vec::new(), None);
        let row = vec![Value::Absent, Value::Text("a".into()), Value::Int(1)];
        let writes = [Write::insert(Arc::clone(&table), row)];
        let mut answer = |_: &[Result<Outcome>]| b"done".to_vec();
        let once = Some(stand.once(&key, &mut answer, &mut answered).unwrap());
        let (results, mode) = (&mut results, BatchMode::AllOrNothing);
        let mut batch = Operation::Batch { writes: &writes, links: &[], once, mode, results };
        let outcome = stand.run(&mut batch, &mut NoRows).unwrap();
        (stand.position_of(&outcome).unwrap(), answered.unwrap().repeated)
    };
    let (first, is_repeated) = execute();
    assert!(!is_repeated);
    assert_eq!(execute(), (first, true));
    stand.insert(&Note::new("b", 1)).run().unwrap();
    let (later, is_repeated) = execute();
    assert!(is_repeated && first < later, "{first} {later}");
    block_on(stand.reached(later, Duration::from_secs(10))).unwrap();
    assert_eq!(stand.count::<Note>().run().unwrap(), 2);
}

//! Batches whose rows have composite keys, or refer to such rows: a link to the row of an earlier
//! insert sets a part of a key, or the fields that a reference is computed of.

use marmota_derive::Model;
use marmota_model::{Caller, Date, ErrorKind, Ref, Uuid, Value};
use marmota_store::operation::{Keys, Outcome};
use marmota_store::rights::{Grant, Right, Rights};
use marmota_store::{Idempotency, StoreBuilder};

use crate::conformance::harness::refusal::{blamed, refused};
use crate::conformance::harness::subject::{Stand, Subject};

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Playlist {
    id: i64,
    #[model(unique)]
    name: String,
}

#[derive(Clone, Debug, Model, PartialEq)]
#[model(audit)]
struct Entry {
    #[model(key(playlist, track))]
    key: String,
    playlist: Ref<Playlist>,
    track: i64,
    note: Option<String>,
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(audit)]
struct Vote {
    id: i64,
    playlist: Option<Ref<Playlist>>,
    #[model(range(max = 100))]
    track: Option<i64>,
    #[model(computed = "key(playlist, track)")]
    entry: Option<Ref<Entry>>,
    #[model(immutable)]
    list: Option<Ref<Playlist>>,
}

/// A row whose key begins with that of the row to which it refers.
#[derive(Clone, Debug, Model, PartialEq)]
struct Mark {
    #[model(key(playlist, track, label))]
    key: String,
    playlist: Ref<Playlist>,
    track: i64,
    label: String,
    #[model(computed = "key(playlist, track)")]
    entry: Ref<Entry>,
}

/// A key with a field of each kind that it may have.
#[derive(Clone, Debug, Model, PartialEq)]
struct Reading {
    #[model(key(station, day, device, number))]
    key: String,
    number: i16,
    device: Uuid,
    station: String,
    day: Date,
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Check {
    id: i64,
    #[model(length(max = 8))]
    station: Option<String>,
    device: Option<Uuid>,
    number: Option<i64>,
    day: Option<Date>,
    #[model(computed = "key(station, day, device, number)")]
    reading: Option<Ref<Reading>>,
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    let builder = builder.model::<Playlist>().model::<Entry>().model::<Vote>();
    let builder = builder.model::<Mark>().model::<Reading>().model::<Check>();
    builder.idempotency(Idempotency::default())
}

fn playlist(name: &str) -> Playlist {
    Playlist { id: 0, name: name.to_owned() }
}

fn entry(playlist: i64, track: i64) -> Entry {
    Entry { key: String::new(), playlist: playlist.into(), track, note: None }
}

fn mark(label: &str) -> Mark {
    let label = label.to_owned();
    Mark { key: String::new(), playlist: 0.into(), track: 0, label, entry: "".into() }
}

fn key_of(result: &marmota_model::Result<Outcome>) -> &Value {
    match &result.as_ref().unwrap().keys {
        Keys::One(key) => key,
        other => panic!("{other:?}"),
    }
}

/// The key of a row that an earlier write inserts is a part of a composite key, which later writes
/// use in turn. A repeat of the batch has the same keys.
pub fn a_link_is_a_part_of_a_key(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let run = || {
        let mut batch = stand.batch();
        batch.idempotency_key("once");
        let list = batch.insert(&playlist("new")).handle();
        let first = batch.insert(&entry(0, 7)).set_ref(Entry::PLAYLIST, list).handle();
        let second = batch.insert(&entry(99, 8)).set_ref(Entry::PLAYLIST, list).handle();
        batch.insert(&mark("a,b")).set_ref(Mark::ENTRY, second);
        batch.insert(&Vote::default()).set_ref(Vote::ENTRY, first).set_ref(Vote::PLAYLIST, list);
        batch.patch_new(first).set(Entry::NOTE, "x".to_owned());
        let third = batch.insert(&entry(0, 9)).set_ref(Entry::PLAYLIST, list).handle();
        batch.delete_made(third);
        batch.all_or_nothing().run().unwrap()
    };
    let results = run();
    let list = stand.list::<Playlist>().run().unwrap()[0].id;
    let keys = [format!("{list},7"), format!("{list},8"), format!("{list},8,a%2Cb")];
    let made: Vec<&Value> = results[1..4].iter().map(key_of).collect();
    assert_eq!(made, keys.each_ref().map(|key| Value::from(&**key)).iter().collect::<Vec<_>>());
    let repeated = run();
    assert_eq!(repeated[1..4].iter().map(key_of).collect::<Vec<_>>(), made);

    let stored = stand.list::<Entry>().run().unwrap();
    let stored: Vec<(&str, i64, Option<&str>)> =
        stored.iter().map(|row| (&*row.key, *row.playlist.key(), row.note.as_deref())).collect();
    assert_eq!(stored, [(&*keys[0], list, Some("x")), (&*keys[1], list, None)]);
    let marked = stand.get::<Mark>(keys[2].clone()).run().unwrap();
    assert_eq!((marked.track, marked.entry), (8, Ref::new(keys[1].clone())));
    let vote = &stand.list::<Vote>().run().unwrap()[0];
    assert_eq!((vote.track, &vote.entry), (Some(7), &Some(Ref::new(keys[0].clone()))));
    let history = stand.history::<Entry>(keys[0].clone()).run().unwrap();
    assert_eq!(history.len(), 2);

    // Conflicts are found by the key that the link makes.
    let mut batch = stand.batch();
    let list = batch.insert(&playlist("new")).or_ignore().handle();
    batch.insert(&entry(0, 7)).or_ignore().set_ref(Entry::PLAYLIST, list);
    batch.insert(&entry(0, 8)).set_ref(Entry::PLAYLIST, list);
    let results = batch.continue_on_error().run().unwrap();
    assert_eq!(*key_of(&results[1]), Value::from(&*keys[0]));
    refused(results.into_iter().nth(2).unwrap(), ErrorKind::Conflict);
}

/// A reference to a row that an earlier write inserts sets the fields that it is computed of, in new
/// rows and in existing ones.
pub fn a_link_sets_the_fields_of_a_reference(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    let list = stand.insert(&playlist("a")).run().unwrap();
    let vote = Vote { playlist: Some(list.into()), track: Some(1), ..Vote::default() };
    stand.insert(&entry(list, 1)).run().unwrap();
    let id = stand.insert(&vote).run().unwrap();
    stand.settle();
    let mut batch = stand.batch();
    let made = batch.insert(&entry(list, 2)).handle();
    batch.patch::<Vote>(id).set_ref(Vote::ENTRY, made);
    batch.insert(&vote).set_ref(Vote::ENTRY, made);
    batch.all_or_nothing().run().unwrap();
    let votes = stand.list::<Vote>().run().unwrap();
    for vote in &votes {
        assert_eq!((vote.playlist.clone(), vote.track), (Some(list.into()), Some(2)));
        assert_eq!(vote.entry, Some(Ref::new(format!("{list},2"))));
    }
    let history = stand.history::<Vote>(id).run().unwrap();
    assert_eq!(history.len(), 2, "{history:?}");

    let mut batch = stand.batch();
    let made = batch.insert(&entry(list, 101)).handle();
    batch.insert(&vote).set_ref(Vote::ENTRY, made);
    blamed(batch.all_or_nothing().run(), ErrorKind::Invalid, "track", "range");
    let mut batch = stand.batch();
    let other = batch.insert(&playlist("b")).handle();
    let made = batch.insert(&entry(list, 3)).handle();
    batch.insert(&vote).set_ref(Vote::ENTRY, made).set_ref(Vote::PLAYLIST, other);
    blamed(batch.all_or_nothing().run(), ErrorKind::Invalid, "entry", "reference");
    let mut batch = stand.batch();
    let other = batch.insert(&playlist("b")).handle();
    batch.patch::<Vote>(id).set_ref(Vote::LIST, other);
    blamed(batch.all_or_nothing().run(), ErrorKind::Invalid, "list", "immutable");
    assert_eq!(stand.count::<Entry>().run().unwrap(), 2);
    assert_eq!(stand.count::<Playlist>().run().unwrap(), 1);
}

/// Keys of values of any kind are taken, with characters that their text encodes.
pub fn a_link_has_values_of_any_kind(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let (day, device) = ("2026-02-28".parse::<Date>().unwrap(), Uuid::from_u128(0xabc));
    let stations = ["", "a,b", "100%", "%2C", "\u{e9}'\"/"];
    let mut batch = stand.batch();
    for station in stations {
        let station = station.to_owned();
        let reading = Reading { key: String::new(), number: -7, device, station, day };
        let made = batch.insert(&reading).handle();
        batch.insert(&Check::default()).set_ref(Check::READING, made);
    }
    batch.all_or_nothing().run().unwrap();
    let checks = stand.list::<Check>().run().unwrap();
    let found: Vec<&str> = checks.iter().map(|row| row.station.as_deref().unwrap()).collect();
    assert_eq!(found, stations);
    for check in checks {
        let parts = (check.device, check.number, check.day);
        assert_eq!(parts, (Some(device), Some(-7), Some(day)));
        let reading = check.reading.unwrap();
        assert_eq!(stand.get::<Reading>(reading.key().clone()).run().unwrap().number, -7);
    }
}

/// The rights of the caller are those on the fields that a link sets, and on the row with their values.
pub fn a_link_needs_the_rights_on_its_fields(subject: &Subject) {
    if !subject.capability().guarded_writes {
        return;
    }
    let stand = Stand::open(subject, models);
    let list = stand.insert(&playlist("a")).run().unwrap();
    let id = stand.insert(&Vote::default()).run().unwrap();
    let caller = Caller { id: "7".to_owned(), name: "ann".to_owned(), groups: Vec::new() };
    let own_list = [
        Grant::new("entry", &[Right::Read]),
        Grant::new("entry", &[Right::Insert]).rule(format!("playlist = {list}")),
        Grant::new("playlist", &Right::ALL),
        Grant::new("vote", &[Right::Read]),
        Grant::new("vote", &[Right::Update]).except(["playlist"]),
    ];
    let rights = Rights::new(stand.registry(), Some(caller), &own_list).unwrap();
    let caller = stand.with_rights(rights);
    let mut batch = caller.batch();
    let made = batch.insert(&entry(list, 1)).handle();
    batch.patch::<Vote>(id).set_ref(Vote::ENTRY, made);
    blamed(batch.all_or_nothing().run(), ErrorKind::Denied, "playlist", "rights");
    // The struct has a list that the rule permits, and the link another one.
    let mut batch = caller.batch();
    let other = batch.insert(&playlist("b")).handle();
    batch.insert(&entry(list, 1)).set_ref(Entry::PLAYLIST, other);
    refused(batch.all_or_nothing().run(), ErrorKind::Denied);
    assert_eq!(stand.count::<Entry>().run().unwrap(), 0);
    caller.insert(&entry(list, 1)).run().unwrap();
}

register!($ composite_links_promises composite_links: ; by transactions:
    a_link_is_a_part_of_a_key,
    a_link_sets_the_fields_of_a_reference,
    a_link_has_values_of_any_kind,
    a_link_needs_the_rights_on_its_fields,
);

//! Composite keys: a row is named by one text, which the store makes of the values of the
//! fields; all verbs, orders, batches and feeds use it like any other key.

use marmota_derive::Model;
use marmota_model::{Date, ErrorKind, Record, Ref, RowQuery, SortKey, Uuid, Value, parse_filter};
use marmota_store::action::block_on;
use marmota_store::change::{ChangeRetention, FeedEvent};
use marmota_store::operation::UpsertEffect;
use marmota_store::{Store, StoreBuilder};

use crate::conformance::harness::refusal::{blamed, refusal, refused};
use crate::conformance::harness::subject::{Stand, Subject};

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Playlist {
    id: i64,
    name: String,
}

/// A row of a link table, with a value of its own.
#[derive(Clone, Debug, Model, PartialEq)]
#[model(audit, index(note))]
struct Entry {
    playlist: Ref<Playlist>,
    track: i64,
    #[model(key(playlist, track))]
    key: String,
    note: Option<String>,
    #[model(version)]
    version: i64,
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
    value: Option<f64>,
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Playlist>().model::<Entry>().model::<Reading>()
}

fn entry(playlist: i64, track: i64) -> Entry {
    let key = String::new();
    Entry { playlist: playlist.into(), track, key, note: None, version: 0 }
}

/// Opens the subject with two playlists.
fn open(subject: &Subject) -> Stand<'_> {
    let mut stand = Stand::open(subject, models);
    for id in [1, 2, 12] {
        stand.insert(&Playlist { id, name: format!("list {id}") }).run().unwrap();
    }
    stand.settle();
    stand
}

fn keys(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| &*entry.key).collect()
}

/// A row is inserted, read, changed and deleted by the text of its key.
pub fn a_row_is_named_by_the_text_of_its_fields(subject: &Subject) {
    let mut stand = open(subject);
    let key = stand.insert(&entry(1, 3402)).run().unwrap();
    assert_eq!((&*key, Entry::key_of(1, 3402)), ("1,3402", key.clone()));
    stand.settle();
    let read = stand.get::<Entry>(key.clone()).run().unwrap();
    assert_eq!(read, Entry { key: key.clone(), version: 1, ..entry(1, 3402) });
    let version = stand.patch::<Entry>(key.clone()).set(Entry::NOTE, "best".to_owned()).run();
    assert_eq!(version.unwrap(), 2);
    let changed = Entry { note: None, version: 2, ..read };
    assert_eq!(stand.update(&changed).run().unwrap(), 3);
    refused(stand.update(&changed).run(), ErrorKind::Stale);
    stand.delete::<Entry>(key.clone()).run().unwrap();
    for missing in
        ["1,3402", "1", "", "1,2,3", "01,3402", "1,x", "1,3402,", "1,99999999999999999999"]
    {
        refused(stand.get::<Entry>(missing.to_owned()).run(), ErrorKind::NotFound);
        refused(stand.delete::<Entry>(missing.to_owned()).run(), ErrorKind::NotFound);
        let patch = stand.patch::<Entry>(missing.to_owned()).set(Entry::NOTE, "x".to_owned());
        refused(patch.run(), ErrorKind::NotFound);
    }
}

/// A second row with the same values is refused, with the fields of the key.
pub fn a_duplicate_names_the_fields(subject: &Subject) {
    let mut stand = open(subject);
    stand.insert(&entry(1, 7)).run().unwrap();
    stand.settle();
    let both = ["playlist", "track"].map(|field| (field.to_owned(), "unique".to_owned()));
    let error = refused(stand.insert(&entry(1, 7)).run(), ErrorKind::Conflict);
    assert_eq!(refusal(&error).1, both);
    let many = [entry(1, 8), entry(1, 7)];
    let error = refused(stand.insert_many(&many).run(), ErrorKind::Conflict);
    assert_eq!(refusal(&error).1, both);
    assert_eq!(stand.count::<Entry>().run().unwrap(), 1);
    // The order of checks is that of other tables.
    blamed(stand.insert(&entry(9, 7)).run(), ErrorKind::Invalid, "playlist", "reference");
}

/// The fields of the key are required, do not change, and determine the text.
pub fn the_fields_of_the_key_are_fixed(subject: &Subject) {
    let mut stand = open(subject);
    let key = stand.insert(&entry(1, 7)).run().unwrap();
    stand.settle();
    let moved = Entry { track: 8, key: key.clone(), version: 1, ..entry(1, 7) };
    blamed(stand.update(&moved).run(), ErrorKind::Invalid, "track", "immutable");
    let patch = stand.patch::<Entry>(key.clone()).set(Entry::TRACK, 8);
    blamed(patch.run(), ErrorKind::Invalid, "track", "immutable");
    stand.patch::<Entry>(key.clone()).set(Entry::TRACK, 7).run().unwrap();
    let given = |key: &str| Entry { key: key.to_owned(), ..entry(2, 7) };
    blamed(stand.insert(&given("2,8")).run(), ErrorKind::Invalid, "key", "computed");
    stand.insert(&given("2,7")).run().unwrap();
    let table = stand.table("entry").unwrap();
    let mut record = Record::new(table);
    record.set("track", 7).unwrap();
    blamed(stand.insert_record(&record).run(), ErrorKind::Invalid, "playlist", "required");
    record.set("playlist", 12).unwrap();
    assert_eq!(stand.insert_record(&record).run().unwrap(), Value::from("12,7"));
}

/// Rows are listed in the order of the fields, and pages continue after any row.
pub fn lists_are_in_the_order_of_the_fields(subject: &Subject) {
    let mut stand = open(subject);
    let rows: Vec<Entry> = [(12, 1), (2, 10), (2, 9), (1, 100), (1, 20), (1, -3)]
        .map(|(playlist, track)| entry(playlist, track))
        .into();
    let made = stand.insert_many(&rows).run().unwrap();
    assert_eq!(made, ["12,1", "2,10", "2,9", "1,100", "1,20", "1,-3"]);
    stand.settle();
    let sorted = ["1,-3", "1,20", "1,100", "2,9", "2,10", "12,1"];
    assert_eq!(keys(&stand.list::<Entry>().run().unwrap()), sorted);
    let reversed: Vec<&str> = sorted.iter().rev().copied().collect();
    let descending = stand.list::<Entry>().order(Entry::KEY.descending()).run().unwrap();
    assert_eq!(keys(&descending), reversed);
    let by_track = stand.list::<Entry>().order(Entry::TRACK.descending()).run().unwrap();
    assert_eq!(keys(&by_track), ["1,100", "1,20", "2,10", "2,9", "12,1", "1,-3"]);
    let table = stand.table("entry").unwrap();
    let position = |name: &str| table.position(name).unwrap();
    for names in
        [&[][..], &["key"], &["track"], &["note"], &["playlist", "note"], &["track", "key"]]
    {
        for descending in [false, true] {
            let by = names.iter().map(|name| SortKey { field: position(name), descending });
            let mut query = RowQuery { order: by.collect(), ..RowQuery::new() };
            let whole = stand.list_records(&table).query(query.clone()).run().unwrap();
            let mut paged: Vec<Value> = Vec::new();
            query.limit = Some(2);
            loop {
                let page = stand.list_records(&table).query(query.clone()).run().unwrap();
                let Some(last) = page.last() else { break };
                let by = query.order_with_key(&table);
                query.after = Some(by.iter().map(|by| last.values()[by.field].clone()).collect());
                paged.extend(page.iter().map(|row| row.value("key").unwrap().clone()));
                assert!(paged.len() <= whole.len(), "{names:?}");
            }
            let all: Vec<Value> =
                whole.iter().map(|row| row.value("key").unwrap().clone()).collect();
            assert_eq!(paged, all, "{names:?} {descending}");
        }
    }
    let list = || stand.list::<Entry>().order(Entry::NOTE.ascending());
    let whole = list().run().unwrap();
    assert_eq!(list().after(&whole[2]).run().unwrap(), whole[3..]);
}

/// Filters compare the text of the key, and its fields.
pub fn filters_find_rows_by_key_and_fields(subject: &Subject) {
    let mut stand = open(subject);
    let rows = [(1, 1), (1, 2), (2, 1), (12, 1)].map(|(playlist, track)| entry(playlist, track));
    stand.insert_many(&rows).run().unwrap();
    stand.settle();
    let table = stand.table("entry").unwrap();
    for (text, found) in [
        ("key = '1,2'", vec!["1,2"]),
        ("key = '01,2'", vec![]),
        ("key = ''", vec![]),
        ("not key = '1,2'", vec!["1,1", "2,1", "12,1"]),
        ("not key in ('1,2', '01,1', 'x')", vec!["1,1", "2,1", "12,1"]),
        ("playlist = 1 and not key = 'x'", vec!["1,1", "1,2"]),
        ("key != '1,2'", vec!["1,1", "2,1", "12,1"]),
        ("key in ('12,1', 'x', '1,1')", vec!["1,1", "12,1"]),
        ("not key in ('12,1', '1,1')", vec!["1,2", "2,1"]),
        ("playlist = 1", vec!["1,1", "1,2"]),
        ("track = 1 and playlist > 1", vec!["2,1", "12,1"]),
        ("playlist.name = 'list 12'", vec!["12,1"]),
    ] {
        let filter = parse_filter(&table, text).unwrap();
        let read = stand.list_records(&table).filter(filter).run().unwrap();
        let keys: Vec<&Value> = read.iter().map(|row| row.value("key").unwrap()).collect();
        let found: Vec<Value> = found.into_iter().map(Value::from).collect();
        assert_eq!(keys, found.iter().collect::<Vec<_>>(), "{text}");
    }
    let of = |key: &str| Entry::KEY.eq(key.to_owned());
    assert_eq!(stand.count::<Entry>().filter(of("2,1").or(of("1,1"))).run().unwrap(), 2);
    assert_eq!(stand.delete_where(Entry::TRACK.eq(1)).run().unwrap(), 3);
    assert_eq!(stand.delete_where(of("1,2")).run().unwrap(), 1);
}

/// Values of all kinds that a key may have are in its text, with any characters.
pub fn a_key_has_values_of_any_kind(subject: &Subject) {
    let mut stand = open(subject);
    let mut made = Vec::new();
    let (day, device) = ("2026-02-28".parse::<Date>().unwrap(), Uuid::from_u128(0xabc));
    for station in ["", "a", "a,b", "100%", "%2C", "\u{e9}'\"/", " ,"] {
        for number in [i16::MIN, 0, 7] {
            let row = Reading {
                key: String::new(),
                number,
                device,
                station: station.to_owned(),
                day,
                value: Some(0.5),
            };
            let key = stand.insert(&row).run().unwrap();
            assert_eq!(key, Reading::key_of(station, day, device, number));
            made.push(Reading { key, ..row });
        }
    }
    stand.settle();
    for row in &made {
        assert_eq!(stand.get::<Reading>(row.key.clone()).run().unwrap(), *row);
        let patch = stand.patch::<Reading>(row.key.clone()).set(Reading::VALUE, None::<f64>);
        patch.run().unwrap();
    }
    let first = &made[3];
    assert_eq!(first.key, format!("a,2026-02-28,{device},-32768"));
    let mut listed = stand.list::<Reading>().run().unwrap();
    assert!(listed.iter().all(|row| row.value.is_none()));
    listed.sort_by(|a, b| a.key.cmp(&b.key));
    made.sort_by(|a, b| a.key.cmp(&b.key));
    let keys = |rows: &[Reading]| rows.iter().map(|row| row.key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&listed), keys(&made));
    for row in &made {
        stand.delete::<Reading>(row.key.clone()).run().unwrap();
    }
    assert_eq!(stand.count::<Reading>().run().unwrap(), 0);
}

/// An upsert finds the row by the fields of its key.
pub fn upserts_find_the_row(subject: &Subject) {
    let mut stand = open(subject);
    let with_note = |note: &str| Entry { note: Some(note.to_owned()), ..entry(1, 7) };
    let first = stand.upsert(&with_note("a")).run().unwrap();
    assert_eq!((&*first.key, first.effect), ("1,7", UpsertEffect::Inserted));
    stand.settle();
    let second = stand.upsert(&with_note("b")).run().unwrap();
    assert_eq!((&*second.key, second.effect), ("1,7", UpsertEffect::Updated));
    let ignored = stand.insert(&with_note("c")).or_ignore().run().unwrap();
    assert_eq!((&*ignored.key, ignored.effect), ("1,7", UpsertEffect::Ignored));
    let read = stand.get::<Entry>("1,7".to_owned()).run().unwrap();
    assert_eq!((read.note.as_deref(), read.version), (Some("b"), 2));
    let replaced = stand.insert(&with_note("d")).or_replace().run().unwrap();
    assert_eq!((&*replaced.key, replaced.effect), ("1,7", UpsertEffect::Replaced));
    let many = stand.upsert_many(&[with_note("e"), Entry { note: None, ..entry(2, 7) }]).run();
    let many: Vec<_> = many.unwrap().into_iter().map(|row| (row.key, row.effect)).collect();
    let (updated, inserted) = (UpsertEffect::Updated, UpsertEffect::Inserted);
    assert_eq!(many, [("1,7".to_owned(), updated), ("2,7".to_owned(), inserted)]);
    let read = stand.get::<Entry>("1,7".to_owned()).run().unwrap();
    assert_eq!(read.note.as_deref(), Some("e"));
}

/// Batches write rows by their keys, and are undone as a whole.
pub fn batches_write_by_key(subject: &Subject) {
    let mut stand = open(subject);
    stand.insert(&entry(1, 1)).run().unwrap();
    stand.settle();
    let mut batch = stand.batch();
    batch.insert(&entry(1, 2));
    batch.patch::<Entry>("1,1".to_owned()).set(Entry::NOTE, "x".to_owned());
    batch.delete::<Entry>("1,2".to_owned());
    batch.insert(&entry(2, 1));
    batch.all_or_nothing().run().unwrap();
    assert_eq!(keys(&stand.list::<Entry>().run().unwrap()), ["1,1", "2,1"]);
    let mut batch = stand.batch();
    batch.insert(&entry(12, 1));
    batch.insert(&entry(1, 1));
    let error = refused(batch.all_or_nothing().run(), ErrorKind::Conflict);
    assert_eq!(error.violations().len(), 2, "{error:?}");
    assert_eq!(keys(&stand.list::<Entry>().run().unwrap()), ["1,1", "2,1"]);
    let rows = stand.list::<Entry>().run().unwrap();
    let noted: Vec<Entry> =
        rows.into_iter().map(|row| Entry { note: Some("y".to_owned()), ..row }).collect();
    assert_eq!(stand.update_many(&noted).run().unwrap(), 2);
    assert!(stand.list::<Entry>().run().unwrap().iter().all(|row| row.note.is_some()));
    let missing = Entry { key: "1,x".to_owned(), ..noted[0].clone() };
    refused(stand.update_many(&[missing]).run(), ErrorKind::NotFound);
}

/// A transaction sees its rows by key, and a rollback takes them back.
pub fn transactions_see_their_rows(subject: &Subject) {
    let stand = open(subject);
    let transaction = stand.begin_run().unwrap();
    let key = transaction.insert(&entry(1, 7)).run().unwrap();
    assert_eq!(transaction.get::<Entry>(key.clone()).run().unwrap().track, 7);
    transaction.rollback().run().unwrap();
    refused(stand.get::<Entry>(key).run(), ErrorKind::NotFound);
}

/// The history has the entries of a row by its key.
pub fn the_history_names_the_row(subject: &Subject) {
    let stand = open(subject);
    let key = stand.insert(&entry(1, 7)).run().unwrap();
    stand.patch::<Entry>(key.clone()).set(Entry::NOTE, "x".to_owned()).run().unwrap();
    stand.delete::<Entry>(key.clone()).run().unwrap();
    let entries = stand.history::<Entry>(key).run().unwrap();
    let actions: Vec<&str> = entries.iter().map(|entry| entry.action.name()).collect();
    assert_eq!(actions, ["insert", "update", "delete"]);
}

/// A cache returns rows by key as they are stored.
pub fn caches_keep_rows_by_key(subject: &Subject) {
    let mut stand = Stand::open(subject, |builder| models(builder).cache(1 << 20));
    stand.insert(&Playlist { id: 1, name: String::new() }).run().unwrap();
    stand.settle();
    let key = stand.insert(&entry(1, 7)).run().unwrap();
    let read = |stand: &Store| stand.get::<Entry>(key.clone()).run().map(|row| row.note);
    for note in [None, Some("a"), Some("b")] {
        let patch = stand.patch::<Entry>(key.clone()).set(Entry::NOTE, note.map(str::to_owned));
        patch.run().unwrap();
        for _ in 0..2 {
            assert_eq!(read(&stand).unwrap().as_deref(), note);
        }
        refused(stand.get::<Entry>("01,7".to_owned()).run(), ErrorKind::NotFound);
    }
    stand.delete::<Entry>(key.clone()).run().unwrap();
    refused(read(&stand), ErrorKind::NotFound);
}

#[derive(Clone, Debug, Model, PartialEq)]
#[model(table = "reading")]
struct GrownReading {
    #[model(key(station, day, device, number))]
    key: String,
    number: i16,
    device: Uuid,
    station: String,
    day: Date,
    #[model(was = "value")]
    measured: Option<f64>,
    #[model(default = 5)]
    rank: i64,
}

#[derive(Clone, Debug, Model, PartialEq)]
#[model(table = "reading")]
struct OtherReading {
    #[model(key(day, station, device, number))]
    key: String,
    number: i16,
    device: Uuid,
    station: String,
    day: Date,
    value: Option<f64>,
}

/// A table with such a key gets other fields, and keeps its rows. Another key is refused.
pub fn the_table_of_a_key_grows(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let mut stand = open(subject);
    let (station, number, device) = ("a".to_owned(), 1, Uuid::from_u128(7));
    let day = "2026-11-28".parse().unwrap();
    let row = Reading { key: String::new(), number, device, station, day, value: Some(1.5) };
    let key = stand.insert(&row).run().unwrap();
    let other = |builder: StoreBuilder| {
        builder.model::<Playlist>().model::<Entry>().model::<OtherReading>()
    };
    refused(stand.reopen_as(other), ErrorKind::Invalid);
    stand
        .reopen_as(|builder| builder.model::<Playlist>().model::<Entry>().model::<GrownReading>())
        .unwrap();
    let read = stand.get::<GrownReading>(key).run().unwrap();
    assert_eq!((read.measured, read.rank), (Some(1.5), 5));
}

fn recording(builder: StoreBuilder) -> StoreBuilder {
    models(builder).changes(ChangeRetention::default())
}

/// Changes of the feed, and rows of live queries, have the key.
pub fn changes_name_the_row(subject: &Subject) {
    if !subject.capability().change_feed {
        return;
    }
    let mut stand = Stand::open(subject, recording);
    stand.insert(&Playlist { id: 1, name: String::new() }).run().unwrap();
    stand.settle();
    let mut stream = stand.changes().unwrap();
    let mut live = stand.live::<Entry>().subscribe_run().unwrap();
    let mut page: Vec<Entry> = Vec::new();
    let mut follow = |wanted: &dyn Fn(&[Entry]) -> bool| {
        while !wanted(&page) {
            live.next_run().unwrap().expect("the store is open").apply_to(&mut page);
        }
    };
    let key = stand.insert(&entry(1, 7)).run().unwrap();
    stand.patch::<Entry>(key.clone()).set(Entry::NOTE, "x".to_owned()).run().unwrap();
    follow(&|page| matches!(page, [row] if row.key == "1,7" && row.note.is_some()));
    stand.delete::<Entry>(key).run().unwrap();
    follow(&<[Entry]>::is_empty);
    for kind in ["insert", "update", "delete"] {
        let commit = match block_on(stream.next()).unwrap() {
            Some(FeedEvent::Commit(commit)) => commit,
            other => panic!("no commit: {other:?}"),
        };
        let change = commit.changes.iter().find(|change| change.table.name() == "entry").unwrap();
        assert_eq!((change.kind.name(), change.key()), (kind, &Value::from("1,7")));
    }
}

register!($ composite_keys_promises composite_keys:
    ; by transactions:
    a_row_is_named_by_the_text_of_its_fields,
    a_duplicate_names_the_fields,
    the_fields_of_the_key_are_fixed,
    lists_are_in_the_order_of_the_fields,
    filters_find_rows_by_key_and_fields,
    a_key_has_values_of_any_kind,
    upserts_find_the_row,
    batches_write_by_key,
    the_history_names_the_row,
    caches_keep_rows_by_key,
    changes_name_the_row,
    transactions_see_their_rows,
    the_table_of_a_key_grows,
);

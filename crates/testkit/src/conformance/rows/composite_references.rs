//! References to tables with composite keys: a reference is computed of the fields with the values of
//! the key, is checked like any other, and leads to related rows.

use marmota_derive::Model;
use marmota_model::{
    Date, ErrorKind, Field, KeyKind, Kind, Record, Ref, Role, Schema, Uuid, Value, parse_filter,
};
use marmota_store::action::block_on;
use marmota_store::change::{ChangeRetention, FeedEvent};
use marmota_store::group::count;
use marmota_store::related::{many, one};
use marmota_store::{HistoryAction, StoreBuilder};

use crate::conformance::harness::refusal::{blamed, refused, says};
use crate::conformance::harness::subject::{Stand, Subject};

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Playlist {
    id: i64,
    name: String,
}

#[derive(Clone, Debug, Model, PartialEq)]
struct Entry {
    #[model(key(playlist, track))]
    key: String,
    playlist: Ref<Playlist>,
    track: i64,
    note: Option<String>,
}

/// A row that may refer to an entry, by fields that may be NULL one by one.
#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(audit)]
struct Vote {
    id: i64,
    playlist: Option<Ref<Playlist>>,
    track: Option<i64>,
    #[model(computed = "key(playlist, track)")]
    entry: Option<Ref<Entry>>,
    points: i64,
    #[model(version)]
    version: i64,
}

/// A row whose own key begins with that of an entry.
#[derive(Clone, Debug, Model, PartialEq)]
struct Mark {
    #[model(key(playlist, track, label))]
    key: String,
    playlist: i64,
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
    station: Option<String>,
    device: Option<Uuid>,
    number: Option<i64>,
    day: Option<Date>,
    #[model(computed = "key(station, day, device, number)")]
    reading: Option<Ref<Reading>>,
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    let builder = builder.model::<Playlist>().model::<Entry>().model::<Vote>();
    builder.model::<Mark>().model::<Reading>().model::<Check>()
}

fn entry(playlist: i64, track: i64, note: Option<&str>) -> Entry {
    let note = note.map(str::to_owned);
    Entry { key: String::new(), playlist: playlist.into(), track, note }
}

fn vote(playlist: impl Into<Option<i64>>, track: impl Into<Option<i64>>) -> Vote {
    Vote { playlist: playlist.into().map(Ref::new), track: track.into(), ..Vote::default() }
}

fn mark(playlist: i64, track: i64, label: &str) -> Mark {
    let (key, label) = (String::new(), label.to_owned());
    Mark { key, playlist, track, label, entry: "".into() }
}

/// Opens the subject with three playlists and four entries.
fn open_with(subject: &Subject, models: fn(StoreBuilder) -> StoreBuilder) -> Stand<'_> {
    let mut stand = Stand::open(subject, models);
    for id in [1, 2, 12] {
        stand.insert(&Playlist { id, name: format!("list {id}") }).run().unwrap();
    }
    let entries =
        [entry(1, 7, Some("x")), entry(1, 8, None), entry(2, 7, Some("y")), entry(12, 7, None)];
    stand.insert_many(&entries).run().unwrap();
    stand.settle();
    stand
}

fn open(subject: &Subject) -> Stand<'_> {
    open_with(subject, models)
}

/// A reference is computed of its fields in every write. One without a row is refused, with the
/// reference and its value.
pub fn a_reference_is_computed_of_its_fields(subject: &Subject) {
    let mut stand = open(subject);
    let read = |stand: &Stand<'_>, id| stand.get::<Vote>(id).run().unwrap().entry;
    let id = stand.insert(&vote(1, 7)).run().unwrap();
    stand.settle();
    assert_eq!(read(&stand, id), Some("1,7".into()));
    let error = blamed(stand.insert(&vote(1, 9)).run(), ErrorKind::Invalid, "entry", "reference");
    let broken = &error.violations()[0];
    assert!(broken.value.contains("1,9") && broken.message.contains("`entry`"), "{broken:?}");
    for (playlist, track) in [(None, Some(99)), (Some(1), None), (None, None)] {
        let id = stand.insert(&vote(playlist, track)).run().unwrap();
        assert_eq!(read(&stand, id), None);
    }
    stand.patch::<Vote>(id).set(Vote::TRACK, 8).run().unwrap();
    assert_eq!(read(&stand, id), Some("1,8".into()));
    let patch = stand.patch::<Vote>(id).set(Vote::TRACK, 9).run();
    blamed(patch, ErrorKind::Invalid, "entry", "reference");
    let row = Vote { id, version: 2, points: 3, ..vote(12, 7) };
    stand.update(&row).run().unwrap();
    assert_eq!(read(&stand, id), Some("12,7".into()));
    stand.patch::<Vote>(id).set(Vote::PLAYLIST, None).run().unwrap();
    assert_eq!(read(&stand, id), None);

    let mut record = Record::new(stand.table("vote").unwrap());
    for (field, value) in [("playlist", 1), ("track", 7), ("points", 0)] {
        record.set(field, value).unwrap();
    }
    record.set("entry", "1,8").unwrap();
    blamed(stand.insert_record(&record).run(), ErrorKind::Invalid, "entry", "computed");
    record.set("entry", "1,7").unwrap();
    stand.insert_record(&record).run().unwrap();

    let key = stand.insert(&mark(2, 7, "a,b")).run().unwrap();
    stand.settle();
    let read = stand.get::<Mark>(key.clone()).run().unwrap();
    assert_eq!((&*key, read.entry), ("2,7,a%2Cb", "2,7".into()));
    let error = stand.insert(&mark(2, 8, "c")).run();
    blamed(error, ErrorKind::Invalid, "entry", "reference");
}

/// A row that is referred to stays, and a delete by filter of all rows too.
pub fn a_row_referred_to_by_its_fields_stays(subject: &Subject) {
    let mut stand = open(subject);
    let id = stand.insert(&vote(1, 7)).run().unwrap();
    stand.insert(&vote(None, 8)).run().unwrap();
    stand.settle();
    let error = refused(stand.delete::<Entry>("1,7".to_owned()).run(), ErrorKind::Conflict);
    says(&error, &["vote"]);
    refused(stand.delete_where(Entry::TRACK.gt(0)).run(), ErrorKind::Conflict);
    stand.delete::<Entry>("1,8".to_owned()).run().unwrap();
    stand.patch::<Vote>(id).set(Vote::TRACK, None).run().unwrap();
    stand.delete::<Entry>("1,7".to_owned()).run().unwrap();
    assert_eq!(stand.count::<Entry>().run().unwrap(), 2);
}

/// Votes for entries, and without some of the fields.
fn open_with_votes(subject: &Subject) -> Stand<'_> {
    let mut stand = open(subject);
    let votes = [
        Vote { points: 1, ..vote(1, 7) },
        Vote { points: 2, ..vote(1, 7) },
        Vote { points: 3, ..vote(2, 7) },
        Vote { points: 4, ..vote(None, 7) },
        Vote { points: 5, ..vote(1, None) },
        Vote { points: 6, ..vote(None, None) },
        Vote { points: 7, ..vote(12, 7) },
    ];
    stand.insert_many(&votes).run().unwrap();
    stand.settle();
    stand
}

/// Filters compare the reference like a text, which is NULL if one of its fields is, also under
/// `not`; and they lead to the row and back.
pub fn filters_follow_the_reference(subject: &Subject) {
    let stand = open_with_votes(subject);
    let points = stand.table("vote").unwrap();
    for (text, found) in [
        ("entry = '1,7'", vec![1, 2]),
        ("not entry = '1,7'", vec![3, 7]),
        ("not (entry = '1,7' and points = 1)", vec![2, 3, 4, 5, 6, 7]),
        ("not (entry = '1,7' or track = 7)", vec![]),
        ("entry != '1,7'", vec![3, 7]),
        ("entry = '01,7'", vec![]),
        ("not entry = '01,7'", vec![1, 2, 3, 7]),
        ("entry in ('1,7', '12,7', 'x')", vec![1, 2, 7]),
        ("not entry in ('1,7', '12,7', 'x')", vec![3]),
        ("entry = null", vec![4, 5, 6]),
        ("not entry = null", vec![1, 2, 3, 7]),
        ("entry.note = 'x'", vec![1, 2]),
        ("entry.note = null", vec![7]),
        ("not entry.note = 'x'", vec![3, 4, 5, 6, 7]),
        ("entry.playlist.name = 'list 2'", vec![3]),
        ("count(entry) = 0", vec![4, 5, 6]),
        ("none(entry, note = 'x')", vec![3, 4, 5, 6, 7]),
        ("any(entry.vote, points = 2)", vec![1, 2]),
    ] {
        let filter = parse_filter(&points, text).unwrap();
        let read = stand.list_records(&points).filter(filter).run().unwrap();
        let read: Vec<&Value> = read.iter().map(|row| row.value("points").unwrap()).collect();
        let found: Vec<Value> = found.into_iter().map(Value::Int).collect();
        assert_eq!(read, found.iter().collect::<Vec<_>>(), "{text}");
    }
    let entries = stand.table("entry").unwrap();
    for (text, found) in [
        ("any(vote)", vec!["1,7", "2,7", "12,7"]),
        ("none(vote)", vec!["1,8"]),
        ("count(vote) > 1", vec!["1,7"]),
        ("count(vote, points > 1) < 1", vec!["1,8"]),
        ("not count(vote) = 1", vec!["1,7", "1,8"]),
        ("any(vote:entry, track = 7 and points > 2)", vec!["2,7", "12,7"]),
    ] {
        let filter = parse_filter(&entries, text).unwrap();
        let read = stand.list_records(&entries).filter(filter).run().unwrap();
        let read: Vec<&Value> = read.iter().map(|row| row.value("key").unwrap()).collect();
        let found: Vec<Value> = found.into_iter().map(Value::from).collect();
        assert_eq!(read, found.iter().collect::<Vec<_>>(), "{text}");
    }
    let of_x = Vote::ENTRY.to(Entry::NOTE.eq("x".to_owned()));
    assert_eq!(stand.delete_where::<Vote>(of_x).run().unwrap(), 2);
    assert_eq!(
        stand.count::<Vote>().filter(Vote::ENTRY.eq(Ref::new("2,7".into()))).run().unwrap(),
        1
    );
}

/// Lists are ordered and grouped by the reference and by fields of its row, continue after a row,
/// and come with related rows.
pub fn lists_follow_the_reference(subject: &Subject) {
    let stand = open_with_votes(subject);
    let votes = || stand.list::<Vote>();
    let points = |votes: Vec<Vote>| -> Vec<i64> { votes.iter().map(|one| one.points).collect() };
    let sorted = [4, 5, 6, 1, 2, 7, 3];
    assert_eq!(points(votes().order(Vote::ENTRY.ascending()).run().unwrap()), sorted);
    let query = votes().order(Vote::ENTRY.ascending()).limit(3);
    let first = query.run().unwrap();
    let last = first.last().unwrap();
    let after = votes().order(Vote::ENTRY.ascending()).after(last);
    assert_eq!(points(after.run().unwrap()), sorted[3..]);
    let by_note = votes().order(Vote::ENTRY.then(Entry::NOTE).descending());
    assert_eq!(points(by_note.run().unwrap())[..3], [3, 2, 1]);
    let groups = votes().group_by(Vote::ENTRY).select(count()).run().unwrap();
    let groups: Vec<(Option<&str>, u64)> =
        groups.iter().map(|(entry, rows)| (entry.as_ref().map(|it| &**it.key()), *rows)).collect();
    assert_eq!(groups, [(None, 3), (Some("1,7"), 2), (Some("12,7"), 1), (Some("2,7"), 1)]);
    let groups = votes().group_by(Vote::ENTRY.then(Entry::NOTE)).select(count()).run().unwrap();
    let groups: Vec<(Option<Option<String>>, u64)> = groups;
    let rows = |note: Option<&str>| -> u64 {
        let is_it =
            |(name, _): &&(Option<Option<String>>, u64)| name.clone().flatten().as_deref() == note;
        groups.iter().filter(is_it).map(|(_, rows)| rows).sum()
    };
    assert_eq!((rows(Some("x")), rows(Some("y")), rows(None)), (2, 1, 4));

    let found = votes().order(Vote::POINTS.ascending()).with(one(Vote::ENTRY)).run().unwrap();
    let notes: Vec<Option<&str>> =
        found.iter().map(|(_, entry)| entry.as_ref()?.note.as_deref()).collect();
    assert_eq!(notes[..4], [Some("x"), Some("x"), Some("y"), None]);
    let found = stand.list::<Entry>().with(many(Vote::ENTRY).limit(1)).run().unwrap();
    let votes: Vec<(&str, usize)> =
        found.iter().map(|(entry, votes)| (&*entry.key, votes.len())).collect();
    assert_eq!(votes, [("1,7", 1), ("1,8", 0), ("2,7", 1), ("12,7", 1)]);
}

/// Values of all kinds that a key may have, each of which may be NULL in the reference.
pub fn a_reference_has_values_of_any_kind(subject: &Subject) {
    let mut stand = open(subject);
    let (day, device) = ("2026-02-28".parse::<Date>().unwrap(), Uuid::from_u128(0xabc));
    for station in ["", "a,b", "100%", "%2C", "\u{e9}'\"/"] {
        let reading =
            Reading { key: String::new(), number: -7, device, station: station.to_owned(), day };
        let key = stand.insert(&reading).run().unwrap();
        let whole = Check {
            station: Some(station.to_owned()),
            device: Some(device),
            number: Some(-7),
            day: Some(day),
            ..Check::default()
        };
        let id = stand.insert(&whole).run().unwrap();
        stand.settle();
        let wanted = Some(Ref::new(key));
        assert_eq!(stand.get::<Check>(id).run().unwrap().reading, wanted);
        let of_it = Check::READING.eq(wanted.clone().unwrap());
        assert_eq!(stand.count::<Check>().filter(of_it).run().unwrap(), 1, "{station}");
        for part in [
            Check { station: None, ..whole.clone() },
            Check { device: None, ..whole.clone() },
            Check { number: None, ..whole.clone() },
            Check { day: None, ..whole.clone() },
        ] {
            let id = stand.insert(&part).run().unwrap();
            assert_eq!(stand.get::<Check>(id).run().unwrap().reading, None);
        }
        // The reference has a wider range than the key.
        for number in [40_000, 1] {
            let other = stand.insert(&Check { number: Some(number), ..whole.clone() }).run();
            blamed(other, ErrorKind::Invalid, "reading", "reference");
        }
    }
    assert_eq!(stand.count::<Check>().filter(Check::READING.is_null()).run().unwrap(), 20);
}

/// Batches, upserts, writes of many rows and transactions compute and check references.
pub fn all_verbs_compute_references(subject: &Subject) {
    let mut stand = open(subject);
    let mut batch = stand.batch();
    batch.insert(&entry(2, 9, None)).insert(&vote(2, 9));
    batch.all_or_nothing().run().unwrap();
    stand.settle();
    let mut batch = stand.batch();
    batch.insert(&vote(1, 7)).insert(&vote(2, 10));
    blamed(batch.all_or_nothing().run(), ErrorKind::Invalid, "entry", "reference");
    assert_eq!(stand.count::<Vote>().run().unwrap(), 1);
    let many = stand.insert_many(&[vote(1, 7), vote(None, 7), vote(1, 99)]).run();
    blamed(many, ErrorKind::Invalid, "entry", "reference");
    let ids = stand.insert_many(&[vote(1, 7), vote(None, 7)]).run().unwrap();
    let rows = [Vote { id: ids[0], ..vote(1, 8) }, Vote { id: ids[1], ..vote(2, 7) }];
    let read = |id| stand.get::<Vote>(id).run().unwrap().entry;
    stand.update_many(&rows).run().unwrap();
    assert_eq!((read(ids[0]), read(ids[1])), (Some("1,8".into()), Some("2,7".into())));
    stand.upsert(&mark(1, 7, "a")).run().unwrap();
    stand.upsert(&mark(1, 7, "a")).run().unwrap();
    blamed(stand.upsert(&mark(1, 9, "a")).run(), ErrorKind::Invalid, "entry", "reference");
    stand.increment(Vote::TRACK, ids[0], -1).run().unwrap();
    assert_eq!(read(ids[0]), Some("1,7".into()));
    blamed(stand.increment(Vote::TRACK, ids[0], 7).run(), ErrorKind::Invalid, "entry", "reference");
    stand
        .transaction(|transaction| {
            let id = transaction.insert(&vote(12, 7)).run()?;
            assert_eq!(transaction.get::<Vote>(id).run()?.entry, Some("12,7".into()));
            Ok(())
        })
        .unwrap();
    let history = stand.history::<Vote>(ids[0]).run().unwrap();
    assert_eq!(history[0].action, HistoryAction::Insert);
}

fn recording(builder: StoreBuilder) -> StoreBuilder {
    models(builder).changes(ChangeRetention::default())
}

/// Changes of the feed, and rows of live queries, have the reference.
pub fn changes_have_the_reference(subject: &Subject) {
    if !subject.capability().change_feed {
        return;
    }
    let stand = open_with(subject, recording);
    let mut stream = stand.changes().unwrap();
    let of_entry = Vote::ENTRY.eq(Ref::new("1,8".to_owned()));
    let mut live = stand.live::<Vote>().filter(of_entry).subscribe_run().unwrap();
    let id = stand.insert(&vote(1, 7)).run().unwrap();
    stand.patch::<Vote>(id).set(Vote::TRACK, 8).run().unwrap();
    let mut page: Vec<Vote> = Vec::new();
    while page.is_empty() {
        live.next_run().unwrap().expect("the store is open").apply_to(&mut page);
    }
    assert_eq!(page[0].entry, Some("1,8".into()));
    stand.patch::<Vote>(id).set(Vote::PLAYLIST, None).run().unwrap();
    stand.delete::<Vote>(id).run().unwrap();
    let field = stand.table("vote").unwrap().position("entry").unwrap();
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let commit = match block_on(stream.next()).unwrap() {
            Some(FeedEvent::Commit(commit)) => commit,
            other => panic!("no commit: {other:?}"),
        };
        let change = commit.changes.iter().find(|change| change.table.name() == "vote");
        let Some(change) = change else { continue };
        let row = change.after.as_ref().or(change.before.as_ref()).unwrap();
        seen.push(row[field].clone());
    }
    assert_eq!(seen, ["1,7".into(), "1,8".into(), Value::Null, Value::Null]);
}

/// A row that goes with the entry that it refers to.
#[derive(Clone, Debug, Model, PartialEq)]
struct Play {
    id: i64,
    playlist: i64,
    track: i64,
    #[model(computed = "key(playlist, track)", on_delete = "cascade")]
    entry: Ref<Entry>,
}

/// A row whose two references become NULL with the entry.
#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Wish {
    id: i64,
    playlist: Option<i64>,
    track: Option<i64>,
    other: Option<i64>,
    #[model(computed = "key(playlist, track)", on_delete = "set_null")]
    entry: Option<Ref<Entry>>,
    #[model(computed = "key(playlist, other)", on_delete = "set_null")]
    instead: Option<Ref<Entry>>,
    #[model(version)]
    version: i64,
}

/// Deletes of the row referred to delete the referring rows, or set all fields of the reference to
/// NULL, which also changes other references of these fields.
pub fn deletes_reach_referring_rows(subject: &Subject) {
    if !subject.capability().on_delete {
        return;
    }
    let models = |builder: StoreBuilder| models(builder).model::<Play>().model::<Wish>();
    let mut stand = open_with(subject, models);
    for (playlist, track) in [(1, 7), (1, 7), (2, 7)] {
        let play = Play { id: 0, playlist, track, entry: "".into() };
        stand.insert(&play).run().unwrap();
    }
    let wish = Wish { playlist: Some(1), track: Some(7), other: Some(8), ..Wish::default() };
    let id = stand.insert(&wish).run().unwrap();
    stand.settle();
    let read = stand.get::<Wish>(id).run().unwrap();
    assert_eq!((read.entry, read.instead), (Some("1,7".into()), Some("1,8".into())));
    stand.delete::<Entry>("1,7".to_owned()).run().unwrap();
    stand.settle();
    assert_eq!(stand.count::<Play>().run().unwrap(), 1);
    let read = stand.get::<Wish>(id).run().unwrap();
    let left = Wish { id, other: Some(8), version: 2, ..Wish::default() };
    assert_eq!(read, left);
    assert_eq!(stand.delete_where(Entry::TRACK.gt(0)).run().unwrap(), 3);
    assert_eq!(stand.count::<Play>().run().unwrap(), 0);
}

/// Returns the schema of remarks with these fields.
fn remark_schema(names: &[&str]) -> Schema {
    let entry = Kind::Reference { table: "entry".into(), key: KeyKind::Text };
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("playlist", Kind::I64),
        Field::new("note", Kind::TEXT).nullable(true),
        Field::new("track", Kind::I64).nullable(true),
        Field::new("entry", entry).nullable(true).computed("key(playlist, track)"),
    ];
    let fields = fields.into_iter().filter(|field| names.contains(&&*field.name));
    Schema::new("remark", fields.collect::<Vec<_>>())
}

/// A reference is added to a table with rows.
pub fn a_reference_is_added_to_a_table(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let without = |builder: StoreBuilder| {
        let schema = remark_schema(&["id", "playlist", "note"]);
        builder.model::<Playlist>().model::<Entry>().schema(schema)
    };
    let with = |builder: StoreBuilder| {
        let schema = remark_schema(&["id", "playlist", "note", "track", "entry"]);
        builder.model::<Playlist>().model::<Entry>().schema(schema)
    };
    let mut stand = open_with(subject, without);
    let remark = |stand: &Stand<'_>, fields: &[(&str, i64)]| {
        let mut record = Record::new(stand.table("remark").unwrap());
        for (name, value) in fields {
            record.set(name, *value).unwrap();
        }
        stand.insert_record(&record).run()
    };
    remark(&stand, &[("playlist", 99)]).unwrap();
    stand.settle();
    stand.reopen_as(with).unwrap();
    remark(&stand, &[("playlist", 1), ("track", 7)]).unwrap();
    let wrong = remark(&stand, &[("playlist", 1), ("track", 9)]);
    blamed(wrong, ErrorKind::Invalid, "entry", "reference");
    stand.settle();
    stand.reopen();
    refused(stand.delete::<Entry>("1,7".to_owned()).run(), ErrorKind::Conflict);
}

/// A reference that does not fit the key is refused when the store is opened, with the way out.
pub fn a_reference_that_does_not_fit_is_refused(subject: &Subject) {
    let entry = || Kind::Reference { table: "entry".into(), key: KeyKind::Text };
    let playlist = || Kind::Reference { table: "playlist".into(), key: KeyKind::Text };
    for (kind, computed, parts) in [
        (entry(), None, ["consists of playlist, track", "`computed = \"key(playlist, track)\"`"]),
        (entry(), Some("key(a, b, c)"), ["consists of playlist, track", "as many fields"]),
        (entry(), Some("key(a, text)"), ["consists of playlist, track", "the same kinds"]),
        (playlist(), Some("key(a, b)"), ["refers to `playlist`", "and not computed"]),
    ] {
        let open = |builder: StoreBuilder| {
            let mut reference = Field::new("reference", kind.clone());
            if let Some(computed) = computed {
                reference = reference.computed(computed);
            }
            let number = |name| Field::new(name, Kind::I64);
            let fields = vec![
                number("id").role(Role::Key),
                number("a"),
                number("b"),
                number("c"),
                Field::new("text", Kind::TEXT),
                reference,
            ];
            let builder = builder.model::<Playlist>().model::<Entry>();
            builder.schema(Schema::new("remark", fields)).open()
        };
        let error = refused(open(subject.builder()), ErrorKind::Invalid);
        says(&error, &parts);
        says(&error, &["`reference` of `remark`"]);
    }
}

register!($ composite_references_promises composite_references:
    a_reference_that_does_not_fit_is_refused,
    ; by transactions:
    a_reference_is_computed_of_its_fields,
    a_row_referred_to_by_its_fields_stays,
    filters_follow_the_reference,
    lists_follow_the_reference,
    a_reference_has_values_of_any_kind,
    all_verbs_compute_references,
    changes_have_the_reference,
    deletes_reach_referring_rows,
    a_reference_is_added_to_a_table,
);

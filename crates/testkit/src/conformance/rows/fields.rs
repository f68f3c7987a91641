//! Fields: values of every type are read as they were written, by every verb, as a struct and as a
//! record, blocking and async.

use std::sync::Arc;

use futures_lite::future::block_on;
use marmota_model::{
    Blob, Currency, Date, ErrorKind, FieldSet, Json, Record, RowQuery, Time, Timestamp, Uuid,
    Value, Vector,
};
use marmota_store::Store;
use serde_json::json;

use crate::conformance::harness::models;
use crate::conformance::harness::models::{Colour, Level, Maybe, Note, Sample};
use crate::conformance::harness::refusal::{blamed, refused};
use crate::conformance::harness::subject::{Stand, Subject};

fn date(text: &str) -> Date {
    text.parse().unwrap()
}

fn time(text: &str) -> Time {
    text.parse().unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn lowest() -> Sample {
    Sample {
        id: 0,
        flag: false,
        i8: i8::MIN,
        i16: i16::MIN,
        i32: i32::MIN,
        i64: i64::MIN,
        u8: 0,
        u16: 0,
        u32: 0,
        u64: 0,
        f32: f32::MIN,
        f64: f64::MIN,
        amount: Currency::from_scaled(i64::MIN),
        text: String::new(),
        short: String::new(),
        json: Json(json!(null)),
        date: date("0001-01-01"),
        time: time("00:00:00"),
        at: at("0001-01-01T00:00:00Z"),
        uuid: Uuid::nil(),
        colour: Colour::Red,
        level: Level::Low,
        vector: Vector::from([f32::MIN, -0.0, f32::MIN_POSITIVE]),
        blob: Blob::Bytes(Vec::new()),
    }
}

fn highest() -> Sample {
    Sample {
        id: 0,
        flag: true,
        i8: i8::MAX,
        i16: i16::MAX,
        i32: i32::MAX,
        i64: i64::MAX,
        u8: u8::MAX,
        u16: u16::MAX,
        u32: u32::MAX,
        u64: i64::MAX as u64,
        f32: f32::MAX,
        f64: f64::MAX,
        amount: Currency::from_scaled(i64::MAX),
        text: "🦫é\u{10ffff}'\"\\%_;--\r\n\t\u{1}".to_owned(),
        short: "🦫🦫🦫🦫🦫".to_owned(),
        json: Json(json!({"a": [1, 2.5, "ü\"\\", null, true], "": {}})),
        date: date("9999-12-31"),
        time: time("23:59:59.999999"),
        at: at("9999-12-31T23:59:59.999999Z"),
        uuid: Uuid::max(),
        colour: Colour::Blue,
        level: Level::High,
        vector: Vector::from([f32::MAX, 0.1, 16_777_217.0]),
        blob: Blob::Bytes((0..=255).collect()),
    }
}

/// Values that a lossy column would change: the smallest fractions, numbers above 2^53, texts that
/// look like numbers.
fn awkward() -> Sample {
    Sample {
        i64: (1 << 53) + 1,
        f32: f32::MIN_POSITIVE,
        f64: 5e-324,
        amount: Currency::from_scaled(-1),
        text: "1e3".to_owned(),
        short: "007".to_owned(),
        json: Json(json!("text")),
        date: date("1969-12-31"),
        time: time("00:00:00.000001"),
        at: at("1969-12-31T23:59:59.999999Z"),
        uuid: Uuid::from_u128(1 << 127),
        blob: Blob::Bytes("text".into()),
        ..highest()
    }
}

/// A float without a fraction remains a float.
fn whole() -> Sample {
    Sample {
        f32: -0.0,
        f64: 3.0,
        amount: Currency::from(7),
        text: "x".repeat(100_000),
        blob: Blob::Bytes(vec![0; 300_000]),
        ..lowest()
    }
}

fn samples() -> Vec<Sample> {
    vec![lowest(), highest(), awkward(), whole()]
}

fn read(store: &Store, key: i64) -> Sample {
    store.get::<Sample>(key).with_blobs().run().unwrap()
}

fn record_of(store: &Store, sample: &Sample) -> Record {
    use marmota_model::{Model, Scratch, ValueRef};
    let table = store.table("sample").unwrap();
    let (mut row, scratch) = (vec![ValueRef::Absent; table.fields().len()], Scratch::new());
    sample.write(&mut row, &scratch);
    let mut record = Record::new(Arc::clone(&table));
    for (field, value) in table.fields().iter().zip(&row).skip(1) {
        record.set(&field.name, value.to_value()).unwrap();
    }
    record
}

/// Get and list return the inserted values.
pub fn inserted_values_come_back(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let mut samples = samples();
    for sample in &mut samples {
        sample.id = stand.insert(sample).run().unwrap();
    }
    stand.settle();
    for sample in &samples {
        assert_eq!(&read(&stand, sample.id), sample);
    }
    assert_eq!(stand.list::<Sample>().with_blobs().run().unwrap(), samples);
}

/// List returns the values of an insert of many rows.
pub fn values_inserted_together_come_back(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let mut samples = samples();
    let keys = stand.insert_many(&samples).run().unwrap();
    for (sample, key) in samples.iter_mut().zip(keys) {
        sample.id = key;
    }
    stand.settle();
    assert_eq!(stand.list::<Sample>().with_blobs().run().unwrap(), samples);
}

/// Update and update of many rows replace any value by any other.
pub fn updated_values_come_back(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let key = stand.insert(&lowest()).run().unwrap();
    for sample in samples().into_iter().chain([lowest()]) {
        let sample = Sample { id: key, ..sample };
        stand.update(&sample).run().unwrap();
        stand.settle();
        assert_eq!(read(&stand, key), sample);
        let other = Sample { id: key, ..awkward() };
        assert_eq!(stand.update_many(std::slice::from_ref(&other)).run().unwrap(), 1);
        stand.settle();
        assert_eq!(read(&stand, key), other);
    }
}

/// A patch of a field changes only that field.
pub fn a_patch_writes_its_field_alone(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let key = stand.insert(&lowest()).run().unwrap();
    let mut wanted = Sample { id: key, ..lowest() };
    let new = highest();
    macro_rules! patch {
        ($($column:ident $field:ident),* $(,)?) => {$(
            stand.patch::<Sample>(key).set(Sample::$column, new.$field.clone()).run().unwrap();
            wanted.$field = new.$field.clone();
            assert_eq!(read(&stand, key), wanted, "after a patch of {}", stringify!($field));
        )*};
    }
    patch!(FLAG flag, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64);
    patch!(F32 f32, F64 f64, AMOUNT amount, TEXT text, SHORT short, JSON json, DATE date);
    patch!(TIME time, AT at, UUID uuid, COLOUR colour, LEVEL level, VECTOR vector, BLOB blob);
    stand.settle();
    assert_eq!(read(&stand, key), Sample { id: key, ..highest() });
}

/// A patch writes several fields at once, or none.
pub fn a_patch_writes_several_fields_at_once(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let key = stand.insert(&Note::new("a", 1)).run().unwrap();
    stand.patch::<Note>(key).set(Note::TEXT, "b").set(Note::NUMBER, None).run().unwrap();
    assert_eq!(stand.get::<Note>(key).run().unwrap(), Note { id: key, ..Note::new("b", None) });
    stand.patch::<Note>(key).set(Note::TEXT, "c").set(Note::TEXT, "d").run().unwrap();
    assert_eq!(stand.get::<Note>(key).run().unwrap().text, "d");
    stand.patch::<Note>(key).run().unwrap();
    assert_eq!(stand.get::<Note>(key).run().unwrap().text, "d");
    refused(stand.patch::<Note>(key + 1).run(), ErrorKind::NotFound);
}

/// Optional fields store NULL and values, and change from one to the other.
pub fn optional_fields_hold_null(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let mut empty = Maybe { blob: None, ..Maybe::default() };
    let mut full = Maybe {
        id: 0,
        flag: Some(false),
        i32: Some(0),
        i64: Some(i64::MIN),
        f64: Some(-0.5),
        amount: Some(Currency::from_scaled(0)),
        text: Some(String::new()),
        json: Some(Json(vec![])),
        date: Some(date("1970-01-01")),
        time: Some(time("00:00:00")),
        at: Some(at("1970-01-01T00:00:00Z")),
        uuid: Some(Uuid::nil()),
        colour: Some(Colour::Blue),
        level: Some(Level::Low),
        blob: Some(Blob::Bytes(vec![])),
    };
    let read = |stand: &Stand<'_>, id: i64| stand.get::<Maybe>(id).with_blobs().run().unwrap();
    empty.id = stand.insert(&empty).run().unwrap();
    full.id = stand.insert(&full).run().unwrap();
    stand.settle();
    assert_eq!(read(&stand, empty.id), empty);
    assert_eq!(read(&stand, full.id), full);
    (empty.id, full.id) = (full.id, empty.id);
    stand.update_many(&[empty.clone(), full.clone()]).run().unwrap();
    stand.settle();
    assert_eq!(read(&stand, empty.id), empty);
    assert_eq!(read(&stand, full.id), full);
    stand.patch::<Maybe>(full.id).set(Maybe::TEXT, None).set(Maybe::FLAG, true).run().unwrap();
    let found = read(&stand, full.id);
    assert_eq!((found.text, found.flag, found.i64), (None, Some(true), Some(i64::MIN)));
}

/// Records and structs read and write the same values.
pub fn records_are_the_same_rows(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    for sample in samples() {
        let record = record_of(&stand, &sample);
        let Value::Int(key) = stand.insert_record(&record).run().unwrap() else { panic!() };
        stand.settle();
        let sample = Sample { id: key, ..sample };
        assert_eq!(read(&stand, key), sample);

        let mut wanted = record.values().to_vec();
        wanted[0] = Value::Int(key);
        let table = stand.table("sample").unwrap();
        let query = RowQuery { fields: Some(table.all()), ..RowQuery::new() };
        let listed = stand.list_records(&table).query(query).run().unwrap();
        assert_eq!(listed.last().unwrap().values(), wanted);
        // Without a blob, which is not read by default.
        *wanted.last_mut().unwrap() = Value::Absent;
        assert_eq!(stand.get_record(&table, key).run().unwrap().values(), wanted);

        let other = Sample { id: key, ..awkward() };
        stand.update_record(key, &record_of(&stand, &other)).run().unwrap();
        stand.settle();
        assert_eq!(read(&stand, key), other);
    }
}

/// An update of a record writes the fields that are set.
pub fn a_record_updates_what_it_has(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let key = stand.insert(&highest()).run().unwrap();
    let mut record = Record::new(stand.table("sample").unwrap());
    record.set("short", "x").unwrap();
    record.set("i8", 3).unwrap();
    stand.update_record(key, &record).run().unwrap();
    stand.settle();
    let wanted = Sample { id: key, short: "x".to_owned(), i8: 3, ..highest() };
    assert_eq!(read(&stand, key), wanted);
}

/// `.await` returns the same as `.run()` for every verb.
pub fn awaited_is_the_same_as_run(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let store = stand.store().clone();
    let (first, second) = block_on(async {
        let first = store.insert(&highest()).await.unwrap();
        let keys = store.insert_many(&[lowest(), awkward()]).await.unwrap();
        store.update(&Sample { id: first, ..whole() }).await.unwrap();
        let second = Sample { id: keys[0], ..highest() };
        assert_eq!(store.update_many(std::slice::from_ref(&second)).await.unwrap(), 1);
        store.patch::<Sample>(first).set(Sample::SHORT, "p").await.unwrap();
        assert_eq!(store.increment(Sample::U16, first, 5).await.unwrap(), 5);
        store.delete::<Sample>(keys[1]).await.unwrap();
        assert_eq!(store.get::<Sample>(keys[1]).optional().await.unwrap(), None);
        refused(store.get::<Sample>(keys[1]).await, ErrorKind::NotFound);
        assert_eq!(store.count::<Sample>().await.unwrap(), 2);
        (first, second)
    });
    stand.settle();
    let first = Sample { id: first, short: "p".to_owned(), u16: 5, ..whole() };
    assert_eq!(stand.list::<Sample>().with_blobs().run().unwrap(), [first.clone(), second]);
    let store = stand.store().clone();
    block_on(async {
        assert_eq!(store.get::<Sample>(first.id).with_blobs().await.unwrap(), first);
        let table = store.table("sample").unwrap();
        let record = store.get_record(&table, first.id).await.unwrap();
        assert_eq!(record.value("short").unwrap(), &Value::from("p"));
        assert_eq!(store.list_records(&table).await.unwrap().len(), 2);
        assert_eq!(store.delete_where::<Sample>(Sample::SHORT.eq("p")).await.unwrap(), 1);
        let flags = store.list::<Sample>().column(Sample::FLAG).await.unwrap();
        assert_eq!(flags, [true]);
    });
}

/// A list of one column reads that column in the list's order.
pub fn a_column_is_read_alone(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    stand.insert_many(&Note::numbered(0..10)).run().unwrap();
    stand.settle();
    let numbers = stand
        .list::<Note>()
        .filter(Note::NUMBER.ge(4))
        .order(Note::NUMBER.descending())
        .limit(3)
        .column(Note::NUMBER)
        .run();
    assert_eq!(numbers.unwrap(), [Some(9), Some(8), Some(7)]);
    let key = stand.insert(&highest()).run().unwrap();
    let blobs = stand.list::<Sample>().filter(Sample::ID.eq(key)).column(Sample::BLOB).run();
    assert_eq!(blobs.unwrap(), [highest().blob]);
}

/// Rows lent to a sink have the requested fields and no others.
pub fn fields_not_requested_are_absent(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    stand.insert_many(&samples()).run().unwrap();
    stand.settle();
    let table = stand.table("sample").unwrap();
    for position in 0..table.fields().len() {
        let fields = Some(FieldSet::EMPTY.with(position));
        let query = RowQuery { fields, ..RowQuery::new() };
        for record in stand.list_records(&table).query(query).run().unwrap() {
            for (other, value) in record.values().iter().enumerate() {
                assert_eq!(*value != Value::Absent, other == position, "field {other}");
            }
        }
    }
}

/// Default reads omit blobs, and an update of a row that was read without its blob keeps the blob.
pub fn blobs_are_read_only_on_request(subject: &Subject) {
    let mut stand = Stand::open(subject, models::all);
    let key = stand.insert(&highest()).run().unwrap();
    stand.settle();
    let mut found = stand.get::<Sample>(key).run().unwrap();
    assert_eq!(found.blob, Blob::NotRead);
    assert_eq!(stand.list::<Sample>().run().unwrap()[0].blob, Blob::NotRead);
    assert_eq!(stand.get::<Sample>(key).optional().run().unwrap().unwrap().blob, Blob::NotRead);

    found.short = "new".to_owned();
    stand.update(&found).run().unwrap();
    stand.settle();
    assert_eq!(read(&stand, key), Sample { blob: highest().blob, ..found.clone() });
    found.short = "newer".to_owned();
    stand.update_many(std::slice::from_ref(&found)).run().unwrap();
    stand.settle();
    assert_eq!(read(&stand, key), Sample { blob: highest().blob, ..found.clone() });
    let mut batch = stand.store().batch();
    batch.update(&found);
    batch.all_or_nothing().run().unwrap();
    assert_eq!(read(&stand, key).blob, highest().blob);
    // An insert must have it.
    blamed(stand.insert(&found).run(), ErrorKind::Invalid, "blob", "required");
}

/// A value that a field cannot store is refused with the field, and nothing is written.
pub fn values_that_do_not_fit_are_refused(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let key = stand.insert(&lowest()).run().unwrap();
    type Spoil = fn(&mut Sample);
    let bad: [(&str, &str, Spoil); 5] = [
        ("u64", "range", |one| one.u64 = u64::MAX),
        ("f64", "range", |one| one.f64 = f64::NAN),
        ("f32", "range", |one| one.f32 = f32::INFINITY),
        ("short", "max", |one| one.short = "🦫🦫🦫🦫🦫🦫".to_owned()),
        ("text", "type", |one| one.text = "a\0b".to_owned()),
    ];
    for (field, rule, spoil) in bad {
        let mut sample = Sample { id: key, ..highest() };
        spoil(&mut sample);
        blamed(stand.update(&sample).run(), ErrorKind::Invalid, field, rule);
        sample.id = 0;
        blamed(stand.insert(&sample).run(), ErrorKind::Invalid, field, rule);
    }
    let long = "x".repeat(6);
    let patch = stand.patch::<Sample>(key).set(Sample::SHORT, long).set(Sample::I8, 1);
    blamed(patch.run(), ErrorKind::Invalid, "short", "max");
    let mut record = Record::new(stand.table("sample").unwrap());
    blamed(record.set("i8", 128), ErrorKind::Invalid, "i8", "range");
    blamed(record.set("flag", Value::Null), ErrorKind::Invalid, "flag", "required");
    blamed(record.set("colour", "green"), ErrorKind::Invalid, "colour", "type");
    blamed(record.set("level", 0), ErrorKind::Invalid, "level", "type");
    assert_eq!(
        stand.list::<Sample>().with_blobs().run().unwrap(),
        [Sample { id: key, ..lowest() }]
    );
}

register!($ fields_promises fields:
    inserted_values_come_back,
    values_inserted_together_come_back,
    updated_values_come_back,
    a_patch_writes_its_field_alone,
    a_patch_writes_several_fields_at_once,
    optional_fields_hold_null,
    records_are_the_same_rows,
    a_record_updates_what_it_has,
    awaited_is_the_same_as_run,
    a_column_is_read_alone,
    fields_not_requested_are_absent,
    values_that_do_not_fit_are_refused,
; by transactions:
    blobs_are_read_only_on_request,
);

//! A struct written to a row and read back is the same struct, whatever is in
//! its fields.

use marmota_model::{
    Blob, Currency, Date, ErrorKind, Json, Model, Ref, Scratch, Table, Time, Timestamp, Uuid,
    ValueRef,
};
use proptest::prelude::*;

use crate::person::{Gender, HTTPLog, Person, Status, Ticket};

const FIELDS: usize = 28;

fn timestamp() -> impl Strategy<Value = Timestamp> {
    (-62_135_596_800_000_000..=253_402_300_799_999_999_i64)
        .prop_map(|micros| Timestamp::from_micros(micros).unwrap())
}

fn blob() -> impl Strategy<Value = Blob> {
    prop_oneof![Just(Blob::NotRead), any::<Vec<u8>>().prop_map(Blob::Bytes)]
}

prop_compose! {
    fn texts()(
        first_name in any::<String>(),
        last_name in any::<String>(),
        email in any::<Option<String>>(),
        country in any::<String>(),
        nick in any::<String>(),
        tags in any::<Vec<String>>(),
    ) -> (String, String, Option<String>, String, String, Vec<String>) {
        (first_name, last_name, email, country, nick, tags)
    }
}

prop_compose! {
    fn numbers()(
        id in any::<i64>(),
        born in any::<i32>(),
        died in any::<Option<i32>>(),
        even in any::<Option<i8>>(),
        keys in any::<(Option<i64>, Option<i64>)>(),
        wage in any::<i64>(),
        share in any::<f64>().prop_filter("NaN is not itself", |share| !share.is_nan()),
        ratio in proptest::option::of(-1e30_f32..1e30),
        big in 0..=i64::MAX as u64,
        small in any::<u8>(),
        version in any::<i64>(),
    ) -> Person {
        let text = String::new;
        Person {
            id,
            year_of_birth: born,
            year_of_death: died,
            even,
            boss: keys.0.map(Ref::new),
            friend: keys.1.map(Ref::new),
            wage: Currency::from_scaled(wage),
            share,
            ratio,
            big,
            small,
            version,
            first_name: text(),
            last_name: text(),
            email: None,
            country: text(),
            nick: text(),
            kind: Status::Active,
            gender: None,
            photo: Blob::NotRead,
            stamp: None,
            tags: Json(Vec::new()),
            active: false,
            hired: None,
            begins: Time::default(),
            token: Uuid::nil(),
            created: Timestamp::default(),
            updated: Timestamp::default(),
        }
    }
}

prop_compose! {
    fn person()(
        numbers in numbers(),
        texts in texts(),
        kind in prop_oneof![Just(Status::Active), Just(Status::Retired), Just(Status::Lost)],
        gender in proptest::option::of(
            prop_oneof![Just(Gender::Female), Just(Gender::Male), Just(Gender::NonBinary)]),
        photo in blob(),
        // A blob that was not read is not told from one of an absent NULL.
        stamp in proptest::option::of(any::<Vec<u8>>().prop_map(Blob::Bytes)),
        active in any::<bool>(),
        hired in proptest::option::of((-719_162..=2_932_896).prop_map(|days| {
            Date::from_days(days).unwrap()
        })),
        begins in (0..86_400_000_000_i64).prop_map(|micros| Time::from_micros(micros).unwrap()),
        token in any::<u128>().prop_map(Uuid::from_u128),
        created in timestamp(),
        updated in timestamp(),
    ) -> Person {
        let (first_name, last_name, email, country, nick, tags) = texts;
        Person {
            first_name, last_name, email, country, nick, tags: Json(tags),
            kind, gender, photo, stamp, active, hired, begins, token, created, updated,
            ..numbers
        }
    }
}

proptest! {
    #[test]
    fn a_struct_survives_its_row(person in person()) {
        let scratch = Scratch::new();
        let mut row = [ValueRef::Absent; FIELDS];
        person.write(&mut row, &scratch);
        prop_assert_eq!(Person::read(&row).unwrap(), person);
    }

    #[test]
    fn a_row_has_the_kinds_of_its_schema(person in person()) {
        let table = Table::new(Person::schema().clone()).unwrap();
        let scratch = Scratch::new();
        let mut row = [ValueRef::Absent; FIELDS];
        person.write(&mut row, &scratch);
        let wrong = table.validate(&row).err();
        let wrong = wrong.iter().flat_map(|error| error.violations());
        // Random values break rules, and texts may have a NUL; no value is of
        // another kind.
        for violation in wrong.filter(|violation| violation.rule == "type") {
            prop_assert!(violation.message.contains("U+0000"), "{}", violation);
        }
    }

    #[test]
    fn keys_of_text_and_uuid_survive_too(code in any::<String>(), id in any::<u128>()) {
        let ticket = Ticket { id: Uuid::from_u128(id), log: Ref::new(code) };
        let scratch = Scratch::new();
        let mut row = [ValueRef::Absent; 2];
        ticket.write(&mut row, &scratch);
        prop_assert_eq!(Ticket::read(&row).unwrap(), ticket);
    }
}

fn log_row() -> [ValueRef<'static>; 9] {
    let mut row = [ValueRef::Int(7); 9];
    row[0] = ValueRef::Text("#1");
    row[1] = ValueRef::Null;
    row[2] = ValueRef::Bool(true);
    row[7] = ValueRef::Timestamp(Timestamp::default());
    row
}

#[test]
fn a_value_that_does_not_fit_is_named() {
    assert!(HTTPLog::read(&log_row()).is_ok());
    let mut row = log_row();
    row[2] = ValueRef::Text("yes");
    let error = HTTPLog::read(&row).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Engine);
    assert!(
        error.to_string().contains("field `type` of `http_log` has the value \"yes\""),
        "{error}"
    );
}

#[test]
fn a_field_that_was_not_read_is_named() {
    let error = HTTPLog::read(&log_row()[..8]).unwrap_err();
    assert!(error.to_string().contains("field `version` of `http_log` was not read"), "{error}");
}

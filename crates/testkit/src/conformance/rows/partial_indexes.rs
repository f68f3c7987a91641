//! Partial indexes: a unique index of the rows that a filter selects refuses a duplicate only among
//! those, and reads have the same rows with and without the index.

use marmota_derive::Model;
use marmota_model::{
    Caller, ErrorKind, Field, FilterExpr, Index, Kind, Record, Role, RowQuery, Schema, Value,
    parse_filter,
};
use marmota_store::StoreBuilder;
use marmota_store::operation::UpsertEffect;
use marmota_store::rights::{Grant, Right, Rights};

use crate::conformance::harness::refusal::{blamed, refusal, refused, says};
use crate::conformance::harness::subject::{Stand, Subject};

/// An account whose address is free again after it was closed, and that has one main account for
/// each owner.
#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(
    table = "account",
    unique(address, where = "closed = null"),
    unique(owner, country, where = "main = true and level >= 2 and country in ('fr', 'de')"),
    index(level, where = "closed = null")
)]
struct Holder {
    id: i64,
    #[model(collate = "nocase")]
    address: String,
    owner: i64,
    country: Option<String>,
    main: bool,
    level: i64,
    closed: Option<marmota_model::Date>,
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Holder>()
}

/// Opens the subject, if its engine has partial indexes.
fn open(subject: &Subject) -> Option<Stand<'_>> {
    subject.capability().partial_indexes.then(|| Stand::open(subject, models))
}

fn account(address: &str) -> Holder {
    Holder { address: address.to_owned(), level: 1, ..Holder::default() }
}

fn closed(address: &str) -> Holder {
    Holder { closed: Some("2026-11-27".parse().unwrap()), ..account(address) }
}

fn main_of(owner: i64, level: i64, country: Option<&str>) -> Holder {
    let country = country.map(str::to_owned);
    let address = format!("{owner}/{level}/{country:?}");
    Holder { owner, level, country, main: true, ..closed(&address) }
}

/// An engine without partial indexes refuses the schema, with the table, the filter and a remedy.
pub fn an_engine_without_partial_indexes_refuses_them(subject: &Subject) {
    if subject.capability().partial_indexes {
        return;
    }
    let error = subject.builder_with(models).open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    says(&error, &["`account` over address", "closed = null", "another engine"]);
}

/// A duplicate is refused among the rows that the filter selects, with the fields and the filter,
/// and permitted among the others.
pub fn a_partial_unique_index_holds(subject: &Subject) {
    let Some(mut stand) = open(subject) else { return };
    let old = stand.insert(&closed("ada@x.org")).run().unwrap();
    stand.insert(&closed("ada@x.org")).run().unwrap();
    let new = stand.insert(&account("ada@x.org")).run().unwrap();
    stand.settle();
    let error = refused(stand.insert(&account("ADA@x.org")).run(), ErrorKind::Conflict);
    assert_eq!(refusal(&error).1, [("address".to_owned(), "unique".to_owned())]);
    let message = &error.violations()[0].message;
    assert!(message.contains("where closed = null"), "{message}");
    stand.insert(&closed("ada@x.org")).run().unwrap();
    // A write that moves a row among the selected ones is refused, by any verb.
    let reopened = Holder { id: old, ..account("ada@x.org") };
    blamed(stand.update(&reopened).run(), ErrorKind::Conflict, "address", "unique");
    let patch = stand.patch::<Holder>(old).set(Holder::CLOSED, None::<marmota_model::Date>);
    blamed(patch.run(), ErrorKind::Conflict, "address", "unique");
    // After the other row left them, it is permitted.
    let day: marmota_model::Date = "2026-11-28".parse().unwrap();
    stand.patch::<Holder>(new).set(Holder::CLOSED, Some(day)).run().unwrap();
    stand.update(&reopened).run().unwrap();
    blamed(stand.insert(&account("Ada@x.org")).run(), ErrorKind::Conflict, "address", "unique");
    stand.delete::<Holder>(old).run().unwrap();
    stand.insert(&account("Ada@x.org")).run().unwrap();
    assert_eq!(stand.count::<Holder>().run().unwrap(), 4);
}

/// A filter of several conditions on other fields, with lists and ranges; NULL satisfies none.
pub fn a_filter_of_several_conditions_holds(subject: &Subject) {
    let Some(mut stand) = open(subject) else { return };
    let first = stand.insert(&main_of(1, 2, Some("fr"))).run().unwrap();
    for free in [
        main_of(1, 1, Some("fr")),
        main_of(1, 2, Some("it")),
        main_of(1, 2, None),
        main_of(2, 2, Some("fr")),
        main_of(1, 2, Some("de")),
        Holder { main: false, ..main_of(1, 2, Some("fr")) },
    ] {
        stand.insert(&free).run().unwrap();
        let _ = stand.insert(&free).run();
    }
    stand.settle();
    let both = ["country", "owner"].map(|field| (field.to_owned(), "unique".to_owned()));
    let error = refused(stand.insert(&main_of(1, 3, Some("fr"))).run(), ErrorKind::Conflict);
    assert_eq!(refusal(&error).1, both);
    let low = stand.list::<Holder>().filter(Holder::LEVEL.eq(1)).run().unwrap();
    let low = low.iter().find(|one| one.country.as_deref() == Some("fr")).unwrap().id;
    // An increment moves the row among the selected ones.
    let error = refused(stand.increment(Holder::LEVEL, low, 1).run(), ErrorKind::Conflict);
    assert_eq!(refusal(&error).1, both);
    stand.patch::<Holder>(first).set(Holder::MAIN, false).run().unwrap();
    assert_eq!(stand.increment(Holder::LEVEL, low, 1).run().unwrap(), 2);
}

/// A conflict action applies to the rows that the filter selects, if it selects the new one.
pub fn a_conflict_action_applies_to_selected_rows(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    let old = stand.insert(&closed("ada@x.org")).run().unwrap();
    let new = stand.insert(&account("ada@x.org")).or_ignore().run().unwrap();
    assert_eq!(new.effect, UpsertEffect::Inserted);
    let again = stand.insert(&account("ADA@x.org")).or_ignore().run().unwrap();
    assert_eq!((again.effect, again.key), (UpsertEffect::Ignored, new.key));
    let ended = stand.insert(&closed("ada@x.org")).or_ignore().run().unwrap();
    assert_eq!(ended.effect, UpsertEffect::Inserted);
    let level = Holder { level: 9, ..account("ada@x.org") };
    let updated = stand.upsert(&level).run().unwrap();
    assert_eq!((updated.effect, updated.key), (UpsertEffect::Updated, new.key));
    assert_eq!(stand.get::<Holder>(new.key).run().unwrap().level, 9);
    let replaced = stand.insert(&account("ada@x.org")).or_replace().run().unwrap();
    assert_eq!(replaced.effect, UpsertEffect::Replaced);
    assert!(stand.get::<Holder>(new.key).run().is_err() || replaced.key == new.key);
    assert_eq!(stand.get::<Holder>(old).run().unwrap().closed, closed("").closed);
    assert_eq!(stand.count::<Holder>().run().unwrap(), 3);
}

/// The message for a caller who may not use a field of the filter does not reveal the filter.
pub fn a_hidden_filter_is_not_revealed(subject: &Subject) {
    let Some(stand) = open(subject).filter(|_| subject.capability().guarded_writes) else { return };
    stand.insert(&account("ada@x.org")).run().unwrap();
    let grant = Grant::new("account", &Right::ALL).except(["closed"]);
    let caller = Caller { id: "7".to_owned(), name: "ann".to_owned(), groups: Vec::new() };
    let rights = Rights::new(stand.registry(), Some(caller), &[grant]).unwrap();
    let ann = stand.with_rights(rights);
    let mut record = Record::new(stand.table("account").unwrap());
    record.set("address", "ada@x.org").unwrap();
    for (field, value) in [("owner", 1), ("level", 1)] {
        record.set(field, value).unwrap();
    }
    record.set("main", false).unwrap();
    let error = blamed(ann.insert_record(&record).run(), ErrorKind::Conflict, "address", "unique");
    let text = format!("{error} {:?}", error.violations());
    assert!(!text.contains("closed"), "{text}");
}

/// Many rows in one write: a duplicate among the selected ones undoes all.
pub fn many_rows_are_checked(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    let rows = [closed("a@x.org"), closed("a@x.org"), account("a@x.org"), account("b@x.org")];
    assert_eq!(stand.insert_many(&rows).run().unwrap().len(), 4);
    let rows = [closed("a@x.org"), account("c@x.org"), account("B@x.org")];
    blamed(stand.insert_many(&rows).run(), ErrorKind::Conflict, "address", "unique");
    assert_eq!(stand.count::<Holder>().run().unwrap(), 4);
}

/// A read returns the rows that its filter selects, also if an index has only some of them.
pub fn reads_have_all_rows(subject: &Subject) {
    let Some(mut stand) = open(subject) else { return };
    let rows: Vec<Holder> = (0..60)
        .map(|number| {
            let address = format!("{}@x.org", number / 2);
            let row = if number % 2 == 0 { account(&address) } else { closed(&address) };
            Holder { level: number % 5, ..row }
        })
        .collect();
    stand.insert_many(&rows).run().unwrap();
    stand.settle();
    let table = stand.table("account").unwrap();
    type Selects = fn(&Holder) -> bool;
    let cases: [(&str, Selects); 8] = [
        ("level = 3", |row| row.level == 3),
        ("level = 3 and closed = null", |row| row.level == 3 && row.closed.is_none()),
        ("level in (1, 2)", |row| [1, 2].contains(&row.level)),
        ("level in (1, 2) and closed = null", |row| {
            [1, 2].contains(&row.level) && row.closed.is_none()
        }),
        ("level > 2 and closed != null", |row| row.level > 2 && row.closed.is_some()),
        ("address = '7@x.org'", |row| row.address == "7@x.org"),
        ("address = '7@X.org' and closed = null", |row| {
            row.address == "7@x.org" && row.closed.is_none()
        }),
        ("address = '7@x.org' or closed = null", |row| {
            row.address == "7@x.org" || row.closed.is_none()
        }),
    ];
    for (text, selects) in cases {
        let filter: FilterExpr = parse_filter(&table, text).unwrap().into_expr_for(&table).unwrap();
        let query = RowQuery { filter: Some(filter), ..RowQuery::new() };
        let found = stand.list_records(&table).query(query).run().unwrap();
        let expected = rows.iter().filter(|row| selects(row)).count();
        assert_eq!(found.len(), expected, "{text}");
    }
    let by_level = stand.list::<Holder>().order(Holder::LEVEL.ascending()).run().unwrap();
    assert_eq!(by_level.len(), 60);
}

/// Random writes are accepted or refused as by a check of all rows.
pub fn random_writes_are_checked(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    let mut rng = fastrand::Rng::with_seed(74);
    let mut rows: Vec<Holder> = Vec::new();
    let is_main = |row: &Holder| {
        row.main && row.level >= 2 && matches!(row.country.as_deref(), Some("fr" | "de"))
    };
    let conflict = |a: &Holder, b: &Holder| {
        let same_address = a.address.eq_ignore_ascii_case(&b.address);
        (same_address && a.closed.is_none() && b.closed.is_none())
            || (is_main(a) && is_main(b) && a.owner == b.owner && a.country == b.country)
    };
    for number in 0..150 {
        let at = (number % 3 > 0 && !rows.is_empty()).then(|| rng.usize(..rows.len()));
        let row = Holder {
            id: at.map_or(0, |at| rows[at].id),
            address: ["a", "A", "b", "c"][rng.usize(..4)].to_owned(),
            owner: rng.i64(0..3),
            country: [None, Some("fr"), Some("it")][rng.usize(..3)].map(str::to_owned),
            main: rng.bool(),
            level: rng.i64(0..4),
            closed: closed("").closed.filter(|_| rng.usize(..3) > 0),
        };
        let is_refused = rows.iter().any(|other| other.id != row.id && conflict(&row, other));
        let result = match at {
            None => stand.insert(&row).run(),
            Some(_) => stand.update(&row).run().map(|_| row.id),
        };
        match result {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                assert!(is_refused, "{row:?} is no duplicate in {rows:?}");
            }
            Ok(id) => {
                assert!(!is_refused, "{row:?} is a duplicate in {rows:?}");
                let row = Holder { id, ..row };
                match at {
                    None => rows.push(row),
                    Some(at) => rows[at] = row,
                }
            }
        }
        if number % 10 == 9 {
            let gone = rows.swap_remove(rng.usize(..rows.len()));
            stand.delete::<Holder>(gone.id).run().unwrap();
        }
    }
    let mut stored = stand.list::<Holder>().run().unwrap();
    stored.sort_by_key(|row| row.id);
    rows.sort_by_key(|row| row.id);
    assert_eq!(stored, rows);
}

fn named(filter: Option<&'static str>) -> Schema {
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("name", Kind::TEXT),
        Field::new("gone", Kind::Bool).nullable(true),
    ];
    let index = filter.map(|filter| Index::unique(vec![1]).filter(filter));
    Schema::new("named", fields).indexes(index.into_iter().collect::<Vec<_>>())
}

fn insert(stand: &Stand<'_>, name: &str, gone: impl Into<Value>) -> marmota_model::Result<Value> {
    let mut record = Record::new(stand.table("named").unwrap());
    record.set("name", name).unwrap();
    record.set("gone", gone).unwrap();
    stand.insert_record(&record).run()
}

/// Another filter makes another index: the old one is dropped, and the new one is checked against
/// the rows.
pub fn another_filter_makes_another_index(subject: &Subject) {
    let capability = subject.capability();
    if !capability.partial_indexes || !capability.persistent {
        return;
    }
    let mut stand = Stand::open(subject, |builder| builder.schema(named(Some("gone = null"))));
    insert(&stand, "Ada", Value::Null).unwrap();
    insert(&stand, "Ada", true).unwrap();
    insert(&stand, "Ada", false).unwrap();
    refused(insert(&stand, "Ada", Value::Null), ErrorKind::Conflict);
    stand.reopen_as(|builder| builder.schema(named(Some("not (gone = null)")))).unwrap_err();
    stand.reopen_as(|builder| builder.schema(named(Some("gone = true")))).unwrap();
    insert(&stand, "Ada", Value::Null).unwrap();
    refused(insert(&stand, "Ada", true), ErrorKind::Conflict);
    // The same filter, written in another way.
    stand.reopen_as(|builder| builder.schema(named(Some("(gone=true)")))).unwrap();
    refused(insert(&stand, "Ada", true), ErrorKind::Conflict);
    stand.reopen_as(|builder| builder.schema(named(None))).unwrap();
    insert(&stand, "Ada", true).unwrap();
}

register!($ partial_index_promises partial_indexes:
    an_engine_without_partial_indexes_refuses_them,
    a_partial_unique_index_holds,
    a_filter_of_several_conditions_holds,
    a_conflict_action_applies_to_selected_rows,
    a_hidden_filter_is_not_revealed,
    many_rows_are_checked,
    reads_have_all_rows,
    random_writes_are_checked,
    another_filter_makes_another_index,
);

//! Default expressions: the store evaluates them for new rows, on every path of an insert.

use std::collections::HashSet;
use std::sync::Arc;

use marmota_derive::Model;
use marmota_model::{Caller, Date, ErrorKind, Record, Result, Timestamp, Uuid, Value};
use marmota_store::operation::UpsertEffect;
use marmota_store::rights::{Grant, Right, Rights};
use marmota_store::{Store, StoreBuilder};

use crate::conformance::harness::refusal::{blamed, refused};
use crate::conformance::harness::subject::{Stand, Subject};

#[derive(Clone, Debug, Model, PartialEq)]
struct Letter {
    id: i64,
    #[model(trim, not_empty)]
    title: String,
    #[model(unique, max = 40, default_expression = "slug(title)")]
    slug: String,
    #[model(unique, default_expression = "token(24)")]
    token: String,
    #[model(default_expression = "uuid_v7()")]
    uuid: Uuid,
    #[model(default_expression = "uuid_v4()")]
    other: Option<Uuid>,
    #[model(default_expression = "@now")]
    sent: Timestamp,
    #[model(default_expression = "@today + 14")]
    due: Date,
    #[model(default_expression = "@user.id")]
    owner: Option<i64>,
    #[model(upper, default_expression = "slug + '.' + text(pages)")]
    label: String,
    #[model(default = 1)]
    pages: i64,
    #[model(range(max = 1000), default_expression = "pages * 100")]
    price: i64,
    #[model(created_at)]
    created: Timestamp,
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Letter>()
}

fn letter(store: &Store, title: &str) -> Record {
    let mut record = Record::new(store.table("letter").unwrap());
    record.set("title", title).unwrap();
    record
}

fn key_of(key: Result<Value>) -> i64 {
    key.unwrap().as_ref().as_int().unwrap()
}

/// Inserts, upserts, batches and transactions evaluate the expressions.
pub fn every_insert_evaluates_them(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    let begin = Timestamp::now();
    let first = key_of(stand.insert_record(&letter(&stand, " Dear all! ")).run());
    let upserted = stand.upsert_record(&letter(&stand, "Hello")).run().unwrap();
    assert_eq!(upserted.effect, UpsertEffect::Inserted);
    if stand.capability().transactions {
        let mut batch = stand.batch();
        batch.insert_record(&letter(&stand, "In a batch"));
        batch.insert_record(&letter(&stand, "In a batch, too"));
        batch.all_or_nothing().run().unwrap();
        let record = letter(&stand, "In a transaction");
        stand.transaction(|transaction| transaction.insert_record(&record).run()).unwrap();
    }
    stand.settle();
    let letters = stand.list::<Letter>().run().unwrap();
    let found = letters.iter().find(|letter| letter.id == first).unwrap();
    assert_eq!(
        (&*found.title, &*found.slug, &*found.label),
        ("Dear all!", "dear-all", "DEAR-ALL.1")
    );
    assert_eq!((found.pages, found.price, found.owner), (1, 100, None));
    let tokens: HashSet<&str> = letters.iter().map(|letter| &*letter.token).collect();
    let uuids: HashSet<Uuid> = letters.iter().map(|letter| letter.uuid).collect();
    assert_eq!((tokens.len(), uuids.len()), (letters.len(), letters.len()));
    for letter in &letters {
        assert_eq!(letter.token.len(), 24);
        assert_eq!(letter.uuid.get_version_num(), 7);
        assert_eq!(letter.other.unwrap().get_version_num(), 4);
        assert!(letter.sent >= begin && letter.sent == letter.created, "{letter:?}");
        let day = letter.sent.micros().div_euclid(86_400_000_000);
        assert_eq!(i64::from(letter.due.days()), day + 14);
    }
}

/// A value that is given is stored, also NULL; structs give all of theirs, and updates and patches
/// evaluate nothing.
pub fn given_values_are_kept(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    let mut record = letter(&stand, "Dear all");
    record.set("slug", "own").unwrap();
    record.set("pages", 3).unwrap();
    record.set("other", Value::Null).unwrap();
    let key = key_of(stand.insert_record(&record).run());
    let stored = stand.get::<Letter>(key).run().unwrap();
    assert_eq!((&*stored.slug, &*stored.label, stored.price), ("own", "OWN.3", 300));
    assert_eq!(stored.other, None);

    let copy = Letter { id: 0, slug: "copy".into(), token: String::new(), ..stored.clone() };
    let copied = stand.insert(&copy).run().unwrap();
    stand.patch::<Letter>(key).set(Letter::TITLE, "Another").run().unwrap();
    stand.settle();
    let copied = stand.get::<Letter>(copied).run().unwrap();
    assert_eq!(copied, Letter { id: copied.id, created: copied.created, ..copy });
    let patched = stand.get::<Letter>(key).run().unwrap();
    assert_eq!(patched, Letter { title: "Another".into(), ..stored.clone() });
    // An upsert leaves the fields that it does not set as they are.
    let mut record = letter(&stand, "Third");
    record.set("slug", "own").unwrap();
    let upserted = stand.upsert_record(&record).run().unwrap();
    assert_eq!(upserted.effect, UpsertEffect::Updated);
    let updated = stand.get::<Letter>(key).run().unwrap();
    assert_eq!(updated, Letter { title: "Third".into(), ..stored });
}

/// A value that is missing, out of range or taken is refused with its field.
pub fn a_value_that_breaks_a_rule_is_refused(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let invalid = ErrorKind::Invalid;
    let mut record = letter(&stand, "Dear all");
    record.set("pages", i64::MAX).unwrap();
    let error = blamed(stand.insert_record(&record).run(), invalid, "price", "required");
    assert!(error.to_string().contains("is out of range; give a value"), "{error}");
    record.set("pages", 11).unwrap();
    blamed(stand.insert_record(&record).run(), invalid, "price", "range");
    let long = letter(&stand, &"a".repeat(41));
    blamed(stand.insert_record(&long).run(), invalid, "slug", "max");
    stand.insert_record(&letter(&stand, "Dear all")).run().unwrap();
    let taken = stand.insert_record(&letter(&stand, "DEAR, all")).run();
    blamed(taken, ErrorKind::Conflict, "slug", "unique");
    assert_eq!(stand.count::<Letter>().run().unwrap(), 1);
}

/// The caller's key is known, and a default is no write of the caller: neither for the fields that
/// the caller may write, nor for the rule of the new row.
pub fn the_caller_owns_new_rows(subject: &Subject) {
    if !subject.capability().guarded_writes || !subject.capability().transactions {
        return;
    }
    let stand = Stand::open(subject, models);
    let table = stand.table("letter").unwrap();
    let under = |caller: Option<&str>, grants: &[Grant]| {
        let caller = caller.map(|id| Caller {
            id: id.to_owned(),
            name: format!("user {id}"),
            groups: Vec::new(),
        });
        stand.with_rights(Rights::new(stand.registry(), caller, grants).unwrap())
    };
    let own = || Grant::new("letter", &Right::ALL).rule("owner = @user.id");
    let ann = under(Some("7"), &[own()]);
    let key = key_of(ann.insert_record(&letter(&stand, "By Ann")).run());
    assert_eq!(ann.get::<Letter>(key).run().unwrap().owner, Some(7));
    let mut of_bob = letter(&stand, "For Bob");
    of_bob.set("owner", 8).unwrap();
    refused(ann.insert_record(&of_bob).run(), ErrorKind::Denied);

    let limited = under(Some("7"), &[own().except(["owner", "token"])]);
    let key = key_of(limited.insert_record(&letter(&stand, "By Ann, limited")).run());
    assert_eq!(stand.get::<Letter>(key).run().unwrap().owner, Some(7));
    assert!(limited.insert_record(&of_bob).run().is_err());
    let mut batch = limited.batch();
    batch.insert_record(&letter(&stand, "By Ann, in a batch"));
    batch.all_or_nothing().run().unwrap();
    assert_eq!(stand.count::<Letter>().filter(Letter::OWNER.eq(7)).run().unwrap(), 3);

    let anyone = under(None, &[Grant::new("letter", &Right::ALL)]);
    let key = key_of(anyone.insert_record(&letter(&stand, "Anonymous")).run());
    assert_eq!(stand.get::<Letter>(key).run().unwrap().owner, None);
    let ben = under(Some("ben"), &[Grant::new("letter", &Right::ALL)]);
    blamed(
        ben.insert_record(&letter(&stand, "By Ben")).run(),
        ErrorKind::Invalid,
        "owner",
        "required",
    );
    assert!(Arc::ptr_eq(&table, &stand.table("letter").unwrap()));
}

/// A hook gets the row with the values, and its changes are written.
pub fn hooks_get_the_values(subject: &Subject) {
    if !subject.capability().guarded_writes || !subject.capability().transactions {
        return;
    }
    let stand = Stand::open(subject, |builder| {
        models(builder).before::<Letter>(|change| {
            if let (None, Some(letter)) = (&change.before, &mut change.after) {
                assert_eq!((letter.token.len(), letter.uuid.get_version_num()), (24, 7));
                letter.slug = format!("{}-1", letter.slug);
            }
            Ok(())
        })
    });
    let key = key_of(stand.insert_record(&letter(&stand, "Dear all")).run());
    let stored = stand.get::<Letter>(key).run().unwrap();
    assert_eq!((&*stored.slug, &*stored.label), ("dear-all-1", "DEAR-ALL.1"));
}

register!($ default_expressions_promises default_expressions:
    every_insert_evaluates_them,
    given_values_are_kept,
    a_value_that_breaks_a_rule_is_refused,
    the_caller_owns_new_rows,
    hooks_get_the_values,
);

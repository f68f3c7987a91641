//! Computed fields: every write of a row stores the values of their expressions.

use marmota_derive::Model;
use marmota_model::{Currency, ErrorKind, Field, Kind, Record, Ref, Role, RowQuery, Schema, Value};
use marmota_store::operation::UpsertEffect;
use marmota_store::{Store, StoreBuilder};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::conformance::harness::refusal::{blamed, refused, says};
use crate::conformance::harness::subject::{Stand, Subject};

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Shelf {
    id: i64,
    name: String,
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Stock {
    id: i64,
    #[model(trim, not_empty)]
    name: String,
    price: Currency,
    count: i64,
    discount: Option<i64>,
    shelf: Option<Ref<Shelf>>,
    #[model(index, computed = "price * count")]
    total: Currency,
    #[model(unique, max = 40, computed = "slug(name) + '/' + place")]
    code: String,
    #[model(computed = "text(coalesce(shelf, 0))")]
    place: String,
    #[model(computed = "count - discount")]
    left: Option<i64>,
    note: Option<String>,
    #[model(version)]
    version: i64,
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Book {
    id: i64,
    title: String,
    #[model(on_delete = "set_null")]
    shelf: Option<Ref<Shelf>>,
    #[model(computed = "title + '/' + text(coalesce(shelf, 0))")]
    place: String,
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Shelf>().model::<Stock>()
}

fn stock(name: &str, price: &str, count: i64) -> Stock {
    let junk = "not the code".to_owned();
    let price = price.parse().unwrap();
    Stock { name: name.to_owned(), price, count, code: junk, ..Stock::default() }
}

/// Checks the computed fields of all rows against the others.
fn check(store: &Store) -> Vec<Stock> {
    let rows = store.list::<Stock>().run().unwrap();
    for row in &rows {
        assert_eq!(row.total.scaled(), row.price.scaled() * row.count, "{row:?}");
        let shelf = row.shelf.as_ref().map_or(0, |shelf| *shelf.key());
        let name = row.name.to_lowercase().replace(' ', "-");
        assert_eq!((&row.code, &row.place), (&format!("{name}/{shelf}"), &shelf.to_string()));
        assert_eq!(row.left, row.discount.map(|discount| row.count - discount), "{row:?}");
        let found = store.list::<Stock>().filter(Stock::CODE.eq(&*row.code)).run().unwrap();
        assert_eq!(found, std::slice::from_ref(row));
    }
    let total = Stock::TOTAL.ge("100".parse::<Currency>().unwrap());
    let expensive = store.count::<Stock>().filter(total).run().unwrap();
    assert_eq!(expensive, rows.iter().filter(|row| row.total.scaled() >= 1_000_000).count() as u64);
    rows
}

/// Inserts, updates, patches, increments, upserts, batches and transactions compute them.
pub fn every_write_computes_them(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    let shelf = stand.insert(&Shelf { id: 0, name: "A".into() }).run().unwrap();
    let tea = stand.insert(&stock(" Green tea ", "2.5", 10)).run().unwrap();
    let many = [stock("Cup", "7", 3), stock("Pot", "49.95", 2)];
    let keys = stand.insert_many(&many).run().unwrap();
    check(&stand);
    let mut read = stand.get::<Stock>(tea).run().unwrap();
    (read.count, read.discount) = (11, Some(4));
    stand.update(&read).run().unwrap();
    stand.patch::<Stock>(keys[1]).set(Stock::NOTE, Some("x".to_owned())).run().unwrap();
    let bowl = stand.patch::<Stock>(keys[0]).set(Stock::SHELF, Some(Ref::new(shelf)));
    bowl.set(Stock::NAME, " Cup ").run().unwrap();
    check(&stand);
    if !stand.capability().transactions {
        // Writes that depend on the stored row need a transaction.
        return;
    }
    stand.patch::<Stock>(tea).set(Stock::PRICE, "3".parse::<Currency>().unwrap()).run().unwrap();
    assert_eq!(stand.increment(Stock::COUNT, tea, 5).run().unwrap(), 16);
    stand.settle();
    let rows = check(&stand);
    assert_eq!(rows[0].total.to_string(), "48");
    assert_eq!((&*rows[0].code, &*rows[1].code, rows[0].left), ("green-tea/0", "cup/1", Some(12)));
    // The version counts the writes of the caller.
    assert_eq!((rows[0].version, rows[2].version), (4, 2));
    let mut changed = rows.clone();
    changed.iter_mut().for_each(|row| row.count += 1);
    stand.update_many(&changed).run().unwrap();
    check(&stand);

    let mut record = Record::new(stand.table("stock").unwrap());
    record.set("id", tea).unwrap();
    record.set("name", "Black tea").unwrap();
    record.set("price", "1".parse::<Currency>().unwrap()).unwrap();
    record.set("count", 1).unwrap();
    let upserted = stand.upsert_record(&record).run().unwrap();
    assert_eq!(upserted.effect, UpsertEffect::Updated);
    let other =
        stand.insert(&Stock { id: 77, ..stock("Spoon", "1", 1) }).or_update().run().unwrap();
    assert_eq!(other.effect, UpsertEffect::Inserted);
    let rows = check(&stand);
    // The discount is that of the stored row.
    assert_eq!((&*rows[0].code, rows[0].left), ("black-tea/0", Some(-3)));
    let mut batch = stand.batch();
    batch.insert(&stock("Can", "3.3333", 3));
    batch.patch::<Stock>(tea).set(Stock::NAME, "White tea");
    batch.increment(Stock::COUNT, keys[1], 40);
    batch.all_or_nothing().run().unwrap();
    stand
        .transaction(|transaction| {
            transaction.patch::<Stock>(tea).set(Stock::COUNT, 100).run()?;
            transaction.increment(Stock::COUNT, tea, 1).run()
        })
        .unwrap();
    stand.settle();
    check(&stand);
    let table = stand.table("stock").unwrap();
    assert_eq!(table.computed_fields().len(), 4);
}

/// A delete that clears a reference computes the fields that use it.
pub fn a_cleared_reference_computes_them(subject: &Subject) {
    if !subject.capability().on_delete || !subject.capability().transactions {
        return;
    }
    let stand = Stand::open(subject, |builder| models(builder).model::<Book>());
    let shelf = stand.insert(&Shelf { id: 0, name: "A".into() }).run().unwrap();
    let book = Book { title: "Emma".into(), shelf: Some(Ref::new(shelf)), ..Book::default() };
    let key = stand.insert(&book).run().unwrap();
    assert_eq!(stand.get::<Book>(key).run().unwrap().place, "Emma/1");
    stand.delete::<Shelf>(shelf).run().unwrap();
    assert_eq!(stand.get::<Book>(key).run().unwrap().place, "Emma/0");
}

/// A value that a caller gives is refused unless it is the computed one; so is an increment.
pub fn callers_cannot_write_them(subject: &Subject) {
    if !subject.capability().transactions {
        return;
    }
    let stand = Stand::open(subject, models);
    let invalid = ErrorKind::Invalid;
    let key = stand.insert(&stock("Tea", "2.5", 4)).run().unwrap();
    let table = stand.table("stock").unwrap();
    let patch = || stand.patch::<Stock>(key);
    let amount = |text: &str| text.parse::<Currency>().unwrap();
    let error = blamed(patch().set(Stock::TOTAL, amount("1")).run(), invalid, "total", "computed");
    says(&error, &["leave it out"]);
    patch().set(Stock::TOTAL, amount("10")).run().unwrap();
    let wrong = patch().set(Stock::COUNT, 5).set(Stock::TOTAL, amount("10")).run();
    blamed(wrong, invalid, "total", "computed");
    patch().set(Stock::COUNT, 5).set(Stock::TOTAL, amount("12.5")).run().unwrap();
    blamed(stand.increment(Stock::TOTAL, key, amount("1")).run(), invalid, "total", "computed");

    // A row that was read can be written back.
    let read = stand.get_record(&table, Value::Int(key)).run().unwrap();
    stand.update_record(Value::Int(key), &read).run().unwrap();
    let mut record = Record::new(table);
    for (name, value) in [("name", Value::from("Cup")), ("count", 2.into())] {
        record.set(name, value).unwrap();
    }
    record.set("price", amount("1")).unwrap();
    record.set("total", amount("3")).unwrap();
    blamed(stand.insert_record(&record).run(), invalid, "total", "computed");
    record.set("total", amount("2")).unwrap();
    stand.insert_record(&record).run().unwrap();
    check(&stand);
}

/// A value that breaks a rule, is out of range or taken is refused with its field.
pub fn a_computed_value_is_checked(subject: &Subject) {
    if !subject.capability().transactions {
        return;
    }
    let stand = Stand::open(subject, models);
    let key = stand.insert(&stock("Tea", "2.5", 4)).run().unwrap();
    let cup = stand.insert(&stock("Cup", "2.5", 4)).run().unwrap();
    let patch = |key: i64| stand.patch::<Stock>(key);
    let invalid = ErrorKind::Invalid;
    let error = patch(key).set(Stock::COUNT, i64::MAX).run();
    says(&blamed(error, invalid, "total", "computed"), &["is out of range"]);
    blamed(stand.increment(Stock::COUNT, key, i64::MAX / 2).run(), invalid, "total", "computed");
    let long = patch(key).set(Stock::NAME, "a".repeat(39)).run();
    blamed(long, invalid, "code", "max");
    let taken = patch(cup).set(Stock::NAME, "TEA").run();
    blamed(taken, ErrorKind::Conflict, "code", "unique");
    blamed(stand.insert(&stock("tea", "1", 1)).run(), ErrorKind::Conflict, "code", "unique");
    assert_eq!(check(&stand).len(), 2);
}

/// Concurrent writes of the fields that an expression uses leave no value of an earlier row.
pub fn concurrent_writes_agree(subject: &Subject) {
    if !subject.capability().transactions {
        return;
    }
    let stand = Stand::open(subject, models);
    let key = stand.insert(&stock("Tea", "1", 1)).run().unwrap();
    let store = stand.store();
    let again = |write: &dyn Fn() -> marmota_model::Result<()>| {
        while let Err(error) = write() {
            assert!(error.is_retryable(), "{error}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for price in 1..=10 {
                let price = Currency::from_scaled(price * 10_000);
                again(&|| store.patch::<Stock>(key).set(Stock::PRICE, price).run().map(drop));
            }
        });
        for _ in 0..10 {
            again(&|| store.increment(Stock::COUNT, key, 1).run().map(drop));
        }
    });
    let rows = check(&stand);
    assert_eq!(rows[0].total.to_string(), "110");
}

/// A hook gets the computed values, and those of the row that it leaves are written.
pub fn hooks_get_the_computed_values(subject: &Subject) {
    if !subject.capability().guarded_writes || !subject.capability().transactions {
        return;
    }
    let stand = Stand::open(subject, |builder| {
        models(builder).before::<Stock>(|change| {
            if let Some(stock) = &mut change.after {
                assert_eq!(stock.total.scaled(), stock.price.scaled() * stock.count);
                if stock.note.as_deref() == Some("double") {
                    stock.count *= 2;
                    stock.total = Currency::default();
                }
            }
            Ok(())
        })
    });
    let double = Stock { note: Some("double".into()), ..stock("Tea", "2", 3) };
    let key = stand.insert(&double).run().unwrap();
    assert_eq!(check(&stand)[0].count, 6);
    stand.patch::<Stock>(key).set(Stock::PRICE, "1".parse::<Currency>().unwrap()).run().unwrap();
    assert_eq!(check(&stand)[0].count, 12);
    stand.increment(Stock::COUNT, key, 1).run().unwrap();
    assert_eq!(check(&stand)[0].count, 26);
}

/// Random writes leave rows whose computed fields agree.
pub fn random_writes_agree(subject: &Subject) {
    if !subject.capability().transactions {
        return;
    }
    let stand = Stand::open(subject, models);
    let keys: Vec<i64> =
        (0..4).map(|at| stand.insert(&stock(&format!("n{at}"), "1", 1)).run().unwrap()).collect();
    let writes = proptest::collection::vec((0..6_u8, 0..4_usize, -50..50_i64), 1..12);
    let config = Config { cases: 12, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    runner
        .run(&writes, |writes| {
            for (kind, at, number) in writes {
                let (key, patch) = (keys[at], stand.patch::<Stock>(keys[at]));
                let done = match kind {
                    0 => patch.set(Stock::PRICE, Currency::from_scaled(number)).run().map(drop),
                    1 => patch.set(Stock::COUNT, number).set(Stock::NOTE, None).run().map(drop),
                    2 => patch.set(Stock::DISCOUNT, Some(number)).run().map(drop),
                    3 => patch.set(Stock::NAME, format!("n {}", number.abs())).run().map(drop),
                    4 => stand.increment(Stock::COUNT, key, number).run().map(drop),
                    _ => {
                        let row = Stock { id: key, ..stock(&format!("m{at}"), "2", number) };
                        stand.upsert(&row).run().map(drop)
                    }
                };
                // Two rows may get the same name.
                prop_assert!(done.is_ok() || done.unwrap_err().kind() == ErrorKind::Conflict);
            }
            check(&stand);
            Ok(())
        })
        .unwrap();
}

fn person(builder: StoreBuilder, expression: Option<&'static str>) -> StoreBuilder {
    let mut fields =
        vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("name", Kind::TEXT)];
    if let Some(expression) = expression {
        let unique = Field::new("upper", Kind::TEXT).nullable(true).unique(true);
        fields.push(Field::new("sorted", Kind::TEXT).computed(expression));
        fields.push(unique.computed("upper(name) + '!'"));
    }
    builder.schema(Schema::new("person", fields))
}

/// A new computed field, and one with another expression, is computed for the stored rows.
pub fn stored_rows_are_computed(subject: &Subject) {
    if !subject.capability().persistent || !subject.capability().transactions {
        return;
    }
    let mut stand = Stand::open(subject, |builder| person(builder, None));
    // More than a page of them.
    let mut batch = stand.batch();
    for at in 0..300 {
        let mut record = Record::new(stand.table("person").unwrap());
        record.set("name", format!("Name {at}")).unwrap();
        batch.insert_record(&record);
    }
    batch.all_or_nothing().run().unwrap();
    let expect = |stand: &Stand<'_>, expected: &dyn Fn(usize) -> [String; 2]| {
        let table = stand.table("person").unwrap();
        let rows = stand.list_records(&table).query(RowQuery::new()).run().unwrap();
        assert_eq!(rows.len(), 300);
        for (at, row) in rows.iter().enumerate() {
            assert_eq!(row.values()[2..], expected(at).map(Value::from));
        }
    };
    stand.reopen_as(|builder| person(builder, Some("lower(name)"))).unwrap();
    expect(&stand, &|at| [format!("name {at}"), format!("NAME {at}!")]);
    stand.reopen_as(|builder| person(builder, Some("name + '?'"))).unwrap();
    expect(&stand, &|at| [format!("Name {at}?"), format!("NAME {at}!")]);
    stand.reopen();
    expect(&stand, &|at| [format!("Name {at}?"), format!("NAME {at}!")]);

    // A row that has no value is named, and the next start repeats the work.
    let error = stand.reopen_as(|builder| person(builder, Some("text(length(name) / 0)")));
    let error = refused(error, ErrorKind::Invalid);
    says(&error, &["stored row 1 of `person`", "divides by zero"]);
    stand.reopen_as(|builder| person(builder, Some("trim(name)"))).unwrap();
    expect(&stand, &|at| [format!("Name {at}"), format!("NAME {at}!")]);
}

register!($ computed_fields_promises computed_fields:
    every_write_computes_them,
    a_cleared_reference_computes_them,
    callers_cannot_write_them,
    a_computed_value_is_checked,
    concurrent_writes_agree,
    hooks_get_the_computed_values,
    random_writes_agree,
    stored_rows_are_computed,
);

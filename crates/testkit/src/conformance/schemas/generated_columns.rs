//! Generated columns: the database computes their values, and everyone who gets a row has them.

use marmota_derive::Model;
use marmota_model::{Caller, ErrorKind, Field, Kind, Record, Role, Schema, Value};
use marmota_store::action::block_on;
use marmota_store::change::{ChangeRetention, ChangeStream, FeedEvent};
use marmota_store::live::LiveEvent;
use marmota_store::operation::UpsertEffect;
use marmota_store::rights::{Grant, Right, Rights};
use marmota_store::{Store, StoreBuilder};
use serde_json::json;

use crate::conformance::harness::refusal::{blamed, refused, says};
use crate::conformance::harness::subject::{Stand, Subject};

/// The expressions are SQL that all databases have.
#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(audit)]
struct Article {
    id: i64,
    #[model(trim, not_empty, max = 40)]
    name: String,
    price: i64,
    units: i64,
    discount: Option<i64>,
    #[model(index, generated = "price * units")]
    total: i64,
    #[model(unique, max = 40, generated = "upper(name)")]
    code: String,
    #[model(generated = "price - discount")]
    reduced: Option<i64>,
    note: Option<String>,
    #[model(version)]
    version: i64,
}

/// The same without history, whose writes take no additional steps.
#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Plain {
    id: i64,
    number: i64,
    #[model(generated = "number + number")]
    double: i64,
    other: Option<i64>,
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Article>().model::<Plain>()
}

fn recording(builder: StoreBuilder) -> StoreBuilder {
    models(builder).changes(ChangeRetention::default())
}

/// Opens the subject, if its engine has generated columns.
fn open(subject: &Subject) -> Option<Stand<'_>> {
    subject.capability().generated_columns.then(|| Stand::open(subject, models))
}

/// An article whose generated columns have values that the database does not compute.
fn article(name: &str, price: i64, units: i64) -> Article {
    let junk = "junk".to_owned();
    Article { name: name.to_owned(), price, units, total: -1, code: junk, ..Article::default() }
}

fn plain(number: i64) -> Plain {
    Plain { number, double: -1, ..Plain::default() }
}

/// Checks the generated columns of all rows against the others, as reads, filters and orders have
/// them.
fn check(store: &Store) -> Vec<Article> {
    let rows = store.list::<Article>().run().unwrap();
    for row in &rows {
        assert_eq!(row.total, row.price * row.units, "{row:?}");
        assert_eq!(row.code, row.name.to_uppercase(), "{row:?}");
        assert_eq!(row.reduced, row.discount.map(|discount| row.price - discount), "{row:?}");
        assert_eq!(&store.get::<Article>(row.id).run().unwrap(), row);
        let found = store.list::<Article>().filter(Article::CODE.eq(&*row.code)).run().unwrap();
        assert_eq!(found, std::slice::from_ref(row));
    }
    let expensive = store.count::<Article>().filter(Article::TOTAL.ge(100)).run().unwrap();
    assert_eq!(expensive, rows.iter().filter(|row| row.total >= 100).count() as u64);
    let ordered = store.list::<Article>().order(Article::TOTAL.descending()).run().unwrap();
    assert!(ordered.is_sorted_by_key(|row| -row.total));
    for row in store.list::<Plain>().run().unwrap() {
        assert_eq!(row.double, 2 * row.number, "{row:?}");
        assert_eq!(store.get::<Plain>(row.id).run().unwrap(), row);
    }
    rows
}

/// An engine without generated columns refuses the schema, with the table, the field and a remedy.
pub fn an_engine_without_generated_columns_refuses_them(subject: &Subject) {
    if subject.capability().generated_columns {
        return;
    }
    let error = match subject.builder_with(|builder| builder.model::<Plain>()).open() {
        Err(error) => error,
        Ok(store) => {
            // Of several databases, the one with the table has them.
            let key = store.insert(&plain(4)).run().unwrap();
            assert_eq!(store.get::<Plain>(key).run().unwrap().double, 8);
            return;
        }
    };
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    says(&error, &["`double` of `plain`", "use `computed`", "another engine"]);
}

/// Inserts, updates, patches, increments, upserts, batches and transactions leave rows whose
/// generated columns agree.
pub fn every_write_has_the_generated_values(subject: &Subject) {
    let Some(mut stand) = open(subject) else { return };
    let tea = stand.insert(&article(" tea ", 2, 10)).run().unwrap();
    let keys = stand.insert_many(&[article("cup", 7, 3), article("pot", 49, 2)]).run().unwrap();
    let read = stand.get::<Article>(tea).run().unwrap();
    assert_eq!((read.total, &*read.code, read.reduced), (20, "TEA", None));
    let changed = Article { units: 11, discount: Some(1), total: 7, ..read };
    stand.update(&changed).run().unwrap();
    let patch = stand.patch::<Article>(keys[0]).set(Article::NAME, " Bowl ");
    patch.set(Article::DISCOUNT, Some(3)).run().unwrap();
    assert_eq!(stand.increment(Article::UNITS, tea, 5).run().unwrap(), 16);
    stand.settle();
    let rows = check(&stand);
    assert_eq!((rows[0].total, rows[0].reduced, &*rows[1].code), (32, Some(1), "BOWL"));
    // The version counts the writes of the caller.
    assert_eq!((rows[0].version, rows[1].version), (3, 2));
    let mut more = rows.clone();
    more.iter_mut().for_each(|row| (row.units, row.total) = (row.units + 1, 5));
    stand.update_many(&more).run().unwrap();
    check(&stand);

    let upserted = stand.upsert(&Article { id: tea, ..article("Tea", 3, 1) }).run().unwrap();
    assert_eq!(upserted.effect, UpsertEffect::Updated);
    let spoon = stand.insert(&Article { id: 77, ..article("Spoon", 1, 1) }).or_update().run();
    assert_eq!(spoon.unwrap().effect, UpsertEffect::Inserted);
    let replaced = stand.insert(&Article { id: 77, ..article("Fork", 5, 5) }).or_replace().run();
    assert_eq!(replaced.unwrap().effect, UpsertEffect::Replaced);
    let mut batch = stand.batch();
    batch.insert(&article("Can", 3, 3));
    batch.patch::<Article>(tea).set(Article::NAME, "White tea");
    batch.increment(Article::UNITS, keys[1], 40);
    batch.all_or_nothing().run().unwrap();
    stand
        .transaction(|transaction| {
            transaction.patch::<Article>(tea).set(Article::PRICE, 100).run()?;
            let inside = transaction.get::<Article>(tea).run()?;
            assert_eq!(inside.total, 100 * inside.units);
            transaction.increment(Article::UNITS, tea, 1).run()
        })
        .unwrap();
    stand.settle();
    let rows = check(&stand);
    assert_eq!((rows.len(), rows[0].total, rows[3].total), (5, 200, 25));
}

/// The same for a table whose writes take no additional steps, with values that a feed records.
pub fn plain_writes_have_the_generated_values(subject: &Subject) {
    let Some(mut stand) = open(subject) else { return };
    let key = stand.insert(&plain(4)).run().unwrap();
    let many: Vec<Plain> = (0..40).map(plain).collect();
    stand.insert_many(&many).run().unwrap();
    stand.update(&Plain { id: key, ..plain(5) }).run().unwrap();
    stand.patch::<Plain>(key).set(Plain::NUMBER, 6).run().unwrap();
    stand.patch::<Plain>(key).set(Plain::OTHER, Some(1)).run().unwrap();
    assert_eq!(stand.increment(Plain::NUMBER, key, 2).run().unwrap(), 8);
    stand.upsert(&Plain { id: 900, ..plain(9) }).run().unwrap();
    stand.upsert(&Plain { id: 900, ..plain(10) }).run().unwrap();
    stand.insert(&Plain { id: 901, ..plain(11) }).or_ignore().run().unwrap();
    stand.insert(&Plain { id: 901, ..plain(12) }).or_replace().run().unwrap();
    let upserts: Vec<Plain> = (900..903).map(|id| Plain { id, ..plain(id) }).collect();
    stand.insert_many(&upserts).or_update().run().unwrap();
    let mut changed = stand.list::<Plain>().limit(5).run().unwrap();
    changed.iter_mut().for_each(|row| row.number += 1);
    stand.update_many(&changed).run().unwrap();
    stand.settle();
    check(&stand);
    assert_eq!(stand.get::<Plain>(key).run().unwrap().double, 18);
    assert_eq!(stand.delete_where(Plain::DOUBLE.gt(1_000)).run().unwrap(), 3);
}

/// A value that a caller gives is refused unless it is that of the database; so is an increment.
pub fn callers_cannot_write_them(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    let invalid = ErrorKind::Invalid;
    let key = stand.insert(&article("Tea", 2, 5)).run().unwrap();
    let patch = || stand.patch::<Article>(key);
    let error = blamed(patch().set(Article::TOTAL, 1).run(), invalid, "total", "computed");
    says(&error, &["leave it out"]);
    patch().set(Article::TOTAL, 10).run().unwrap();
    let wrong = patch().set(Article::UNITS, 6).set(Article::TOTAL, 10).run();
    blamed(wrong, invalid, "total", "computed");
    patch().set(Article::UNITS, 6).set(Article::TOTAL, 12).run().unwrap();
    blamed(stand.increment(Article::TOTAL, key, 1).run(), invalid, "total", "computed");

    // A row that was read can be written back.
    let table = stand.table("article").unwrap();
    let read = stand.get_record(&table, Value::Int(key)).run().unwrap();
    stand.update_record(Value::Int(key), &read).run().unwrap();
    let mut record = Record::new(table);
    for (name, value) in [("name", Value::from("Cup")), ("price", 2.into()), ("units", 1.into())] {
        record.set(name, value).unwrap();
    }
    record.set("total", 3).unwrap();
    blamed(stand.insert_record(&record).run(), invalid, "total", "computed");
    let mut records = [record.clone(), record.clone()];
    records[0].set("total", 2).unwrap();
    records[1].set("name", "Mug").unwrap();
    let mut batch = stand.batch();
    batch.insert_record(&records[0]).insert_record(&records[1]);
    refused(batch.all_or_nothing().run(), invalid);
    assert_eq!(check(&stand).len(), 1);
    stand.insert_record(&records[0]).run().unwrap();
    check(&stand);
}

/// A unique index over a generated column refuses a duplicate with its field.
pub fn a_duplicate_is_refused(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    stand.insert(&article("Tea", 2, 5)).run().unwrap();
    let cup = stand.insert(&article("Cup", 2, 5)).run().unwrap();
    let conflict = ErrorKind::Conflict;
    blamed(stand.insert(&article("TEA", 1, 1)).run(), conflict, "code", "unique");
    let taken = stand.patch::<Article>(cup).set(Article::NAME, "tea").run();
    blamed(taken, conflict, "code", "unique");
    // An upsert finds rows by the values that it has, and replaces no other.
    refused(stand.insert(&article("tea", 1, 1)).or_update().run(), conflict);
    let replacing = |name: &str| {
        let row = Article { id: cup, note: Some("new".to_owned()), ..article(name, 1, 1) };
        stand.insert(&row).or_replace().run()
    };
    refused(replacing("tea"), conflict);
    assert_eq!(check(&stand).len(), 2);
    assert_eq!(replacing("Mug").unwrap().effect, UpsertEffect::Replaced);
    let rows = check(&stand);
    assert_eq!((rows.len(), &*rows[1].code, rows[1].version), (2, "MUG", 1));
}

/// Entries of the history have the generated columns that a write has changed.
pub fn the_history_has_them(subject: &Subject) {
    let Some(stand) = open(subject) else { return };
    let key = stand.insert(&article("Tea", 2, 5)).run().unwrap();
    stand.patch::<Article>(key).set(Article::PRICE, 3).run().unwrap();
    stand.patch::<Article>(key).set(Article::NOTE, Some("x".to_owned())).run().unwrap();
    stand.increment(Article::UNITS, key, 1).run().unwrap();
    stand.upsert(&Article { id: key, ..article("Cup", 3, 6) }).run().unwrap();
    let entries = stand.history::<Article>(key).run().unwrap();
    let fields = |at: usize, name: &str| {
        let fields = entries[at].fields.as_ref().map(|fields| fields.0.clone());
        fields.and_then(|fields| fields.get(name).cloned())
    };
    let totals: Vec<_> = (0..5).map(|at| fields(at, "total")).collect();
    assert_eq!(totals, [Some(json!(10)), Some(json!(15)), None, Some(json!(18)), None]);
    let codes: Vec<_> = (0..5).map(|at| fields(at, "code")).collect();
    assert_eq!(codes, [Some(json!("TEA")), None, None, None, Some(json!("CUP"))]);
    assert_eq!(fields(0, "reduced"), Some(json!(null)));
}

/// A grant whose rule compares a generated column is checked on the row as it is written.
pub fn rules_of_grants_apply_to_them(subject: &Subject) {
    if !subject.capability().guarded_writes {
        return;
    }
    let Some(stand) = open(subject) else { return };
    let grant = |rights: &[Right], rule: &str| Grant::new("article", rights).rule(rule);
    let grants = [
        grant(&[Right::Read, Right::Delete], "total < 1000"),
        grant(&[Right::Insert, Right::Update], "total <= 100"),
    ];
    let caller = Caller { id: "7".to_owned(), name: "ann".to_owned(), groups: Vec::new() };
    let rights = Rights::new(stand.registry(), Some(caller), &grants).unwrap();
    let ann = stand.with_rights(rights);
    let tea = ann.insert(&article("Tea", 2, 5)).run().unwrap();
    refused(ann.insert(&article("Pot", 20, 6)).run(), ErrorKind::Denied);
    refused(ann.patch::<Article>(tea).set(Article::UNITS, 51).run(), ErrorKind::Denied);
    ann.patch::<Article>(tea).set(Article::UNITS, 50).run().unwrap();
    refused(ann.increment(Article::UNITS, tea, 1).run(), ErrorKind::Denied);
    let rows = check(&stand);
    assert_eq!((rows.len(), rows[0].total), (1, 100));
    let dear = stand.insert(&article("Ring", 1_000, 2)).run().unwrap();
    refused(ann.get::<Article>(dear).run(), ErrorKind::NotFound);
}

/// A hook gets the values before the write, and cannot change them.
pub fn hooks_get_the_values_before_the_write(subject: &Subject) {
    if !subject.capability().guarded_writes {
        return;
    }
    if !subject.capability().generated_columns {
        return;
    }
    let stand = Stand::open(subject, |builder| {
        models(builder).before::<Article>(|change| {
            let before = change.before.as_ref().map_or(0, |article| article.total);
            let Some(article) = &mut change.after else { return Ok(()) };
            assert_eq!(article.total, before, "{article:?}");
            match article.note.as_deref() {
                Some("double") => article.units *= 2,
                Some("cheat") => article.total = 1,
                _ => {}
            }
            Ok(())
        })
    });
    let double = Article { note: Some("double".into()), ..article("Tea", 2, 3) };
    let key = stand.insert(&double).run().unwrap();
    assert_eq!(check(&stand)[0].units, 6);
    stand.patch::<Article>(key).set(Article::PRICE, 1).run().unwrap();
    assert_eq!(check(&stand)[0].units, 12);
    stand.increment(Article::UNITS, key, 1).run().unwrap();
    assert_eq!(check(&stand)[0].units, 26);
    let cheat = Article { note: Some("cheat".into()), ..article("Cup", 2, 3) };
    let error = refused(stand.insert(&cheat).run(), ErrorKind::Bug);
    says(&error, &["`total`", "generated columns"]);
}

/// The change feed and live queries have them, before and after a change.
pub fn feeds_have_them(subject: &Subject) {
    let capability = subject.capability();
    if !capability.generated_columns || !capability.change_feed {
        return;
    }
    let stand = Stand::open(subject, recording);
    let mut stream = stand.changes().unwrap();
    let query = stand.live::<Plain>().filter(Plain::DOUBLE.gt(8)).order(Plain::DOUBLE.ascending());
    let mut live = query.subscribe_run().unwrap();
    let mut page: Vec<Plain> = Vec::new();
    let mut next_page = || {
        let event: LiveEvent<Plain> = block_on(live.next()).unwrap().unwrap();
        event.apply_to(&mut page);
        page.iter().map(|row| row.double).collect::<Vec<i64>>()
    };
    assert_eq!(next_page(), [0; 0]);
    let key = stand.insert(&plain(5)).run().unwrap();
    assert_eq!(doubles(&mut stream), [[Value::Null, 10.into()]]);
    assert_eq!(next_page(), [10]);
    stand.patch::<Plain>(key).set(Plain::NUMBER, 6).run().unwrap();
    assert_eq!(doubles(&mut stream), [[10.into(), Value::from(12)]]);
    assert_eq!(next_page(), [12]);
    stand.insert_many(&[plain(1), plain(9)]).run().unwrap();
    assert_eq!(doubles(&mut stream), [[Value::Null, 2.into()], [Value::Null, 18.into()]]);
    assert_eq!(next_page(), [12, 18]);
    if capability.sql {
        stand.execute("UPDATE plain SET number = number - 5").run().unwrap();
        assert_eq!(doubles(&mut stream).len(), 3);
        assert_eq!(next_page(), [0; 0]);
    }
    stand.delete_where(Plain::DOUBLE.le(1_000)).run().unwrap();
    assert!(
        doubles(&mut stream)
            .iter()
            .all(|[before, after]| { matches!(before, Value::Int(_)) && *after == Value::Null })
    );
}

/// Returns the values of `double` before and after each change of the next commit; null for no row.
fn doubles(stream: &mut ChangeStream) -> Vec<[Value; 2]> {
    let Some(FeedEvent::Commit(commit)) = block_on(stream.next()).unwrap() else {
        panic!("no commit")
    };
    let at = |row: Option<&Vec<Value>>| row.map_or(Value::Null, |row| row[2].clone());
    let both = |change: &marmota_store::change::Change| {
        [at(change.before.as_ref()), at(change.after.as_ref())]
    };
    commit.changes.iter().map(both).collect()
}

fn ticket(builder: StoreBuilder, fields: Vec<Field>) -> StoreBuilder {
    let first = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("seat", Kind::I64),
        Field::new("note", Kind::TEXT).nullable(true),
    ];
    builder.schema(Schema::new("ticket", [first, fields].concat()))
}

fn twice() -> Field {
    Field::new("twice", Kind::I64)
}

fn tag() -> Field {
    Field::new("tag", Kind::TEXT).nullable(true)
}

/// A generated column is added with values for the stored rows, and one that exists matches.
pub fn a_generated_column_is_added(subject: &Subject) {
    let capability = subject.capability();
    if !capability.generated_columns || !capability.persistent {
        return;
    }
    let mut stand = Stand::open(subject, |builder| ticket(builder, Vec::new()));
    let insert = |stand: &Stand<'_>, seat: i64| {
        let mut record = Record::new(stand.table("ticket").unwrap());
        record.set("seat", seat).unwrap();
        stand.insert_record(&record).run().unwrap()
    };
    let values = |stand: &Stand<'_>, field: usize| {
        let rows = stand.list_records(&stand.table("ticket").unwrap()).run().unwrap();
        rows.iter().map(|row| row.values()[field].clone()).collect::<Vec<Value>>()
    };
    insert(&stand, 3);
    insert(&stand, 4);
    let error = stand.reopen_as(|builder| ticket(builder, vec![twice().generated("")]));
    let error = refused(error, ErrorKind::Invalid);
    says(&error, &["twice", "no such column", "remove the field"]);
    stand.reopen_as(|builder| ticket(builder, vec![twice().generated("seat * 2")])).unwrap();
    assert_eq!(values(&stand, 3), [6, 8].map(Value::Int));
    insert(&stand, 5);
    stand.reopen();
    // A model without the expression uses that of the database.
    stand.reopen_as(|builder| ticket(builder, vec![twice().generated("")])).unwrap();
    insert(&stand, 6);
    assert_eq!(values(&stand, 3), [6, 8, 10, 12].map(Value::Int));
    let error = refused(stand.reopen_as(|b| ticket(b, vec![twice()])), ErrorKind::Invalid);
    says(&error, &["twice", "GENERATED ALWAYS", "add `generated`"]);
    stand.reopen_as(|b| ticket(b, vec![twice().generated(""), tag()])).unwrap();
    let error = stand.reopen_as(|b| ticket(b, vec![twice().generated(""), tag().generated("1")]));
    says(&refused(error, ErrorKind::Invalid), &["tag", "plain one in the database"]);
}

/// The feed has a column that was added to a table with rows.
pub fn feeds_have_an_added_column(subject: &Subject) {
    let capability = subject.capability();
    if !capability.generated_columns || !capability.change_feed || !capability.persistent {
        return;
    }
    let builder = |builder: StoreBuilder| ticket(builder, Vec::new());
    let mut stand = Stand::open(subject, builder);
    let mut record = Record::new(stand.table("ticket").unwrap());
    record.set("seat", 3).unwrap();
    stand.insert_record(&record).run().unwrap();
    stand
        .reopen_as(|builder| {
            let field = twice().generated("seat * 2");
            let last = Field::new("last", Kind::TEXT).nullable(true);
            ticket(builder, vec![field, last]).changes(ChangeRetention::default())
        })
        .unwrap();
    let mut stream = stand.changes().unwrap();
    let table = stand.table("ticket").unwrap();
    let mut record = Record::new(table);
    record.set("seat", 5).unwrap();
    record.set("last", "x").unwrap();
    let key = stand.insert_record(&record).run().unwrap();
    let mut next = || match block_on(stream.next()).unwrap() {
        Some(FeedEvent::Commit(commit)) => commit.changes[0].clone(),
        other => panic!("no commit: {other:?}"),
    };
    let inserted = next().after.unwrap();
    assert_eq!(inserted[1..], [5.into(), Value::Null, 10.into(), "x".into()]);
    record.set("seat", 6).unwrap();
    stand.update_record(key.clone(), &record).run().unwrap();
    let updated = next();
    let twice = |row: Option<Vec<Value>>| row.unwrap()[3].clone();
    assert_eq!((twice(updated.before), twice(updated.after)), (10.into(), 12.into()));
    assert!(updated.changed.contains(3));
    stand.delete_record(&stand.table("ticket").unwrap(), key).run().unwrap();
    assert_eq!(twice(next().before), Value::Int(12));
}

register!($ generated_columns_promises generated_columns:
    an_engine_without_generated_columns_refuses_them,
    every_write_has_the_generated_values,
    plain_writes_have_the_generated_values,
    callers_cannot_write_them,
    a_duplicate_is_refused,
    the_history_has_them,
    rules_of_grants_apply_to_them,
    hooks_get_the_values_before_the_write,
    feeds_have_them,
    a_generated_column_is_added,
    feeds_have_an_added_column,
);

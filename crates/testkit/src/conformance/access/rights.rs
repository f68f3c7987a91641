//! Rights: every verb refuses what a caller is not permitted to do, and treats rows that the caller
//! may not read as missing.

use marmota_derive::Model;
use marmota_model::{Caller, ErrorKind, FieldSet, Filter, Ref, Result, RowQuery, parse_rule};
use marmota_store::rights::{Grant, Right, Rights};
use marmota_store::{History, Idempotency, Store, StoreBuilder};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::conformance::harness::refusal::{blamed, refused};
use crate::conformance::harness::subject::{Stand, Subject};

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Folder {
    id: i64,
    owner: i64,
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(audit)]
struct Page {
    id: i64,
    owner: i64,
    #[model(unique)]
    title: String,
    #[model(search)]
    text: String,
    team: Option<String>,
    views: i64,
    folder: Option<Ref<Folder>>,
    #[model(version)]
    version: i64,
}

/// A model without history.
#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Plain {
    id: i64,
    owner: i64,
    #[model(unique)]
    title: String,
    folder: Option<Ref<Folder>>,
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    let builder = builder.model::<Folder>().model::<Page>().model::<Plain>();
    builder.idempotency(Idempotency::default())
}

const ANN: i64 = 7;
const BOB: i64 = 8;

fn caller(id: i64) -> Caller {
    let groups = vec!["staff".to_owned(), format!("team {id}")];
    Caller { id: id.to_string(), name: format!("user {id}"), groups }
}

fn under(store: &Store, id: i64, grants: &[Grant]) -> Store {
    store.with_rights(Rights::new(store.registry(), Some(caller(id)), grants).unwrap())
}

/// All rights on the caller's own rows.
fn own(store: &Store, id: i64) -> Store {
    under(store, id, &[Grant::new("*", &Right::ALL).rule("owner = @user.id")])
}

fn page(owner: i64, title: &str) -> Page {
    let text = format!("words of {title}");
    Page { owner, title: title.to_owned(), text, ..Page::default() }
}

fn plain(owner: i64, title: &str) -> Plain {
    Plain { owner, title: title.to_owned(), ..Plain::default() }
}

fn denied<T: std::fmt::Debug>(result: Result<T>) {
    refused(result, ErrorKind::Denied);
}

fn not_found<T: std::fmt::Debug>(result: Result<T>) {
    refused(result, ErrorKind::NotFound);
}

/// A verb for which no grant exists is refused, and so is raw SQL.
pub fn operations_without_a_grant_are_denied(subject: &Subject) {
    if !subject.capability().guarded_writes {
        return;
    }
    let stand = Stand::open(subject, models);
    let id = stand.insert(&page(ANN, "a")).run().unwrap();
    let nothing = under(&stand, ANN, &[Grant::new("folder", &Right::ALL)]);
    denied(nothing.get::<Page>(id).run());
    denied(nothing.list::<Page>().run());
    denied(nothing.count::<Page>().run());
    denied(nothing.insert(&page(ANN, "b")).run());
    denied(nothing.insert_many(&[page(ANN, "b")]).run());
    denied(nothing.update(&Page { id, ..page(ANN, "b") }).run());
    denied(nothing.patch::<Page>(id).set(Page::VIEWS, 1).run());
    denied(nothing.increment(Page::VIEWS, id, 1).run());
    denied(nothing.delete::<Page>(id).run());
    denied(nothing.delete_where::<Page>(Page::ID.eq(id)).run());
    denied(nothing.history::<Page>(id).run());
    let mut batch = nothing.batch();
    batch.delete::<Page>(id).insert(&Folder::default());
    denied(batch.all_or_nothing().run());
    let mut batch = nothing.batch();
    batch.delete::<Page>(id).insert(&Folder { id: 0, owner: ANN });
    let results = batch.continue_on_error().run().unwrap();
    assert_eq!(results[0].as_ref().unwrap_err().kind(), ErrorKind::Denied);
    assert!(results[1].is_ok());
    let reads = under(&stand, ANN, &[Grant::new("page", &[Right::Read])]);
    assert_eq!(reads.get::<Page>(id).run().unwrap().title, "a");
    denied(reads.delete::<Page>(id).run());
    denied(reads.history::<Page>(id).run());
    denied(reads.insert(&page(ANN, "b")).or_ignore().run());
    if stand.capability().sql {
        denied(reads.sql("SELECT 1").rows().run());
    }
    let nobody = Rights::new(
        stand.registry(),
        None,
        &[Grant::new("page", &Right::ALL).rule("not owner = @user.id")],
    );
    let nobody = stand.with_rights(nobody.unwrap());
    refused(nobody.list::<Page>().run(), ErrorKind::Unauthenticated);
    assert_eq!(stand.count::<Page>().run().unwrap(), 1);
}

/// Reads and writes of a row that the caller may not see fail as if it did not exist.
pub fn a_hidden_row_is_not_there(subject: &Subject) {
    if !subject.capability().guarded_writes {
        return;
    }
    let mut stand = Stand::open(subject, models);
    let hers = stand.insert(&page(ANN, "hers")).run().unwrap();
    let his = stand.insert(&page(BOB, "his")).run().unwrap();
    stand.settle();
    // The second read may be answered from a cache.
    for _ in 0..2 {
        assert_eq!(stand.get::<Page>(his).run().unwrap().owner, BOB);
        let ann = own(&stand, ANN);
        assert_eq!(ann.get::<Page>(hers).run().unwrap().owner, ANN);
        not_found(ann.get::<Page>(his).run());
        assert_eq!(ann.get::<Page>(his).optional().run().unwrap(), None);
        assert_eq!(ann.list::<Page>().run().unwrap().len(), 1);
        assert_eq!(ann.list::<Page>().filter(Page::OWNER.eq(BOB)).run().unwrap(), []);
        let words = ann.list::<Page>().filter(Filter::search("words")).run().unwrap();
        assert_eq!(words.len(), 1);
        assert_eq!(ann.list::<Page>().column(Page::TITLE).run().unwrap(), ["hers"]);
        assert_eq!(ann.count::<Page>().run().unwrap(), 1);
        assert_eq!(ann.history::<Page>(his).run().unwrap(), []);
        assert_eq!(ann.history::<Page>(hers).run().unwrap().len(), 1);
        assert_eq!(ann.list::<History>().run().unwrap(), []);
    }
    let ann = own(&stand, ANN);
    let before = stand.get::<Page>(his).run().unwrap();
    not_found(ann.update(&Page { title: "x".to_owned(), ..before.clone() }).run());
    not_found(ann.update_many(&[Page { title: "x".to_owned(), ..before.clone() }]).run());
    not_found(ann.patch::<Page>(his).set(Page::VIEWS, 1).run());
    not_found(ann.increment(Page::VIEWS, his, 1).run());
    not_found(ann.delete::<Page>(his).run());
    assert_eq!(ann.delete_where::<Page>(Page::OWNER.eq(BOB)).run().unwrap(), 0);
    let mut batch = ann.batch();
    batch.delete::<Page>(his);
    batch.patch::<Page>(his).set(Page::VIEWS, 1);
    batch.increment(Page::VIEWS, his, 1);
    for result in batch.continue_on_error().run().unwrap() {
        not_found(result);
    }
    let transaction = ann.begin_run().unwrap();
    not_found(transaction.get::<Page>(his).run());
    not_found(transaction.delete::<Page>(his).run());
    assert_eq!(transaction.list::<Page>().run().unwrap().len(), 1);
    transaction.rollback().run().unwrap();
    drop(transaction);
    stand.settle();
    assert_eq!(stand.get::<Page>(his).run().unwrap(), before);
    let ann = own(&stand, ANN);
    ann.increment(Page::VIEWS, hers, 2).run().unwrap();
    ann.patch::<Page>(hers).set(Page::TITLE, "still hers").run().unwrap();
    assert_eq!(ann.get::<Page>(hers).run().unwrap().views, 2);
    let entries = stand.history::<Page>(hers).run().unwrap();
    assert_eq!(entries.last().unwrap().actor.as_deref(), Some("user 7"));
    ann.delete::<Page>(hers).run().unwrap();
    assert_eq!(stand.list::<Page>().run().unwrap(), [before]);
}

/// A write is refused if the new row does not satisfy the rule of the caller's grant.
pub fn a_written_row_must_match_the_rule(subject: &Subject) {
    if !subject.capability().guarded_writes {
        return;
    }
    let mut stand = Stand::open(subject, models);
    let ann = own(&stand, ANN);
    denied(ann.insert(&page(BOB, "his")).run());
    denied(ann.insert(&plain(BOB, "his")).run());
    denied(ann.insert_many(&[plain(ANN, "a"), plain(BOB, "b")]).run());
    denied(ann.insert_many(&[page(ANN, "a"), page(BOB, "b")]).run());
    let id = ann.insert(&page(ANN, "hers")).run().unwrap();
    ann.insert_many(&[plain(ANN, "a"), plain(ANN, "b")]).run().unwrap();
    denied(ann.patch::<Page>(id).set(Page::OWNER, BOB).run());
    denied(ann.increment(Page::OWNER, id, 1).run());
    denied(ann.update(&Page { id, ..page(BOB, "his") }).run());
    let mut batch = ann.batch();
    batch.insert(&page(ANN, "c"));
    batch.insert(&page(BOB, "d"));
    denied(batch.all_or_nothing().run());
    stand.settle();
    assert_eq!(stand.get::<Page>(id).run().unwrap().owner, ANN);
    assert_eq!(stand.count::<Page>().run().unwrap(), 1);
    assert_eq!(stand.count::<Plain>().run().unwrap(), 2);
    // The caller may read more rows than they may write.
    let grants = [
        Grant::new("page", &[Right::Read]),
        Grant::new("page", &[Right::Update, Right::Delete]).rule("owner = @user.id"),
    ];
    let bob = under(&stand, BOB, &grants);
    assert_eq!(bob.get::<Page>(id).run().unwrap().owner, ANN);
    denied(bob.patch::<Page>(id).set(Page::VIEWS, 1).run());
    denied(bob.delete::<Page>(id).run());
    not_found(bob.delete::<Page>(999).run());
    assert_eq!(bob.delete_where::<Page>(Page::ID.gt(0)).run().unwrap(), 0);
    // With a key that the database assigns.
    let first = [Grant::new("page", &[Right::Insert]).rule("id < 2")];
    denied(under(&stand, BOB, &first).insert(&page(BOB, "third")).run());
    assert_eq!(stand.count::<Page>().run().unwrap(), 1);
}

/// An insert that conflicts with a row that the caller may not see returns a conflict, with every
/// conflict action.
pub fn an_insert_can_conflict_with_a_hidden_row(subject: &Subject) {
    if !subject.capability().guarded_writes {
        return;
    }
    let mut stand = Stand::open(subject, models);
    stand.insert(&plain(BOB, "taken")).run().unwrap();
    let bobs = stand.list::<Plain>().run().unwrap();
    let ann = own(&stand, ANN);
    let row = plain(ANN, "taken");
    let conflict = |result: Result<()>| blamed(result, ErrorKind::Conflict, "title", "unique");
    conflict(ann.insert(&row).run().map(drop));
    conflict(ann.insert(&row).or_ignore().run().map(drop));
    conflict(ann.insert(&row).or_replace().run().map(drop));
    conflict(ann.insert(&row).or_update().run().map(drop));
    stand.settle();
    assert_eq!(stand.list::<Plain>().run().unwrap(), bobs);
    let bob = own(&stand, BOB);
    let folder = bob.insert(&Folder { id: 0, owner: BOB }).run().unwrap();
    let row = Plain { folder: Some(Ref::new(folder)), ..plain(BOB, "taken") };
    assert_eq!(bob.insert(&row).or_ignore().run().unwrap().key, bobs[0].id);
    bob.insert(&row).or_update().run().unwrap();
    assert_eq!(bob.list::<Plain>().run().unwrap()[0].folder, row.folder);
    bob.insert(&row).or_replace().run().unwrap();
    assert_eq!(bob.count::<Plain>().run().unwrap(), 1);
}

/// A reference to a row that the caller may not see fails like a reference to a missing row.
pub fn a_hidden_row_cannot_be_referred_to(subject: &Subject) {
    if !subject.capability().guarded_writes {
        return;
    }
    let stand = Stand::open(subject, models);
    let his = stand.insert(&Folder { id: 0, owner: BOB }).run().unwrap();
    let hers = stand.insert(&Folder { id: 0, owner: ANN }).run().unwrap();
    let ann = own(&stand, ANN);
    let into = |folder: i64| Plain { folder: Some(Ref::new(folder)), ..plain(ANN, "a") };
    let mut errors = Vec::new();
    for folder in [his, 999] {
        let error =
            blamed(ann.insert(&into(folder)).run(), ErrorKind::Invalid, "folder", "reference");
        errors.push(error.violations()[0].message.clone());
    }
    assert_eq!(errors[0], errors[1]);
    // The error names the table and the missing grant.
    for words in ["key of a row of `folder`", "a grant on `folder` with the right `refer`"] {
        assert!(errors[0].contains(words), "{words}: {}", errors[0]);
    }
    let id = ann.insert(&into(hers)).run().unwrap();
    let patch = ann.patch::<Plain>(id).set(Plain::FOLDER, Ref::new(his));
    blamed(patch.run(), ErrorKind::Invalid, "folder", "reference");
    let mut batch = ann.batch();
    batch.insert(&Plain { title: "b".to_owned(), ..into(his) });
    blamed(batch.all_or_nothing().run(), ErrorKind::Invalid, "folder", "reference");
    // A row may be referred to without the right to read it.
    let grants =
        [Grant::new("plain", &Right::ALL), Grant::new("folder", &[Right::Refer]).rule("id = 1")];
    let ann = under(&stand, ANN, &grants);
    ann.insert(&Plain { title: "c".to_owned(), ..into(his) }).run().unwrap();
    let row = Plain { title: "d".to_owned(), ..into(hers) };
    blamed(ann.insert(&row).run(), ErrorKind::Invalid, "folder", "reference");
    denied(ann.get::<Folder>(his).run());
}

/// The history of a row is visible only to callers who may read the row.
pub fn history_is_for_those_who_may_read(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let id = stand.insert(&page(ANN, "a")).run().unwrap();
    assert_eq!(own(&stand, BOB).history::<Page>(id).run().unwrap(), []);
    stand.patch::<Page>(id).set(Page::OWNER, BOB).run().unwrap();
    assert_eq!(own(&stand, BOB).history::<Page>(id).run().unwrap().len(), 2);
    assert_eq!(own(&stand, ANN).history::<Page>(id).run().unwrap(), []);
    let all = under(&stand, ANN, &[Grant::new("page", &[Right::Read, Right::History])]);
    assert_eq!(all.history::<Page>(id).run().unwrap().len(), 2);
    assert_eq!(all.list::<History>().run().unwrap().len(), 2);
    assert_eq!(all.count::<History>().run().unwrap(), 2);
    let entry = all.list::<History>().run().unwrap()[0].id;
    assert_eq!(all.get::<History>(entry).run().unwrap().of_key, id.to_string());
    not_found(own(&stand, BOB).get::<History>(entry).run());
    // Nor with an equivalent filter.
    let tricks = History::OF_TABLE.is_in(["page", "folder"]).and(History::OF_KEY.eq("1"));
    assert_eq!(own(&stand, ANN).list::<History>().filter(tricks).run().unwrap(), []);
    let tricks = History::OF_KEY.eq(id.to_string());
    assert_eq!(own(&stand, ANN).list::<History>().filter(tricks).run().unwrap(), []);
    let whole = under(&stand, ANN, &[Grant::new("marmota_history", &[Right::Read])]);
    assert_eq!(whole.list::<History>().run().unwrap().len(), 2);
}

/// A stored result of an idempotency key is not returned to another caller.
pub fn a_stored_result_belongs_to_its_caller(subject: &Subject) {
    if !subject.capability().guarded_writes {
        return;
    }
    let stand = Stand::open(subject, models);
    let grants = [Grant::new("plain", &Right::ALL)];
    let insert = |store: &Store| {
        let mut batch = store.batch();
        batch.insert(&plain(1, "once")).idempotency_key("k");
        batch.all_or_nothing().run().map(|mut results| results.remove(0).unwrap())
    };
    let (ann, bob) = (under(&stand, ANN, &grants), under(&stand, BOB, &grants));
    let first = insert(&ann).unwrap();
    assert_eq!(insert(&ann).unwrap(), first);
    refused(insert(&bob), ErrorKind::Conflict);
    refused(insert(&stand), ErrorKind::Conflict);
}

/// The limit of stored results applies to each caller separately: many keys of one caller do not
/// remove those of others.
pub fn callers_have_separate_stored_results(subject: &Subject) {
    if !subject.capability().guarded_writes {
        return;
    }
    let few = |builder: StoreBuilder| {
        let limits = Idempotency { keys_max: 100, caller_keys_max: 10, ..Idempotency::default() };
        models(builder).idempotency(limits)
    };
    let stand = Stand::open(subject, few);
    let grants = [Grant::new("plain", &Right::ALL)];
    let (ann, bob) = (under(&stand, ANN, &grants), under(&stand, BOB, &grants));
    let insert = |store: &Store, key: &str, title: String| {
        let mut batch = store.batch();
        batch.insert(&plain(1, &title)).idempotency_key(key);
        batch.all_or_nothing().run().map(drop)
    };
    insert(&bob, "k", "his".to_owned()).unwrap();
    for number in 0..300 {
        insert(&ann, &number.to_string(), format!("hers {number}")).unwrap();
    }
    // Both of these are repeats; only her oldest result was removed.
    insert(&bob, "k", "his".to_owned()).unwrap();
    insert(&ann, "299", "hers 299".to_owned()).unwrap();
    refused(insert(&ann, "0", "hers 0".to_owned()), ErrorKind::Conflict);
}

/// A write under a rule that names an old version is stale. A version of a row that does not exist,
/// or that the caller may not see, is [`ErrorKind::NotFound`].
pub fn a_stale_write_under_a_rule_is_refused(subject: &Subject) {
    if !subject.capability().guarded_writes {
        return;
    }
    let stand = Stand::open(subject, models);
    let ann = own(stand.store(), ANN);
    let key = ann.insert(&page(ANN, "a")).run().unwrap();
    let hidden = stand.insert(&page(BOB, "b")).run().unwrap();
    let read = ann.get::<Page>(key).run().unwrap();
    ann.increment(Page::VIEWS, key, 1).run().unwrap();

    refused(ann.update(&read).run(), ErrorKind::Stale);
    refused(ann.delete::<Page>(key).version(1).run(), ErrorKind::Stale);
    let patch = |key, version| ann.patch::<Page>(key).set(Page::VIEWS, 9).version(version);
    refused(patch(key, 1).run(), ErrorKind::Stale);
    not_found(patch(hidden, 1).run());
    not_found(patch(hidden + 1, 1).run());
    not_found(ann.delete::<Page>(hidden).version(1).run());
    assert_eq!(patch(key, 2).run().unwrap(), 3);
    assert_eq!(stand.get::<Page>(hidden).run().unwrap().views, 0);
}

fn any_rule() -> impl Strategy<Value = String> {
    let term = prop_oneof![
        Just("owner = @user.id".to_owned()),
        Just("owner != @user.id".to_owned()),
        Just("team in @user.groups".to_owned()),
        Just("team not in @user.groups".to_owned()),
        Just("text @ 'alpha'".to_owned()),
        Just("team = null".to_owned()),
        Just("title ^ 'A'".to_owned()),
        (0..4_i64).prop_map(|views| format!("views < {views}")),
    ];
    term.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} and {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} or {b})")),
            inner.prop_map(|a| format!("not ({a})")),
        ]
    })
}

fn any_page() -> impl Strategy<Value = Page> {
    let team = prop_oneof![Just(None), Just(Some("staff".to_owned())), Just(Some("x".to_owned()))];
    let text = prop_oneof![Just("alpha"), Just("beta"), Just("ALPHA beta")];
    (ANN..=BOB, prop_oneof![Just("a"), Just("b")], text, team, 0..4_i64).prop_map(
        |(owner, letter, text, team, views)| Page {
            text: text.to_owned(),
            team,
            views,
            ..page(owner, letter)
        },
    )
}

/// With random rules and rows, all verbs deny the same rows as a get, according to the filters of a
/// reference implementation.
pub fn all_verbs_deny_the_same_rows(subject: &Subject) {
    if !subject.capability().guarded_writes {
        return;
    }
    let stand = Stand::open(subject, models);
    let mut runner =
        TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
    let inputs = (any_rule(), proptest::collection::vec(any_page(), 1..8));
    let run = runner.run(&inputs, |(rule, pages)| {
        stand.delete_where::<Page>(Page::ID.gt(0)).run().unwrap();
        let rows: Vec<Page> = pages
            .into_iter()
            .enumerate()
            .map(|(number, page)| Page { title: format!("{} {number}", page.title), ..page })
            .collect();
        stand.insert_many(&rows).run().unwrap();
        let table = stand.table("page").unwrap();
        let rule_for_ann = parse_rule(&table, &rule, &caller(ANN)).unwrap();
        let grant = Grant::new("page", &Right::ALL).rule(&*rule);
        let ann = under(&stand, ANN, &[grant]);
        let listed: Vec<i64> = ann.list::<Page>().column(Page::ID).run().unwrap();
        let wanted =
            stand.list::<Page>().filter(rule_for_ann.of().unwrap()).column(Page::ID).run().unwrap();
        prop_assert_eq!(&listed, &wanted);
        prop_assert_eq!(ann.count::<Page>().run().unwrap(), wanted.len() as u64);
        for row in stand.list::<Page>().run().unwrap() {
            let seen = wanted.contains(&row.id);
            prop_assert_eq!(ann.get::<Page>(row.id).optional().run().unwrap().is_some(), seen);
            // Again, now perhaps from a cache.
            prop_assert_eq!(ann.get::<Page>(row.id).optional().run().unwrap().is_some(), seen);
            prop_assert_eq!(!ann.history::<Page>(row.id).run().unwrap().is_empty(), seen);
            // With one field, which the rule does not use.
            let query = RowQuery {
                filter: Some(Page::ID.eq(row.id).into_expr()),
                fields: Some(FieldSet::EMPTY.with(0)),
                ..RowQuery::new()
            };
            prop_assert_eq!(ann.list_records(&table).query(query).run().unwrap().len() == 1, seen);
            let mut batch = ann.batch();
            batch.patch::<Page>(row.id).set(Page::TITLE, row.title.clone());
            let result = batch.continue_on_error().run().unwrap().remove(0);
            prop_assert_eq!(result.is_ok(), seen);
            // A copy may be inserted if and only if it would be visible.
            let copy = Page { id: 0, title: format!("{} copy", row.title), ..row.clone() };
            let copied = ann.insert(&copy).run();
            prop_assert_eq!(copied.is_ok(), seen);
            if let Ok(id) = copied {
                ann.delete::<Page>(id).run().unwrap();
            }
            let deleted = ann.delete_where::<Page>(Page::ID.eq(row.id)).run().unwrap();
            prop_assert_eq!(deleted == 1, seen);
        }
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{}: {error}", subject.name()));
}

register!($ rights_promises rights: ; by transactions:
    operations_without_a_grant_are_denied,
    a_hidden_row_is_not_there,
    a_written_row_must_match_the_rule,
    a_stale_write_under_a_rule_is_refused,
    an_insert_can_conflict_with_a_hidden_row,
    a_hidden_row_cannot_be_referred_to,
    history_is_for_those_who_may_read,
    a_stored_result_belongs_to_its_caller,
    callers_have_separate_stored_results,
    all_verbs_deny_the_same_rows,
);

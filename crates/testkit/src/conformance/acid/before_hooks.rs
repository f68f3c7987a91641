//! Hooks that are called before a write: they change or refuse it, and read and write other rows in
//! its transaction, on every path of a write.

use std::time::Duration;

use futures_lite::future::block_on;
use marmota_derive::Model;
use marmota_model::{Caller, ErrorKind, Ref, Result};
use marmota_store::batch::Batch;
use marmota_store::change::{ChangeKind, ChangeRetention, FeedEvent};
use marmota_store::hook::BeforeChange;
use marmota_store::operation::UpsertEffect;
use marmota_store::rights::{Grant, Right, Rights};
use marmota_store::{History, Idempotency, Store, StoreBuilder};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::conformance::harness::refusal::{blamed, refused, says};
use crate::conformance::harness::subject::{Stand, Subject};

register!($ before_hooks_promises before_hooks:
    ; by transactions:
    a_hook_gets_the_rows_of_every_write,
    a_changed_row_is_written_and_checked,
    a_refused_write_leaves_nothing,
    a_counter_of_rows_is_always_right,
    many_rows_are_deleted_with_their_hooks,
    batches_call_hooks,
    a_transaction_contains_its_hooks,
    a_panic_is_an_error_of_the_write,
    a_hook_is_over_at_its_deadline,
    a_cycle_of_hooks_is_an_error,
    background_batches_call_hooks,
    rules_on_rows_apply_to_the_changed_row,
    the_history_and_the_feed_have_the_changed_row,
    concurrent_writes_keep_the_counter,
    a_cancelled_write_leaves_nothing,
);

/// The table with hooks.
#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(audit)]
struct Order {
    id: i64,
    /// Its text selects what the hooks do.
    customer: String,
    #[model(unique)]
    number: Option<i64>,
    #[model(range(min = 0, max = 1000))]
    total: i64,
    #[model(immutable)]
    place: Option<String>,
    note: Option<String>,
    #[model(version)]
    version: i64,
}

/// A position of an order, whose hook writes to the order.
#[derive(Clone, Debug, Model, PartialEq)]
struct Item {
    id: i64,
    order: Ref<Order>,
    price: i64,
}

/// The number of rows of a table.
#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Counter {
    #[model(key)]
    name: String,
    rows: i64,
}

/// What a hook was called for.
#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Entry {
    id: i64,
    text: String,
    actor: Option<String>,
}

fn order(customer: &str, total: i64) -> Order {
    Order { customer: customer.to_owned(), total, ..Order::default() }
}

/// Changes and refuses orders without other rows.
fn tidy(change: &mut BeforeChange<Order>) -> Result<()> {
    let is_update = change.kind == ChangeKind::Update;
    let Some(order) = &mut change.after else { return Ok(()) };
    order.customer = order.customer.to_lowercase();
    match &*order.customer {
        "rich" => order.total = 5000,
        "moved" if is_update => order.place = Some("elsewhere".to_owned()),
        "keyed" => order.id += 1,
        "panics" => panic!("the hook panics"),
        "erased" => change.after = None,
        "unwelcome" => return Err(change.refuse(Order::CUSTOMER, "welcome", "is not welcome")),
        _ if is_update => order.note = Some("changed by a hook".to_owned()),
        _ => {}
    }
    Ok(())
}

/// Counts orders, and logs their changes.
async fn count(tx: &Store, change: &mut BeforeChange<Order>) -> Result<()> {
    let by = match change.kind {
        ChangeKind::Insert => 1,
        ChangeKind::Update => 0,
        ChangeKind::Delete => -1,
    };
    if by != 0 {
        tx.increment(Counter::ROWS, "order".to_owned(), by).await?;
    }
    let total = |row: &Option<Order>| row.as_ref().map_or("-".into(), |row| row.total.to_string());
    let (before, after) = (total(&change.before), total(&change.after));
    let text = format!("{} {before} {after}", change.kind.name());
    let actor = change.actor.as_deref().map(str::to_owned);
    tx.insert(&Entry { id: 0, text, actor }).await?;
    let row = change.after.as_ref().or(change.before.as_ref());
    match row.map(|row| &*row.customer) {
        Some("late") => return Err(change.refuse(Order::CUSTOMER, "late", "is too late")),
        Some("late panic") => panic!("the hook panics late"),
        Some("waits") => std::future::pending().await,
        Some("cycles") => tx.insert(&order("cycles", 1)).await.map(drop)?,
        // The failure of one operation does not end the transaction.
        Some("twice") => {
            let again = Counter { name: "order".to_owned(), rows: 0 };
            let error = tx.insert(&again).await.unwrap_err();
            if error.kind() != ErrorKind::Conflict {
                return Err(error);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Adds the price of an item to the total of its order, with the hooks of orders.
async fn add_up(tx: &Store, change: &mut BeforeChange<Item>) -> Result<()> {
    let price = |item: &Option<Item>| item.as_ref().map_or(0, |item| item.price);
    let by = price(&change.after) - price(&change.before);
    if let Some(item) = change.after.as_ref().or(change.before.as_ref()) {
        tx.increment(Order::TOTAL, *item.order.key(), by).await?;
    }
    Ok(())
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    builder
        .model::<Order>()
        .model::<Item>()
        .model::<Counter>()
        .model::<Entry>()
        .idempotency(Idempotency::default())
}

/// The hooks are those of the served store, if the store is a client's.
fn hooked(builder: StoreBuilder) -> StoreBuilder {
    let builder = models(builder);
    if !builder.capability().guarded_writes {
        return builder;
    }
    builder
        .before::<Order>(tidy)
        .before_async::<Order, _>(count)
        .before_async::<Item, _>(add_up)
        .before_deadline(Duration::from_secs(20))
}

/// Only a hook that does not wait.
fn tidied(builder: StoreBuilder) -> StoreBuilder {
    let builder = models(builder);
    if builder.capability().guarded_writes { builder.before::<Order>(tidy) } else { builder }
}

fn impatient(builder: StoreBuilder) -> StoreBuilder {
    hooked(builder).before_deadline(Duration::from_millis(100))
}

fn fed(builder: StoreBuilder) -> StoreBuilder {
    hooked(builder).changes(ChangeRetention::default())
}

fn open<'s>(subject: &'s Subject, models: fn(StoreBuilder) -> StoreBuilder) -> Stand<'s> {
    let stand = Stand::open(subject, models);
    // The promise may have had the database open before.
    stand.insert(&Counter { name: "order".to_owned(), rows: 0 }).or_ignore().run().unwrap();
    stand
}

fn counted(store: &Store) -> i64 {
    store.get::<Counter>("order".to_owned()).run().unwrap().rows
}

/// Returns the entries since the last call, and deletes them.
fn entries(store: &Store) -> Vec<String> {
    let texts = store.list::<Entry>().order(Entry::ID.ascending()).column(Entry::TEXT).run();
    store.delete_where(Entry::ID.gt(0)).run().unwrap();
    texts.unwrap()
}

/// Checks the number of orders, and that the hook has counted as many.
#[track_caller]
fn check_counter(store: &Store, orders: u64) {
    let stored = store.count::<Order>().run().unwrap();
    assert_eq!((stored, counted(store)), (orders, orders as i64));
}

/// A hook gets the kind of each write, the rows before and after it, and its actor, for every verb.
pub fn a_hook_gets_the_rows_of_every_write(subject: &Subject) {
    let mut stand = open(subject, hooked);
    let ann = stand.with_actor("ann");
    let numbered = |number, total| Order { number: Some(number), ..order("ada", total) };
    let id = ann.insert(&numbered(1, 10)).run().unwrap();
    let actors = stand.list::<Entry>().column(Entry::ACTOR).run().unwrap();
    if stand.capability().guarded_writes {
        assert_eq!(actors, [Some("ann".to_owned())]);
    }
    assert_eq!(entries(&stand), ["insert - 10"]);
    let keys = stand.insert_many(&[order("b", 20), order("c", 21)]).run().unwrap();
    assert_eq!(entries(&stand), ["insert - 20", "insert - 21"]);
    stand.patch::<Order>(id).set(Order::TOTAL, 11).run().unwrap();
    let row = stand.get::<Order>(id).run().unwrap();
    assert_eq!((row.version, row.note.as_deref()), (2, Some("changed by a hook")));
    stand.update(&Order { total: 12, ..row }).run().unwrap();
    assert_eq!(stand.increment(Order::TOTAL, id, 3).run().unwrap(), 15);
    assert_eq!(entries(&stand), ["update 10 11", "update 11 12", "update 12 15"]);
    let rows = stand.list::<Order>().order(Order::ID.ascending()).run().unwrap();
    let more: Vec<Order> =
        rows[1..].iter().map(|row| Order { total: row.total + 10, ..row.clone() }).collect();
    stand.update_many(&more).run().unwrap();
    assert_eq!(entries(&stand), ["update 20 30", "update 21 31"]);

    let ignored = stand.insert(&numbered(1, 50)).or_ignore().run().unwrap();
    assert_eq!((ignored.effect, entries(&stand).len()), (UpsertEffect::Ignored, 0));
    let updated = stand.insert(&numbered(1, 16)).or_update().run().unwrap();
    assert_eq!((updated.key, updated.effect), (id, UpsertEffect::Updated));
    let inserted = stand.upsert(&numbered(2, 60)).run().unwrap();
    assert_eq!(inserted.effect, UpsertEffect::Inserted);
    assert_eq!(entries(&stand), ["update 15 16", "insert - 60"]);
    let replaced = stand.insert(&numbered(2, 61)).or_replace().run().unwrap();
    assert_eq!(replaced.effect, UpsertEffect::Replaced);
    assert_eq!(entries(&stand), ["delete 60 -", "insert - 61"]);

    stand.delete::<Order>(keys[0]).run().unwrap();
    assert_eq!(entries(&stand), ["delete 30 -"]);
    assert_eq!(stand.delete_where(Order::TOTAL.gt(20)).run().unwrap(), 2);
    assert_eq!(entries(&stand), ["delete 31 -", "delete 61 -"]);
    refused(stand.delete::<Order>(keys[0]).run(), ErrorKind::NotFound);
    refused(stand.patch::<Order>(keys[0]).set(Order::TOTAL, 1).run(), ErrorKind::NotFound);
    refused(stand.delete::<Order>(id).version(1).run(), ErrorKind::Stale);
    assert_eq!(entries(&stand).len(), 0, "no hook was called");
    stand.settle();
    check_counter(&stand, 1);
}

/// Values that a hook changes are written, and checked by the rules, like those of a caller.
pub fn a_changed_row_is_written_and_checked(subject: &Subject) {
    for models in [tidied, hooked] {
        let mut stand = open(subject, models);
        let place = Some("here".to_owned());
        let new = Order { place, number: Some(7), ..order("ADA", 1) };
        let id = stand.insert(&new).run().unwrap();
        let row = stand.get::<Order>(id).run().unwrap();
        assert_eq!((&*row.customer, row.note), ("ada", None));
        let upserted = stand.insert(&new).or_update().run().unwrap();
        assert_eq!((upserted.key, upserted.effect), (id, UpsertEffect::Updated));
        let row = stand.get::<Order>(id).run().unwrap();
        assert_eq!((&*row.customer, row.note.as_deref()), ("ada", Some("changed by a hook")));
        stand.patch::<Order>(id).set(Order::NOTE, None).run().unwrap();
        assert!(stand.get::<Order>(id).run().unwrap().note.is_some());
        assert_eq!(stand.increment(Order::TOTAL, id, 4).run().unwrap(), 5);

        let invalid = ErrorKind::Invalid;
        blamed(stand.insert(&order("rich", 1)).run(), invalid, "total", "range");
        blamed(stand.increment(Order::TOTAL, id, 2000).run(), invalid, "total", "range");
        blamed(stand.insert(&order("Unwelcome", 1)).run(), invalid, "customer", "welcome");
        let patch = |customer: &str| stand.patch::<Order>(id).set(Order::CUSTOMER, customer).run();
        blamed(patch("rich"), invalid, "total", "range");
        blamed(patch("moved"), invalid, "place", "immutable");
        says(&refused(patch("keyed"), ErrorKind::Bug), &["`id`", "hook"]);
        says(&refused(patch("erased"), ErrorKind::Bug), &["hook of `order`", "update"]);
        let many = [order("a", 1), order("unwelcome", 2)];
        let error = blamed(stand.insert_many(&many).run(), invalid, "customer", "welcome");
        says(&error, &["row 1"]);
        stand.settle();
        let row = stand.get::<Order>(id).run().unwrap();
        assert_eq!((row.total, &*row.customer, row.version), (5, "ada", 4));
        assert_eq!(stand.count::<Order>().run().unwrap(), 1);
        stand.delete::<Order>(id).run().unwrap();
        stand.close().unwrap();
    }
}

/// If a hook refuses a write, or the write fails after the hook, what the hook has written is rolled
/// back.
pub fn a_refused_write_leaves_nothing(subject: &Subject) {
    let mut stand = open(subject, hooked);
    let id = stand.insert(&Order { number: Some(1), ..order("ada", 1) }).run().unwrap();
    assert_eq!(entries(&stand).len(), 1);
    let late = stand.insert(&order("late", 1)).run();
    blamed(late, ErrorKind::Invalid, "customer", "late");
    let taken = Order { number: Some(1), ..order("ada", 1) };
    blamed(stand.insert(&taken).run(), ErrorKind::Conflict, "number", "unique");
    let many = [order("a", 1), order("late", 1)];
    blamed(stand.insert_many(&many).run(), ErrorKind::Invalid, "customer", "late");
    refused(block_on(async { stand.delete::<Order>(id).version(9).await }), ErrorKind::Stale);
    stand.settle();
    assert_eq!(entries(&stand).len(), 0);
    check_counter(&stand, 1);
    // The failure of an operation of a hook need not be that of the write.
    stand.insert(&order("twice", 1)).run().unwrap();
    assert_eq!(entries(&stand), ["insert - 1"]);
    check_counter(&stand, 2);
    // The hook of an item writes to an order, which calls the hooks of orders.
    let item = |price| Item { id: 0, order: Ref::new(id), price };
    let added = block_on(async { stand.insert(&item(30)).await }).unwrap();
    assert_eq!(entries(&stand), ["update 1 31"]);
    blamed(stand.insert(&item(990)).run(), ErrorKind::Invalid, "total", "range");
    stand.delete::<Item>(added).run().unwrap();
    assert_eq!(entries(&stand), ["update 31 1"]);
    assert_eq!(stand.count::<Item>().run().unwrap(), 0);
}

/// A random write.
#[derive(Clone, Debug)]
enum Step {
    Insert(&'static str, Option<i64>, bool),
    InsertMany(Vec<&'static str>),
    Patch(usize, &'static str),
    Replace(i64),
    Delete(usize),
    DeleteWhere(&'static str),
    Batch(Vec<Step>, bool),
}

fn step() -> impl Strategy<Value = Step> {
    let customer =
        || prop_oneof![3 => Just("ada"), 3 => Just("bob"), 1 => Just("late"), 1 => Just("rich")];
    let number = || proptest::option::of(0..4_i64);
    let one = prop_oneof![
        4 => (customer(), number(), any::<bool>()).prop_map(|(who, at, or)| Step::Insert(who, at, or)),
        2 => proptest::collection::vec(customer(), 1..4).prop_map(Step::InsertMany),
        2 => (0..6_usize, customer()).prop_map(|(at, who)| Step::Patch(at, who)),
        1 => (0..4_i64).prop_map(Step::Replace),
        2 => (0..6_usize).prop_map(Step::Delete),
        1 => customer().prop_map(Step::DeleteWhere),
    ];
    let batch = proptest::collection::vec(one.clone(), 1..4);
    prop_oneof![6 => one, 1 => (batch, any::<bool>()).prop_map(|(steps, all)| Step::Batch(steps, all))]
}

/// Executes a step; it may be refused.
fn take(store: &Store, step: &Step) {
    let keys = store.list::<Order>().order(Order::ID.ascending()).column(Order::ID).run().unwrap();
    let key = |at: usize| keys.get(at % keys.len().max(1)).copied().unwrap_or(99);
    let numbered = |who: &str, number| Order { number, ..order(who, 1) };
    match step {
        Step::Insert(who, number, true) => {
            let _ = store.insert(&numbered(who, *number)).or_update().run();
        }
        Step::Insert(who, number, false) => drop(store.insert(&numbered(who, *number)).run()),
        Step::InsertMany(all) => {
            let rows: Vec<Order> = all.iter().map(|who| order(who, 1)).collect();
            let _ = store.insert_many(&rows).run();
        }
        Step::Patch(at, who) => {
            drop(store.patch::<Order>(key(*at)).set(Order::CUSTOMER, *who).run());
        }
        Step::Replace(number) => {
            let _ = store.insert(&numbered("eve", Some(*number))).or_replace().run();
        }
        Step::Delete(at) => drop(store.delete::<Order>(key(*at)).run()),
        Step::DeleteWhere(who) => drop(store.delete_where(Order::CUSTOMER.eq(*who)).run()),
        Step::Batch(steps, all) => {
            let mut batch = store.batch();
            for step in steps {
                match step {
                    Step::Insert(who, number, _) => {
                        batch.insert(&numbered(who, *number));
                    }
                    Step::Patch(at, who) => {
                        batch.patch::<Order>(key(*at)).set(Order::CUSTOMER, *who);
                    }
                    Step::Delete(at) => {
                        batch.delete::<Order>(key(*at));
                    }
                    _ => {
                        batch.insert(&order("bob", 2));
                    }
                }
            }
            let _ =
                if *all { batch.all_or_nothing().run() } else { batch.continue_on_error().run() };
        }
    }
}

/// After random writes, also refused ones, a counter that a hook maintains is the number of rows.
pub fn a_counter_of_rows_is_always_right(subject: &Subject) {
    let stand = open(subject, hooked);
    let mut runner =
        TestRunner::new(Config { cases: 6, failure_persistence: None, ..Config::default() });
    let steps = proptest::collection::vec(step(), 1..12);
    let run = runner.run(&steps, |steps| {
        for step in &steps {
            take(&stand, step);
            let orders = stand.count::<Order>().run().unwrap();
            prop_assert_eq!(counted(&stand), orders as i64, "after {:?}", step);
        }
        Ok(())
    });
    run.unwrap();
}

/// A delete by filter calls the hooks for each row, also for more rows than are read at once.
pub fn many_rows_are_deleted_with_their_hooks(subject: &Subject) {
    let stand = open(subject, hooked);
    let rows: Vec<Order> = (0..300).map(|total| order("ada", total)).collect();
    stand.insert_many(&rows).run().unwrap();
    check_counter(&stand, 300);
    assert_eq!(stand.delete_where(Order::TOTAL.lt(290)).run().unwrap(), 290);
    check_counter(&stand, 10);
    assert_eq!(stand.delete_where(Order::ID.gt(0)).run().unwrap(), 10);
    check_counter(&stand, 0);
}

/// The writes of a batch call hooks: with links, with an idempotency key, and each on its own.
pub fn batches_call_hooks(subject: &Subject) {
    let mut stand = open(subject, hooked);
    let run = |stand: &Stand<'_>| {
        let mut batch = stand.store().batch();
        batch.idempotency_key("once");
        let made = batch.insert(&order("ada", 1)).handle();
        batch.insert(&Item { id: 0, order: Ref::new(0), price: 5 }).set_ref(Item::ORDER, made);
        batch.all_or_nothing().run().unwrap();
    };
    run(&stand);
    run(&stand);
    check_counter(&stand, 1);
    assert_eq!(entries(&stand), ["insert - 1", "update 1 6"]);
    let mut batch = stand.store().batch();
    batch.insert(&order("a", 1)).insert(&order("late", 1)).insert(&order("rich", 1));
    batch.insert(&order("b", 1));
    let results = batch.continue_on_error().run().unwrap();
    let succeeded: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(succeeded, [true, false, false, true]);
    check_counter(&stand, 3);
    assert_eq!(entries(&stand), ["insert - 1", "insert - 1"]);
    let mut batch = stand.store().batch();
    batch.insert(&order("a", 1)).insert(&order("late", 1));
    blamed(batch.all_or_nothing().run(), ErrorKind::Invalid, "customer", "late");
    stand.settle();
    check_counter(&stand, 3);
    assert_eq!(entries(&stand).len(), 0);
}

/// In a transaction of the caller, hooks see its rows, their writes belong to it, and a refused write
/// leaves the transaction usable.
pub fn a_transaction_contains_its_hooks(subject: &Subject) {
    let stand = open(subject, hooked);
    let id = stand.insert(&order("ada", 1)).run().unwrap();
    let mut tx = stand.begin_run().unwrap();
    tx.insert(&order("bob", 2)).run().unwrap();
    blamed(tx.insert(&order("late", 3)).run(), ErrorKind::Invalid, "customer", "late");
    check_counter(&tx, 2);
    let savepoint = tx.savepoint_run().unwrap();
    tx.delete_where(Order::ID.gt(0)).run().unwrap();
    check_counter(&tx, 0);
    tx.rollback_to(&savepoint).run().unwrap();
    check_counter(&tx, 2);
    tx.commit().run().unwrap();
    check_counter(&stand, 2);
    let tx = stand.begin_run().unwrap();
    block_on(async { tx.patch::<Order>(id).set(Order::TOTAL, 8).await }).unwrap();
    tx.delete::<Order>(id).run().unwrap();
    tx.rollback().run().unwrap();
    check_counter(&stand, 2);
    assert_eq!(entries(&stand), ["insert - 1", "insert - 2"]);
}

/// A hook that panics fails its write, which is rolled back, and no other.
pub fn a_panic_is_an_error_of_the_write(subject: &Subject) {
    for (models, who) in
        [(tidied as fn(_) -> _, "panics"), (hooked, "panics"), (hooked, "late panic")]
    {
        let stand = open(subject, models);
        let error = refused(stand.insert(&order(who, 1)).run(), ErrorKind::Bug);
        says(&error, &["a hook of `order` panicked", "the hook panics"]);
        let mut batch = stand.store().batch();
        batch.insert(&order("a", 1)).insert(&order(who, 1));
        let results = batch.continue_on_error().run().unwrap();
        assert_eq!((results[0].is_ok(), results[1].is_ok()), (true, false));
        stand.insert(&order("b", 1)).run().unwrap();
        assert_eq!(stand.delete_where(Order::ID.gt(0)).run().unwrap(), 2);
        stand.close().unwrap();
    }
}

/// A hook that never returns fails its write after the deadline. Other writes are executed then.
pub fn a_hook_is_over_at_its_deadline(subject: &Subject) {
    let stand = open(subject, impatient);
    let error = refused(stand.insert(&order("waits", 1)).run(), ErrorKind::Timeout);
    says(&error, &["hook of `order`", "100ms"]);
    check_counter(&stand, 0);
    let waits = block_on(async { stand.insert_many(&[order("a", 1), order("waits", 1)]).await });
    refused(waits, ErrorKind::Timeout);
    let tx = stand.begin_run().unwrap();
    refused(tx.insert(&order("waits", 1)).run(), ErrorKind::Timeout);
    tx.insert(&order("ada", 1)).run().unwrap();
    tx.commit().run().unwrap();
    check_counter(&stand, 1);
    assert_eq!(entries(&stand), ["insert - 1"]);
}

/// A hook whose writes lead to itself fails with a message, and nothing is written.
pub fn a_cycle_of_hooks_is_an_error(subject: &Subject) {
    let stand = open(subject, hooked);
    let error = refused(stand.insert(&order("cycles", 1)).run(), ErrorKind::Bug);
    says(&error, &["nested", "`order`"]);
    check_counter(&stand, 0);
    assert_eq!(entries(&stand).len(), 0);
    stand.insert(&order("ada", 1)).run().unwrap();
    check_counter(&stand, 1);
}

/// Writes of a background batch call hooks.
pub fn background_batches_call_hooks(subject: &Subject) {
    let stand = open(subject, hooked);
    let background = stand.background_batch().flush_writes(2).start().unwrap();
    let add = |who: &str| {
        let row = order(who, 1);
        let insert = |batch: &mut Batch<'_>| {
            batch.insert(&row);
        };
        background.add(insert).unwrap()
    };
    let (good, late) = (add("ada"), add("late"));
    assert!(good.wait().is_ok());
    blamed(late.wait(), ErrorKind::Invalid, "customer", "late");
    background.close();
    check_counter(&stand, 1);
}

/// The row that a hook has changed has to match the rules of the caller's rights. The rows that the
/// hook writes need not.
pub fn rules_on_rows_apply_to_the_changed_row(subject: &Subject) {
    fn lowered(change: &mut BeforeChange<Order>) -> Result<()> {
        if let Some(order) = &mut change.after {
            order.total -= 1;
        }
        Ok(())
    }
    fn lowering(builder: StoreBuilder) -> StoreBuilder {
        hooked(builder).before::<Order>(lowered)
    }
    if !subject.capability().guarded_writes {
        return;
    }
    let stand = open(subject, lowering);
    let caller = Caller { id: "7".into(), name: "ann".into(), groups: Vec::new() };
    let grants = [Grant::new("order", &Right::ALL).rule("total >= 10")];
    let rights = Rights::new(stand.registry(), Some(caller), &grants).unwrap();
    let ann = stand.with_rights(rights);
    let id = ann.insert(&order("ada", 11)).run().unwrap();
    refused(ann.insert(&order("ada", 10)).run(), ErrorKind::Denied);
    refused(ann.insert_many(&[order("ada", 20), order("ada", 10)]).run(), ErrorKind::Denied);
    refused(ann.patch::<Order>(id).set(Order::TOTAL, 10).run(), ErrorKind::Denied);
    refused(ann.patch::<Order>(id).set(Order::NOTE, None).run(), ErrorKind::Denied);
    ann.patch::<Order>(id).set(Order::TOTAL, 21).run().unwrap();
    assert_eq!(stand.get::<Order>(id).run().unwrap().total, 20);
    check_counter(&stand, 1);
    let entry = stand.list::<Entry>().run().unwrap().pop().unwrap();
    assert_eq!((&*entry.text, entry.actor.as_deref()), ("update 10 21", Some("ann")));
    assert_eq!(ann.delete_where(Order::CUSTOMER.eq("ada")).run().unwrap(), 1);
    check_counter(&stand, 0);
}

/// History entries and the change feed have what was written, with the changes of hooks.
pub fn the_history_and_the_feed_have_the_changed_row(subject: &Subject) {
    let has_feed = subject.capability().change_feed;
    let stand = open(subject, if has_feed { fed } else { hooked });
    let feed = has_feed.then(|| stand.changes().unwrap());
    let id = stand.insert(&order("ADA", 1)).run().unwrap();
    stand.increment(Order::TOTAL, id, 2).run().unwrap();
    let entries: Vec<History> = stand.history::<Order>(id).run().unwrap();
    let mut fields: Vec<String> = entries
        .iter()
        .filter_map(|entry| entry.fields.as_ref().map(|fields| fields.0.to_string()))
        .collect();
    fields.sort_by_key(|fields| fields.contains("changed by a hook"));
    assert!(fields[0].contains("\"ada\""), "{fields:?}");
    assert!(fields[1].contains("\"total\":3") && fields[1].contains("changed by"), "{fields:?}");
    let Some(mut feed) = feed else { return };
    let mut changed = Vec::new();
    while changed.len() < 2 {
        let Some(FeedEvent::Commit(commit)) = block_on(feed.next()).unwrap() else { continue };
        let tables: Vec<&str> = commit.changes.iter().map(|change| change.table.name()).collect();
        assert!(tables.contains(&"entry"), "the writes of a hook are in its commit: {tables:?}");
        let orders = commit.changes.iter().filter(|change| change.table.name() == "order");
        changed.extend(orders.filter_map(|change| change.after.clone()));
    }
    let customer = Order::CUSTOMER.position();
    assert_eq!(changed[0][customer], "ada".into());
    assert_eq!(changed[1][Order::NOTE.position()], "changed by a hook".into());
}

/// Concurrent writes of several threads leave a counter that is right.
pub fn concurrent_writes_keep_the_counter(subject: &Subject) {
    let stand = open(subject, hooked);
    let store = stand.store();
    std::thread::scope(|scope| {
        for client in 0..4 {
            scope.spawn(move || {
                for number in 0..5 {
                    let id = store.insert(&order("ada", number)).run().unwrap();
                    if (client + number) % 3 == 0 {
                        store.delete::<Order>(id).run().unwrap();
                    }
                }
            });
        }
    });
    check_counter(&stand, 13);
}

/// A write that is dropped while its hook waits leaves nothing, and no lock.
pub fn a_cancelled_write_leaves_nothing(subject: &Subject) {
    let stand = open(subject, hooked);
    let dropped = block_on(async {
        let write = async { Some(stand.insert(&order("waits", 1)).await) };
        let gives_up = async {
            futures_lite::future::yield_now().await;
            None
        };
        futures_lite::future::or(write, gives_up).await
    });
    assert!(dropped.is_none());
    stand.insert(&order("ada", 1)).run().unwrap();
    check_counter(&stand, 1);
}

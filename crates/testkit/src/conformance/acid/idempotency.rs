//! Batches with an idempotency key: each is executed once, and repeats return the stored result.

use std::time::Duration;

use futures_lite::future::block_on;
use marmota_model::{ErrorKind, Result, Value};
use marmota_store::batch::Batch;
use marmota_store::operation::{Keys, Outcome};
use marmota_store::{Idempotency, StoreBuilder};

use crate::conformance::harness::models;
use crate::conformance::harness::models::{Account, Document, Note, Seat};
use crate::conformance::harness::refusal::{blamed, refusal, refused, says};
use crate::conformance::harness::subject::{Stand, Subject};
use crate::conformance::harness::waiting::until;

fn once(builder: StoreBuilder) -> StoreBuilder {
    models::all(builder).idempotency(Idempotency::default())
}

/// A store that keeps few results.
fn few(builder: StoreBuilder) -> StoreBuilder {
    models::all(builder).idempotency(Idempotency { keys_max: 10, ..Idempotency::default() })
}

/// A store that deletes results at once.
fn short(builder: StoreBuilder) -> StoreBuilder {
    let kept_for = Duration::ZERO;
    models::all(builder).idempotency(Idempotency { kept_for, ..Idempotency::default() })
}

fn note<'s>(stand: &'s Stand<'_>, key: &str, text: &str) -> Batch<'s> {
    let mut batch = stand.store().batch();
    batch.insert(&Note::new(text, 1)).idempotency_key(key);
    batch
}

fn key_of(results: &[Result<Outcome>]) -> Value {
    match &results[0].as_ref().unwrap().keys {
        Keys::One(key) => key.clone(),
        other => panic!("{other:?}"),
    }
}

/// A batch with an idempotency key is executed once. A repeat returns the stored result, also after
/// the database was closed and opened.
pub fn a_repeat_gets_the_first_answer(subject: &Subject) {
    let mut stand = Stand::open(subject, once);
    let account = stand.insert(&Account::default()).run().unwrap();
    let run = |stand: &Stand<'_>| {
        let mut batch = stand.store().batch();
        batch
            .idempotency_key("first")
            .insert(&Note::new("a", 1))
            .insert(&Document::new("d", b"x"))
            .increment(Account::VISITS, account, 5);
        let results = batch.all_or_nothing().run().unwrap();
        results.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    let first = run(&stand);
    assert_eq!(first[2].value, Value::Int(5));
    assert_eq!(run(&stand), first);
    stand.settle();
    assert_eq!(run(&stand), first);
    assert_eq!(stand.count::<Note>().run().unwrap(), 1);
    assert_eq!(stand.count::<Document>().run().unwrap(), 1);
    assert_eq!(stand.get::<Account>(account).run().unwrap().visits, 5);
    // Another key is another batch.
    let mut batch = note(&stand, "second", "a");
    batch.insert(&Note::new("b", 1));
    block_on(async { batch.all_or_nothing().await }).unwrap();
    assert_eq!(stand.count::<Note>().run().unwrap(), 3);
}

/// The key of an earlier batch with other writes is refused, and nothing is written.
pub fn a_key_belongs_to_one_batch(subject: &Subject) {
    let mut stand = Stand::open(subject, once);
    note(&stand, "k", "a").all_or_nothing().run().unwrap();
    stand.settle();
    for batch in
        [note(&stand, "k", "b").all_or_nothing(), note(&stand, "k", "a").continue_on_error()]
    {
        blamed(batch.run(), ErrorKind::Invalid, "idempotency_key", "same_request");
    }
    let long = "k".repeat(256);
    for key in ["", &long] {
        let result = note(&stand, key, "a").all_or_nothing().run();
        blamed(result, ErrorKind::Invalid, "idempotency_key", "length");
    }
    assert_eq!(stand.count::<Note>().run().unwrap(), 1);
}

/// An all-or-nothing batch that failed stores no result and can be retried. A batch with
/// `continue_on_error` stores its results, errors included.
pub fn a_failed_batch_can_be_retried(subject: &Subject) {
    let mut stand = Stand::open(subject, once);
    let there = stand.insert(&Seat::new(None, 1, Some("x"))).run().unwrap();
    let seats = |stand: &Stand<'_>, each: bool| {
        let mut batch = stand.store().batch();
        batch.idempotency_key(if each { "each" } else { "all" });
        batch.insert(&Seat::new(None, 2, Some("y"))).insert(&Seat::new(None, 3, Some("X")));
        if each { batch.continue_on_error().run() } else { batch.all_or_nothing().run() }
    };
    says(&blamed(seats(&stand, false), ErrorKind::Conflict, "holder", "unique"), &["write 1"]);
    let first = seats(&stand, true).unwrap();
    stand.delete::<Seat>(there).run().unwrap();
    stand.settle();
    let again = seats(&stand, true).unwrap();
    assert_eq!(again[0].as_ref().unwrap(), first[0].as_ref().unwrap());
    assert_eq!(refusal(again[1].as_ref().unwrap_err()), refusal(first[1].as_ref().unwrap_err()));
    let y = stand.list::<Seat>().run().unwrap().remove(0);
    stand.delete::<Seat>(y.id).run().unwrap();
    assert_eq!(seats(&stand, false).unwrap().len(), 2);
    assert_eq!(stand.count::<Seat>().run().unwrap(), 2);
}

/// If the same batch is submitted several times at once, it is executed once, and all callers get
/// its result.
pub fn several_at_once_write_once(subject: &Subject) {
    let stand = Stand::open(subject, once);
    let mut keys: Vec<Value> = std::thread::scope(|scope| {
        let run = || key_of(&note(&stand, "k", "a").all_or_nothing().run().unwrap());
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    keys.dedup();
    assert_eq!(keys.len(), 1, "{keys:?}");
    assert_eq!(stand.count::<Note>().run().unwrap(), 1);
}

/// A transaction that is rolled back stores no result.
pub fn a_transaction_undoes_what_was_kept(subject: &Subject) {
    let mut stand = Stand::open(subject, once);
    let transaction = stand.begin_run().unwrap();
    let mut batch = transaction.batch();
    batch.insert(&Note::new("a", 1)).idempotency_key("k");
    batch.all_or_nothing().run().unwrap();
    drop(transaction);
    stand.settle();
    note(&stand, "k", "a").all_or_nothing().run().unwrap();
    assert_eq!(stand.count::<Note>().run().unwrap(), 1);
}

/// The number and the age of stored results are limited.
pub fn answers_are_bounded(subject: &Subject) {
    let stand = Stand::open(subject, few);
    for number in 0..200 {
        note(&stand, &number.to_string(), "a").all_or_nothing().run().unwrap();
    }
    note(&stand, "199", "a").all_or_nothing().run().unwrap();
    assert_eq!(stand.count::<Note>().run().unwrap(), 200);
    note(&stand, "0", "a").all_or_nothing().run().unwrap();
    assert_eq!(stand.count::<Note>().run().unwrap(), 201);
    drop(stand);
    if !subject.capability().persistent {
        let stand = Stand::open(subject, short);
        until("an answer is too old", || {
            note(&stand, "k", "a").all_or_nothing().run().unwrap();
            stand.count::<Note>().run().unwrap() == 2
        });
    }
}

/// A store without stored results refuses idempotency keys with an error that names the setting.
pub fn a_store_without_idempotency_refuses_keys(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let result = note(&stand, "k", "a").all_or_nothing().run();
    says(&refused(result, ErrorKind::Unsupported), &["idempotency"]);
    assert_eq!(stand.count::<Note>().run().unwrap(), 0);
}

register!($ idempotency_promises idempotency: ; by transactions:
    a_repeat_gets_the_first_answer,
    a_key_belongs_to_one_batch,
    a_failed_batch_can_be_retried,
    several_at_once_write_once,
    a_transaction_undoes_what_was_kept,
    answers_are_bounded,
    a_store_without_idempotency_refuses_keys,
);

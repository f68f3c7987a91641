//! Batches with a key of their own: they take place once, and every repeat
//! gets the first answer.

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

/// A store that keeps few answers.
fn few(builder: StoreBuilder) -> StoreBuilder {
    models::all(builder).idempotency(Idempotency { keys_max: 10, ..Idempotency::default() })
}

/// A store that forgets answers at once.
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

/// A repeat gets the first answer, also of a database that was closed since.
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

/// The same key with other writes is refused, and writes nothing.
pub fn a_key_is_of_one_batch(subject: &Subject) {
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

/// A batch that failed has not taken place: it can be tried again. One whose
/// writes stand for themselves has, with its errors.
pub fn what_failed_can_be_tried_again(subject: &Subject) {
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

/// Several at once: one writes, and all get its answer.
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

/// Of a transaction that is undone nothing is kept.
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

/// Only so many answers are kept, and for so long.
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

/// A store that keeps no answers returns an error that explains it.
pub fn a_store_without_answers_says_so(subject: &Subject) {
    let stand = Stand::open(subject, models::all);
    let result = note(&stand, "k", "a").all_or_nothing().run();
    says(&refused(result, ErrorKind::Unsupported), &["idempotency"]);
    assert_eq!(stand.count::<Note>().run().unwrap(), 0);
}

register!($ idempotency_promises idempotency: ; by transactions:
    a_repeat_gets_the_first_answer,
    a_key_is_of_one_batch,
    what_failed_can_be_tried_again,
    several_at_once_write_once,
    a_transaction_undoes_what_was_kept,
    answers_are_bounded,
    a_store_without_answers_says_so,
);

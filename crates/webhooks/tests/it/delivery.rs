//! What is sent for a change, and in which order.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use marmota_model::Timestamp;
use marmota_store::change::ChangeKind;
use marmota_webhooks::{DeliveryState, Webhook, WebhookSecret};

use crate::harness::{
    Issue, Receiver, SECRET, deliveries, issue, local, memory, set, start, until,
};

#[test]
fn changes_are_sent_signed_and_in_order() {
    let (store, receiver) = (memory(), Receiver::ok());
    let (webhooks, worker) = start(&store, local());
    let secret: WebhookSecret = SECRET.parse().unwrap();
    set(&webhooks, &Webhook::new("chat", &receiver.url, "issue").secret(&secret)).unwrap();
    let ada = store.with_actor("ada");
    let id = ada.insert(&issue("Whistle", 1)).run().unwrap();
    ada.patch::<Issue>(id).set(Issue::NUMBER, 2).run().unwrap();
    ada.delete::<Issue>(id).run().unwrap();
    until("three requests", || receiver.count() == 3);
    let received = receiver.received();
    let events: Vec<String> =
        received.iter().map(|one| one.json()["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(events, ["issue.insert", "issue.update", "issue.delete"]);
    for one in &received {
        assert!(one.verify(SECRET), "{one:?}");
        assert_eq!(one.header("content-type"), "application/json");
    }
    let mut forged = received[1].clone();
    forged.body = forged.body.replace("\"number\":2", "\"number\":3");
    assert!(!forged.verify(SECRET), "a changed body has a valid signature");
    assert!(!received[1].verify("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"));
    let update = &received[1].json()["data"];
    assert_eq!(update["before"]["number"], 1);
    assert_eq!(update["after"]["number"], 2);
    assert_eq!(update["changed"], serde_json::json!(["number"]));
    assert_eq!((&update["actor"], &update["key"]), (&"ada".into(), &id.into()));
    until("all are delivered", || {
        deliveries(&webhooks, "chat").iter().all(|one| one.state == DeliveryState::Delivered)
    });
    worker.stop().unwrap();
}

#[test]
fn a_webhook_gets_what_its_definition_selects() {
    let (store, receiver) = (memory(), Receiver::ok());
    let (webhooks, worker) = start(&store, local());
    let open = Webhook::new("open", &receiver.url, "issue")
        .filter("state = 'open' and number > 10")
        .kinds(&[ChangeKind::Insert, ChangeKind::Update])
        .fields(&["title"]);
    set(&webhooks, &open).unwrap();
    store.insert(&issue("too low", 1)).run().unwrap();
    let id = store.insert(&issue("first", 11)).run().unwrap();
    // Not a field that is sent.
    store.patch::<Issue>(id).set(Issue::NUMBER, 12).run().unwrap();
    store.patch::<Issue>(id).set(Issue::TITLE, "second").run().unwrap();
    store.patch::<Issue>(id).set(Issue::STATE, "closed").set(Issue::TITLE, "x").run().unwrap();
    store.insert(&issue("last", 20)).run().unwrap();
    store.delete::<Issue>(id).run().unwrap();
    let last = |one: &crate::harness::Received| one.body.contains("\"last\"");
    until("three requests", || receiver.count() >= 3);
    assert!(receiver.received().iter().any(last));
    let mut rows: Vec<String> =
        receiver.received().iter().map(|one| one.json()["data"]["after"].to_string()).collect();
    rows.sort();
    let mut wanted = [
        r#"{"id":2,"title":"first"}"#,
        r#"{"id":2,"title":"second"}"#,
        r#"{"id":3,"title":"last"}"#,
    ];
    wanted.sort_unstable();
    assert_eq!(rows, wanted);
    worker.stop().unwrap();
}

#[test]
fn a_row_that_fails_does_not_block_others_and_keeps_its_order() {
    let store = memory();
    let fails = Arc::new(AtomicBool::new(true));
    let of_receiver = Arc::clone(&fails);
    let receiver = Receiver::new(move |one| {
        match one.json()["data"]["key"] == 1 && of_receiver.load(Ordering::Acquire) {
            true => "500 Internal Server Error".to_owned(),
            false => "200 OK".to_owned(),
        }
    });
    let offset = Arc::new(AtomicI64::new(0));
    let of_clock = Arc::clone(&offset);
    let clock = move || {
        let now = Timestamp::now().micros() + of_clock.load(Ordering::Acquire);
        Timestamp::from_micros(now).unwrap()
    };
    let lease = Duration::from_secs(1_000_000);
    let (webhooks, worker) = start(&store, local().clock(clock).lease(lease));
    set(&webhooks, &Webhook::new("chat", &receiver.url, "issue")).unwrap();
    for _ in 0..40 {
        store.insert(&issue("row", 0)).run().unwrap();
    }
    for number in 1..4 {
        for id in 1..=40 {
            store.patch::<Issue>(id).set(Issue::NUMBER, number).run().unwrap();
        }
    }
    let delivered = |key: i64| {
        deliveries(&webhooks, "chat")
            .iter()
            .filter(|one| one.row == key.to_string() && one.state == DeliveryState::Delivered)
            .count()
    };
    let later = || offset.fetch_add(60_000_000, Ordering::AcqRel);
    until("all rows but one", || {
        later();
        (2..=40).all(|key| delivered(key) == 4)
    });
    assert_eq!(delivered(1), 0);
    fails.store(false, Ordering::Release);
    until("the first row", || {
        later();
        delivered(1) == 4
    });
    let mut last: HashMap<i64, i64> = HashMap::new();
    for one in receiver.received() {
        let key = one.json()["data"]["key"].as_i64().unwrap();
        let before = last.insert(key, one.number());
        assert!(before.is_none_or(|before| before <= one.number()), "row {key} is out of order");
    }
    worker.stop().unwrap();
}

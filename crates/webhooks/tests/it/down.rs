//! Receivers that are down for a long time, by a clock that the tests set.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use marmota_model::Timestamp;
use marmota_store::action::block_on;
use marmota_webhooks::{DeliveryState, Webhook, WebhookOptions, WebhookState};

use crate::harness::{
    Issue, Receiver, SECRET, deliveries, issue, local, memory, set, start, until,
};

const MINUTE: i64 = 60_000_000;

/// Options with a clock that is ahead by a number of microseconds. Leases do not end by it.
fn ahead(offset: &Arc<AtomicI64>) -> WebhookOptions {
    let offset = Arc::clone(offset);
    let clock = move || {
        let now = Timestamp::now().micros() + offset.load(Ordering::Acquire);
        Timestamp::from_micros(now).unwrap()
    };
    local().clock(clock).lease(Duration::from_secs(100 * 24 * 60 * 60))
}

fn switched() -> (Arc<AtomicBool>, Receiver) {
    let is_up = Arc::new(AtomicBool::new(false));
    let of_receiver = Arc::clone(&is_up);
    let receiver = Receiver::new(move |_| match of_receiver.load(Ordering::Acquire) {
        true => "200 OK".to_owned(),
        false => "503 Service Unavailable".to_owned(),
    });
    (is_up, receiver)
}

#[test]
fn a_receiver_that_was_down_for_an_hour_gets_everything_in_order() {
    const ROWS: i64 = 20;
    let (store, offset) = (memory(), Arc::new(AtomicI64::new(0)));
    let (is_up, receiver) = switched();
    let (webhooks, worker) = start(&store, ahead(&offset));
    let secret = SECRET.parse().unwrap();
    set(&webhooks, &Webhook::new("chat", &receiver.url, "issue").secret(&secret)).unwrap();
    for number in 1..=ROWS {
        store.insert(&issue("row", number * 100)).run().unwrap();
    }
    until("attempts", || deliveries(&webhooks, "chat").iter().any(|one| one.attempts > 0));
    for minute in 1..=60 {
        offset.store(minute * MINUTE, Ordering::Release);
        let id = minute % ROWS + 1;
        store.increment(Issue::NUMBER, id, 1).run().unwrap();
        std::thread::sleep(Duration::from_millis(30));
    }
    assert!(deliveries(&webhooks, "chat").iter().all(|one| one.state == DeliveryState::Pending));
    let most = deliveries(&webhooks, "chat").iter().map(|one| one.attempts).max().unwrap();
    assert!((3..=20).contains(&most), "{most} attempts in an hour");
    is_up.store(true, Ordering::Release);
    // At most ten minutes lie between two attempts.
    offset.store(71 * MINUTE, Ordering::Release);
    until("all are delivered", || {
        let deliveries = deliveries(&webhooks, "chat");
        deliveries.len() == 80 && deliveries.iter().all(|one| one.state == DeliveryState::Delivered)
    });
    worker.stop().unwrap();
    let mut acknowledged: HashMap<i64, Vec<i64>> = HashMap::new();
    for one in receiver.received() {
        assert!(one.is_signed(SECRET));
        let key = one.json()["data"]["key"].as_i64().unwrap();
        let numbers = acknowledged.entry(key).or_default();
        if numbers.last() != Some(&one.number()) {
            numbers.push(one.number());
        }
    }
    for (key, numbers) in acknowledged {
        assert_eq!(numbers, [key * 100, key * 100 + 1, key * 100 + 2, key * 100 + 3]);
    }
}

#[test]
fn a_webhook_that_fails_for_days_is_disabled_with_a_reason() {
    let (store, offset) = (memory(), Arc::new(AtomicI64::new(0)));
    let (is_up, receiver) = switched();
    let (webhooks, worker) = start(&store, ahead(&offset));
    set(&webhooks, &Webhook::new("chat", &receiver.url, "issue")).unwrap();
    store.insert(&issue("row", 1)).run().unwrap();
    let row = || block_on(webhooks.get("chat")).unwrap();
    until("it fails", || row().failing_since.is_some());
    until("it is disabled", || {
        offset.fetch_add(60 * MINUTE, Ordering::AcqRel);
        std::thread::sleep(Duration::from_millis(10));
        row().state == WebhookState::Disabled
    });
    let days = offset.load(Ordering::Acquire) / (24 * 60 * MINUTE);
    assert!(days >= 2, "disabled after {days} days");
    let reason = row().reason.unwrap();
    assert!(reason.contains("no request has succeeded since"), "{reason}");
    assert!(reason.contains("503"), "{reason}");
    let before = receiver.count();
    is_up.store(true, Ordering::Release);
    offset.fetch_add(60 * MINUTE, Ordering::AcqRel);
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(receiver.count(), before, "a disabled webhook was sent a change");
    block_on(webhooks.enable("chat")).unwrap();
    until("what waited is delivered", || {
        deliveries(&webhooks, "chat").iter().any(|one| one.state == DeliveryState::Delivered)
    });
    assert_eq!(receiver.count(), before + 1);
    assert!(row().failing_since.is_none());
    worker.stop().unwrap();
}

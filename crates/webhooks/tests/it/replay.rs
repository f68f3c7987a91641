//! Deliveries that are sent again.

use marmota_model::ErrorKind;
use marmota_store::action::block_on;
use marmota_webhooks::{DeliveryState, Webhook, WebhookState};

use crate::harness::{Receiver, deliveries, issue, local, memory, set, start, until};

#[test]
fn a_replay_has_the_same_id_and_payload() {
    let (store, receiver) = (memory(), Receiver::ok());
    let (webhooks, worker) = start(&store, local());
    set(&webhooks, &Webhook::new("chat", &receiver.url, "issue")).unwrap();
    store.insert(&issue("first", 1)).run().unwrap();
    until("it is delivered", || {
        deliveries(&webhooks, "chat").iter().any(|one| one.state == DeliveryState::Delivered)
    });
    let delivery = deliveries(&webhooks, "chat").remove(0);
    block_on(webhooks.replay("chat", delivery.id)).unwrap();
    until("the replay", || receiver.count() == 2);
    let received = receiver.received();
    assert_eq!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    assert_eq!(received[0].body, received[1].body);
    let error = block_on(webhooks.replay("chat", 99)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    worker.stop().unwrap();
}

#[test]
fn a_receiver_that_is_gone_gets_no_more_until_it_is_enabled() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    let store = memory();
    let is_gone = Arc::new(AtomicBool::new(true));
    let of_receiver = Arc::clone(&is_gone);
    let receiver = Receiver::new(move |_| match of_receiver.load(Ordering::Acquire) {
        true => "410 Gone".to_owned(),
        false => "200 OK".to_owned(),
    });
    let (webhooks, worker) = start(&store, local());
    set(&webhooks, &Webhook::new("chat", &receiver.url, "issue")).unwrap();
    store.insert(&issue("first", 1)).run().unwrap();
    let row = || block_on(webhooks.get("chat")).unwrap();
    until("it is disabled", || row().state == WebhookState::Disabled);
    assert_eq!(row().reason.as_deref(), Some("the receiver answered 410 Gone"));
    is_gone.store(false, Ordering::Release);
    block_on(webhooks.enable("chat")).unwrap();
    until("it is delivered", || {
        deliveries(&webhooks, "chat").iter().all(|one| one.state == DeliveryState::Delivered)
    });
    assert_eq!(receiver.count(), 2);
    block_on(webhooks.remove("chat")).unwrap();
    assert!(block_on(webhooks.list()).unwrap().is_empty());
    worker.stop().unwrap();
}

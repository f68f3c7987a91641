//! Addresses that no request is sent to, and answers that do no harm.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use marmota_webhooks::{DeliveryState, Webhook, Webhooks};

use crate::harness::{Receiver, deliveries, issue, local, memory, set, start, until};

#[test]
fn private_addresses_are_refused_by_default() {
    let store = memory();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let webhooks = Webhooks::new(&store);
    let worker = webhooks.start(local()).unwrap();
    // `localhost` is a name: the address that it has is checked.
    let urls = [
        format!("https://127.0.0.1:{port}/"),
        format!("https://localhost:{port}/"),
        format!("https://[::ffff:127.0.0.1]:{port}/"),
        format!("https://2130706433:{port}/"),
        format!("http://127.0.0.1:{port}/"),
    ];
    for (number, url) in urls.iter().enumerate() {
        set(&webhooks, &Webhook::new(&format!("to-{number}"), url, "issue")).unwrap();
    }
    store.insert(&issue("secret", 1)).run().unwrap();
    for (number, url) in urls.iter().enumerate() {
        let name = format!("to-{number}");
        until(&name, || deliveries(&webhooks, &name).iter().any(|one| one.attempts > 0));
        let delivery = &deliveries(&webhooks, &name)[0];
        assert_eq!(delivery.state, DeliveryState::Pending);
        let error = delivery.error.as_deref().unwrap();
        let is_expected =
            error.contains("is not on the public internet") || error.contains("https");
        assert!(is_expected, "{url}: {error}");
    }
    assert!(listener.accept().is_err(), "a connection was made");
    worker.stop().unwrap();
}

#[test]
fn redirects_are_not_followed() {
    let (store, target) = (memory(), Receiver::ok());
    let location = target.url.clone();
    let receiver =
        Receiver::new(move |_| format!("307 Temporary Redirect\r\nLocation: {location}"));
    let (webhooks, worker) = start(&store, local());
    set(&webhooks, &Webhook::new("chat", &receiver.url, "issue")).unwrap();
    store.insert(&issue("secret", 1)).run().unwrap();
    until("an attempt", || deliveries(&webhooks, "chat").iter().any(|one| one.attempts > 0));
    let delivery = &deliveries(&webhooks, "chat")[0];
    assert_eq!((delivery.status, delivery.state), (Some(307), DeliveryState::Pending));
    assert_eq!(target.count(), 0);
    worker.stop().unwrap();
}

#[test]
fn endless_answers_and_silent_receivers_end_in_time() {
    let store = memory();
    let endless = Receiver::new(|_| "500 endless\r\n\r\n".to_owned());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let (webhooks, worker) = start(&store, local());
    set(&webhooks, &Webhook::new("endless", &endless.url, "issue")).unwrap();
    set(&webhooks, &Webhook::new("silent", &url, "issue")).unwrap();
    let began = Instant::now();
    store.insert(&issue("row", 1)).run().unwrap();
    for name in ["endless", "silent"] {
        until(name, || deliveries(&webhooks, name).iter().any(|one| one.attempts > 0));
        let delivery = &deliveries(&webhooks, name)[0];
        assert!(delivery.error.as_ref().is_some_and(|error| error.len() < 2_000));
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    worker.stop().unwrap();
}

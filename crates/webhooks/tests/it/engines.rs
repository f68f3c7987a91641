//! The same changes on each engine are sent with the same bodies.

use marmota_mariadb::{Mariadb, TemporaryMariadb};
use marmota_memory::Memory;
use marmota_postgres::{Postgres, TemporaryPostgres};
use marmota_sqlite::Sqlite;
use marmota_store::Store;
use marmota_store::change::ChangeRetention;
use marmota_store::engine::Engine;
use marmota_webhooks::Webhook;
use serde_json::Value;

use crate::harness::{Issue, Receiver, issue, local, set, start, until};

/// Writes rows, and returns the bodies that a receiver gets, without their times and positions.
fn bodies(engine: impl Engine + 'static) -> Vec<String> {
    let builder = Store::builder(engine).model::<Issue>().changes(ChangeRetention::default());
    let store = marmota_webhooks::models(builder).open().unwrap();
    let receiver = Receiver::ok();
    let (webhooks, worker) = start(&store, local());
    set(&webhooks, &Webhook::new("chat", &receiver.url, "issue")).unwrap();
    let ada = store.with_actor("ada");
    let id = ada.insert(&issue("Whistle \u{1f43f} \"x\"", 1)).run().unwrap();
    ada.patch::<Issue>(id).set(Issue::NUMBER, i64::MAX).run().unwrap();
    ada.increment(Issue::NUMBER, id, -1).run().unwrap();
    ada.delete::<Issue>(id).run().unwrap();
    until("four requests", || receiver.count() == 4);
    worker.stop().unwrap();
    store.close().unwrap();
    let without_time = |body: &str| {
        let mut body: Value = serde_json::from_str(body).unwrap();
        assert!(body["timestamp"].take().is_string());
        assert!(body["data"]["position"].take().is_string());
        body.to_string()
    };
    receiver.received().iter().map(|one| without_time(&one.body)).collect()
}

#[test]
fn all_engines_send_the_same_bodies() {
    let of_memory = bodies(Memory::new());
    assert!(of_memory[2].contains("9223372036854775806"), "{of_memory:?}");
    assert_eq!(bodies(Sqlite::from_url("sqlite::memory:").unwrap()), of_memory);
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    let url = server.make_database().unwrap();
    assert_eq!(bodies(Postgres::from_url(&url).unwrap()), of_memory);
    let server = TemporaryMariadb::start().unwrap();
    let url = server.make_database().unwrap();
    assert_eq!(bodies(Mariadb::from_url(&url).unwrap()), of_memory);
}

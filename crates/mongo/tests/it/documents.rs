//! What rows are in the database, as other programs see and write them.

use std::time::Duration;

use marmota::prelude::*;
use mongodb::Client;
use mongodb::bson::{Bson, Document, doc};
use tokio::runtime::Runtime;

use crate::{Office, open, server};

/// The collection, by the driver alone.
fn offices(runtime: &Runtime, url: &str) -> mongodb::Collection<Document> {
    let client = runtime.block_on(Client::with_uri_str(url)).unwrap();
    client.default_database().unwrap().collection("office")
}

#[test]
fn a_row_is_a_document_that_others_can_read() {
    let (runtime, url) = (Runtime::new().unwrap(), server().url());
    let store = open(&url);
    let office = Office {
        opened: Some("2026-11-21T08:00:00.123456Z".parse().unwrap()),
        options: Some(Json(serde_json::json!({"days": ["Sat", "Sun"], "from": 8}))),
        seats: 12,
        ..Office::new("1", "Nord")
    };
    store.insert(&office).run().unwrap();
    let collection = offices(&runtime, &url);
    let found = runtime.block_on(async { collection.find_one(doc! {}).await }).unwrap().unwrap();
    assert_eq!(found.get_str("_id").unwrap(), "1");
    assert_eq!(found.get_str("name").unwrap(), "Nord");
    assert_eq!(found.get_i64("seats").unwrap(), 12);
    assert_eq!(found.get_datetime("opened").unwrap().timestamp_millis() % 1_000, 123);
    let options = found.get_document("options").unwrap();
    assert_eq!(options.get_array("days").unwrap().len(), 2);
    assert_eq!(found.get_document("_order").unwrap().get_str("name").unwrap(), "nord");
    assert_eq!(found.get_document("_order").unwrap().get_i32("opened").unwrap(), 456);
    assert_eq!(store.get::<Office>("1").run().unwrap(), office);
    store.close().unwrap();
}

#[test]
fn documents_of_other_programs_are_rows() {
    let (runtime, url) = (Runtime::new().unwrap(), server().url());
    let store = open(&url);
    let collection = offices(&runtime, &url);
    let by_hand = doc! {
        "_id": "js", "name": "Süd", "seats": 7_i32, "extra": { "kept": true },
        "options": { "id": Bson::ObjectId(mongodb::bson::oid::ObjectId::from_bytes([7; 12])) },
    };
    runtime.block_on(async { collection.insert_one(by_hand).await }).unwrap();
    let office = store.get::<Office>("js").run().unwrap();
    assert_eq!((office.seats, office.opened), (7, None));
    let options = office.options.unwrap().0.to_string();
    assert_eq!(options, r#"{"id":{"$oid":"070707070707070707070707"}}"#);
    store.patch::<Office>("js").set(Office::SEATS, 8).run().unwrap();
    let found = runtime.block_on(async { collection.find_one(doc! {}).await }).unwrap().unwrap();
    assert!(found.get_document("extra").is_ok(), "what the model has not is left alone");

    let strange = doc! { "_id": "no", "name": 5, "seats": "many" };
    runtime.block_on(async { collection.insert_one(strange).await }).unwrap();
    let error = store.get::<Office>("no").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Engine);
    assert!(error.message().contains("`name`"), "{error}");
    store.close().unwrap();
}

#[test]
fn urls_are_refused_in_words() {
    for (url, part) in [
        ("mongodb://127.0.0.1/a?operations_max=none", "operations_max=none"),
        ("mongodb://127.0.0.1/a?nothing=1", "nothing"),
        ("mongodb://127.0.0.1:1/a?serverSelectionTimeoutMS=100", "reached"),
    ] {
        let began = std::time::Instant::now();
        let Err(error) = marmota::open(url) else { panic!("{url} was opened") };
        assert!(error.message().contains(part), "{error}");
        assert!(began.elapsed() < Duration::from_secs(25), "the driver waits for 30 if not told");
    }
}

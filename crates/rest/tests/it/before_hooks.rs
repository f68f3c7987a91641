//! Hooks that are called before a write, on every route that writes: their refusals are problem
//! documents, and their changes are in the answers.

use marmota_derive::Model;
use marmota_memory::Memory;
use marmota_model::Result;
use marmota_sqlite::Sqlite;
use marmota_store::hook::BeforeChange;
use marmota_store::{Store, StoreBuilder};
use serde_json::json;

use crate::service::Service;
use crate::slow::slow;

const NDJSON: &str = "Content-Type: application/x-ndjson";

#[derive(Clone, Debug, Model)]
struct Booking {
    id: i64,
    room: String,
    from: i64,
    until: i64,
    #[model(version)]
    version: i64,
}

/// The days that a room is booked.
#[derive(Clone, Debug, Model)]
struct Room {
    #[model(key)]
    name: String,
    days: i64,
}

fn days(booking: &Option<Booking>) -> i64 {
    booking.as_ref().map_or(0, |booking| booking.until - booking.from)
}

async fn book(tx: &Store, change: &mut BeforeChange<Booking>) -> Result<()> {
    if let Some(booking) = &mut change.after {
        booking.room = booking.room.to_uppercase();
        if booking.until <= booking.from {
            return Err(change.refuse(Booking::UNTIL, "order", "must be after `from`"));
        }
    }
    let by = days(&change.after) - days(&change.before);
    if let Some(booking) = change.after.as_ref().or(change.before.as_ref()) {
        let sum = tx.increment(Room::DAYS, booking.room.clone(), by).await?;
        if sum > 100 {
            return Err(change.refuse(Booking::ROOM, "full", "is booked for 100 days"));
        }
    }
    Ok(())
}

fn hooked(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Booking>().model::<Room>().before_async::<Booking, _>(book)
}

fn test(engine: &'static str, builder: StoreBuilder) {
    let service = Service::of(engine, hooked(builder));
    service.store.insert(&Room { name: "A".into(), days: 0 }).run().unwrap();
    let days = || service.store.get::<Room>("A".to_owned()).run().unwrap().days;
    let client = &mut service.client();
    let made = client.json("POST /api/booking", r#"{"room":"a","from":1,"until":3}"#).is(201);
    assert_eq!((made.value()["room"].as_str(), days()), (Some("A"), 2));
    let body = r#"{"room":"a","from":5,"until":3}"#;
    client.json("POST /api/booking", body).names(422, "until", "order");
    client.json("PATCH /api/booking/1", r#"{"until":0}"#).names(422, "until", "order");
    let body = r#"{"room":"a","from":1,"until":500}"#;
    client.json("PUT /api/booking/1", body).names(422, "room", "full");
    let patched = client.json("PATCH /api/booking/1", r#"{"until":5}"#).is(200);
    assert_eq!((patched.value()["version"].as_i64(), days()), (Some(2), 4));

    let operations = json!({ "mode": "each", "operations": [
        { "insert": "booking", "row": { "room": "a", "from": 1, "until": 2 } },
        { "insert": "booking", "row": { "room": "a", "from": 1, "until": 1 } },
        { "delete": "booking", "key": 1 },
    ]});
    let results = client.json("POST /api/batch", &operations.to_string()).is(200).value();
    assert_eq!(results["results"][1]["error"]["errors"][0]["field"], "until", "{results}");
    assert_eq!(days(), 1);
    let line = r#"{"room":"a","from":1,"until":2}"#;
    let lines = format!("{line}\n{line}\n");
    client.send("POST /api/booking", &[NDJSON], lines.as_bytes()).is(201);
    let lines = format!("{line}\n{{\"room\":\"a\",\"from\":2,\"until\":1}}\n");
    let refused = client.send("POST /api/booking", &[NDJSON], lines.as_bytes());
    // The lines before the one at fault are stored.
    assert_eq!(refused.names(422, "until", "order").value()["inserted"], 1);
    assert_eq!(days(), 4);
    client.send("DELETE /api/booking/2", &[], b"").is(204);
    assert_eq!(days(), 3);

    let once = ["Idempotency-Key: one", "Content-Type: application/json"];
    let body = br#"{"room":"a","from":1,"until":2}"#;
    let first = client.send("POST /api/booking", &once, body).is(201);
    let again = client.send("POST /api/booking", &once, body).is(201);
    assert_eq!((first.text(), days()), (again.text(), 4));
    let location = first.header("location").unwrap();
    let row = client.get(location).is(200).value();
    assert_eq!((&row["room"], &row["id"]), (&json!("A"), &first.value()["id"]));
}

#[test]
fn hooks_change_and_refuse_what_is_written() {
    test("memory", Store::builder(Memory::new()));
    test("slow memory", Store::builder(slow(Memory::new())));
    test("cached memory", Store::builder(Memory::new()).cache(1 << 20));
    test("sqlite", Store::builder(Sqlite::from_url("sqlite::memory:").unwrap()));
}

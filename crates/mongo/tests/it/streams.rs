//! What others write is heard by a store's cache where the server has change
//! streams. Their events are made by hand ([`Replica`]); the rows are FerretDB's.

use std::time::{Duration, Instant};

use marmota::prelude::*;
use mongodb::bson::doc;

use crate::replica::{Act, Replica, refusal};
use crate::{Office, open, server};

/// A store with a cache, another one by which others write, and the server
/// between.
fn stores() -> (Replica, Store, Store) {
    let url = server().url();
    let replica = Replica::of("6.0", &url);
    let cached = marmota::open(&replica.url()).unwrap();
    let cached = cached.model::<Office>().cache(1 << 20).open().unwrap();
    (replica, cached, open(&url))
}

/// Reads until the cache has the row and gives it.
fn warm(store: &Store, code: &str) -> Office {
    let hits = || store.cache_stats().unwrap().hits;
    let (before, began) = (hits(), Instant::now());
    loop {
        let office = store.get::<Office>(code).run().unwrap();
        if hits() > before {
            return office;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it is never kept");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reads until the row has this name.
fn wait_for(store: &Store, code: &str, name: &str) {
    let began = Instant::now();
    while store.get::<Office>(code).optional().run().unwrap().is_none_or(|it| it.name != name) {
        assert!(began.elapsed() < Duration::from_secs(60), "`{name}` is never seen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn rename(store: &Store, code: &str, name: &str) {
    store.patch::<Office>(code).set(Office::NAME, name).run().unwrap();
}

#[test]
fn what_others_write_is_seen_when_it_is_told() {
    let (replica, cached, other) = stores();
    other.insert(&Office::new("1", "Nord")).run().unwrap();
    let operations = ["insert", "update", "replace", "delete", "drop", "rename"];
    for (number, operation) in operations.into_iter().enumerate() {
        let before = warm(&cached, "1");
        let name = format!("name {number}");
        rename(&other, "1", &name);
        // Nobody has said so yet, unless the stream was lost on a busy machine.
        let still = cached.get::<Office>("1").run().unwrap();
        assert!(still == before || replica.streams_opened() > 1, "{operation}");
        replica.tell(operation, "office");
        wait_for(&cached, "1", &name);
    }
    cached.close().unwrap();
    other.close().unwrap();
}

#[test]
fn the_stream_asks_for_the_tables_alone() {
    let (replica, cached, other) = stores();
    let aggregates = replica.commands("aggregate");
    let stages = aggregates[0].get_array("pipeline").unwrap();
    let matched = stages[1].as_document().unwrap().get_document("$match").unwrap();
    let ours = matched.get_array("$or").unwrap()[0].as_document().unwrap();
    assert_eq!(ours, &doc! { "ns.coll": { "$in": ["office"] } });
    cached.close().unwrap();
    other.close().unwrap();
}

#[test]
fn a_stream_that_breaks_goes_on_behind_its_last_event() {
    let (replica, cached, other) = stores();
    other.insert(&Office::new("1", "Nord")).run().unwrap();
    warm(&cached, "1");
    rename(&other, "1", "Süd");
    replica.tell("update", "office");
    wait_for(&cached, "1", "Süd");
    let token = replica.last_token();
    warm(&cached, "1");
    let opened = replica.streams_opened();
    replica.on("getMore of a stream", 0, Act::CutBefore);
    rename(&other, "1", "Ost");
    let began = Instant::now();
    while replica.streams_opened() <= opened {
        assert!(began.elapsed() < Duration::from_secs(60), "it is never opened again");
        std::thread::sleep(Duration::from_millis(1));
    }
    let again = replica.streams().pop().unwrap();
    let behind = again.get("resumeAfter").or_else(|| again.get("startAfter"));
    assert_eq!(behind.and_then(|it| it.as_document()), Some(&token));
    // What was told meanwhile is told now.
    replica.tell("update", "office");
    wait_for(&cached, "1", "Ost");
    cached.close().unwrap();
    other.close().unwrap();
}

#[test]
fn what_was_not_heard_makes_all_stale() {
    for code in [286, 280] {
        let (replica, cached, other) = stores();
        other.insert(&Office::new("1", "Nord")).run().unwrap();
        warm(&cached, "1");
        rename(&other, "1", "Süd");
        // No event tells of that, and the stream can not go on.
        let lost = refusal(code, "ChangeStreamHistoryLost", &["NonResumableChangeStreamError"]);
        replica.on("getMore of a stream", 0, Act::Refuse(lost.clone()));
        replica.on("$changeStream", 0, Act::Refuse(lost));
        wait_for(&cached, "1", "Süd");
        // It begins anew, and is heard again.
        warm(&cached, "1");
        assert!(replica.streams().pop().unwrap().get("startAfter").is_none());
        rename(&other, "1", "Ost");
        replica.tell("update", "office");
        wait_for(&cached, "1", "Ost");
        cached.close().unwrap();
        other.close().unwrap();
    }
}

#[test]
fn the_end_of_a_database_ends_no_store() {
    let (replica, cached, other) = stores();
    other.insert(&Office::new("1", "Nord")).run().unwrap();
    warm(&cached, "1");
    rename(&other, "1", "Süd");
    replica.tell("invalidate", "");
    wait_for(&cached, "1", "Süd");
    warm(&cached, "1");
    rename(&other, "1", "Ost");
    replica.tell("update", "office");
    wait_for(&cached, "1", "Ost");
    assert!(replica.streams().pop().unwrap().get("startAfter").is_some());
    cached.close().unwrap();
    other.close().unwrap();
}

#[test]
fn a_new_primary_makes_all_stale() {
    let (replica, cached, other) = stores();
    other.insert(&Office::new("1", "Nord")).run().unwrap();
    warm(&cached, "1");
    // As if what the last primary had not passed on were undone: no event tells.
    rename(&other, "1", "Süd");
    replica.elect();
    wait_for(&cached, "1", "Süd");
    warm(&cached, "1");
    rename(&other, "1", "Ost");
    replica.tell("update", "office");
    wait_for(&cached, "1", "Ost");
    cached.close().unwrap();
    other.close().unwrap();
}

#[test]
fn two_stores_hear_of_each_other() {
    let url = server().url();
    let replica = Replica::of("5.0", &url);
    let open = || {
        let store = marmota::open(&replica.url()).unwrap();
        store.model::<Office>().cache(1 << 20).open().unwrap()
    };
    let (first, second) = (open(), open());
    first.insert(&Office::new("1", "Nord")).run().unwrap();
    for (writer, reader, name) in [(&first, &second, "Süd"), (&second, &first, "Ost")] {
        warm(reader, "1");
        rename(writer, "1", name);
        replica.tell("update", "office");
        wait_for(reader, "1", name);
        assert_eq!(writer.get::<Office>("1").run().unwrap().name, name);
    }
    first.close().unwrap();
    second.close().unwrap();
}

#[test]
fn a_cache_is_not_opened_where_it_could_not_hear() {
    let replica = Replica::of("7.0", &server().url());
    let open = |options: &str| {
        let store = marmota::open(&format!("{}{options}", replica.url())).unwrap();
        store.model::<Office>().cache(1 << 20).open().map(drop)
    };
    let error = open("&readPreference=secondaryPreferred").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.message().contains("readPreference"), "{error}");
    replica.on("$changeStream", 0, Act::Refuse(refusal(13, "Unauthorized", &[])));
    let error = open("").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.message().contains("change stream"), "{error}");
    open("").unwrap();
}

//! Aggregation pipelines over a model's documents.

use marmota::prelude::*;
use marmota::store::rights::{Grant, Right, Rights};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tee::Tee;
use crate::{Office, server};

#[derive(Debug, Deserialize, PartialEq)]
struct Total {
    #[serde(rename = "_id")]
    name: String,
    seats: i64,
}

fn total(name: &str, seats: i64) -> Total {
    Total { name: name.to_owned(), seats }
}

/// Offices of three names, with seats.
fn offices(url: &str) -> Store {
    let store = crate::open(url);
    let offices: Vec<Office> = (0..300)
        .map(|n| Office {
            seats: n,
            ..Office::new(&format!("{n:03}"), ["Nord", "Süd", "Ost"][n as usize % 3])
        })
        .collect();
    store.insert_many(&offices).run().unwrap();
    store
}

#[test]
fn groups_are_summed_and_sorted_by_the_server() {
    let store = offices(&server().url());
    let stages = r#"[{"$match":{"seats":{"$lt":6}}},
        {"$group":{"_id":"$name","seats":{"$sum":"$seats"}}},{"$sort":{"seats":-1,"_id":1}}]"#;
    let totals: Vec<Total> = store.aggregate::<Office, _>(stages).run().unwrap();
    assert_eq!(totals, [total("Ost", 7), total("Süd", 5), total("Nord", 3)]);
    let stages = json!([{ "$match": { "name": "Süd" } }, { "$count": "offices" }]);
    let counted: Vec<Value> = store.aggregate::<Office, _>(stages).run().unwrap();
    assert_eq!(counted, [json!({ "offices": 100 })]);
    store.close().unwrap();
}

#[test]
fn many_documents_come_in_several_messages_and_not_all_are_taken() {
    let tee = Tee::before(&server().url());
    let store = offices(tee.url());
    tee.count(b"\x02aggregate\0");
    let all: Vec<Value> = store.aggregate::<Office, _>(r#"[{"$sort":{"_id":1}}]"#).run().unwrap();
    assert_eq!(tee.count(b"\x02aggregate\0"), 1);
    let ids: Vec<&str> = all.iter().filter_map(|one| one["_id"].as_str()).collect();
    assert_eq!(ids, (0..300).map(|n| format!("{n:03}")).collect::<Vec<_>>());
    // The first document is no number: the others are not asked for.
    let error = store.aggregate::<Office, i64>("[]").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Engine);
    assert!(error.message().contains("cannot be read"), "{error}");
    assert_eq!(store.count::<Office>().run().unwrap(), 300);
    store.close().unwrap();
}

#[test]
fn what_writes_and_what_nobody_has_is_refused_in_words() {
    let store = offices(&server().url());
    for (stages, kind, part) in [
        (r#"[{"$out":"office"}]"#, ErrorKind::Invalid, "writes"),
        ("nothing", ErrorKind::Invalid, "JSON"),
        (r#"[{"$nothing":{}}]"#, ErrorKind::Engine, "$nothing"),
    ] {
        let error = store.aggregate::<Office, Value>(stages).run().unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(part), "{error}");
    }
    assert_eq!(store.count::<Office>().run().unwrap(), 300);
    let rights = Rights::new(store.registry(), None, &[Grant::new("office", &Right::ALL)]);
    let under = store.with_rights(rights.unwrap());
    assert_eq!(under.count::<Office>().run().unwrap(), 300);
    let error = under.aggregate::<Office, Value>("[]").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    store.close().unwrap();

    let memory = marmota::open("memory:").unwrap().model::<Office>().open().unwrap();
    let error = memory.aggregate::<Office, Value>("[]").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

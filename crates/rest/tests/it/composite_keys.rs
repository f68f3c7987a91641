//! Composite keys over REST: paths, lists, cursors, conditions, batches, live lists and the
//! documents.

use marmota_http::Server;
use marmota_memory::Memory;
use marmota_model::{Date, Field, KeyKind, Kind, Role, Schema};
use marmota_rest::Api;
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::change::ChangeRetention;
use marmota_store::{Store, StoreBuilder};
use serde_json::{Value, json};

use crate::client::Client;
use crate::live_events::Events;

fn schemas() -> [Schema; 4] {
    let id = || Field::new("id", Kind::I64).role(Role::Key);
    let playlist = Kind::Reference { table: "playlist".into(), key: KeyKind::Auto };
    let entry = vec![
        Field::new("playlist", playlist),
        Field::new("track", Kind::I64),
        Field::new("note", Kind::TEXT).nullable(true),
        Field::new("version", Kind::I64).role(Role::Version),
    ];
    let reading = vec![
        Field::new("station", Kind::TEXT),
        Field::new("day", Kind::Date),
        Field::new("value", Kind::Float).nullable(true),
    ];
    let to_entry = Kind::Reference { table: "playlist_track".into(), key: KeyKind::Text };
    let vote = vec![
        id(),
        Field::new("playlist", Kind::I64).nullable(true),
        Field::new("track", Kind::I64).nullable(true),
        Field::new("entry", to_entry).nullable(true).computed("key(playlist, track)"),
    ];
    [
        Schema::new("playlist", vec![id(), Field::new("name", Kind::TEXT)]),
        Schema::new("playlist_track", entry).composite_key("key", vec![0, 1]).audit(true),
        Schema::new("reading", reading).composite_key("key", vec![0, 1]),
        Schema::new("vote", vote),
    ]
}

/// Runs a test over the engines, with and without a cache.
fn on_every_engine(test: impl Fn(&mut Client, std::net::SocketAddr)) {
    let sqlite = || Sqlite::open(Location::Memory, SqliteOptions::default()).unwrap();
    let builders: [StoreBuilder; 4] = [
        Store::builder(Memory::new()),
        Store::builder(Memory::new()).cache(1 << 20),
        Store::builder(sqlite()),
        Store::builder(sqlite()).cache(1 << 20),
    ];
    for builder in builders {
        let builder = builder.changes(ChangeRetention::default());
        let store = schemas().into_iter().fold(builder, StoreBuilder::schema).open().unwrap();
        let router = Api::new(&store).router();
        let server = Server::bind("127.0.0.1:0").unwrap().start(router).unwrap();
        let client = &mut Client::new(server.local_addr());
        for name in ["first", "second"] {
            client.json("POST /api/playlist", &json!({ "name": name }).to_string()).is(201);
        }
        test(client, server.local_addr());
    }
}

fn insert(client: &mut Client, playlist: i64, track: i64) {
    let row = json!({ "playlist": playlist, "track": track }).to_string();
    client.json("POST /api/playlist_track", &row).is(201);
}

fn keys(page: &Value) -> Vec<&str> {
    page["rows"].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap()).collect()
}

#[test]
fn a_row_has_its_key_in_the_path() {
    on_every_engine(|client, _| {
        let row = r#"{"playlist":1,"track":3402,"note":"a"}"#;
        let made = client.json("POST /api/playlist_track", row).is(201);
        assert_eq!(made.header("location"), Some("/api/playlist_track/1,3402"));
        assert_eq!(made.header("etag"), Some("\"v1\""));
        let whole = json!({
            "playlist": 1, "track": 3402, "note": "a", "version": 1, "key": "1,3402"
        });
        assert_eq!(made.value(), whole);
        let path = "/api/playlist_track/1,3402";
        for path in [path, "/api/playlist_track/1%2C3402"] {
            assert_eq!(client.get(path).is(200).value(), whole);
        }
        client.json(&format!("PATCH {path}"), r#"{"note":"b"}"#).is(200);
        client.json(&format!("PATCH {path}"), r#"{"note":"b","version":1}"#).is(412);
        let problem = client.json(&format!("PATCH {path}"), r#"{"track":7}"#).is(422).value();
        assert_eq!(problem["errors"][0]["field"], "track", "{problem}");
        client.json(&format!("PATCH {path}"), r#"{"key":"1,7"}"#).is(400);
        let problem = client.json("POST /api/playlist_track", row).is(409).value();
        let fields: Vec<&Value> =
            problem["errors"].as_array().unwrap().iter().map(|error| &error["field"]).collect();
        assert_eq!(fields, ["playlist", "track"], "{problem}");
        let history = client.get(&format!("{path}/history")).is(200).value();
        assert_eq!(history["rows"].as_array().unwrap().len(), 2, "{history}");
        client.json(&format!("DELETE {path}"), "").is(204);
        client.get(path).is(404);
        for missing in
            ["1", "1,x", "01,3402", "1,3402,1", ",", "%00,1", "1,%2541", "99999999999999999999,1"]
        {
            let path = format!("/api/playlist_track/{missing}");
            client.get(&path).is(404);
            client.json(&format!("PATCH {path}"), "{}").is(404);
            client.json(&format!("DELETE {path}"), "").is(404);
            client.json(&format!("PUT {path}"), r#"{"playlist":1,"track":1}"#).is(404);
        }
    });
}

#[test]
fn a_put_inserts_and_replaces_the_row_of_the_path() {
    on_every_engine(|client, _| {
        let path = "PUT /api/playlist_track/1,7";
        let made = client.json(path, r#"{"note":"a"}"#).is(201).value();
        assert_eq!((&made["playlist"], &made["track"]), (&json!(1), &json!(7)), "{made}");
        let whole = r#"{"playlist":1,"track":7,"key":"1,7","note":"b"}"#;
        assert_eq!(client.json(path, whole).is(200).value()["version"], 2);
        assert_eq!(client.json(path, "{}").is(200).value()["note"], Value::Null);
        client.json(path, r#"{"playlist":2,"track":7}"#).is(422);
        client.json("PUT /api/playlist_track/1,8", r#"{"playlist":2}"#).is(422);
        let new = ["Content-Type: application/json", "If-None-Match: *"];
        client.send(path, &new, b"{}").is(412);
        client.send("PUT /api/playlist_track/2,7", &new, b"{}").is(201);
        client.json("PUT /api/playlist_track/9,7", "{}").is(422);
        let upsert = r#"{"playlist":1,"track":7,"note":"c"}"#;
        let there = client.json("POST /api/playlist_track?on_conflict=update", upsert).is(200);
        assert_eq!(there.header("location"), Some("/api/playlist_track/1,7"));
        assert_eq!(there.value()["note"], "c");
    });
}

#[test]
fn pages_are_in_the_order_of_the_fields() {
    on_every_engine(|client, _| {
        for (playlist, track) in [(2, 10), (1, 100), (2, 9), (1, 20), (1, 3)] {
            insert(client, playlist, track);
        }
        let sorted = ["1,3", "1,20", "1,100", "2,9", "2,10"];
        assert_eq!(keys(&client.get("/api/playlist_track").is(200).value()), sorted);
        for (order, expected) in [
            ("", sorted),
            ("&order=key", sorted),
            ("&order=-key", ["2,10", "2,9", "1,100", "1,20", "1,3"]),
            ("&order=note", sorted),
            ("&order=-track", ["1,100", "1,20", "2,10", "2,9", "1,3"]),
            ("&order=-playlist,track", ["2,9", "2,10", "1,3", "1,20", "1,100"]),
        ] {
            let (mut found, mut next) = (Vec::new(), format!("/api/playlist_track?limit=2{order}"));
            loop {
                let page = client.get(&next).is(200).value();
                found.extend(keys(&page).into_iter().map(str::to_owned));
                match page["next"].as_str() {
                    Some(more) => next = more.to_owned(),
                    None => break,
                }
            }
            assert_eq!(found, expected, "{order}");
        }
        let filtered = client.get("/api/playlist_track?filter=key%3D'2,9'%20or%20track%3D3");
        assert_eq!(keys(&filtered.is(200).value()), ["1,3", "2,9"]);
        let expanded = client.get("/api/playlist/2?expand=playlist_track(order=-key)").is(200);
        let expanded = expanded.value();
        let rows = expanded["expand"]["playlist_track"].as_array().unwrap();
        let keys: Vec<&str> = rows.iter().map(|row| row["key"].as_str().unwrap()).collect();
        assert_eq!(keys, ["2,10", "2,9"], "{expanded}");
    });
}

#[test]
fn batches_and_arrays_have_the_keys() {
    on_every_engine(|client, _| {
        let rows = r#"[{"playlist":1,"track":2},{"playlist":1,"track":1}]"#;
        let made = client.json("POST /api/playlist_track", rows).is(201).value();
        assert_eq!(made, json!({ "keys": ["1,2", "1,1"] }));
        let batch = json!({ "mode": "all", "operations": [
            { "insert": "playlist_track", "row": { "playlist": 2, "track": 1 } },
            { "patch": "playlist_track", "key": "1,1", "row": { "note": "x" } },
            { "delete": "playlist_track", "key": "1,2" },
        ] });
        let answer = client.json("POST /api/batch", &batch.to_string()).is(200).value();
        assert_eq!(answer["results"][0]["key"], "2,1", "{answer}");
        assert_eq!(keys(&client.get("/api/playlist_track").is(200).value()), ["1,1", "2,1"]);
    });
}

#[test]
fn a_reference_leads_to_the_row() {
    on_every_engine(|client, _| {
        client.json("POST /api/playlist_track", r#"{"playlist":1,"track":7,"note":"a"}"#).is(201);
        insert(client, 2, 7);
        let mut vote = |body: &str, status| client.json("POST /api/vote", body).is(status).value();
        let made = vote(r#"{"playlist":1,"track":7}"#, 201);
        assert_eq!(made, json!({ "id": 1, "playlist": 1, "track": 7, "entry": "1,7" }));
        vote(r#"{"playlist":2,"track":7,"entry":"2,7"}"#, 201);
        assert_eq!(vote(r#"{"track":7}"#, 201)["entry"], Value::Null);
        let problem = vote(r#"{"playlist":1,"track":9}"#, 422);
        let error = &problem["errors"][0];
        assert_eq!((&error["field"], &error["rule"]), (&json!("entry"), &json!("reference")));
        assert_eq!(error["value"], "\"1,9\"", "{problem}");
        let problem = vote(r#"{"playlist":1,"track":7,"entry":"2,7"}"#, 422);
        assert_eq!(problem["errors"][0]["rule"], "computed", "{problem}");
        client.json("DELETE /api/playlist_track/1,7", "").is(409);

        let ids = |client: &mut Client, query: &str| -> Vec<i64> {
            let page = client.get(&format!("/api/vote?{query}")).is(200).value();
            let rows = page["rows"].as_array().unwrap();
            rows.iter().map(|row| row["id"].as_i64().unwrap()).collect()
        };
        assert_eq!(ids(client, "entry=1,7"), [1]);
        assert_eq!(ids(client, "filter=entry.note='a'"), [1]);
        assert_eq!(ids(client, "filter=not+entry='1,7'"), [2]);
        assert_eq!(ids(client, "order=-entry"), [2, 1, 3]);
        let first = client.get("/api/vote?order=-entry&limit=1").is(200).value();
        let next = first["next"].as_str().unwrap();
        assert_eq!(ids(client, next.split_once('?').map_or(next, |(_, query)| query)), [1]);
        let entries = client.get("/api/playlist_track?filter=any(vote,id+>+1)").is(200).value();
        assert_eq!(keys(&entries), ["2,7"]);

        let one = client.get("/api/vote/1?expand=entry(fields=note)").is(200).value();
        assert_eq!(one["entry"], "1,7");
        assert_eq!(one["expand"]["entry"]["note"], "a", "{one}");
        let many = client.get("/api/playlist_track/2,7?expand=vote").is(200).value();
        assert_eq!(many["expand"]["vote"][0]["id"], 2, "{many}");
        let groups = client.get("/api/vote?group=entry&select=count").is(200).value();
        let groups: Vec<&Value> =
            groups["rows"].as_array().unwrap().iter().map(|group| &group["entry"]).collect();
        assert_eq!(groups, [&Value::Null, &json!("1,7"), &json!("2,7")]);

        let moved = client.json("PATCH /api/vote/1", r#"{"playlist":2}"#).is(200).value();
        assert_eq!(moved["entry"], "2,7", "{moved}");
        let put = r#"{"playlist":1,"track":7,"entry":"1,7"}"#;
        assert_eq!(client.json("PUT /api/vote/1", put).is(200).value()["entry"], "1,7");
        let problem = client.json("PATCH /api/vote/1", r#"{"track":9}"#).is(422).value();
        assert_eq!(problem["errors"][0]["field"], "entry", "{problem}");
        let document = client.get("/api/openapi.json").is(200).value();
        let entry = &document["components"]["schemas"]["vote"]["properties"]["entry"];
        assert_eq!(entry["readOnly"], true, "{entry}");
        assert_eq!(entry["x-computed"], "key(playlist, track)");
    });
}

#[test]
fn operations_refer_to_rows_by_parts_of_keys() {
    on_every_engine(|client, _| {
        let operations = json!([
            { "insert": "playlist", "row": { "name": "new" } },
            { "insert": "playlist_track", "row": { "playlist": { "$result": 0 }, "track": 7 } },
            { "insert": "vote", "row": { "entry": { "$result": 1 } } },
            { "patch": "playlist_track", "key": { "$result": 1 }, "row": { "note": "a" } },
            { "insert": "playlist_track", "row": { "playlist": 1, "track": 8 } },
            { "patch": "vote", "key": { "$result": 2 }, "row": { "entry": { "$result": 4 } } },
        ]);
        let batch = json!({ "mode": "all", "operations": operations });
        let answer = client.json("POST /api/batch", &batch.to_string()).is(200).value();
        assert_eq!(answer["results"][1]["key"], "3,7", "{answer}");
        assert_eq!(client.get("/api/playlist_track/3,7").is(200).value()["note"], "a");
        let vote = client.get("/api/vote/1").is(200).value();
        assert_eq!(vote, json!({ "id": 1, "playlist": 1, "track": 8, "entry": "1,8" }));

        let lines: Vec<String> =
            operations.as_array().unwrap()[..3].iter().map(Value::to_string).collect();
        let lines = ["Content-Type: application/x-ndjson", &lines.join("\n")].map(str::to_owned);
        let answer = client.send("POST /api/batch", &[&lines[0]], lines[1].as_bytes());
        assert!(answer.is(200).text().contains("\"key\":\"4,7\""));
        assert_eq!(client.get("/api/vote/2").is(200).value()["entry"], "4,7");

        for (row, field) in [
            (json!({ "entry": { "$result": 0 }, "track": 9 }), "track"),
            (json!({ "playlist": { "$result": 0 } }), "playlist"),
        ] {
            let batch = json!({ "operations": [
                { "insert": "playlist_track", "row": { "playlist": 2, "track": 9 } },
                { "insert": "vote", "row": row },
            ] });
            let problem = client.json("POST /api/batch", &batch.to_string()).is(422).value();
            assert_eq!(problem["errors"][0]["field"], field, "{problem}");
            client.get("/api/playlist_track/2,9").is(404);
        }
    });
}

#[test]
fn rows_are_written_with_their_related_rows() {
    on_every_engine(|client, _| {
        let body = r#"{"name":"new","playlist_track":[{"track":7,"vote":[{},{}]},{"track":8}]}"#;
        let made = client.json("POST /api/playlist", body).is(201);
        assert_eq!(made.header("location"), Some("/api/playlist/3"));
        let keys_of_rows = json!({ "id": 3, "playlist_track": [
            { "key": "3,7", "vote": [{ "id": 1 }, { "id": 2 }] }, { "key": "3,8" },
        ] });
        assert_eq!(made.value(), keys_of_rows);
        assert_eq!(client.get("/api/vote/2").is(200).value()["entry"], "3,7");

        let body = r#"{"entry":{"track":9,"playlist":{"name":"other"}}}"#;
        let made = client.json("POST /api/vote", body).is(201).value();
        assert_eq!(made, json!({ "id": 3, "entry": { "key": "4,9", "playlist": { "id": 4 } } }));
        let vote = json!({ "id": 3, "playlist": 4, "track": 9, "entry": "4,9" });
        assert_eq!(client.get("/api/vote/3").is(200).value(), vote);

        // Rows of a known key, with and without their own.
        let body = r#"{"note":"a","vote":[{"id":3},{}]}"#;
        let made = client.json("PATCH /api/playlist_track/3,8", body).is(200).value();
        assert_eq!(made, json!({ "key": "3,8", "vote": [{ "id": 3 }, { "id": 4 }] }));
        for id in [3, 4] {
            assert_eq!(client.get(&format!("/api/vote/{id}")).is(200).value()["entry"], "3,8");
        }
        let body = r#"{"id":1,"entry":{"key":"3,8","note":"b"}}"#;
        client.json("PATCH /api/vote/1", body).is(200);
        assert_eq!(client.get("/api/vote/1").is(200).value()["entry"], "3,8");
        assert_eq!(client.get("/api/playlist_track/3,8").is(200).value()["note"], "b");

        // `set` keeps the rows whose keys it has.
        client.json("PATCH /api/vote/2", r#"{"track":null}"#).is(200);
        let body = r#"{"playlist_track":{"set":[{"key":"3,8","note":"c"},{"track":10}]}}"#;
        client.json("PATCH /api/playlist/3", body).is(200);
        let rows = client.get("/api/playlist_track?playlist=3").is(200).value();
        assert_eq!(keys(&rows), ["3,8", "3,10"]);
        assert_eq!(rows["rows"][0]["note"], "c");
        let body = r#"{"vote":{"delete":[4]}}"#;
        client.json("PATCH /api/playlist_track/3,8", body).is(200);
        client.get("/api/vote/4").is(404);

        for (request, body, place) in [
            ("POST /api/vote", r#"{"track":9,"entry":{"playlist":1,"track":9}}"#, "track"),
            (
                "POST /api/playlist_track",
                r#"{"playlist":1,"track":9,"vote":[{"track":9}]}"#,
                "vote[0].track",
            ),
            ("PATCH /api/vote/1", r#"{"entry":{"key":"1,x","note":"a"}}"#, "is not the key"),
        ] {
            let problem = client.json(request, body).is(400).value().to_string();
            assert!(problem.contains(place), "{problem}");
        }
        let body = r#"{"entry":{"key":"1,99","note":"a"}}"#;
        client.json("PATCH /api/vote/1", body).is(404);
        let body = r#"{"playlist":1,"track":9,"vote":[{"id":1},{"id":99}]}"#;
        client.json("POST /api/playlist_track", body).is(404);
        client.get("/api/playlist_track/1,9").is(404);
    });
}

#[test]
fn a_live_list_names_the_rows() {
    on_every_engine(|client, address| {
        insert(client, 1, 10);
        let mut events = Events::open(address, "/api/playlist_track", "");
        events.follow(&client.get("/api/playlist_track").is(200).value());
        insert(client, 1, 9);
        events.follow(&client.get("/api/playlist_track").is(200).value());
        assert_eq!(keys(&events.document), ["1,9", "1,10"]);
        client.json("DELETE /api/playlist_track/1,10", "").is(204);
        events.follow(&client.get("/api/playlist_track").is(200).value());
        assert_eq!(keys(&events.document), ["1,9"]);
    });
}

#[test]
fn values_of_a_key_are_encoded() {
    on_every_engine(|client, _| {
        let day: Date = "2026-11-28".parse().unwrap();
        let row = json!({ "station": "a,b/100%", "day": day.to_string(), "value": 1.5 });
        let made = client.json("POST /api/reading", &row.to_string()).is(201);
        assert_eq!(made.value()["key"], "a%2Cb/100%25,2026-11-28");
        let location = made.header("location").unwrap().to_owned();
        assert_eq!(location, "/api/reading/a%252Cb%2F100%2525,2026-11-28");
        assert_eq!(client.get(&location).is(200).value()["value"], 1.5);
    });
}

#[test]
fn the_documents_describe_the_key() {
    on_every_engine(|client, _| {
        let tables = client.get("/api").is(200).value();
        let table = tables["tables"].as_array().unwrap();
        let table = table.iter().find(|table| table["name"] == "playlist_track").unwrap();
        assert_eq!(table["key"], "key");
        assert_eq!(table["key_given_by"], "service");
        assert_eq!(table["key_fields"], json!(["playlist", "track"]));
        let track = table["fields"].as_array().unwrap();
        let track = track.iter().find(|field| field["name"] == "track").unwrap();
        assert_eq!(track["immutable"], true);
        let document = client.get("/api/openapi.json").is(200).value();
        let required = &document["components"]["schemas"]["playlist_track.new"]["required"];
        assert_eq!(*required, json!(["playlist", "track"]), "{document}");
    });
}

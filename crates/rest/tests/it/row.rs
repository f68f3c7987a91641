//! One row: made, read, replaced, changed, deleted.

use serde_json::json;

use crate::service::on_every_engine;

const CURIE: &str = r#"{"first_name":"Marie","last_name":"Curie","year_of_birth":1867}"#;

#[test]
fn a_row_lives_and_dies() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let made = client.json("POST /api/person", CURIE).is(201);
        assert_eq!(made.header("location"), Some("/api/person/1"));
        assert_eq!(made.header("etag"), Some("\"v1\""));
        assert_eq!(made.header("content-type"), Some("application/json"));
        let row = made.value();
        assert_eq!(row["id"], 1);
        assert_eq!(row["visits"], 0);
        assert_eq!(row["year_of_death"], json!(null));
        assert_eq!(row["created_at"], row["updated_at"]);
        assert!(row.get("photo").is_none(), "blobs are not shown unless named");

        let read = client.get("/api/person/1").is(200);
        assert_eq!(read.header("etag"), Some("\"v1\""));
        assert_eq!(read.value(), row);

        let patched = client.json("PATCH /api/person/1", r#"{"year_of_death":1934}"#).is(200);
        assert_eq!(patched.header("etag"), Some("\"v2\""));
        assert_eq!(patched.value()["year_of_death"], 1934);
        assert_eq!(patched.value()["first_name"], "Marie");
        assert_eq!(patched.value()["version"], 2);
        assert_eq!(patched.value()["created_at"], row["created_at"]);
        assert_eq!(client.get("/api/person/1").value(), patched.value());

        let replaced = client.json("PUT /api/person/1", &CURIE.replace("Marie", "Maria")).is(200);
        assert_eq!(replaced.value()["first_name"], "Maria");
        assert_eq!(replaced.value()["year_of_death"], json!(null), "a PUT replaces the whole row");
        assert_eq!(replaced.header("etag"), Some("\"v3\""));
        assert_eq!(client.get("/api/person/1").value(), replaced.value());

        client.json("DELETE /api/person/1", "").is(204);
        client.get("/api/person/1").refuses(404).says("no `person` with id 1");
        client.json("DELETE /api/person/1", "").refuses(404);
        client.json("PATCH /api/person/1", "{}").refuses(404);
        client.json("PUT /api/person/1", CURIE).refuses(404);
    });
}

#[test]
fn fields_are_chosen() {
    on_every_engine(|service| {
        let client = &mut service.client();
        client.json("POST /api/person", CURIE).is(201);
        let read = client.get("/api/person/1?fields=last_name,photo").is(200);
        assert_eq!(read.text(), r#"{"last_name":"Curie","photo":null}"#);
        assert_eq!(read.header("etag"), Some("\"v1\""), "the version is read, though not shown");
        client.get("/api/person/1?fields=lastname").names(400, "lastname", "unknown");
        client.get("/api/person/1?fields=").names(400, "", "unknown");
        client.get("/api/person/1?limit=1").names(400, "limit", "unknown");
        client.get("/api/person/1?fields=id&fields=id").names(400, "fields", "twice");
    });
}

#[test]
fn versions_guard_reads_and_writes() {
    on_every_engine(|service| {
        let client = &mut service.client();
        client.json("POST /api/person", CURIE).is(201);
        let unmodified = client.send("GET /api/person/1", &["If-None-Match: \"v1\""], b"").is(304);
        assert_eq!(unmodified.header("etag"), Some("\"v1\""));
        for known in ["\"v7\", W/\"v1\"", "*"] {
            client.send("GET /api/person/1", &[&format!("If-None-Match: {known}")], b"").is(304);
        }
        client.send("GET /api/person/1", &["If-None-Match: \"v2\", junk"], b"").is(200);

        let patch = br#"{"visits":5}"#;
        client.send("PATCH /api/person/1", &["If-Match: \"v1\""], patch).is(200);
        client.send("PATCH /api/person/1", &["If-Match: \"v1\""], patch).refuses(412);
        client.send("PUT /api/person/1", &["If-Match: \"v1\""], CURIE.as_bytes()).refuses(412);
        client.send("DELETE /api/person/1", &["If-Match: \"v1\""], b"").refuses(412);
        client.send("DELETE /api/person/1", &["If-Match: \"h00\""], b"").refuses(412);
        client.send("PATCH /api/person/1", &["If-Match: *"], patch).is(200);
        client.send("PATCH /api/person/1", &["If-Match: \"v1\", \"v3\""], patch).refuses(400);
        let stale = r#"{"visits":6,"version":1}"#;
        client.json("PATCH /api/person/1", stale).refuses(412);
        client
            .send("PATCH /api/person/1", &["If-Match: \"v3\""], stale.as_bytes())
            .names(400, "version", "version");
        client.json("PATCH /api/person/1", r#"{"version":null}"#).names(422, "version", "required");
        let row = client.get("/api/person/1").value();
        assert_eq!((&row["visits"], &row["version"]), (&json!(5), &json!(3)));
        client.json("PATCH /api/person/1", r#"{"visits":6,"version":3}"#).is(200);
        client.send("DELETE /api/person/1", &["If-Match: \"v4\""], b"").is(204);
    });
}

#[test]
fn a_table_without_a_version_has_tags_of_its_bytes() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let body = r#"{"code":"BGS","name":"Bourges"}"#;
        let made = client.json("POST /api/city", body).is(201);
        let tag = made.header("etag").unwrap().to_owned();
        assert!(tag.starts_with("\"h"), "{tag}");
        let read = client.get("/api/city/BGS");
        assert_eq!(read.header("etag"), Some(&*tag));
        let if_none_match = format!("If-None-Match: {tag}");
        client.send("GET /api/city/BGS", &[&if_none_match], b"").is(304);
        client.json("PATCH /api/city/BGS", r#"{"people":66000}"#).is(200);
        client.send("GET /api/city/BGS", &[&if_none_match], b"").is(200);
        client
            .send("DELETE /api/city/BGS", &[&format!("If-Match: {tag}")], b"")
            .refuses(412)
            .says("no version to compare");
        client.send("DELETE /api/city/BGS", &["If-Match: *"], b"").is(204);
    });
}

#[test]
fn keys_that_clients_give_are_made_by_put() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let made = client.json("PUT /api/city/BGS", r#"{"name":"Bourges"}"#).is(201);
        assert_eq!(made.header("location"), Some("/api/city/BGS"));
        let again = client.json("PUT /api/city/BGS", r#"{"name":"Avaricum"}"#).is(200);
        assert_eq!(again.text(), r#"{"code":"BGS","name":"Avaricum","people":null}"#);
        let new = &["If-None-Match: *"];
        client.send("PUT /api/city/BGS", new, br#"{"name":"x"}"#).refuses(412);
        client.send("PUT /api/city/X", new, br#"{"name":"x"}"#).is(201);
        for request in ["PATCH /api/city/X", "DELETE /api/city/X", "PUT /api/person/1"] {
            client.send(request, new, b"{}").refuses(400).says("If-Match");
        }
        client.send("PUT /api/city/Y", &["If-Match: *"], br#"{"name":"y"}"#).refuses(412);
        client.json("PUT /api/city/BGS", r#"{"code":"B","name":"x"}"#).names(400, "code", "key");
        client.json("POST /api/city", r#"{"code":"BGS","name":"x"}"#).refuses(409);
        client.json("POST /api/city", r#"{"name":"x"}"#).names(422, "code", "required");
        client.json("POST /api/city", r#"{"code":"","name":"x"}"#).names(422, "code", "not_empty");

        let id = "0190e4e2-7a00-7000-8000-00000000abcd";
        let made = client.json(&format!("PUT /api/note/{id}"), r#"{"words":"a"}"#).is(201);
        assert_eq!(made.value()["id"], id);
        let made = client.json("POST /api/note", r#"{"words":"b"}"#).is(201);
        let location = made.header("location").unwrap().to_owned();
        assert_eq!(location, format!("/api/note/{}", made.value()["id"].as_str().unwrap()));
        assert_eq!(client.get(&location).is(200).value(), made.value());
    });
}

#[test]
fn keys_in_paths_are_percent_decoded() {
    on_every_engine(|service| {
        let client = &mut service.client();
        for (key, segment) in [
            ("Αθήνα", "%CE%91%CE%B8%CE%AE%CE%BD%CE%B1"),
            ("a/b c?d#e", "a%2Fb%20c%3Fd%23e"),
            ("100%", "100%25"),
            ("\u{fffd}", "%EF%BF%BD"),
            ("~-_.", "~-_."),
        ] {
            let body = json!({ "code": key, "name": "x" }).to_string();
            let made = client.json("POST /api/city", &body).is(201);
            let location = format!("/api/city/{segment}");
            assert_eq!(made.header("location"), Some(&*location));
            assert_eq!(client.get(&location).is(200).value()["code"], key);
            client.json(&format!("DELETE {location}"), "").is(204);
        }
        client.json("PUT /api/city/%ff", r#"{"name":"x"}"#).names(400, "code", "type");
        for (path, field) in
            [("/api/person/abc", "id"), ("/api/person/1.5", "id"), ("/api/note/7", "id")]
        {
            client.get(path).names(400, field, "type");
        }
        client.get("/api/person/99999999999999999999").names(400, "id", "type");
        client.get("/api/person/-1").refuses(404);
        client.get("/api/person/9223372036854775807").refuses(404);
    });
}

#[test]
fn minimal_answers_have_no_body() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let prefer = &["Prefer: return=minimal", "Content-Type: application/json"];
        let made = client.send("POST /api/person", prefer, CURIE.as_bytes()).is(201);
        assert_eq!(made.text(), "");
        assert_eq!(made.header("location"), Some("/api/person/1"));
        assert_eq!(made.header("preference-applied"), Some("return=minimal"));
        let patched = client.send("PATCH /api/person/1", prefer, br#"{"visits":1}"#).is(204);
        assert_eq!(patched.header("etag"), Some("\"v2\""));
        let put = client.send("PUT /api/person/1", prefer, CURIE.as_bytes()).is(204);
        assert_eq!(put.header("etag"), Some("\"v3\""));
    });
}

#[test]
fn what_the_service_owns_is_ignored_in_bodies() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let made = client.json("POST /api/person", CURIE).value();
        let mut body = made.clone();
        body["created_at"] = json!("1990-01-01T00:00:00Z");
        body["updated_at"] = json!("1990-01-01T00:00:00Z");
        body["first_name"] = json!("Manya");
        // A row that was read can be sent back as it is, changed.
        let put = client.json("PUT /api/person/1", &body.to_string()).is(200).value();
        assert_eq!(put["created_at"], made["created_at"]);
        assert_ne!(put["updated_at"], json!("1990-01-01T00:00:00Z"));
        assert_eq!((&put["first_name"], &put["version"]), (&json!("Manya"), &json!(2)));
        client.json("PUT /api/person/1", &body.to_string()).refuses(412);
        client.json("PATCH /api/person/1", r#"{"id":2}"#).names(400, "id", "key");
        client.json("PATCH /api/person/1", r#"{"id":1}"#).is(200);
        client.json("PATCH /api/person/1", r#"{"created_at":"yesterday"}"#).names(
            422,
            "created_at",
            "type",
        );
        let keyed = CURIE.replace('{', r#"{"id":41,"#);
        let made = client.json("POST /api/person", &keyed).is(201);
        assert_eq!(made.header("location"), Some("/api/person/41"));
        client.json("POST /api/person", &keyed).refuses(409);
        client.json("POST /api/person", &keyed.replace("41", "-1")).names(422, "id", "range");
    });
}

#[test]
fn every_kind_goes_there_and_back() {
    on_every_engine(|service| {
        let client = &mut service.client();
        client.json("POST /api/person", CURIE).is(201);
        let body = json!({
            "id": "0190e4e2-7a00-7000-8000-000000000001",
            "words": "\"é\"\\\n\u{1F600}\u{1}",
            "state": "final",
            "price": 0.1,
            "weight": 1.5e-7,
            "urgent": true,
            "tags": {"a": [1, null, "x"]},
            "day": "2026-11-21",
            "hour": "17:05:00",
            "at": "2026-11-21T17:05:00.25Z",
            "of": 1
        });
        let made = client.json("POST /api/note", &body.to_string()).is(201);
        assert_eq!(made.value(), body);
        let path = made.header("location").unwrap().to_owned();
        assert_eq!(client.get(&path).value(), body);
        let empty = json!({ "words": "" });
        let replaced = client.json(&format!("PUT {path}"), &empty.to_string()).is(200).value();
        assert_eq!((&replaced["state"], &replaced["urgent"]), (&json!("draft"), &json!(false)));
        assert_eq!((&replaced["tags"], &replaced["of"]), (&json!(null), &json!(null)));
        for (member, rule) in [
            (r#""state":"none""#, "type"),
            (r#""state":1"#, "type"),
            (r#""price":0.00001"#, "type"),
            (r#""weight":"1""#, "type"),
            (r#""urgent":1"#, "type"),
            (r#""day":"2026-02-30""#, "type"),
            (r#""hour":"25:00:00""#, "type"),
            (r#""at":"2026-11-21""#, "type"),
            (r#""of":"x""#, "type"),
            (r#""words":null"#, "required"),
        ] {
            let field = member.split('"').nth(1).unwrap();
            client.json(&format!("PATCH {path}"), &format!("{{{member}}}")).names(422, field, rule);
        }
        let dangling = client.json(&format!("PATCH {path}"), r#"{"of":999}"#);
        assert!([409, 422].contains(&dangling.status), "{}", dangling.text());
    });
}

#[test]
fn many_rows_are_inserted_or_none() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let rows = format!("[{CURIE},{}]", CURIE.replace("Marie", "Pierre"));
        let made = client.json("POST /api/person", &rows).is(201);
        assert_eq!(made.text(), r#"{"keys":[1,2]}"#);
        assert_eq!(client.json("POST /api/person", " []").is(201).text(), r#"{"keys":[]}"#);
        let bad = format!("[{CURIE},{}]", CURIE.replace("1867", "\"x\""));
        let refused = client.json("POST /api/person", &bad).names(422, "year_of_birth", "type");
        assert_eq!(refused.value()["index"], 1);
        let mixed = format!("[{CURIE},{}]", CURIE.replace('{', "{\"id\":9,"));
        client.json("POST /api/person", &mixed).refuses(400).says("must all have a key");
        let twice = r#"[{"code":"a","name":"x"},{"code":"a","name":"y"}]"#;
        client.json("POST /api/city", twice).refuses(409);
        client.json("POST /api/city", "[1]").refuses(400);
        client.json("POST /api/city", "[{]").refuses(400);
        let keys = r#"[{"code":"a","name":"x"},{"code":"b","name":"y"}]"#;
        assert_eq!(client.json("POST /api/city", keys).text(), r#"{"keys":["a","b"]}"#);
        // The rules of all rows come before conflicts, however many an engine reads at a time.
        let long = "z".repeat(41);
        let bad = format!(r#"[{{"code":"a","name":"x"}},{{"code":"c","name":"{long}"}}]"#);
        let refused = client.json("POST /api/city", &bad).names(422, "name", "max");
        assert_eq!(refused.value()["index"], 1);
        let notes = client.json("POST /api/note", r#"[{"words":"a"},{"words":"b"}]"#).is(201);
        for key in notes.value()["keys"].as_array().unwrap() {
            client.get(&format!("/api/note/{}", key.as_str().unwrap())).is(200);
        }
        let count = |client: &mut crate::client::Client, table: &str| {
            client.get(&format!("/api/{table}?count=1&limit=1")).value()["count"].clone()
        };
        assert_eq!(count(client, "person"), 2);
        assert_eq!(count(client, "city"), 2);
        assert_eq!(count(client, "note"), 2);
    });
}

#[test]
fn increments_add_where_the_number_is() {
    on_every_engine(|service| {
        let client = &mut service.client();
        client.json("POST /api/person", CURIE).is(201);
        let path = "POST /api/person/1/visits/increment";
        let added = client.json(path, r#"{"by":3}"#).is(200);
        assert_eq!(added.text(), r#"{"visits":3}"#);
        assert_eq!(added.header("etag"), Some("\"v2\""));
        assert_eq!(client.json(path, r#"{"by":-1}"#).text(), r#"{"visits":2}"#);
        client.json(path, r#"{"by":999}"#).refuses(422);
        client.json(path, r#"{"by":"x"}"#).names(422, "visits", "type");
        client.json(path, r#"{"by":null}"#).names(422, "visits", "type");
        client.json(path, r#"{"bye":1}"#).refuses(400);
        client.json(path, "1").refuses(400);
        client.send(path, &["If-Match: \"v1\""], br#"{"by":1}"#).refuses(400);
        client.json("POST /api/person/1/version/increment", r#"{"by":1}"#).refuses(422);
        client.json("POST /api/person/1/nope/increment", r#"{"by":1}"#).refuses(404);
        client.json("POST /api/person/9/visits/increment", r#"{"by":1}"#).refuses(404);
        assert_eq!(client.get("/api/person/1?fields=visits").text(), r#"{"visits":2}"#);
        let id = client.json("POST /api/note", r#"{"words":"a","price":1.5}"#).value();
        let path = format!("POST /api/note/{}/price/increment", id["id"].as_str().unwrap());
        assert_eq!(client.json(&path, r#"{"by":0.25}"#).text(), r#"{"price":1.75}"#);
    });
}

//! What holds for every resource: methods, media types, bodies that are none,
//! errors of the engine, and the document of tables.

use serde_json::json;

use crate::service::on_every_engine;

const CURIE: &str = r#"{"first_name":"Marie","last_name":"Curie","year_of_birth":1867}"#;

#[test]
fn the_document_tells_of_every_table() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let document = client.get("/api").is(200);
        let tag = document.header("etag").unwrap().to_owned();
        let tables = document.value()["tables"].clone();
        let names: Vec<&str> = tables
            .as_array()
            .unwrap()
            .iter()
            .map(|table| table["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["person", "city", "note"]);
        assert_eq!(tables[0]["href"], "/api/person");
        assert_eq!(tables[0]["key"], "id");
        let field = |table: usize, name: &str| {
            let fields = tables[table]["fields"].as_array().unwrap();
            fields.iter().find(|field| field["name"] == name).unwrap().clone()
        };
        assert_eq!(
            field(0, "first_name"),
            json!({
                "name": "first_name", "kind": "text", "nullable": false, "unique": false,
                "max": 40, "rules": [{ "rule": "not_empty" }]
            })
        );
        assert_eq!(field(0, "email")["unique"], true);
        assert_eq!(field(0, "visits")["default"], 0);
        assert_eq!(field(0, "version")["role"], "version");
        assert_eq!(field(0, "year_of_birth")["rules"][0]["min"], -3000);
        assert_eq!(field(2, "state")["values"], json!(["draft", "final"]));
        assert_eq!(field(2, "state")["default"], "draft");
        assert_eq!(field(2, "of")["table"], "person");
        client.send("GET /api", &[&format!("If-None-Match: {tag}")], b"").is(304);
        client.get("/api?x=1").names(400, "x", "unknown");
    });
}

#[test]
fn methods_are_answered_or_named() {
    on_every_engine(|service| {
        let client = &mut service.client();
        client.json("POST /api/person", CURIE).is(201);
        let get = client.get("/api/person/1");
        let head = client.send("HEAD /api/person/1", &[], b"").is(200);
        assert_eq!(head.header("etag"), get.header("etag"));
        assert_eq!(head.header("content-length"), get.header("content-length"));
        assert_eq!(client.send("HEAD /api/person", &[], b"").is(200).body, b"");
        client.send("HEAD /api/person/9", &[], b"").is(404);
        for (path, allow) in [
            ("/api", "GET, HEAD, OPTIONS"),
            ("/api/person", "GET, HEAD, POST, DELETE, OPTIONS"),
            ("/api/person/1", "GET, HEAD, PUT, PATCH, DELETE, OPTIONS"),
            ("/api/person/1/photo", "GET, HEAD, PUT, OPTIONS"),
            ("/api/person/1/visits/increment", "POST, OPTIONS"),
            ("/api/batch", "POST, OPTIONS"),
        ] {
            let options = client.send(&format!("OPTIONS {path}"), &[], b"").is(204);
            assert_eq!(options.header("allow"), Some(allow));
            let refused = client.send(&format!("TRACE {path}"), &[], b"").refuses(405);
            assert_eq!(refused.header("allow"), Some(allow));
        }
        client.json("POST /api/person/1", CURIE).refuses(405);
        for path in ["/api/", "/api/person/", "/api/person/1/", "/api/a/b/c/d", "/api//"] {
            let answer = client.get(path);
            assert!([400, 404].contains(&answer.status), "{path}: {}", answer.text());
            let status = answer.status;
            answer.refuses(status);
        }
    });
}

#[test]
fn bodies_are_json() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let post = "POST /api/person";
        for kind in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/merge-patch+json",
            "application/x-www-form-urlencoded",
        ] {
            client.send(post, &[&format!("Content-Type: {kind}")], CURIE.as_bytes()).is(201);
        }
        client.send(post, &[], CURIE.as_bytes()).is(201);
        for kind in ["text/plain", "application/xml", "multipart/form-data", "json"] {
            client
                .send(post, &[&format!("Content-Type: {kind}")], CURIE.as_bytes())
                .refuses(415)
                .says("application/json");
        }
        // A page says what it sends, also one of this origin.
        let own = "Origin: http://localhost";
        client.send(post, &[own], CURIE.as_bytes()).refuses(415);
        let form = "Content-Type: application/x-www-form-urlencoded";
        client.send(post, &[own, form], CURIE.as_bytes()).refuses(415);
        let typed = "Content-Type: application/json";
        client.send(post, &[own, typed], CURIE.as_bytes()).is(201);
        let foreign = "Origin: https://elsewhere.example";
        client.send(post, &[foreign, typed], CURIE.as_bytes()).refuses(403).says("allowed_origins");
        for body in ["", "7", "null", "\"x\"", "{", "{\"first_name\":}", "{} x", "\u{feff}{}"] {
            for request in [post, "PATCH /api/person/1", "PUT /api/person/1"] {
                client.json(request, body).refuses(400);
            }
        }
        client.send(post, &[], b"{\"first_name\":\"\xff\"}").refuses(400);
        let deep = format!("{{\"first_name\":{}{}}}", "[".repeat(9_999), "]".repeat(9_999));
        let refused = client.json(post, &deep);
        assert!([400, 422].contains(&refused.status));
    });
}

#[test]
fn every_broken_rule_is_named() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let long = format!(r#""first_name":"{}""#, "é".repeat(41));
        for (change, field, rule) in [
            (r#""first_name":7"#, "first_name", "type"),
            (r#""first_name":null"#, "first_name", "required"),
            (r#""first_name":" ""#, "first_name", "not_empty"),
            (&long, "first_name", "max"),
            (r#""first_name":"\u0000""#, "first_name", "type"),
            (r#""first_nam":"x""#, "first_nam", "unknown"),
            (r#""first_name":"a","first_name":"b""#, "first_name", "twice"),
            (r#""year_of_birth":2101"#, "year_of_birth", "range"),
            (r#""year_of_birth":1.5"#, "year_of_birth", "type"),
            (r#""year_of_birth":9223372036854775808"#, "year_of_birth", "type"),
            (r#""email":"nobody""#, "email", "email"),
            (r#""visits":1001"#, "visits", "range"),
        ] {
            let body = format!(r#"{{"last_name":"x",{change}}}"#);
            client.json("POST /api/person", &body).names(422, field, rule);
        }
        let all = client.json("POST /api/person", r#"{"last_name":"","nope":1}"#).refuses(422);
        let errors = all.value()["errors"].clone();
        let named: Vec<&str> = errors
            .as_array()
            .unwrap()
            .iter()
            .map(|error| error["field"].as_str().unwrap())
            .collect();
        assert_eq!(named.len(), 4, "{named:?}");
        assert_eq!(client.get("/api/person?count=1").value()["count"], 0);

        let mailed = CURIE.replace('{', r#"{"email":"m@example.org","#);
        client.json("POST /api/person", &mailed).is(201);
        client.json("POST /api/person", &mailed).names(409, "email", "unique");
        client.json("POST /api/person", CURIE).is(201);
        client.json("PATCH /api/person/2", r#"{"email":"m@example.org"}"#).refuses(409);
    });
}

#[test]
fn a_row_that_is_referred_to_stays() {
    on_every_engine(|service| {
        let client = &mut service.client();
        client.json("POST /api/person", CURIE).is(201);
        client.json("POST /api/note", r#"{"words":"a","of":1}"#).is(201);
        client.json("DELETE /api/person/1", "").refuses(409);
        client.json("DELETE /api/person?filter=id=1", "").refuses(409);
        client.get("/api/person/1").is(200);
    });
}

#[test]
fn a_closed_store_is_a_503() {
    on_every_engine(|service| {
        let client = &mut service.client();
        client.json("POST /api/person", CURIE).is(201);
        service.store.close().unwrap();
        client.get("/api/person/1").refuses(503);
        client.json("POST /api/person", CURIE).refuses(503);
    });
}

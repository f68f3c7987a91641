//! Groups of rows, and counts.

use serde_json::{Value, json};

use crate::client::Client;
use crate::service::{on_every_cached_engine, on_every_engine};

fn seed(client: &mut Client) {
    let lives = [
        ("Marie", "Curie", 1867, Some(1934)),
        ("Pierre", "Curie", 1859, Some(1906)),
        ("Ada", "Lovelace", 1815, Some(1852)),
        ("Jocelyn", "Bell", 1943, None),
        ("Lise", "Bell", 1878, Some(1968)),
        ("Otto", "Bell", 1900, None),
    ];
    let rows = lives.map(|(first, last, born, died)| {
        json!({
            "first_name": first, "last_name": last, "year_of_birth": born, "year_of_death": died
        })
    });
    client.json("POST /api/person", &json!(rows).to_string()).is(201);
}

fn rows(client: &mut Client, query: &str) -> Value {
    client.get(&format!("/api/person?{query}")).is(200).value()["rows"].clone()
}

#[test]
fn rows_are_grouped() {
    on_every_engine(|service| {
        let client = &mut service.client();
        seed(client);
        for (query, wanted) in [
            (
                "group=last_name&select=count,max(year_of_birth)",
                json!([
                    { "last_name": "Bell", "count": 3, "max_year_of_birth": 1943 },
                    { "last_name": "Curie", "count": 2, "max_year_of_birth": 1867 },
                    { "last_name": "Lovelace", "count": 1, "max_year_of_birth": 1815 },
                ]),
            ),
            (
                "group=last_name&select=dead:count(year_of_death),sum(year_of_death)\
                 &having=dead>1&order=-sum_year_of_death",
                json!([{ "last_name": "Curie", "dead": 2, "sum_year_of_death": 3840 }]),
            ),
            ("group=last_name&order=-last_name&limit=1", json!([{ "last_name": "Lovelace" }])),
            (
                "select=count,avg(year_of_birth)&last_name=Curie&filter=id<9",
                json!([{ "count": 2, "avg_year_of_birth": 1863.0 }]),
            ),
            (
                "select=count,sum(visits),min(email)&last_name=nobody",
                json!([{ "count": 0, "sum_visits": null, "min_email": null }]),
            ),
            ("group=last_name&select=count&having=count>5", json!([])),
        ] {
            assert_eq!(rows(client, query), wanted, "{query}");
        }
    });
}

#[test]
fn bad_groups_are_named() {
    on_every_engine(|service| {
        let client = &mut service.client();
        for (query, field, rule) in [
            ("group=lastname", "lastname", "unknown"),
            ("group=", "", "unknown"),
            ("group=photo", "photo", "group"),
            ("group=last_name,last_name", "last_name", "twice"),
            ("group=id&group=id", "group", "twice"),
            ("select=median(id)", "median(id)", "unknown"),
            ("select=sum(last_name)", "last_name", "aggregate"),
            ("select=sum(lastname)", "lastname", "unknown"),
            ("select=sum(id", "sum(id", "syntax"),
            ("select=count,count", "count", "twice"),
            ("select=count&having=id>1", "id", "unknown"),
            ("select=count&having=count>'x'", "count", "type"),
            ("select=count&order=id", "id", "unknown"),
            ("select=count&limit=0", "limit", "range"),
            ("select=count&limit=51", "limit", "range"),
            ("select=count&after=x", "after", "unknown"),
            ("select=count&fields=id", "fields", "unknown"),
            ("select=count&nope=1", "nope", "unknown"),
        ] {
            client.get(&format!("/api/person?{query}")).names(400, field, rule);
        }
        client.get("/api/person?having=count>1").refuses(400).says("at least one computed value");
        client.get("/api/person?select=sum").refuses(400).says("needs a field");
        let many = vec!["count"; 17].join(",");
        client.get(&format!("/api/person?select={many}")).refuses(400).says("at most 16");
    });
}

#[test]
fn a_sum_beyond_its_range_is_an_error() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let row = |code: &str| json!({ "code": code, "name": "x", "people": i64::MAX });
        client.json("POST /api/city", &json!([row("a"), row("b")]).to_string()).is(201);
        client.get("/api/city?select=sum(people)").refuses(400).says("a sum of `people` exceeds");
    });
}

#[test]
fn groups_have_a_tag_until_the_table_changes() {
    on_every_cached_engine(|service| {
        let client = &mut service.client();
        seed(client);
        let target = "GET /api/person?group=last_name&select=count";
        let tag = client.json(target, "").is(200).header("etag").unwrap().to_owned();
        let header = format!("If-None-Match: {tag}");
        client.send(target, &[&header], b"").is(304);
        client.json("DELETE /api/person/1", "").is(204);
        client.send(target, &[&header], b"").is(200);
    });
}

#[test]
fn rows_are_counted() {
    on_every_engine(|service| {
        let client = &mut service.client();
        seed(client);
        let none = client.get("/api/person?limit=0&count=true&last_name=Curie").is(200);
        assert_eq!(none.text(), r#"{"rows":[],"next":null,"count":2}"#);
        assert_eq!(none.header("marmota-count"), Some("2"));
        client.get("/api/person?limit=0").names(400, "limit", "range");
        client.get("/api/person?limit=0&count=false").names(400, "limit", "range");
        let head = client.json("HEAD /api/person?last_name=Bell&limit=1", "").is(200);
        assert_eq!(head.header("marmota-count"), Some("3"));
        assert!(head.header("link").is_some());
        let page = client.get("/api/person?limit=1").is(200);
        assert_eq!(page.header("marmota-count"), None);
        for word in ["exact", "estimated"] {
            let prefer = format!("Prefer: count={word}");
            let page = client.send("GET /api/person?limit=1", &[&prefer], b"").is(200);
            assert_eq!(page.value()["count"], 6);
            // These engines count; PostgreSQL estimates.
            assert_eq!(page.header("preference-applied"), Some("count=exact"));
        }
        let wrong = client.send("GET /api/person", &["Prefer: count=planned"], b"");
        wrong.refuses(400).says("exact or estimated");
    });
}

//! Lists: filters, orders, chosen fields, pages.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::client::Client;
use crate::service::{on_every_cached_engine, on_every_engine};

const LIVES: [(&str, &str, i64, Option<i64>); 6] = [
    ("Marie", "Curie", 1867, Some(1934)),
    ("Pierre", "Curie", 1859, Some(1906)),
    ("Ada", "Lovelace", 1815, Some(1852)),
    ("Jocelyn", "Bell Burnell", 1943, None),
    ("Lise", "Meitner", 1878, Some(1968)),
    ("O'Neill", "O\"Neil", 1900, None),
];

fn seed(client: &mut Client) {
    let rows: Vec<Value> = LIVES
        .iter()
        .map(|(first, last, born, died)| {
            json!({
                "first_name": first, "last_name": last, "year_of_birth": born,
                "year_of_death": died
            })
        })
        .collect();
    client.json("POST /api/person", &json!(rows).to_string()).is(201);
}

fn ids(answer: &Value) -> Vec<i64> {
    answer["rows"].as_array().unwrap().iter().map(|row| row["id"].as_i64().unwrap()).collect()
}

#[test]
fn filters_and_orders_select_and_sort() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let empty = client.get("/api/person").is(200);
        assert_eq!(empty.text(), r#"{"rows":[],"next":null}"#);
        assert_eq!(empty.header("link"), None);
        seed(client);
        for (query, wanted) in [
            ("", &[1, 2, 3, 4, 5, 6][..]),
            ("last_name=Curie", &[1, 2]),
            ("last_name=Curie&first_name=Marie", &[1]),
            ("year_of_death=null", &[4, 6]),
            ("filter=last_name%20%5E%20'cur'%20and%20year_of_death%20%3E%201910", &[1]),
            ("filter=year_of_death=null&last_name=Bell+Burnell", &[4]),
            ("last_name=O%22Neil", &[6]),
            ("filter=first_name='O''Neill'", &[6]),
            ("filter=id+in+(5,3)&order=id", &[3, 5]),
            ("order=-year_of_birth", &[4, 6, 5, 1, 2, 3]),
            ("order=last_name,-id", &[4, 2, 1, 3, 5, 6]),
            ("order=year_of_death,id", &[4, 6, 3, 2, 1, 5]),
            ("order=-year_of_death", &[5, 1, 2, 3, 6, 4]),
            ("last_name=nobody", &[]),
        ] {
            let answer = client.get(&format!("/api/person?{query}")).is(200).value();
            assert_eq!(ids(&answer), wanted, "{query}");
        }
        let counted = client.get("/api/person?last_name=Curie&count=true&limit=1").value();
        assert_eq!((&counted["count"], ids(&counted)), (&json!(2), vec![1]));
        let chosen = client.get("/api/person?fields=first_name&order=last_name&limit=2");
        assert!(
            chosen.text().starts_with(
                r#"{"rows":[{"first_name":"Jocelyn"},{"first_name":"Marie"}],"next":"/api"#
            ),
            "{}",
            chosen.text()
        );
    });
}

#[test]
fn bad_parameters_are_named() {
    on_every_engine(|service| {
        let client = &mut service.client();
        for (query, field, rule) in [
            ("limit=0", "limit", "range"),
            ("limit=51", "limit", "range"),
            ("limit=-1", "limit", "range"),
            ("limit=many", "limit", "range"),
            ("limit=1&limit=2", "limit", "twice"),
            ("count=perhaps", "count", "type"),
            ("offset=10", "offset", "unknown"),
            ("lastname=Curie", "lastname", "unknown"),
            ("last_name=a&last_name=b", "last_name", "twice"),
            ("year_of_birth=soon", "year_of_birth", "type"),
            ("photo=x", "photo", "type"),
            ("filter=lastname='x'", "lastname", "unknown"),
            ("filter=year_of_birth='x'", "year_of_birth", "type"),
            ("order=lastname", "lastname", "unknown"),
            ("order=photo", "photo", "order"),
            ("order=", "", "unknown"),
            ("fields=id,nope", "nope", "unknown"),
            ("after=x", "after", "cursor"),
            ("after=WzFd&order=last_name", "after", "cursor"),
            ("after=W251bGxd", "after", "cursor"),
            ("after=WyJ4Il0", "after", "cursor"),
        ] {
            client.get(&format!("/api/person?{query}")).names(400, field, rule);
        }
        for filter in
            ["", "id", "id=", "(id=1", "id=1;drop", "last_name=x", "id<null", "%00", "%ff"]
        {
            client.get(&format!("/api/person?filter={filter}")).refuses(400);
        }
        let deep = format!("{}id=1{}", "(".repeat(100), ")".repeat(100));
        client.get(&format!("/api/person?filter={deep}")).refuses(400).says("too deep");
        let wide = vec!["id=1"; 600].join("+or+");
        client.get(&format!("/api/person?filter={wide}")).refuses(400);
        client.get("/api/person?limit=51").says("between 1 and 50");
        client.get("/api/nope").refuses(404).says("person, city, note");
    });
}

#[test]
fn rows_are_deleted_by_a_filter_that_is_asked_for() {
    on_every_engine(|service| {
        let client = &mut service.client();
        seed(client);
        client.json("DELETE /api/person", "").names(400, "filter", "required").says("id != null");
        client.json("DELETE /api/person?last_name=Curie", "").names(400, "last_name", "unknown");
        client.json("DELETE /api/person?filter=lastname='x'", "").names(400, "lastname", "unknown");
        let deleted = client.json("DELETE /api/person?filter=last_name='Curie'", "").is(200);
        assert_eq!(deleted.text(), r#"{"deleted":2}"#);
        let deleted = client.json("DELETE /api/person?filter=id%20!=%20null", "").is(200);
        assert_eq!(deleted.text(), r#"{"deleted":4}"#);
        assert_eq!(ids(&client.get("/api/person").value()), [0; 0]);
    });
}

/// Follows `next` to the end and checks that `Link` says the same.
fn walk(client: &mut Client, first: &str) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut target = first.to_owned();
    loop {
        let answer = client.get(&target).is(200);
        let page = answer.value();
        rows.extend(page["rows"].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            None => {
                assert_eq!(answer.header("link"), None);
                return rows;
            }
            Some(next) => {
                assert_eq!(answer.header("link"), Some(&*format!("<{next}>; rel=\"next\"")));
                assert_eq!(next.matches("after=").count(), 1);
                next.clone_into(&mut target);
            }
        }
    }
}

#[test]
fn pages_are_the_whole_list() {
    on_every_engine(|service| {
        let client = &mut service.client();
        seed(client);
        for query in [
            "order=id",
            "order=-id",
            "order=last_name",
            "order=-last_name,first_name",
            "order=year_of_death",
            "order=-year_of_death",
            "order=-created_at,visits",
            "order=year_of_death&filter=year_of_birth%20%3E%201816",
            "order=email",
        ] {
            let whole = client.get(&format!("/api/person?{query}")).is(200).value();
            for limit in 1..=6 {
                let walked = walk(client, &format!("/api/person?limit={limit}&{query}"));
                assert_eq!(json!(walked), whole["rows"], "{query} by {limit}");
            }
        }
        // Fields of the order need not be shown.
        let walked = walk(client, "/api/person?limit=2&order=-year_of_birth&fields=first_name");
        assert_eq!(walked.len(), 6);
        assert_eq!(walked[0], json!({ "first_name": "Jocelyn" }));
        // A start that no page gave is refused.
        for forged in ["Wzk5OTld", "Wy0xXQ"] {
            let refused = client.get(&format!("/api/person?after={forged}")).is(400).value();
            assert_eq!(refused["errors"][0]["rule"], "cursor");
        }
    });
}

#[test]
fn a_walk_sees_every_row_once_while_others_come() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let born = |at: usize| 1000 + at * 7 % 100;
        let row = |name: &str, born: usize| json!({ "first_name": name, "last_name": "x", "year_of_birth": born });
        let rows: Vec<Value> = (0..120).map(|at| row("first", born(at))).collect();
        client.json("POST /api/person", &json!(rows).to_string()).is(201);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let other = &mut service.client();
                for at in (0..2_000).take_while(|_| !done.load(Ordering::Relaxed)) {
                    other.json("POST /api/person", &row("later", born(at)).to_string()).is(201);
                }
            });
            for query in ["order=-year_of_birth", "order=year_of_birth,-id", "order=id"] {
                let walked = walk(client, &format!("/api/person?limit=7&{query}"));
                let mut seen: Vec<i64> = walked
                    .iter()
                    .filter(|row| row["first_name"] == "first")
                    .map(|row| row["id"].as_i64().unwrap())
                    .collect();
                seen.sort_unstable();
                assert_eq!(seen, (1..=120).collect::<Vec<_>>(), "{query}");
            }
            done.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn next_keeps_what_was_asked_for() {
    on_every_engine(|service| {
        let client = &mut service.client();
        seed(client);
        let asked = "/api/person?limit=1&filter=last_name%20=%20%22Curie%22&fields=id";
        let page = client.get(asked).is(200);
        let next = page.value()["next"].as_str().unwrap().to_owned();
        assert!(next.starts_with(&format!("{asked}&after=")), "{next}");
        assert_eq!(walk(client, asked), [json!({ "id": 1 }), json!({ "id": 2 })]);
    });
}

#[test]
fn a_page_has_a_tag_until_its_table_is_written_to() {
    on_every_cached_engine(|service| {
        let client = &mut service.client();
        seed(client);
        for target in ["/api/person?limit=2&count=true", "/api/person?order=-year_of_birth"] {
            let first = client.get(target).is(200);
            let tag = first.header("etag").expect("a tag").to_owned();
            let if_none_match = format!("If-None-Match: {tag}");
            // From the cache: the same to the letter.
            let second = client.get(target).is(200);
            assert_eq!(second.text(), first.text());
            for header in ["etag", "link", "content-type"] {
                assert_eq!(second.header(header), first.header(header), "{header}");
            }
            let request = format!("GET {target}");
            let unmodified = client.send(&request, &[&if_none_match], b"").is(304);
            assert_eq!(unmodified.header("etag"), Some(&*tag));
            assert_eq!(unmodified.text(), "");
            // Another table's rows change nothing, this table's do.
            client.json("POST /api/note", r#"{"words":"x"}"#).is(201);
            client.send(&request, &[&if_none_match], b"").is(304);
            client.json("PATCH /api/person/1", r#"{"first_name":"Maria"}"#).is(200);
            let third = client.send(&request, &[&if_none_match], b"").is(200);
            assert_ne!(third.header("etag"), Some(&*tag));
            client.json("PATCH /api/person/1", r#"{"first_name":"Marie"}"#).is(200);
        }
        let other = client.get("/api/person?limit=1").is(200);
        assert_ne!(other.header("etag"), client.get("/api/person?limit=2").is(200).header("etag"));
        client.get("/api/person?filter=nothing").is(400);
        client.get("/api/person?filter=nothing").is(400);
    });
}

#[test]
fn rows_are_arrays_of_values_for_those_who_prefer_it() {
    const COLUMNS: &str = "Accept: application/json; profile=columns";
    on_every_cached_engine(|service| {
        let client = &mut service.client();
        let get = |client: &mut Client, query: &str, accept: &str| {
            client.send(&format!("GET /api/person{query}"), &[accept], b"")
        };
        let empty = get(client, "?fields=id,last_name", COLUMNS).is(200);
        assert_eq!(empty.text(), r#"{"columns":["id","last_name"],"rows":[],"next":null}"#);
        seed(client);
        // A page as objects first: its tag and its place in the cache are not those of the arrays.
        let page = client.get("/api/person?order=id&limit=2&count=true").is(200);
        let tag = page.header("etag").map(str::to_owned);
        let answer = get(client, "?order=id&limit=2&count=true", COLUMNS).is(200);
        assert_eq!(answer.header("content-type"), Some("application/json; profile=columns"));
        assert_eq!(answer.header("etag"), None);
        let (page, answer) = (page.value(), answer.value());
        let columns: Vec<&str> = answer["columns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        let row_of = |values: &Value| -> Value {
            let values = values.as_array().unwrap();
            assert_eq!(values.len(), columns.len());
            columns.iter().copied().map(str::to_owned).zip(values.iter().cloned()).collect()
        };
        let rows: Vec<Value> = answer["rows"].as_array().unwrap().iter().map(row_of).collect();
        assert_eq!(json!(rows), page["rows"]);
        assert_eq!((&answer["next"], &answer["count"]), (&page["next"], &page["count"]));
        if let Some(tag) = tag {
            let known = format!("If-None-Match: {tag}");
            let target = "GET /api/person?order=id&limit=2&count=true";
            client.send(target, &[COLUMNS, &known], b"").is(200);
        }
        let next = answer["next"].as_str().unwrap().to_owned();
        let next = client.send(&format!("GET {next}"), &[COLUMNS], b"").is(200).value();
        assert_eq!(next["rows"][0][0], 3);
        let answer = get(client, "?fields=last_name&id=6", COLUMNS).is(200).text();
        assert_eq!(answer, r#"{"columns":["last_name"],"rows":[["O\"Neil"]],"next":null}"#);
        get(client, "?group=last_name", COLUMNS).is(406);
        get(client, "?fields=x", COLUMNS).is(400);
        assert!(get(client, "", "Accept: application/json").is(200).text().starts_with("{\"rows"));
    });
}

#[test]
fn a_list_of_arrays_is_smaller() {
    on_every_engine(|service| {
        let client = &mut service.client();
        for _ in 0..17 {
            seed(client);
        }
        // The service of the tests has pages of up to 50 rows.
        let mut bytes_of_100_rows = |headers: &[&str]| {
            let (mut target, mut bytes) = ("/api/person?limit=50".to_owned(), 0);
            for _ in 0..2 {
                let page = client.send(&format!("GET {target}"), headers, b"").is(200);
                bytes += page.text().len();
                target = page.value()["next"].as_str().unwrap().to_owned();
            }
            bytes
        };
        let objects = bytes_of_100_rows(&[]);
        let arrays = bytes_of_100_rows(&["Accept: application/json; profile=columns"]);
        println!("100 rows: {objects} bytes as objects, {arrays} as arrays");
        assert!(arrays * 3 < objects * 2, "{arrays} of {objects} bytes");
    });
}

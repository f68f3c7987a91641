//! Pages in the order `rank` over REST: scores, extracts, pages that continue, bad input.

use marmota_http::Server;
use marmota_memory::Memory;
use marmota_model::{Field, Kind, Role, Schema};
use marmota_rest::Api;
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::Store;
use serde_json::{Value, json};

use crate::client::Client;
use crate::slow::slow;

fn on_engines(test: impl Fn(&mut Client)) {
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("title", Kind::TEXT).search(true),
        Field::new("text", Kind::TEXT).search(true).nullable(true),
        Field::new("code", Kind::TEXT),
        Field::new("place", Kind::Vector { dimensions: 2 }).nullable(true),
    ];
    let sqlite = Sqlite::open(Location::Memory, SqliteOptions::default()).unwrap();
    for builder in [Store::builder(slow(Memory::new())), Store::builder(sqlite).cache(1 << 20)] {
        let shop = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("lat", Kind::Float).nullable(true),
            Field::new("lon", Kind::Float).nullable(true),
        ];
        let builder = builder.schema(Schema::new("shop", shop));
        let store = builder.schema(Schema::new("note", fields.clone())).open().unwrap();
        let router = Api::new(&store).router();
        let server = Server::bind("127.0.0.1:0").unwrap().start(router).unwrap();
        let client = &mut Client::new(server.local_addr());
        let rows = json!([
            {"title": "Dogs", "text": "A <dog> saw a marmot & slept.", "code": "a", "place": [0.1, -1]},
            {"title": "Marmots: the marmot", "text": null, "code": "b", "place": [2, 3]},
            {"title": "Marmot", "text": "The marmot", "code": "c"},
            {"title": "Cats", "text": "None", "code": "d"},
        ]);
        client.json("POST /api/note", &rows.to_string()).is(201);
        test(client);
    }
}

fn page(client: &mut Client, url: &str) -> Value {
    client.get(url).is(200).value()
}

fn ids(page: &Value) -> Vec<i64> {
    page["rows"].as_array().unwrap().iter().map(|row| row["id"].as_i64().unwrap()).collect()
}

#[test]
fn pages_are_ranked() {
    on_engines(|client| {
        let url = "/api/note?filter=@%20'marmot'&order=rank&snippet=title,text&count=true";
        let whole = page(client, url);
        assert_eq!((ids(&whole), &whole["count"]), (vec![3, 2, 1], &json!(3)));
        assert_eq!(
            whole["rows"][2],
            json!({"id": 1, "title": "Dogs",
            "text": "A <dog> saw a marmot & slept.", "code": "a", "place": [0.1, -1.0]})
        );
        let scores: Vec<f64> =
            whole["scores"].as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect();
        assert!(scores.len() == 3 && scores.is_sorted_by(|a, b| a >= b));
        assert_eq!(
            whole["snippets"],
            json!([
                {"title": "<mark>Marmot</mark>", "text": "The <mark>marmot</mark>"},
                {"title": "Marmots: the <mark>marmot</mark>", "text": null},
                {"title": "Dogs",
                 "text": "A &lt;dog&gt; saw a <mark>marmot</mark> &amp; slept."},
            ])
        );
        // Pages continue after the score and the key of a row, with the fields that are chosen.
        let mut url = "/api/note?filter=@%20'marmot'&order=rank&limit=1&fields=id".to_owned();
        let mut read = Vec::new();
        loop {
            let one = page(client, &url);
            assert_eq!(one["rows"][0].as_object().unwrap().len(), 1);
            read.extend(ids(&one));
            match one["next"].as_str() {
                Some(next) => next.clone_into(&mut url),
                None => break,
            }
        }
        assert_eq!(read, [3, 2, 1]);
        let other = url.replace("'marmot'", "'dogs'");
        assert!(url.contains("after="));
        client.get(&other).is(400);
        // Extracts without the order have no scores.
        let plain = page(client, "/api/note?filter=@%20'dog'&snippet=text");
        assert_eq!(plain.get("scores"), None);
        assert_eq!(
            plain["snippets"][0]["text"],
            "A &lt;<mark>dog</mark>&gt; saw a marmot &amp; slept."
        );
    });
}

#[test]
fn bad_orders_are_named() {
    on_engines(|client| {
        for query in [
            "order=rank",
            "filter=not%20@%20'marmot'&order=rank",
            "filter=@%20'marmot'&order=rank,id",
            "filter=@%20'marmot'&order=rank&after=abc",
            "filter=@%20'marmot'&order=rank&limit=10001",
            "filter=@%20'marmot'&snippet=code",
            "filter=@%20'marmot'&snippet=name",
            "snippet=text",
            "group=code&select=count&snippet=text",
        ] {
            client.get(&format!("/api/note?{query}")).is(400);
        }
        // Lines and events have no computed order.
        for accept in ["application/x-ndjson", "text/event-stream"] {
            for query in ["order=rank", "snippet=text"] {
                let head = &format!("GET /api/note?filter=@%20'marmot'&{query}");
                client.send(head, &[&format!("Accept: {accept}")], b"").is(400);
            }
        }
    });
}

#[test]
fn vectors_are_arrays() {
    on_engines(|client| {
        for bad in ["[1]", "[1,2,3]", "[1,null]", "[1,1e39]", "[\"1\",2]", "\"AAAA\"", "{}", "7"] {
            let row = format!("{{\"title\":\"x\",\"code\":\"x\",\"place\":{bad}}}");
            client.json("POST /api/note", &row).names(422, "place", "type");
        }
        client.json("PATCH /api/note/3", "{\"place\":[0.25,3e5]}").is(200);
        assert_eq!(page(client, "/api/note/3")["place"], json!([0.25, 300_000.0]));
        client.json("PATCH /api/note/3", "{\"place\":null}").is(200);
        for (order, wanted, scores) in [
            ("near(place,[1,1])", vec![2, 1], json!([0.019_419, 1.633_238])),
            ("near(place,[1,1],l2)", vec![1, 2], json!([2.193_171, 2.236_068])),
            ("near(place,[1,1],%20dot)", vec![2, 1], json!([-5.0, 0.9])),
            ("near(place,'AACAPwAAgD8',l2)", vec![1, 2], json!([2.193_171, 2.236_068])),
        ] {
            let found = page(client, &format!("/api/note?order={order}"));
            let near = |(a, b): (&Value, &Value)| {
                (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 0.000_01
            };
            let found_scores = found["scores"].as_array().unwrap();
            assert!(found_scores.iter().zip(scores.as_array().unwrap()).all(near), "{found}");
            assert_eq!(ids(&found), wanted, "{order}");
        }
        let own = page(client, "/api/note?order=near(place,[1,1])&code=a&limit=1&fields=id");
        assert_eq!((ids(&own), &own["next"]), (vec![1], &Value::Null));
        let first = page(client, "/api/note?order=near(place,[1,1])&limit=1&fields=id");
        let next = first["next"].as_str().unwrap();
        assert_eq!(ids(&page(client, next)), [1]);
        for query in [
            "order=near(place,[1])",
            "order=near(code,[1,1])",
            "order=near(position,[1,1])",
            "order=near(place,[1,1],l1)",
            "order=near(place,[1,1]",
            "order=near(place,[1,1]),id",
            "order=place",
            "place=[1,1]",
            "group=place&select=count",
            "order=near(place,[1,1])&after=WyJB",
        ] {
            client.get(&format!("/api/note?{query}")).is(400);
        }
        assert_eq!(ids(&page(client, "/api/note?place=null")), [3, 4]);
    });
}

#[test]
fn places_are_found_by_circle_and_box_and_sorted_by_distance() {
    on_engines(|client| {
        let rows = json!([
            {"lat": 48.1374, "lon": 11.5755},
            {"lat": 52.52, "lon": 13.405},
            {"lat": 48.1499, "lon": 11.4616},
            {"lat": null, "lon": 11.5},
        ]);
        client.json("POST /api/shop", &rows.to_string()).is(201);
        let near = "near(lat,lon,48.1402,11.56";
        let found = page(client, &format!("/api/shop?filter={near},5000)"));
        assert_eq!(ids(&found), [1]);
        let found = page(client, "/api/shop?filter=within(lat,%20lon,%2048,%20-170,%2049,%2012)");
        assert_eq!(ids(&found), [1, 3]);
        let url = format!("/api/shop?filter={near},1e4)&order={near})&limit=1&fields=id");
        let first = page(client, &url);
        assert_eq!(ids(&first), [1]);
        let metres = first["scores"][0].as_f64().unwrap();
        assert!((metres - 1192.0).abs() < 1.0, "{metres}");
        assert_eq!(ids(&page(client, first["next"].as_str().unwrap())), [3]);
        for query in [
            "filter=near(lat,lon,48.1,11.5)",
            "filter=near(lat,id,48.1,11.5,5)",
            "filter=near(lat,lon,98.1,11.5,5)",
            "filter=within(lat,lon,48,11,47,12)",
            "order=near(lat,lon,48.1)",
            "order=near(lat,lon,48.1,181)",
            "order=near(lat,lon,48.1,11.5),id",
        ] {
            client.get(&format!("/api/shop?{query}")).is(400);
        }
        let refused = client.get("/api/shop?filter=near(lat,id,48.1,11.5,5)").is(400).value();
        assert_eq!(refused["errors"][0]["field"], "id", "{refused}");
    });
}

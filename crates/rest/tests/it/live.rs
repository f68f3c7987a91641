//! Live lists: a page and its changes as server-sent events.

use marmota_memory::Memory;
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::Store;
use marmota_store::change::ChangeRetention;
use serde_json::json;

use crate::client::Client;
use crate::live_events::Events;
use crate::service::Service;

pub(crate) fn on_every_engine(test: impl Fn(&Service)) {
    let sqlite = Sqlite::open(Location::Memory, SqliteOptions::default()).unwrap();
    for builder in [Store::builder(Memory::new()), Store::builder(sqlite)] {
        test(&Service::of("live", builder.changes(ChangeRetention::default())));
    }
}

pub(crate) fn person(name: &str, visits: i64) -> String {
    json!({ "first_name": name, "last_name": "L", "year_of_birth": 1900, "visits": visits })
        .to_string()
}

/// A small generator of numbers (xorshift).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

pub(crate) fn write(client: &mut Client, random: &mut Random) {
    let id = 1 + random.below(30);
    let visits = random.below(20) as i64;
    match random.below(6) {
        0..3 => drop(client.json("POST /api/person", &person("P\n\"é", visits)).is(201)),
        3..5 => {
            let body = json!({ "visits": visits }).to_string();
            client.json(&format!("PATCH /api/person/{id}"), &body);
        }
        _ => drop(client.json(&format!("DELETE /api/person/{id}"), "")),
    }
}

#[test]
fn events_lead_to_the_document_of_a_plain_get() {
    on_every_engine(|service| {
        let client = &mut service.client();
        for number in 0..10 {
            client.json("POST /api/person", &person("A", number)).is(201);
        }
        let page = client.get("/api/person?order=visits&limit=2").value();
        let next = page["next"].as_str().unwrap().to_owned();
        let targets = [
            "/api/person",
            "/api/person?order=-visits&limit=3&count=true",
            "/api/person?visits=7&fields=id,visits",
            "/api/person?filter=visits%20%3E%208&order=first_name,-visits&fields=id&limit=2",
            "/api/note?count=true",
            &next,
        ];
        let open = |target: &&str| Events::open(service.address(), target, "");
        let mut events: Vec<Events> = targets.iter().map(open).collect();
        for (events, target) in events.iter_mut().zip(targets) {
            assert_eq!(events.next(), "snapshot");
            assert_eq!(events.snapshot, client.get(target).text(), "{target}");
            assert_eq!(events.id.len(), 32);
        }
        let mut random = Random(88_172_645_463_325_252);
        for _ in 0..30 {
            (0..4).for_each(|_| write(client, &mut random));
            for (events, target) in events.iter_mut().zip(targets) {
                events.follow(&client.get(target).is(200).value());
            }
        }
        for events in events {
            assert!(events.names[1..].iter().all(|name| name == "patch"), "{:?}", events.names);
        }
    });
}

#[test]
fn a_client_continues_after_its_last_event() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let target = "/api/person?order=-visits&limit=3&count=true";
        for number in 0..8 {
            client.json("POST /api/person", &person("A", number)).is(201);
        }
        let mut events = Events::open(service.address(), target, "");
        events.next();
        let mut random = Random(2_463_534_242);
        for round in 0..10 {
            let (document, id) = (events.document.clone(), events.id.clone());
            drop(events);
            (0..round % 4).for_each(|_| write(client, &mut random));
            let header = format!("Last-Event-ID: {id}\r\n");
            events = Events::open(service.address(), target, &header);
            events.document = document;
            client.json("POST /api/person", &person("B", 19)).is(201);
            events.follow(&client.get(target).is(200).value());
            assert!(events.names.iter().all(|name| name == "patch"), "{:?}", events.names);
        }
        let other = "Last-Event-ID: 0123456789abcdef0000000000000001\r\n";
        let mut events = Events::open(service.address(), target, other);
        assert_eq!(events.next(), "snapshot");
        events.follow(&client.get(target).is(200).value());
    });
}

#[test]
fn bad_requests_are_refused_before_the_stream() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let mut get = |target: &str, header: &str| {
            client.send(&format!("GET {target}"), &["Accept: text/event-stream", header], b"")
        };
        get("/api/person", "Last-Event-ID: 7").refuses(400).says("not a position");
        get("/api/person?limit=0", "X: y").names(400, "limit", "range");
        get("/api/person?fields=id,photo", "X: y").refuses(400).says("`photo`");
        get("/api/nope", "X: y").refuses(404);
        get("/api/person/1", "X: y").refuses(406);
    });
    let service = Service::memory();
    let client = &mut service.client();
    let refused = client.send("GET /api/person", &["Accept: text/event-stream"], b"");
    refused.refuses(501).says("StoreBuilder::changes").says("serve --changes");
    // A page is preferred by clients that accept anything, or name it first.
    for accept in ["*/*", "application/json, text/event-stream", "text/event-stream;q=0.1, */*"] {
        let answer = client.send("GET /api/person", &[&format!("Accept: {accept}")], b"");
        assert_eq!(answer.is(200).header("content-type"), Some("application/json"));
    }
}

#[test]
fn a_description_names_events_of_stores_with_a_feed() {
    let service = Service::memory();
    let without = service.client().get("/api/openapi.json").is(200).text();
    assert!(!without.contains("text/event-stream"));
    on_every_engine(|service| {
        let document = service.client().get("/api/openapi.json").is(200).value();
        let list = &document["paths"]["/api/person"]["get"]["responses"]["200"]["content"];
        assert!(list.get("text/event-stream").is_some(), "{list}");
    });
}

#[cfg(feature = "auth")]
mod of_callers {
    use std::time::Duration;

    use marmota_auth::{Auth, Settings};
    use marmota_http::Server;
    use marmota_model::{Field, Kind, Role, Schema};
    use marmota_rest::Api;
    use marmota_store::rights::{Grant, Right};

    use super::*;
    use crate::auth::PASSWORD;

    #[test]
    fn callers_get_the_rows_that_they_may_read() {
        let fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("owner", Kind::I64),
            Field::new("text", Kind::TEXT),
        ];
        let builder = Store::builder(Memory::new()).schema(Schema::new("note", fields));
        let store = marmota_auth::models(builder.changes(ChangeRetention::default()));
        let store = store.open().unwrap();
        let auth = Auth::new(&store, Settings::default().password_cost(64, 1)).unwrap();
        let server = Server::bind("127.0.0.1:0").unwrap().listeners(2);
        let server = server.start(Api::new(&store).auth(&auth).router()).unwrap();
        let notes = store.table("note").unwrap();
        let insert = |owner: i64, text: &str| {
            let mut note = marmota_model::Record::new(std::sync::Arc::clone(&notes));
            note.set("owner", owner).unwrap();
            note.set("text", text).unwrap();
            store.insert_record(&note).run().unwrap();
        };
        let own = |rule: &str| Grant::new("note", &[Right::Read]).rule(rule.to_owned());
        auth.set_group("writers", &[own("owner = @user.id")]).unwrap();
        let (user, token) = auth.add_user("ann", &["writers".to_owned()], false).unwrap();
        let client = &mut Client::new(server.local_addr());
        let body = json!({ "name": "ann", "token": token, "password": PASSWORD }).to_string();
        client.json("POST /api/auth/set-password", &body).is(204);
        let body = json!({ "name": "ann", "password": PASSWORD }).to_string();
        let login = client.json("POST /api/auth/login", &body).is(200).value();
        let header = format!("Authorization: Bearer {}\r\n", login["token"].as_str().unwrap());
        insert(user, "a");
        insert(user + 1, "hidden");
        let mut events = Events::open(server.local_addr(), "/api/note?count=true", &header);
        events.next();
        assert_eq!(events.document["count"], 1);
        insert(user + 1, "hidden, too");
        insert(user, "b");
        assert_eq!(events.next(), "patch");
        assert_eq!(events.document["rows"][1]["text"], "b");
        assert_eq!(events.document["count"], 2);
        // Other rights lead to another page at once, without a write.
        let (old, old_id) = (events.document.clone(), events.id.clone());
        auth.set_group("writers", &[own("owner > 0")]).unwrap();
        assert_eq!(events.next(), "snapshot");
        assert_eq!(events.document["count"], 4);
        // An event of the page with other rights is not continued with a patch.
        assert_ne!(old["count"], events.document["count"]);
        for name in ["snapshot", "patch"] {
            let id = if name == "snapshot" { &old_id } else { &events.id };
            let headers = format!("{header}Last-Event-ID: {id}\r\n");
            let mut again = Events::open(server.local_addr(), "/api/note?count=true", &headers);
            again.document = events.document.clone();
            insert(user, "c");
            events.next();
            while again.document != events.document {
                again.next();
            }
            assert_eq!(again.names[0], name);
        }
        // Without the right to read, and after the end of the login, the response ends.
        auth.set_group("writers", &[]).unwrap();
        assert!(!events.next_within(Duration::from_secs(20)) && events.is_ended);
        auth.set_group("writers", &[own("owner > 0")]).unwrap();
        let mut events = Events::open(server.local_addr(), "/api/note?count=true", &header);
        events.next();
        client.send("POST /api/auth/logout", &[header.trim_end()], b"").is(204);
        insert(user, "d");
        assert!(!events.next_within(Duration::from_secs(20)) && events.is_ended);
    }
}

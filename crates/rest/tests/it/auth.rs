//! Who calls, over HTTP: tokens, cookies, and rights in every kind of answer.

use marmota_auth::{Auth, Settings};
use marmota_http::{RunningServer, Server};
use marmota_memory::Memory;
use marmota_model::{Field, Kind, Role, Schema};
use marmota_rest::Api;
use marmota_store::engine::Engine;
use marmota_store::rights::{Grant, Right};
use marmota_store::{Idempotency, Store, StoreBuilder};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::databases::databases;
use crate::slow::slow;

pub(crate) const PASSWORD: &str = "correct horse";

pub(crate) struct Guarded {
    pub(crate) store: Store,
    pub(crate) auth: Auth,
    server: RunningServer,
}

fn note() -> Schema {
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("owner", Kind::I64),
        Field::new("text", Kind::TEXT),
        Field::new("version", Kind::I64).role(Role::Version),
    ];
    Schema::new("note", fields).audit(true)
}

impl Guarded {
    pub(crate) fn new(engine: impl Engine + 'static, settings: Settings) -> Self {
        Self::open(Store::builder(engine), settings)
    }

    fn open(builder: StoreBuilder, settings: Settings) -> Self {
        let builder = builder.cache(1 << 20).schema(note());
        let builder = builder.idempotency(Idempotency::default());
        let store = marmota_auth::models(builder).open().unwrap();
        let auth = Auth::new(&store, settings.password_cost(64, 1)).unwrap();
        let api = Api::new(&store).auth(&auth);
        let server = Server::bind("127.0.0.1:0").unwrap().listeners(2).start(api.router()).unwrap();
        Self { store, auth, server }
    }

    fn notes(&self) -> u64 {
        let table = self.store.table("note").unwrap();
        self.store.list_records(&table).run().unwrap().len() as u64
    }

    /// One whose clients are a trusted proxy.
    fn behind_proxy(settings: Settings) -> Self {
        let store = marmota_auth::models(Store::builder(Memory::new()).schema(note()));
        let store = store.open().unwrap();
        let auth = Auth::new(&store, settings.password_cost(64, 1)).unwrap();
        let server = Server::bind("127.0.0.1:0").unwrap().listeners(1);
        let server = server.trusted_proxies(["127.0.0.1"]);
        let server = server.start(Api::new(&store).auth(&auth).router()).unwrap();
        Self { store, auth, server }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.server.local_addr())
    }

    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.server.local_addr()
    }

    /// Adds a user; gives a token of theirs.
    pub(crate) fn user(&self, name: &str) -> (i64, String) {
        let (id, token) = self.auth.add_user(name, &[], false).unwrap();
        let mut client = self.client();
        let body = json!({ "name": name, "token": token, "password": PASSWORD });
        client.json("POST /api/auth/set-password", &body.to_string()).is(204);
        (id, self.login(name))
    }

    /// Sets the password of the first administrator; gives a token of theirs.
    pub(crate) fn administrator(&self) -> String {
        let token = self.auth.setup_token().unwrap();
        self.auth.set_password("admin", token, PASSWORD, None).unwrap();
        self.login("admin")
    }

    pub(crate) fn login(&self, name: &str) -> String {
        let body = json!({ "name": name, "password": PASSWORD }).to_string();
        let answer = self.client().json("POST /api/auth/login", &body).is(200);
        answer.value()["token"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn own() -> Settings {
    Settings::default().everyone([Grant::new("note", &Right::ALL).rule("owner = @user.id")])
}

/// Returns a service on each engine in turn.
pub(crate) fn services(settings: impl Fn() -> Settings) -> impl Iterator<Item = Guarded> {
    let slow = std::iter::once_with(|| Store::builder(slow(Memory::new())));
    let builders = slow.chain(databases().map(|database| database.builder()));
    builders.map(move |builder| Guarded::open(builder, settings()))
}

fn on_engines(settings: fn() -> Settings, test: impl Fn(Guarded)) {
    services(settings).for_each(test);
}

pub(crate) fn by(client: &mut Client, token: &str, request: &str, body: &str) -> Answer {
    let bearer = format!("Authorization: Bearer {token}");
    client.send(request, &[&bearer, "Content-Type: application/json"], body.as_bytes())
}

pub(crate) fn insert(client: &mut Client, token: &str, owner: i64, text: &str) -> i64 {
    let body = json!({ "owner": owner, "text": text }).to_string();
    by(client, token, "POST /api/note", &body).is(201).value()["id"].as_i64().unwrap()
}

#[test]
fn each_sees_what_is_theirs() {
    on_engines(own, |service| {
        let mut client = service.client();
        let (ann_id, ann) = service.user("ann");
        let (bob_id, bob) = service.user("bob");
        let hers = insert(&mut client, &ann, ann_id, "hers");
        let his = insert(&mut client, &bob, bob_id, "his");
        // Twice: what was kept for one is not given to the other.
        for _ in 0..2 {
            for (token, mine, other) in [(&ann, hers, his), (&bob, his, hers)] {
                let list = by(&mut client, token, "GET /api/note?count=true", "").is(200);
                assert_eq!(list.header("cache-control"), Some("private, no-cache"));
                let vary: Vec<&str> = list.headers("vary").collect();
                assert_eq!(vary, ["Authorization, Cookie", "Accept, Prefer"]);
                let row = by(&mut client, token, &format!("GET /api/note/{mine}"), "").is(200);
                assert_eq!(row.header("vary"), Some("Authorization, Cookie"));
                let list = list.value();
                assert_eq!(list["count"], 1);
                assert_eq!(list["rows"][0]["id"], mine);
                by(&mut client, token, &format!("GET /api/note/{mine}"), "").is(200);
                by(&mut client, token, &format!("GET /api/note/{other}"), "").is(404);
                by(&mut client, token, &format!("DELETE /api/note/{other}"), "").is(404);
                let patch = format!("PATCH /api/note/{other}");
                by(&mut client, token, &patch, r#"{"text":"x"}"#).is(404);
                let history = format!("GET /api/note/{other}/history");
                let history = by(&mut client, token, &history, "").is(200).value();
                assert_eq!(history["rows"], json!([]));
            }
        }
        // A tag that one has says nothing of what the other would see.
        let tag = by(&mut client, &ann, "GET /api/note", "").header("etag").map(str::to_owned);
        // A server of a database does not report changes of other clients, so its lists have no tag.
        if let Some(tag) = tag {
            let headers = [format!("Authorization: Bearer {bob}"), format!("If-None-Match: {tag}")];
            client.send("GET /api/note", &[&headers[0], &headers[1]], b"").is(200);
        }
        by(&mut client, &ann, "POST /api/note", r#"{"owner":999,"text":"x"}"#).is(403);
        by(&mut client, &ann, "GET /api/marmota_user", "").is(404);
        let document = by(&mut client, &ann, "GET /api", "").is(200).text();
        assert!(document.contains("\"note\"") && !document.contains("marmota_user"), "{document}");
        assert!(document.contains("bearer"));
        // A key of one's own for what takes place once.
        let once = |client: &mut Client, token: &str, owner: i64| {
            let bearer = format!("Authorization: Bearer {token}");
            let headers = [&bearer, "Idempotency-Key: \"k\"", "Content-Type: application/json"];
            let body = json!({ "owner": owner, "text": "once" }).to_string();
            client.send("POST /api/note", &headers, body.as_bytes()).is(201).value()
        };
        let first = once(&mut client, &ann, ann_id);
        assert_eq!(once(&mut client, &ann, ann_id), first);
        assert_ne!(once(&mut client, &bob, bob_id), first);
    });
}

#[test]
fn tokens_that_are_not_good_are_refused() {
    on_engines(own, |service| {
        let mut client = service.client();
        let (_, token) = service.user("ann");
        let refused = client.get("/api/note").is(401);
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
        let jwt = by(&mut client, &token, "POST /api/auth/jwt", "").is(200).value();
        let jwt = jwt["jwt"].as_str().unwrap().to_owned();
        by(&mut client, &jwt, "GET /api/note", "").is(200);
        for bad in ["", "x", "ms_x", "a.b.c", &format!("{token}x"), &format!("{jwt}x")] {
            by(&mut client, bad, "GET /api/note", "").is(401);
        }
        client.send("GET /api/note", &["Authorization: Basic YTpi"], b"").is(401);
        let key = by(&mut client, &token, "POST /api/auth/keys", r#"{"name":"nightly"}"#).is(201);
        let key = key.value()["key"].as_str().unwrap().to_owned();
        by(&mut client, &key, "GET /api/note", "").is(200);
        by(&mut client, &token, "POST /api/auth/logout", "").is(204);
        for gone in [&token, &jwt] {
            by(&mut client, gone, "GET /api/note", "").is(401);
            by(&mut client, gone, "GET /api/auth/me", "").is(401);
        }
        by(&mut client, &key, "GET /api/note", "").is(200);
        let wrong = json!({ "name": "ann", "password": "wrong" }).to_string();
        let statuses: Vec<u16> =
            (0..15).map(|_| client.json("POST /api/auth/login", &wrong).status).collect();
        assert_eq!(statuses[0], 401);
        assert_eq!(statuses[14], 429);
    });
}

#[test]
fn a_cookie_is_for_pages_of_this_origin() {
    for service in services(own) {
        let (ann_id, _) = service.user("ann");
        let mut client = service.client();
        let login = json!({ "name": "ann", "password": PASSWORD, "cookie": true }).to_string();
        let answer = client.json("POST /api/auth/login", &login).is(200);
        let set = answer.header("set-cookie").unwrap();
        assert!(set.contains("HttpOnly; SameSite=Strict"), "{set}");
        assert_eq!(answer.value()["token"], Value::Null);
        let cookie = format!("Cookie: a=b; {}", set.split(';').next().unwrap());
        let body = json!({ "owner": ann_id, "text": "x" }).to_string();
        client.send("GET /api/note", &[&cookie], b"").is(200);
        let post = |client: &mut Client, header: &str| {
            let headers = [&*cookie, "Content-Type: application/json", header];
            client.send("POST /api/note", &headers, body.as_bytes()).status
        };
        for foreign in [
            "X-Nothing: 1",
            "Origin: https://evil.example",
            "Origin: null",
            "Sec-Fetch-Site: cross-site",
            "Sec-Fetch-Site: same-site",
        ] {
            assert_eq!(post(&mut client, foreign), 403, "{foreign}");
        }
        for own in ["Origin: http://localhost", "Sec-Fetch-Site: same-origin", "X-Marmota-CSRF: 1"]
        {
            assert_eq!(post(&mut client, own), 201, "{own}");
        }
        let logout = ["X-Marmota-CSRF: 1", &cookie];
        let answer = client.send("POST /api/auth/logout", &logout, b"").is(204);
        assert!(answer.header("set-cookie").unwrap().contains("Max-Age=0"));
        client.send("GET /api/note", &[&cookie], b"").is(401);
    }
}

/// Behind a proxy that ends TLS: the trusted scheme decides.
#[test]
fn a_cookie_over_https_has_the_prefix_of_its_host() {
    let service = Guarded::behind_proxy(own());
    service.user("ann");
    let mut client = service.client();
    let login = json!({ "name": "ann", "password": PASSWORD, "cookie": true }).to_string();
    let mut set = |headers: &[&str]| {
        let headers = [&["Content-Type: application/json"], headers].concat();
        let answer = client.send("POST /api/auth/login", &headers, login.as_bytes()).is(200);
        answer.header("set-cookie").unwrap().to_owned()
    };
    for host in ["test", "localhost", "127.0.0.1:8080"] {
        let host = format!("X-Forwarded-Host: {host}");
        let cookie = set(&["X-Forwarded-Proto: https", &host]);
        assert!(cookie.starts_with("__Host-marmota_session=ms_"), "{cookie}");
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
    }
    for (host, secure) in
        [("localhost:80", false), ("127.0.0.1", false), ("localhost.attacker.example", true)]
    {
        let cookie = set(&["X-Forwarded-Proto: http", &format!("X-Forwarded-Host: {host}")]);
        assert!(cookie.starts_with("marmota_session=ms_"), "{cookie}");
        assert_eq!(cookie.contains("Secure"), secure, "{host}: {cookie}");
    }
    let https = ["X-Forwarded-Proto: https"];
    let token = set(&https).split(';').next().unwrap().split_once('=').unwrap().1.to_owned();
    let get = |cookies: &[&str], status| {
        let headers = [&https[..], cookies].concat();
        service.client().send("GET /api/note", &headers, b"").is(status);
    };
    let good = format!("Cookie: a=b; __Host-marmota_session={token}");
    get(&[&good], 200);
    // One that a page without encryption may have set does not count over https.
    get(&[&format!("Cookie: marmota_session={token}")], 401);
    get(&[&format!("{good}; __Host-marmota_session=ms_x")], 401);
    get(&[&format!("{good}; __Host-marmota_session={token}")], 401);
    get(&["Cookie: __Host-marmota_session=ms_x", &good], 401);
}

/// Ten clients of one proxy: what one of them guesses wrongly is not counted against the others.
#[test]
fn failed_logins_count_for_the_address_that_a_trusted_proxy_reports() {
    let service = Guarded::behind_proxy(own());
    service.user("ann");
    let mut client = service.client();
    let mut login = |client_ip: &str, name: &str, password: &str| {
        let body = json!({ "name": name, "password": password }).to_string();
        let from = format!("X-Forwarded-For: {client_ip}");
        let headers = ["Content-Type: application/json", &from];
        client.send("POST /api/auth/login", &headers, body.as_bytes()).status
    };
    for _ in 0..10 {
        assert_eq!(login("203.0.113.1", "ann", "wrong"), 401);
    }
    assert_eq!(login("203.0.113.1", "ann", PASSWORD), 429);
    assert_eq!(login("203.0.113.2", "ann", PASSWORD), 200);
    for number in 0..100 {
        login("203.0.113.1", &format!("user {number}"), "wrong");
    }
    assert_eq!(login("203.0.113.1", "eve", "wrong"), 429);
    assert_eq!(login("203.0.113.2", "ann", PASSWORD), 200);
    assert_eq!(login("203.0.113.3", "bob", "wrong"), 401);
}

/// The limits do not take the word of a client that is no trusted proxy.
#[test]
fn a_client_cannot_choose_the_address_that_is_counted() {
    let service = Guarded::new(Memory::new(), own());
    let mut client = service.client();
    let statuses: Vec<u16> = (0..12)
        .map(|number| {
            let from = format!("X-Forwarded-For: 203.0.113.{number}");
            let headers = ["Content-Type: application/json", &from];
            let body = br#"{"name":"ann","password":"wrong"}"#;
            client.send("POST /api/auth/login", &headers, body).status
        })
        .collect();
    assert_eq!(statuses[9..], [401, 429, 429]);
}

/// An upload or download that lasts longer than its caller's session ends with it.
#[test]
fn a_logout_ends_what_is_under_way() {
    let service = Guarded::new(Memory::new(), own());
    let (ann_id, _) = service.user("ann");
    let line = json!({ "owner": ann_id, "text": "x" }).to_string();
    let operation = format!("{{\"insert\":\"note\",\"row\":{line}}}");
    for (target, line) in [("/api/note", line), ("/api/batch", operation)] {
        let token = service.login("ann");
        let mut client = service.client();
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        let lines = format!("{line}\n").repeat(1000);
        let chunk = format!("{:x}\r\n{lines}\r\n", lines.len());
        let before = service.notes();
        client.write(head.as_bytes());
        client.write(chunk.as_bytes());
        let begin = std::time::Instant::now();
        while service.notes() < before + 1000 {
            assert!(begin.elapsed().as_secs() < 60, "the first chunk is not carried out");
            std::thread::yield_now();
        }
        by(&mut service.client(), &token, "POST /api/auth/logout", "").is(204);
        client.write(chunk.as_bytes());
        client.write(b"0\r\n\r\n");
        let answer = client.answer("POST");
        assert!(answer.text().contains("\"status\":401"), "{}", answer.text());
        assert_eq!(service.notes(), before + 1000);
    }
}

#[test]
fn the_last_administrator_cannot_leave() {
    for service in services(own) {
        let admin = service.administrator();
        let mut client = service.client();
        let id = by(&mut client, &admin, "GET /api/auth/me", "").is(200).value()["id"].clone();
        let path = format!("/api/auth/users/{id}");
        for (request, body) in [
            (format!("DELETE {path}"), ""),
            (format!("PATCH {path}"), r#"{"is_admin":false}"#),
            (format!("PATCH {path}"), r#"{"is_disabled":true}"#),
        ] {
            by(&mut client, &admin, &request, body).refuses(409).says("first make another user");
        }
        by(&mut client, &admin, "GET /api/auth/users", "").is(200);
    }
}

#[test]
fn administrators_manage_users() {
    for service in services(own) {
        let mut client = service.client();
        let token = service.auth.setup_token().unwrap();
        let redeem = json!({ "name": "admin", "token": token, "password": PASSWORD }).to_string();
        client.json("POST /api/auth/set-password", &redeem).is(204);
        client.json("POST /api/auth/set-password", &redeem).is(401);
        let admin = service.login("admin");
        let (ann_id, ann) = service.user("ann");
        by(&mut client, &ann, "GET /api/auth/users", "").is(403);
        client.get("/api/auth/users").is(401);
        let users = by(&mut client, &admin, "GET /api/auth/users", "").is(200).text();
        assert!(users.contains("\"ann\"") && !users.contains("argon2"), "{users}");
        let bad = r#"{"grants":[{"table":"note","rights":["read"],"rule":"ownr = 1"}]}"#;
        by(&mut client, &admin, "PUT /api/auth/groups/staff", bad).refuses(422);
        let good = r#"{"grants":[{"table":"note","rights":["read"]}]}"#;
        by(&mut client, &admin, "PUT /api/auth/groups/staff", good).is(204);
        insert(&mut client, &admin, 999, "somebody's");
        let rows = |client: &mut Client| {
            by(client, &ann, "GET /api/note", "").is(200).value()["rows"].as_array().unwrap().len()
        };
        assert_eq!(rows(&mut client), 0);
        let change = format!("PATCH /api/auth/users/{ann_id}");
        by(&mut client, &admin, &change, r#"{"groups":["staff"]}"#).is(204);
        assert_eq!(rows(&mut client), 1);
        by(&mut client, &admin, &change, r#"{"is_disabled":true}"#).is(204);
        by(&mut client, &ann, "GET /api/note", "").is(401);
        by(&mut client, &admin, &format!("DELETE /api/auth/users/{ann_id}"), "").is(204);
        by(&mut client, &admin, &format!("DELETE /api/auth/users/{ann_id}"), "").is(404);
        by(&mut client, &admin, "GET /api/auth/me", "").is(200).says("admin");
    }
}

#[test]
fn nobody_has_what_nobody_is_given() {
    let public = Grant::new("note", &[Right::Read]).rule("text = 'public'");
    for service in services(|| own().anonymous([public.clone()])) {
        let mut client = service.client();
        let (ann_id, ann) = service.user("ann");
        let shown = insert(&mut client, &ann, ann_id, "public");
        let hidden = insert(&mut client, &ann, ann_id, "private");
        client.get(&format!("/api/note/{shown}")).is(200);
        client.get(&format!("/api/note/{hidden}")).is(404);
        assert_eq!(client.get("/api/note").is(200).value()["rows"].as_array().unwrap().len(), 1);
        client.json("POST /api/note", r#"{"owner":1,"text":"public"}"#).is(401);
        client.json(&format!("DELETE /api/note/{shown}"), "").is(401);
    }
}

fn any_rule() -> impl Strategy<Value = String> {
    let term = prop_oneof![
        Just("owner = @user.id".to_owned()),
        Just("owner != @user.id".to_owned()),
        Just("text ^ 'a'".to_owned()),
        Just("text ~ 'b'".to_owned()),
    ];
    term.prop_recursive(2, 4, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} and {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} or {b})")),
            inner.prop_map(|a| format!("not ({a})")),
        ]
    })
}

/// What a GET denies, lists (from the cache as well), lines, batches and the
/// history deny, and nothing else.
#[test]
fn all_answers_deny_the_same() {
    on_engines(Settings::default, |service| {
        let table = service.store.table("note").unwrap();
        let (_, ann) = service.user("ann");
        let mut client = service.client();
        let mut runner =
            TestRunner::new(Config { cases: 12, failure_persistence: None, ..Config::default() });
        let rows = proptest::collection::vec((1..4_i64, "[ab]{0,2}"), 1..6);
        let client = std::cell::RefCell::new(&mut client);
        let run = runner.run(&(any_rule(), rows), |(rule, rows)| {
            let mut client = client.borrow_mut();
            let grant = Grant::new("note", &Right::ALL).rule(&*rule);
            service.auth.set_group("group", &[grant]).unwrap();
            let user = service.auth.users().unwrap().into_iter().find(|user| user.name == "ann");
            let user = user.unwrap();
            let groups = ["group".to_owned()];
            service.auth.change_user(user.id, Some(&groups), None, None).unwrap();
            for (owner, text) in &rows {
                let mut record = marmota_model::Record::new(table.clone());
                record.set("owner", *owner).unwrap();
                record.set("text", text.as_str()).unwrap();
                service.store.insert_record(&record).run().unwrap();
            }
            let ids = |answer: Answer| -> Vec<i64> {
                let value = answer.is(200).value();
                let rows = value["rows"].as_array().unwrap().iter();
                rows.map(|row| row["id"].as_i64().unwrap()).collect()
            };
            let listed = ids(by(&mut client, &ann, "GET /api/note?limit=1000", ""));
            let again = ids(by(&mut client, &ann, "GET /api/note?limit=1000", ""));
            prop_assert_eq!(&listed, &again);
            let bearer = format!("Authorization: Bearer {ann}");
            let lines = ["Accept: application/x-ndjson", &bearer];
            let lines = client.send("GET /api/note", &lines, b"").is(200).text();
            prop_assert_eq!(lines.lines().count(), listed.len());
            let all = service.store.list_records(&table).run();
            for row in all.unwrap().iter().rev().take(6) {
                let id = row.value("id").unwrap().as_ref().as_int().unwrap();
                let seen = listed.contains(&id);
                let get = by(&mut client, &ann, &format!("GET /api/note/{id}"), "");
                prop_assert_eq!(get.status, if seen { 200 } else { 404 });
                let history = format!("GET /api/note/{id}/history");
                let history = by(&mut client, &ann, &history, "").is(200).value();
                prop_assert_eq!(history["rows"] != json!([]), seen);
                let text = row.value("text").unwrap().as_ref().as_text().unwrap().to_owned();
                let batch = json!({ "mode": "each", "operations": [
                    { "patch": "note", "key": id, "row": { "text": text } }
                ] });
                let batch = by(&mut client, &ann, "POST /api/batch", &batch.to_string()).text();
                prop_assert_eq!(!batch.contains("\"status\":404"), seen, "{}", batch);
            }
            Ok(())
        });
        run.unwrap_or_else(|error| panic!("{error}"));
    });
}

/// Logins and logouts on many connections at once: nobody sees another's.
#[test]
fn a_storm_leaks_nothing() {
    for service in services(own) {
        let users: Vec<(String, i64)> = (0..3)
            .map(|number| {
                let name = format!("user {number}");
                let (id, token) = service.user(&name);
                insert(&mut service.client(), &token, id, &name);
                (name, id)
            })
            .collect();
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let (service, users) = (&service, &users);
                scope.spawn(move || {
                    let mut client = service.client();
                    for round in 0..12 {
                        let (name, id) = &users[(thread + round) % users.len()];
                        let token = service.login(name);
                        for _ in 0..5 {
                            let rows = by(&mut client, &token, "GET /api/note", "").is(200).value();
                            let rows = rows["rows"].as_array().unwrap().clone();
                            assert!(rows.iter().all(|row| row["owner"] == *id), "{rows:?}");
                            assert_eq!(rows.len(), 1);
                        }
                        by(&mut client, &token, "POST /api/auth/logout", "").is(204);
                        by(&mut client, &token, "GET /api/note", "").is(401);
                    }
                });
            }
        });
    }
}

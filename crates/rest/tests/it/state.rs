//! What operators ask: statistics, numbers for Prometheus, the log's filter;
//! and that others may not.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use marmota_auth::{Auth, Settings};
use marmota_http::{Metrics, Router, RunningServer, Server};
use marmota_memory::Memory;
use marmota_model::{Error, ErrorKind, Field, Kind, Role, Schema};
use marmota_rest::{Api, Diagnostics, LogLevels};
use marmota_store::meter::Metering;
use marmota_store::rights::{Grant, Right};
use marmota_store::{Store, StoreBuilder};
use serde_json::{Value, json};

use crate::client::{Answer, Client};

/// Filters that are words.
#[derive(Default)]
struct Words(Mutex<String>);

impl LogLevels for Words {
    fn filter(&self) -> String {
        self.0.lock().unwrap().clone()
    }

    fn set_filter(&self, filter: &str) -> marmota_model::Result<()> {
        if filter.contains(' ') {
            return Err(Error::new(ErrorKind::Invalid, "a filter is a word"));
        }
        filter.clone_into(&mut self.0.lock().unwrap());
        Ok(())
    }
}

fn note() -> StoreBuilder {
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("text", Kind::TEXT).unique(true),
    ];
    Store::builder(Memory::new())
        .schema(Schema::new("note", fields))
        .metering(Metering::default().slow_call(Duration::ZERO))
}

fn start(routes: Router, metrics: &Metrics) -> RunningServer {
    Server::bind("127.0.0.1:0").unwrap().listeners(1).metrics(metrics).start(routes).unwrap()
}

fn by(client: &mut Client, token: &str, request: &str, body: &str) -> Answer {
    let bearer = format!("Authorization: Bearer {token}");
    client.send(request, &[&bearer, "Content-Type: application/json"], body.as_bytes())
}

fn find<'v>(all: &'v Value, part: &str, name: (&str, &str)) -> &'v Value {
    let list = all[part].as_array().unwrap();
    list.iter().find(|one| one[name.0] == name.1).unwrap_or_else(|| panic!("{name:?}: {all}"))
}

#[test]
fn administrators_see_what_was_done_and_others_do_not() {
    let store = marmota_auth::models(note()).open().unwrap();
    let own = Grant::new("note", &Right::ALL);
    let settings = Settings::default().everyone([own]).password_cost(8, 1);
    let auth = Auth::new(&store, settings).unwrap();
    let metrics = Metrics::new();
    let levels = Arc::new(Words::default());
    let state = Diagnostics::new(&store)
        .auth(&auth)
        .metrics(&metrics)
        .add_section("jobs", || json!({ "waiting": 7 }))
        .log_levels(levels.clone());
    let routes = Api::new(&store).auth(&auth).router().nest("", state.router());
    let server = start(routes, &metrics);
    let mut client = Client::new(server.local_addr());
    let tokens = ["admin", "ann"].map(|name| {
        let token = match name {
            "admin" => auth.setup_token().unwrap().to_owned(),
            name => auth.add_user(name, &[], false).unwrap().1,
        };
        auth.set_password(name, &token, "correct horse", None).unwrap();
        auth.login(name, "correct horse", None).unwrap().token
    });
    let [admin, ann] = &tokens;
    for (text, status) in [("secret", 201), ("secret", 409), ("other", 201)] {
        by(&mut client, ann, "POST /api/note", &json!({ "text": text }).to_string()).is(status);
    }
    by(&mut client, ann, "GET /api/note?filter=text='secret'", "").is(200);

    for path in ["/api/-/statistics", "/metrics", "/api/-/levels"] {
        let request = format!("GET {path}");
        client.get(path).is(401);
        by(&mut client, "ms_none", &request, "").is(401);
        by(&mut client, ann, &request, "").is(403);
        let answer = by(&mut client, admin, &request, "").is(200);
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert!(!answer.text().contains("secret"), "{}", answer.text());
    }
    by(&mut client, ann, "PUT /api/-/levels", r#"{"filter":"debug"}"#).is(403);
    assert_eq!(levels.filter(), "");

    let all = by(&mut client, admin, "GET /api/-/statistics", "").value();
    let inserts = find(&all, "verbs", ("verb", "insert"));
    assert_eq!(inserts["table"], "note");
    assert_eq!(
        (&inserts["count"], &inserts["rows"], &inserts["errors"]),
        (&json!(3), &json!(2), &json!(1))
    );
    let slow = find(&all, "slow", ("what", "list of note by text, at most 101"));
    assert_eq!(slow["who"], "ann");
    let session = find(&all, "sessions", ("session", slow["session"].as_str().unwrap()));
    assert_eq!(session["count"], 4);
    assert_eq!(all["jobs"]["waiting"], 7);
    assert!(all["engine"]["commits"].is_u64(), "{all}");

    let text = by(&mut client, admin, "GET /metrics", "").text();
    for line in [
        "marmota_store_rows_total{table=\"note\",verb=\"insert\"} 2",
        "marmota_store_errors_total{table=\"note\",verb=\"insert\"} 1",
        "marmota_store_operation_seconds_bucket{table=\"note\",verb=\"insert\",le=\"+Inf\"} 3",
        "marmota_store_operation_seconds_count{table=\"note\",verb=\"insert\"} 3",
        "# TYPE marmota_http_requests_total counter",
    ] {
        assert!(text.lines().any(|one| one == line), "{line}: {text}");
    }

    let change = |client: &mut Client, body: &str| by(client, admin, "PUT /api/-/levels", body);
    assert_eq!(change(&mut client, r#"{"filter":"debug"}"#).is(200).value()["filter"], "debug");
    assert_eq!(levels.filter(), "debug");
    change(&mut client, r#"{"filter":"a b"}"#).is(400);
    change(&mut client, "debug").is(400);
    assert_eq!(levels.filter(), "debug");
}

#[test]
fn without_users_those_ask_who_are_allowed_and_nobody_by_default() {
    let store = note().open().unwrap();
    let metrics = Metrics::new();
    let state = Diagnostics::new(&store).allow(|request| request.header("x-operator").is_some());
    let server = start(marmota_rest::api(&store).nest("", state.router()), &metrics);
    let mut client = Client::new(server.local_addr());
    client.get("/api/-/statistics").is(403);
    client.send("GET /api/-/statistics", &["X-Operator: me"], b"").is(200);
    let shut = start(Diagnostics::new(&store).router(), &metrics);
    let mut client = Client::new(shut.local_addr());
    client.send("GET /api/-/statistics", &["X-Operator: me"], b"").is(403);
    client.get("/healthz").is(200);
    client.get("/readyz").is(200);
    store.close().unwrap();
    client.get("/healthz").is(200);
    client.get("/readyz").is(503);
}

#[test]
fn a_token_lets_in_and_reading_may_be_for_more_than_changing() {
    let store = note().open().unwrap();
    let (metrics, levels) = (Metrics::new(), Arc::new(Words::default()));
    let state = Diagnostics::new(&store)
        .log_levels(levels.clone())
        .token("a-token-of-operators")
        .allow_reading(|request| request.header("x-here").is_some())
        .denied_hint("it stands on the wall");
    let server = start(marmota_rest::api(&store).nest("", state.router()), &metrics);
    let mut client = Client::new(server.local_addr());
    for (header, reads, changes) in [
        ("X-Any: 1", 401, 401),
        ("X-Here: 1", 200, 401),
        ("Authorization: Bearer a-token-of-operators", 200, 200),
        ("Authorization: bearer  a-token-of-operators ", 200, 200),
        ("Authorization: Bearer a-token-of-operator", 401, 401),
        ("Authorization: Bearer", 401, 401),
        ("Authorization: Basic a-token-of-operators", 401, 401),
    ] {
        for path in ["/api/-/statistics", "/api/-/levels"] {
            client.send(&format!("GET {path}"), &[header], b"").is(reads);
        }
        let headers = [header, "Content-Type: application/json"];
        let answer = client.send("PUT /api/-/levels", &headers, br#"{"filter":"debug"}"#);
        let answer = answer.is(changes);
        if changes == 401 {
            let detail = answer.value()["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains("`Authorization: Bearer TOKEN`"), "{detail}");
            assert!(detail.ends_with("it stands on the wall"), "{detail}");
            assert_eq!(levels.filter(), "", "{header}");
        }
        levels.set_filter("").unwrap();
    }
}

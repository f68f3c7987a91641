//! Two users and their teams, on each engine.
#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;

use marmota::auth::{Auth, Settings};
use marmota::http::TestRequest;
use marmota::prelude::*;
use marmota_postgres::TemporaryPostgres;
use serde_json::{Value as Document, json};

/// Sends a request of a user; returns the status and the document.
fn send(router: &Router, token: &str, request: TestRequest) -> (u16, Document) {
    let request = request.header("Authorization", format!("Bearer {token}"));
    let answer = router.call(request).unwrap();
    (answer.status().code(), serde_json::from_str(answer.text()).unwrap_or_default())
}

fn open(database: &str, files: &Path) -> (Auth, marmota::files::FileStorage) {
    let settings = Settings::default().password_cost(64, 1);
    tracker::open(database, files.to_str().unwrap(), settings).unwrap()
}

fn login(auth: &Auth, name: &str) -> (i64, String) {
    let (id, token) = auth.add_user(name, &[], false).unwrap();
    auth.set_password(name, &token, "correct horse", None).unwrap();
    (id, auth.login(name, "correct horse", None).unwrap().token)
}

fn a_team_tracks_issues(database: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (auth, storage) = open(database, folder.path());
    let router = tracker::routes(&auth, &storage);
    let ((_, ann), (bob_id, bob)) = (login(&auth, "ann"), login(&auth, "bob"));
    let post =
        |token: &str, path: &str, body| send(&router, token, TestRequest::post(path).json(&body)).0;
    assert_eq!(post(&ann, "/teams", json!({ "name": "Makers", "project": "Web" })), 200);
    assert_eq!(post(&bob, "/teams", json!({ "name": "Makers", "project": "Web" })), 409);
    assert_eq!(post(&bob, "/teams", json!({ "name": "Owls", "project": " " })), 422);
    assert_eq!(auth.store().count::<tracker::Team>().run().unwrap(), 1, "no team without project");

    let issue = json!({ "project": 1, "title": " Crash " });
    assert_eq!(post(&bob, "/api/issue", issue.clone()), 422, "not his project");
    assert_eq!(post(&ann, "/api/issue", issue), 201);
    assert_eq!(post(&ann, "/api/label", json!({ "project": 1, "name": "bug" })), 201);
    assert_eq!(post(&ann, "/api/issue_label", json!({ "issue": 1, "label": 1 })), 201);
    let file = "/api/issue/1/attachment";
    assert_eq!(send(&router, &ann, TestRequest::put(file).body("a log")).0, 200);
    assert_eq!(send(&router, &bob, TestRequest::get(file)).0, 404);
    assert_eq!(post(&bob, "/issues/1/close", json!("mine")), 404);
    assert_eq!(post(&bob, "/api/member", json!({ "team": 1, "user": bob_id })), 422);

    assert_eq!(post(&ann, "/api/member", json!({ "team": 1, "user": bob_id })), 201);
    assert_eq!(send(&router, &bob, TestRequest::get(file)).0, 200);
    assert_eq!(post(&bob, "/issues/1/close", json!("")), 422, "no reason");
    assert_eq!(post(&bob, "/issues/1/close", json!("fixed")), 204);
    assert_eq!(post(&ann, "/issues/1/close", json!("again")), 409);
    let expand = "project(fields=name),labels(fields=name),comment(fields=text,author)";
    let list = format!("/api/issue?fields=title,state&expand={expand}");
    let related = json!({ "project": { "name": "Web" }, "labels": [{ "name": "bug" }],
        "comment": [{ "text": "fixed", "author": bob_id }] });
    let expected = json!([{ "title": "Crash", "state": "closed", "expand": related }]);
    assert_eq!(send(&router, &ann, TestRequest::get(list)).1["rows"], expected);
    assert_eq!(send(&router, &ann, TestRequest::delete("/api/issue/1")).0, 204);
    assert_eq!(auth.store().count::<tracker::Comment>().run().unwrap(), 0, "comments of the issue");
    storage.stop();
}

#[test]
fn teams_track_issues_on_each_engine() {
    a_team_tracks_issues("memory:");
    a_team_tracks_issues("sqlite::memory:");
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    a_team_tracks_issues(&server.make_database().unwrap());
}

#[test]
fn the_page_gets_changes_of_issues() {
    let folder = tempfile::tempdir().unwrap();
    let (auth, storage) = open("memory:", folder.path());
    let (router, ann) = (tracker::routes(&auth, &storage), login(&auth, "ann").1);
    let server = Server::bind("127.0.0.1:0").unwrap();
    let server = server.start(tracker::routes(&auth, &storage)).unwrap();
    let mut events = TcpStream::connect(server.local_addr()).unwrap();
    let head = "GET /api/issue HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n";
    write!(events, "{head}Authorization: Bearer {ann}\r\n\r\n").unwrap();
    let mut lines = BufReader::new(events).lines();
    let mut wait = |text: &str| lines.by_ref().any(|line| line.unwrap().contains(text));
    assert!(wait("event: snapshot"));
    let team = json!({ "name": "Makers", "project": "Web" });
    send(&router, &ann, TestRequest::post("/teams").json(&team));
    let issue = json!({ "project": 1, "title": "Crash" });
    assert_eq!(send(&router, &ann, TestRequest::post("/api/issue").json(&issue)).0, 201);
    assert!(wait("event: patch") && wait("Crash"));
    storage.stop();
}

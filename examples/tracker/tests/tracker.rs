//! Two users and their teams, on each engine, and a person who signs up in a browser.
#![allow(clippy::unwrap_used, reason = "tests panic")]

#[allow(dead_code, reason = "the tests of the administration use the rest")]
#[path = "../../../apps/marmota/tests/admin/browser.rs"]
mod browser;

use std::sync::mpsc::channel;
use std::time::Duration;

use browser::{Driver, Look, run};
use marmota::auth::{Auth, Settings};
use marmota::http::TestRequest;
use marmota::mail::SmtpSender;
use marmota::prelude::*;
use marmota_mail::MailCatcher;
use marmota_postgres::TemporaryPostgres;
use serde_json::{Value as Document, json};
use tracker::{Member, Tracker};

const PASSWORD: &str = "correct horse";

/// Sends a request of a user; returns the status and the document.
fn send(router: &Router, token: &str, request: TestRequest) -> (u16, Document) {
    let request = request.header("Authorization", format!("Bearer {token}"));
    let answer = router.call(request).unwrap();
    (answer.status().code(), serde_json::from_str(answer.text()).unwrap_or_default())
}

fn open(
    database: &str,
    url: &str,
    mails: &str,
    hook: Option<&str>,
) -> (Tracker, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings::default().password_cost(64, 1);
    let sender = SmtpSender::new(mails, "Tracker <tracker@example.org>").unwrap();
    let places = [database, folder.path().to_str().unwrap(), url];
    (Tracker::open(places, settings, &sender, hook).unwrap(), folder)
}

fn login(auth: &Auth, name: &str) -> (i64, String) {
    let (id, token) = auth.add_user(name, &[], false).unwrap();
    auth.set_password(name, &token, PASSWORD, None).unwrap();
    (id, auth.login(name, PASSWORD, None).unwrap().token)
}

fn a_team_tracks_issues(database: &str) {
    let (tracker, _folder) = open(database, "http://localhost", "smtp://127.0.0.1:25", None);
    let (auth, router) = (&tracker.auth, tracker.routes());
    let ((_, ann), (bob_id, bob)) = (login(auth, "ann"), login(auth, "bob"));
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
    tracker.close().unwrap();
}

#[test]
fn teams_track_issues_on_each_engine() {
    a_team_tracks_issues("memory:");
    a_team_tracks_issues("sqlite::memory:");
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    a_team_tracks_issues(&server.make_database().unwrap());
}

#[test]
fn a_person_signs_up_and_sees_what_others_add() {
    let catcher = MailCatcher::start().unwrap();
    let server = Server::bind("127.0.0.1:0").unwrap();
    let (url, (sender, hooks)) = (server.url(), channel());
    let (tracker, _folder) = open("memory:", &url, catcher.url(), Some(&format!("{url}/hook")));
    let receiver = move |request: Request| {
        sender.send(serde_json::from_slice::<Document>(request.body()).unwrap()).unwrap();
        async { Status::NO_CONTENT }
    };
    let (router, driver) = (tracker.routes(), Driver::start());
    let running = server.start(tracker.routes().post("/hook", receiver)).unwrap();
    run(async {
        let page = driver.browser(Look::Light).await;
        page.open(&url).await;
        page.shows("Sign in, or wait").await;
        page.press("Sign in or sign up").await;
        page.press("Create an account").await;
        page.fill("Email address", "ann@example.org").await;
        page.press("Continue").await;
        page.shows("Check your email").await;
        let token = catcher.mail(0).unwrap().token();
        page.open("about:blank").await;
        page.open(&format!("{url}/account?next=/#/join/{token}")).await;
        page.fill("New password", PASSWORD).await;
        page.press("Create account").await;
        page.shows("Your account is ready").await;
        page.press("Sign in").await;
        page.fill("Email address or name", "ann@example.org").await;
        page.fill("Password", PASSWORD).await;
        page.press("Sign in").await;
        page.wait("location.pathname === '/' && document.body.innerText.includes('Live')").await;
        page.fill("Team", "Makers").await;
        page.fill("First project", "Web").await;
        page.press("Add team").await;
        page.choose("Project", "Web").await;
        page.fill("Title", "Crash").await;
        page.press("Add issue").await;
        page.shows("Web: Crash").await;
        page.is_accessible("tracker").await;

        // Another person adds an issue.
        let (bob_id, bob) = login(&tracker.auth, "bob");
        let (team, user) = (Ref::new(1), Ref::new(bob_id));
        tracker.auth.store().insert(&Member { id: 0, team, user }).run().unwrap();
        let issue = TestRequest::post("/api/issue").json(&json!({ "project": 1, "title": "Leak" }));
        assert_eq!(send(&router, &bob, issue).0, 201);
        page.shows("Web: Leak").await;
        page.close().await;
    });
    for title in ["Crash", "Leak"] {
        let change = hooks.recv_timeout(Duration::from_secs(30)).unwrap();
        assert_eq!(
            (&change["type"], &change["data"]["after"]["title"]),
            (&json!("issue.insert"), &json!(title))
        );
    }
    running.shutdown().unwrap();
    tracker.close().unwrap();
}

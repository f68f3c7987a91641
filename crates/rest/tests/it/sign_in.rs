//! Sign-in with a provider over HTTP: cookies, origins, and the events of administrators.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use marmota_auth::{
    ExternalIdentity, IdentityProviders, ProviderCode, ProviderInfo, ProviderRequest, Settings,
    SignUpPolicy,
};
use marmota_model::{Result, Timestamp};
use serde_json::json;

use crate::auth::{PASSWORD, by, own, services};
use crate::client::{Answer, Client};

/// A provider that identifies each person by the code.
struct Them;

impl IdentityProviders for Them {
    fn offered(&self) -> Vec<ProviderInfo> {
        vec![ProviderInfo { name: "them".to_owned(), title: "Them".to_owned() }]
    }

    fn authorization_url(&self, request: &ProviderRequest<'_>) -> Result<String> {
        Ok(format!("https://them.example/?state={}", request.state))
    }

    fn identity(&self, code: &ProviderCode<'_>) -> Result<ExternalIdentity> {
        Ok(ExternalIdentity {
            issuer: "https://them.example".to_owned(),
            subject: code.code.to_owned(),
            email: Some(format!("{}@example.org", code.code)),
            email_is_verified: true,
        })
    }
}

fn settings() -> Settings {
    own().sign_up(SignUpPolicy::Open).providers(Them)
}

/// Begins a sign-in. Returns the state, and the cookie without its attributes.
fn begin(client: &mut Client) -> (String, String) {
    let answer = client.json("POST /api/auth/sign-in/them", r#"{"next":"/shop"}"#).is(200);
    let cookie = answer.header("set-cookie").unwrap().to_owned();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
    let url = answer.value()["url"].as_str().unwrap().to_owned();
    let state = url.rsplit('=').next().unwrap().to_owned();
    (state, cookie.split(';').next().unwrap().to_owned())
}

fn finish(client: &mut Client, state: &str, headers: &[&str]) -> Answer {
    let body = json!({ "state": state, "provider_code": "ann", "cookie": true }).to_string();
    let headers = [&["Content-Type: application/json"], headers].concat();
    client.send("POST /api/auth/sign-in", &headers, body.as_bytes())
}

#[test]
fn a_sign_in_needs_the_cookie_of_its_browser() {
    for service in services(settings) {
        let mut client = service.client();
        let options = client.send("GET /api/auth/options", &[], b"").is(200).value();
        assert_eq!(options["providers"], json!([{ "name": "them", "title": "Them" }]));
        let (state, cookie) = begin(&mut client);
        let (_, other) = begin(&mut client);
        finish(&mut client, &state, &[]).is(401);
        finish(&mut client, &state, &[&format!("Cookie: {other}")]).is(401);
        // Cookie tossing: another host of the domain has set a second cookie, in each order.
        for both in [format!("Cookie: {cookie}; {other}"), format!("Cookie: {other}; {cookie}")] {
            finish(&mut client, &state, &[&both]).is(401);
        }
        // Login CSRF: a page of another origin sends the request.
        let cookie = format!("Cookie: {cookie}");
        let foreign =
            [cookie.as_str(), "Origin: https://evil.example", "Sec-Fetch-Site: cross-site"];
        finish(&mut client, &state, &foreign).is(403);
        let begun = client.send("POST /api/auth/sign-in/them", &foreign, b"");
        begun.is(403);
        let answer = finish(&mut client, &state, &[&cookie]).is(200);
        assert_eq!(answer.value()["next"], "/shop");
        assert!(answer.value().get("token").is_none());
        finish(&mut client, &state, &[&cookie]).is(401);

        let administrator = service.administrator();
        let refused =
            by(&mut client, &administrator, "GET /api/auth/events?kind=sign-in-refused", "");
        let events = refused.is(200).value();
        let events = events["events"].as_array().unwrap();
        assert_eq!(events.len(), 5);
        assert!(events.iter().all(|event| event["address"] == "127.0.0.1"));
        let path = format!("GET /api/auth/events?before={}", events[4]["id"]);
        let earlier = by(&mut client, &administrator, &path, "").is(200).value();
        assert!(
            earlier["events"]
                .as_array()
                .unwrap()
                .iter()
                .all(|one| one["id"].as_i64() < events[4]["id"].as_i64())
        );
        client.send("GET /api/auth/events", &[], b"").is(401);
        let path = "GET /api/auth/events?kind=cross-site-refused";
        let foreign = by(&mut client, &administrator, path, "").is(200).value();
        let foreign = foreign["events"].as_array().unwrap();
        assert_eq!(foreign.len(), 2);
        assert_eq!(foreign[0]["detail"]["path"], "/api/auth/sign-in/them");
    }
}

#[test]
fn a_session_from_before_is_not_continued() {
    for service in services(settings) {
        let mut client = service.client();
        let (_, eve) = service.user("eve");
        let (state, cookie) = begin(&mut client);
        // The session of another user that an attacker has put into the browser.
        let both = format!("Cookie: {cookie}; marmota_session={eve}");
        let answer = finish(&mut client, &state, &[&both, "X-Marmota-CSRF: 1"]).is(200);
        let user = answer.value()["user"].clone();
        let text = answer.text();
        assert!(!text.contains(&eve), "{text}");
        let known = service.auth.authenticate(&eve).run().unwrap();
        assert_ne!(json!(known.user()), user);
        assert!(service.auth.linked_accounts(known.user()).unwrap().is_empty());
        // A page to return to of another server is refused.
        for next in ["//evil.example", "https://evil.example/", "/\\\\evil.example"] {
            client.json("POST /api/auth/sign-in/them", &format!(r#"{{"next":"{next}"}}"#)).is(400);
        }
        client.json("POST /api/auth/sign-in/them", r#"{"add":true}"#).is(401);
    }
}

#[test]
fn a_refused_write_states_how_to_step_up() {
    let now = Arc::new(AtomicI64::new(Timestamp::now().micros()));
    let settings = || {
        let clock = Arc::clone(&now);
        own()
            .step_up("note", Duration::from_secs(300))
            .clock(move || Timestamp::from_micros(clock.load(Ordering::SeqCst)).unwrap())
    };
    for service in services(settings) {
        let (ann, token) = service.user("ann");
        let mut client = service.client();
        let note = json!({ "owner": ann, "text": "text" }).to_string();
        by(&mut client, &token, "POST /api/note", &note).is(201);
        now.fetch_add(301_000_000, Ordering::SeqCst);
        by(&mut client, &token, "POST /api/note", &note).names(403, "password", "step-up");
        by(&mut client, &token, "PATCH /api/note/1", r#"{"text":"other"}"#).is(403);
        by(&mut client, &token, "DELETE /api/note/1", "").is(403);
        let batch =
            json!({ "operations": [{ "insert": "note", "row": { "owner": ann, "text": "x" } }] });
        by(&mut client, &token, "POST /api/batch", &batch.to_string()).is(403);
        by(&mut client, &token, "GET /api/note/1", "").is(200);
        by(&mut client, &token, "POST /api/auth/step-up", r#"{"password":"not it"}"#).is(401);
        let password = json!({ "password": PASSWORD }).to_string();
        client.json("POST /api/auth/step-up", &password).is(401);
        by(&mut client, &token, "POST /api/auth/step-up", &password).is(204);
        by(&mut client, &token, "POST /api/note", &note).is(201);
    }
}

#[test]
fn an_account_without_a_password_is_deleted_after_a_recent_sign_in() {
    let now = Arc::new(AtomicI64::new(Timestamp::now().micros()));
    let settings = || {
        let clock = Arc::clone(&now);
        settings().clock(move || Timestamp::from_micros(clock.load(Ordering::SeqCst)).unwrap())
    };
    for service in services(settings) {
        let mut client = service.client();
        let sign_in = |client: &mut Client| {
            let (state, cookie) = begin(client);
            let body = json!({ "state": state, "provider_code": "ann" }).to_string();
            let headers = ["Content-Type: application/json", &format!("Cookie: {cookie}")];
            let answer = client.send("POST /api/auth/sign-in", &headers, body.as_bytes()).is(200);
            answer.value()["token"].as_str().unwrap().to_owned()
        };
        let delete = "POST /api/auth/delete-account";
        let token = sign_in(&mut client);
        let me = by(&mut client, &token, "GET /api/auth/me", "").is(200).value();
        assert_eq!(me["has_password"], false);
        now.fetch_add(601_000_000, Ordering::SeqCst);
        by(&mut client, &token, delete, "{}").names(403, "passkey", "step-up");
        // With a password it is needed, however recent the login is.
        let (_, eve) = service.user("eve");
        by(&mut client, &eve, delete, "{}").is(401);
        client.json(delete, "{}").is(401);

        let token = sign_in(&mut client);
        by(&mut client, &token, delete, "{}").is(204);
        by(&mut client, &token, "GET /api/auth/me", "").is(401);
        let users = service.auth.users().unwrap();
        assert!(users.iter().all(|user| user.email.is_none()), "{users:?}");
    }
}

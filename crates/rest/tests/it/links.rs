//! Accounts by mail over HTTP: answers that do not reveal accounts, links, and second factors.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use marmota_auth::{AccountMail, AccountMailer, Settings, SignUpPolicy};
use marmota_memory::Memory;
use marmota_model::Result;
use marmota_sqlite::Sqlite;
use marmota_store::Transaction;
use serde_json::json;

use crate::auth::{Guarded, PASSWORD, by, own, services};

/// Keeps the mails that were requested.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<AccountMail>>>);

impl AccountMailer for Kept {
    fn enqueue(&self, _: &Transaction, mail: &AccountMail) -> Result<()> {
        self.0.lock().unwrap().push(mail.clone());
        Ok(())
    }
}

impl Kept {
    /// Returns the token of the mail that was requested last.
    fn token(&self, service: &Guarded) -> String {
        let mail = self.0.lock().unwrap().last().cloned().unwrap();
        let url = service.auth.prepare_mail(&mail).unwrap().unwrap().url.unwrap();
        url.rsplit('/').next().unwrap().to_owned()
    }
}

fn settings(kept: &Kept) -> Settings {
    own().sign_up(SignUpPolicy::Open).login_links(true).mailer(kept.clone())
}

/// Makes an account over HTTP.
fn sign_up(service: &Guarded, kept: &Kept, email: &str) -> i64 {
    let mut client = service.client();
    client.json("POST /api/auth/sign-up", &json!({ "email": email }).to_string()).is(202);
    let body = json!({ "token": kept.token(service), "password": PASSWORD }).to_string();
    client.json("POST /api/auth/join", &body).is(201).value()["user"].as_i64().unwrap()
}

#[test]
fn a_person_signs_up_resets_and_leaves() {
    let kept = Kept::default();
    for service in services(|| settings(&kept)) {
        let mut client = service.client();
        let options = client.send("GET /api/auth/options", &[], b"").is(200).value();
        let offered = json!({ "sign_up": "open", "domains": [], "mails": true, "login_links": true, "passkeys": false, "providers": [], "profile": null });
        assert_eq!(options, offered);
        let ann = sign_up(&service, &kept, "ann@example.org");
        client.json("POST /api/auth/reset", r#"{"email":"ann@example.org"}"#).is(202);
        let token = kept.token(&service);
        let body = json!({ "token": token, "password": "another password" }).to_string();
        client.json("POST /api/auth/reset-password", &body).is(204);
        client.json("POST /api/auth/reset-password", &body).is(401);

        client.json("POST /api/auth/login-link", r#"{"email":"ann@example.org"}"#).is(202);
        let body = json!({ "token": kept.token(&service), "cookie": true }).to_string();
        let device = ["User-Agent: Phone", "Content-Type: application/json"];
        let login = client.send("POST /api/auth/login-with-link", &device, body.as_bytes()).is(200);
        assert_eq!(login.value()["user"], ann);
        assert!(login.value().get("token").is_none());
        let body = r#"{"name":"ann@example.org","password":"another password"}"#;
        let login = client.json("POST /api/auth/login", body).is(200).value();
        let token = login["token"].as_str().unwrap();
        let me = by(&mut client, token, "GET /api/auth/me", "").is(200).value();
        assert_eq!(
            (&me["email"], &me["recovery_codes"]),
            (&json!("ann@example.org"), &json!(null))
        );
        let sessions = me["sessions"].as_array().unwrap();
        let phone = sessions.iter().find(|session| session["device"] == "Phone").unwrap();
        let path = format!("DELETE /api/auth/sessions/{}", phone["id"]);
        by(&mut client, token, &path, "").is(204);
        by(&mut client, token, &path, "").is(404);
        crate::auth::insert(&mut client, token, ann, "hers");
        let data = by(&mut client, token, "GET /api/auth/data", "").is(200).value();
        assert_eq!(data["email"], "ann@example.org");

        by(&mut client, token, "POST /api/auth/delete-account", r#"{"password":"wrong"}"#).is(401);
        let body = r#"{"password":"another password"}"#;
        by(&mut client, token, "POST /api/auth/delete-account", body).is(204);
        by(&mut client, token, "GET /api/auth/me", "").is(401);
        assert!(sign_up(&service, &kept, "ann@example.org") > ann);
    }
}

#[test]
fn a_second_factor_is_set_up_and_needed() {
    for service in services(own) {
        let (_, token) = service.user("ann");
        let mut client = service.client();
        let body = json!({ "password": PASSWORD }).to_string();
        let setup = by(&mut client, &token, "POST /api/auth/totp", &body).is(200).value();
        assert!(setup["url"].as_str().unwrap().starts_with("otpauth://totp/"));
        assert!(setup["qr_code"].as_str().unwrap().contains("<svg"));
        let wrong =
            by(&mut client, &token, "POST /api/auth/totp/confirm", r#"{"code":"x"}"#).is(401);
        assert_eq!(wrong.value()["errors"][0]["field"], "code");
        // Without a confirmation, logins are as before.
        service.login("ann");
        let administrator = service.administrator();
        let users = by(&mut client, &administrator, "GET /api/auth/users", "").is(200).value();
        let users = users["users"].as_array().unwrap();
        let ann = users.iter().find(|user| user["name"] == "ann").unwrap()["id"].as_i64().unwrap();
        by(&mut client, &token, &format!("DELETE /api/auth/users/{ann}/totp"), "").is(403);
        by(&mut client, &administrator, &format!("DELETE /api/auth/users/{ann}/totp"), "").is(204);
        by(&mut client, &administrator, &format!("DELETE /api/auth/users/{ann}/totp"), "").is(404);
    }
}

#[test]
fn invitations_are_those_of_administrators() {
    let kept = Kept::default();
    let settings = || own().sign_up(SignUpPolicy::Invited).mailer(kept.clone());
    for service in services(settings) {
        let (_, ann) = service.user("ann");
        let administrator = service.administrator();
        let mut client = service.client();
        let body = r#"{"email":"bob@example.org"}"#;
        client.json("POST /api/auth/sign-up", body).is(403);
        client.json("POST /api/auth/invitations", body).is(401);
        by(&mut client, &ann, "POST /api/auth/invitations", body).is(403);
        let invited = by(&mut client, &administrator, "POST /api/auth/invitations", body).is(201);
        let id = invited.value()["id"].clone();
        let token = kept.token(&service);
        // The address cannot be chosen.
        let other = json!({ "token": token, "password": PASSWORD, "email": "eve@evil.net" });
        client.json("POST /api/auth/join", &other.to_string()).is(400);
        let list = by(&mut client, &administrator, "GET /api/auth/invitations", "").is(200).value();
        assert_eq!(list["invitations"][0]["email"], "bob@example.org");
        by(&mut client, &administrator, &format!("DELETE /api/auth/invitations/{id}"), "").is(204);
        let body = json!({ "token": token, "password": PASSWORD }).to_string();
        client.json("POST /api/auth/join", &body).is(401);
    }
}

#[test]
fn a_program_without_mails_says_so() {
    let service = Guarded::new(Memory::new(), own().sign_up(SignUpPolicy::Open));
    let answer = service.client().json("POST /api/auth/reset", r#"{"email":"a@example.org"}"#);
    assert!(answer.is(501).value()["detail"].as_str().unwrap().contains("sends no mails"));
}

/// The answers for an address with an account and for one without are equal, and take equally long: the
/// medians of many tries, one after the other, differ by less than the spread of either.
#[test]
fn answers_do_not_reveal_accounts() {
    let kept = Kept::default();
    let engine = Sqlite::from_url("sqlite::memory:").unwrap();
    let service = Guarded::new(engine, settings(&kept).mails_max(u32::MAX));
    sign_up(&service, &kept, "ann@example.org");
    let mut client = service.client();
    for route in ["sign-up", "reset", "login-link"] {
        let mut times = [Vec::new(), Vec::new()];
        let mut bodies = std::collections::BTreeSet::new();
        for number in 0..1_000 {
            let is_there = number % 2;
            let email = ["eve@example.org", "ann@example.org"][is_there];
            let body = json!({ "email": email }).to_string();
            let begun = Instant::now();
            let answer = client.json(&format!("POST /api/auth/{route}"), &body).is(202);
            times[is_there].push(begun.elapsed());
            bodies.insert(answer.body);
        }
        assert_eq!(bodies.len(), 1, "{bodies:?}");
        let [unknown, known] = times.map(|mut times| {
            times.sort();
            let at = |part: usize| times[times.len() * part / 100];
            (at(50), at(90) - at(10))
        });
        let differ = unknown.0.abs_diff(known.0);
        let spread = unknown.1.max(known.1).max(Duration::from_micros(50));
        println!("{route}: {unknown:?} and {known:?}");
        assert!(differ < spread, "{route}: {unknown:?} and {known:?}");
    }
}

//! The sign-in: who gets which account, and the attacks that are refused and kept as events.

use std::collections::HashMap;
use std::net::IpAddr;

use marmota_auth::{
    Auth, LoginClient, ProviderAnswer, ProviderSignIn, Settings, SignInStart, SignUpPolicy,
};
use marmota_model::{Error, ErrorKind, Result, Timestamp};
use marmota_providers::ProviderFile;
use marmota_store::StoreBuilder;
use serde_json::{Value, json};

use crate::databases::databases;
use crate::issuer::{Issuer, Key};

const CLIENT: &str = "shop";

/// Accounts with a provider, and the key of it.
pub(crate) struct Shop {
    pub(crate) auth: Auth,
    pub(crate) issuer: Issuer,
    pub(crate) key: Key,
}

/// A sign-in under way, with what the provider has got.
struct Begun {
    start: SignInStart,
    sent: HashMap<String, String>,
}

pub(crate) fn client() -> LoginClient<'static> {
    LoginClient { address: Some(IpAddr::from([192, 0, 2, 1])), device: None }
}

impl Shop {
    fn on(builder: StoreBuilder, policy: &SignUpPolicy) -> Self {
        let issuer = Issuer::start();
        let key = Key::new("one");
        issuer.keys(&[&key]);
        let file = format!(
            "[provider.them]\nissuer = '{0}'\nclient_id = '{CLIENT}'\n\
             [tokens.them]\nissuer = '{0}'\naudience = 'api'\n\
             [tokens.named]\nissuer = '{0}/named'\nkeys_url = '{0}/keys'\naudience = 'api'\n\
             user_claim = 'email'\n\
             [provider.plain]\nauthorize_url = '{0}/authorize'\ntoken_url = '{0}/token'\n\
             user_url = '{0}/user'\nemails_url = '{0}/emails'\nclient_id = '{CLIENT}'",
            issuer.url
        );
        let file = ProviderFile::parse(&file, |_| Some("hush".to_owned())).unwrap();
        let store = marmota_auth::models(builder).open().unwrap();
        let settings = Settings::default()
            .password_cost(8, 1)
            .sign_up(policy.clone())
            .providers(file.providers())
            .token_issuers(file.token_issuers());
        Self { auth: Auth::new(&store, settings).unwrap(), issuer, key }
    }

    fn begin(&self, provider: &str, user: Option<i64>) -> Begun {
        let start = self.auth.begin_sign_in(provider, Some("/shop"), user, client()).unwrap();
        let url = url::Url::parse(&start.url).unwrap();
        Begun { sent: url.query_pairs().into_owned().collect(), start }
    }

    /// The claims of a person, for a sign-in.
    fn claims(&self, begun: &Begun, person: &str) -> Value {
        let now = Timestamp::now().micros() / 1_000_000;
        json!({
            "iss": self.issuer.url, "aud": CLIENT, "sub": person, "nonce": begun.sent["nonce"],
            "iat": now, "exp": now + 60, "email": format!("{person}@example.org"), "email_verified": true,
        })
    }

    fn finish(&self, begun: &Begun, user: Option<i64>) -> Result<ProviderSignIn> {
        let answer = ProviderAnswer {
            state: &begun.sent["state"],
            provider_code: "code",
            browser: Some(&begun.start.browser),
            user,
            ..ProviderAnswer::default()
        };
        self.auth.finish_sign_in(&answer, client())
    }

    /// Signs in with claims that a test has changed.
    fn sign_in_with(&self, change: impl FnOnce(&mut Value)) -> Result<ProviderSignIn> {
        let begun = self.begin("them", None);
        let mut claims = self.claims(&begun, "ann");
        change(&mut claims);
        self.issuer.answers(json!({ "id_token": self.key.sign(&claims) }));
        self.finish(&begun, None)
    }

    /// Checks that an attack was refused, and is kept as an event with its reason.
    #[track_caller]
    fn refused<T: std::fmt::Debug>(
        &self,
        result: Result<T>,
        kind: ErrorKind,
        reason: &str,
    ) -> Error {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(reason), "{error}");
        let event = &self.auth.security_events(None, Some("sign-in-refused")).unwrap()[0];
        assert_eq!(event.detail.0["reason"], error.message());
        assert_eq!(event.address.as_deref(), Some("192.0.2.1"));
        error
    }

    /// Makes a user with a mail address that was confirmed by a link.
    pub(crate) fn user(&self, name: &str) -> i64 {
        self.auth.add_user(name, &[], false).unwrap().0
    }
}

/// Returns the accounts on each engine in turn.
pub(crate) fn shops(policy: &SignUpPolicy) -> impl Iterator<Item = Shop> {
    databases().map(|database| Shop::on(database.builder(), policy))
}

#[test]
fn a_person_gets_an_account_and_has_it_again() {
    for shop in shops(&SignUpPolicy::Open) {
        let begun = shop.begin("them", None);
        assert_eq!(begun.sent["code_challenge_method"], "S256");
        assert_eq!(begun.sent["redirect_uri"], "http://127.0.0.1:8080/account");
        shop.issuer.answers(json!({ "id_token": shop.key.sign(&shop.claims(&begun, "ann")) }));
        let first = shop.finish(&begun, None).unwrap();
        assert_eq!(first.next.as_deref(), Some("/shop"));
        assert!(shop.issuer.form().contains("code_verifier="), "{}", shop.issuer.form());
        let login = first.login.unwrap();
        assert_eq!(
            shop.auth.authenticate(&login.token).run().unwrap().caller().name,
            "ann@example.org"
        );
        // The address may change: the account is that of the subject.
        let again =
            shop.sign_in_with(|claims| claims["email"] = json!("other@example.org")).unwrap();
        let again = again.login.unwrap();
        assert_eq!(again.user, login.user);
        assert_ne!(again.token, login.token);
        assert_eq!(shop.auth.linked_accounts(login.user).unwrap().len(), 1);
    }
}

#[test]
fn a_sign_in_is_ended_once_and_in_its_browser() {
    for shop in shops(&SignUpPolicy::Open) {
        let begun = shop.begin("them", None);
        let token = json!({ "id_token": shop.key.sign(&shop.claims(&begun, "ann")) });
        // Login CSRF: the attacker's state and code, in the browser of another person.
        let victim = shop.begin("them", None);
        let answer = ProviderAnswer {
            state: &begun.sent["state"],
            provider_code: "code",
            ..ProviderAnswer::default()
        };
        for browser in [None, Some(victim.start.browser.as_str()), Some("")] {
            let ended = shop.auth.finish_sign_in(&ProviderAnswer { browser, ..answer }, client());
            shop.refused(ended, ErrorKind::Unauthenticated, "another browser");
        }
        shop.issuer.answers(token.clone());
        assert!(shop.finish(&begun, None).is_ok());
        // The state again, even with a new answer of the provider.
        shop.issuer.answers(token.clone());
        shop.refused(shop.finish(&begun, None), ErrorKind::Unauthenticated, "unknown, was used");
        // The same token, and so its nonce, in another sign-in.
        shop.refused(shop.finish(&victim, None), ErrorKind::Unauthenticated, "another sign-in");
        // A code that the provider has seen before, and a made-up state.
        let begun = shop.begin("them", None);
        shop.refused(shop.finish(&begun, None), ErrorKind::Unauthenticated, "refused the code");
        let state = ProviderAnswer { state: "guess", ..answer };
        let guessed = shop.auth.finish_sign_in(&state, client());
        shop.refused(guessed, ErrorKind::Unauthenticated, "unknown, was used");
        // The answer of another issuer (RFC 9207).
        let begun = shop.begin("them", None);
        let mixed = shop.auth.finish_sign_in(
            &ProviderAnswer {
                state: &begun.sent["state"],
                browser: Some(&begun.start.browser),
                issuer: Some("https://evil.example"),
                ..answer
            },
            client(),
        );
        shop.refused(mixed, ErrorKind::Unauthenticated, "another issuer");
    }
}

#[test]
fn a_token_of_the_provider_is_verified() {
    for shop in shops(&SignUpPolicy::Open) {
        let refused = |reason: &str, change: &dyn Fn(&mut Value)| {
            shop.refused(shop.sign_in_with(change), ErrorKind::Unauthenticated, reason);
        };
        refused("another issuer", &|claims| claims["iss"] = json!("https://evil.example"));
        refused("another audience", &|claims| claims["aud"] = json!("other"));
        refused("another audience", &|claims| claims["aud"] = json!([CLIENT, "other"]));
        refused("another audience", &|claims| claims["azp"] = json!("other"));
        refused("has expired", &|claims| claims["exp"] = json!(1_000_000));
        refused("not valid yet", &|claims| claims["iat"] = json!(9_000_000_000_u64));
        refused("another sign-in", &|claims| claims["nonce"] = json!("other"));
        refused("another sign-in", &|claims| drop(claims.as_object_mut().unwrap().remove("nonce")));
        // Another key with the same id.
        let begun = shop.begin("them", None);
        let forged = Key::new("one").sign(&shop.claims(&begun, "ann"));
        shop.issuer.answers(json!({ "id_token": forged }));
        shop.refused(shop.finish(&begun, None), ErrorKind::Unauthenticated, "wrong signature");
        assert_eq!(shop.auth.users().unwrap().len(), 1);
    }
}

#[test]
fn only_verified_addresses_are_linked_and_the_policy_applies() {
    for shop in shops(&SignUpPolicy::Domains(vec!["example.org".to_owned()])) {
        let unverified = shop.sign_in_with(|claims| claims["email_verified"] = json!(false));
        shop.refused(unverified, ErrorKind::Denied, "not verified");
        let missing = shop.sign_in_with(|claims| {
            claims.as_object_mut().unwrap().remove("email_verified");
        });
        shop.refused(missing, ErrorKind::Denied, "not verified");
        let other = shop.sign_in_with(|claims| claims["email"] = json!("ann@evil.example"));
        shop.refused(other, ErrorKind::Denied, "sign-up is closed");
        let first = shop.sign_in_with(|_| ()).unwrap().login.unwrap();
        // Another account of the provider with an address that is not verified does not get the user.
        let taken = shop.sign_in_with(|claims| {
            claims["sub"] = json!("eve");
            claims["email_verified"] = json!(false);
        });
        shop.refused(taken, ErrorKind::Denied, "not verified");
        // A verified one does: both sides have confirmed the address.
        let second =
            shop.sign_in_with(|claims| claims["sub"] = json!("ann2")).unwrap().login.unwrap();
        assert_eq!(first.user, second.user);
        // A disabled user does not sign in.
        shop.auth.change_user(first.user, None, None, Some(true)).unwrap();
        shop.refused(shop.sign_in_with(|_| ()), ErrorKind::Denied, "disabled");
    }
}

#[test]
fn a_user_adds_an_account_and_removes_it() {
    for shop in shops(&SignUpPolicy::Closed) {
        let (ann, eve) = (shop.user("ann"), shop.user("eve"));
        let add = |begun: &Begun, by: Option<i64>, person: &str| {
            let mut claims = shop.claims(begun, person);
            claims["email_verified"] = json!(false);
            shop.issuer.answers(json!({ "id_token": shop.key.sign(&claims) }));
            shop.finish(begun, by)
        };
        // Another user, or no one, cannot end what a user has begun; neither can a user take a sign-in.
        let begun = shop.begin("them", Some(ann));
        for by in [None, Some(eve)] {
            let ended = shop.finish(&begun, by);
            shop.refused(ended, ErrorKind::Unauthenticated, "who has begun it");
        }
        assert!(add(&begun, Some(ann), "x").unwrap().login.is_none());
        let taken = add(&shop.begin("them", Some(eve)), Some(eve), "x");
        shop.refused(taken, ErrorKind::Conflict, "another user");
        let linked = shop.auth.linked_accounts(ann).unwrap();
        assert!(linked.len() == 1 && linked[0].email.is_none());
        assert_eq!(shop.auth.unlink(eve, linked[0].id).unwrap_err().kind(), ErrorKind::NotFound);
        // It is the only way to sign in: this user has neither a password nor an address.
        assert_eq!(shop.auth.unlink(ann, linked[0].id).unwrap_err().kind(), ErrorKind::Conflict);
        add(&shop.begin("them", Some(ann)), Some(ann), "y").unwrap();
        shop.auth.unlink(ann, linked[0].id).unwrap();
        shop.auth.remove_user(ann).unwrap();
    }
}

#[test]
fn a_code_of_an_app_is_needed_after_the_provider() {
    for shop in shops(&SignUpPolicy::Open) {
        let ann = shop.sign_in_with(|_| ()).unwrap().login.unwrap().user;
        let once = shop.auth.new_token(ann).unwrap();
        shop.auth.set_password("ann@example.org", &once, "correct horse battery", None).unwrap();
        let setup = shop.auth.begin_totp(ann, "correct horse battery", None).unwrap();
        let secret = totp_rs::Secret::try_from_base32(&setup.secret).unwrap();
        let app =
            totp_rs::Builder::new().with_secret(secret).with_account_name("ann").build().unwrap();
        let codes = shop.auth.confirm_totp(ann, &app.generate_current().to_string(), None).unwrap();

        let begun = shop.begin("them", None);
        shop.issuer.answers(json!({ "id_token": shop.key.sign(&shop.claims(&begun, "ann")) }));
        let needed = shop.finish(&begun, None).unwrap_err();
        assert_eq!(needed.violations()[0].rule, "required");
        let with = |code: &str, browser: &str| {
            let answer = ProviderAnswer {
                state: &begun.sent["state"],
                browser: Some(browser),
                proof: Some(code).into(),
                ..ProviderAnswer::default()
            };
            shop.auth.finish_sign_in(&answer, client())
        };
        let browser = begun.start.browser.as_str();
        shop.refused(with(&codes[0], "mb_other"), ErrorKind::Unauthenticated, "another browser");
        shop.refused(with("000000", browser), ErrorKind::Unauthenticated, "code is wrong");
        assert_eq!(with(&codes[0], browser).unwrap().login.unwrap().user, ann);
        shop.refused(with(&codes[1], browser), ErrorKind::Unauthenticated, "unknown, was used");
    }
}

#[test]
fn pages_of_other_servers_and_too_many_sign_ins_are_refused() {
    for shop in shops(&SignUpPolicy::Open) {
        for next in
            ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"]
        {
            let refused = shop.auth.begin_sign_in("them", Some(next), None, client());
            shop.refused(refused.map(|_| ()), ErrorKind::Invalid, "a path of this server");
        }
        let unknown = shop.auth.begin_sign_in("other", None, None, client());
        assert_eq!(unknown.err().unwrap().kind(), ErrorKind::NotFound);
        let limited =
            (0..60).find_map(|_| shop.auth.begin_sign_in("them", None, None, client()).err());
        assert_eq!(limited.unwrap().kind(), ErrorKind::Busy);
        assert_eq!(shop.auth.security_events(None, Some("sign-in-limited")).unwrap().len(), 1);
        // The document of the provider is read once.
        assert_eq!(shop.issuer.requests("/.well-known/openid-configuration"), 1);
    }
}

//! Passkeys: as the only factor, as the second one, and the attacks on both.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use marmota_auth::{
    AddedPasskey, Auth, Identity, LoginClient, SecondProof, SecurityEvent, WebAuthn,
};
use marmota_model::{Error, ErrorKind};
use marmota_store::Store;

use crate::authenticator::{Authenticator, ORIGIN};
use crate::{Clock, PASSWORD, listening, refused, settings, stores, unknown, user};

struct Shop {
    auth: Auth,
    clock: Clock,
    heard: Arc<Mutex<Vec<SecurityEvent>>>,
}

impl Shop {
    fn new(store: &Store) -> Self {
        let clock = Clock::new();
        let (settings, heard) = listening(clock.of(settings()));
        let settings = settings.passkeys(WebAuthn::new(ORIGIN).unwrap());
        let auth = Auth::new(store, settings).unwrap();
        Self { auth, clock, heard }
    }

    fn known(&self, name: &str) -> Arc<Identity> {
        let login = self.auth.login(name, PASSWORD, None).unwrap();
        self.auth.authenticate(&login.token).run().unwrap()
    }

    fn add(&self, known: &Identity, device: &mut Authenticator) -> AddedPasskey {
        let options = self.auth.begin_passkey(known).unwrap();
        let answer = device.create(&options);
        self.auth.add_passkey(known, "phone", &answer, None).unwrap()
    }

    fn answer(&self, device: &mut Authenticator) -> String {
        let options = self.auth.passkey_challenge(client()).unwrap();
        device.sign(&options).to_string()
    }

    fn login(&self, answer: &str) -> Result<i64, Error> {
        self.auth.login_with_passkey(answer, client()).map(|login| login.user)
    }

    /// Checks that an answer is refused, with an event that has this reason.
    #[track_caller]
    fn refuses(&self, answer: &str, reason: &str) {
        self.heard.lock().unwrap().clear();
        let error = self.login(answer).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error}");
        let heard = self.heard.lock().unwrap();
        let is_it = |event: &SecurityEvent| matches!(event, SecurityEvent::PasskeyRefused { reason: found, .. } if found.contains(reason));
        assert!(heard.iter().any(is_it), "{reason}: {heard:?}");
    }
}

fn client() -> LoginClient<'static> {
    LoginClient::default()
}

#[test]
fn a_passkey_signs_in_alone_and_after_the_password() {
    for store in stores() {
        let shop = Shop::new(&store);
        let ann = user(&shop.auth, "ann");
        let known = shop.known("ann");
        let mut phone = Authenticator::new();
        let added = shop.add(&known, &mut phone);
        let codes = added.recovery_codes.unwrap();
        let listed = shop.auth.passkeys(ann).unwrap();
        assert_eq!((listed[0].id, &*listed[0].name, listed[0].used_at), (added.id, "phone", None));
        // The second passkey brings no other codes, and the authenticator knows the first one.
        let options = shop.auth.begin_passkey(&known).unwrap();
        assert_eq!(options["excludeCredentials"].as_array().unwrap().len(), 1);
        let mut key = Authenticator::new();
        assert!(shop.add(&known, &mut key).recovery_codes.is_none());

        assert_eq!(shop.login(&shop.answer(&mut phone)).unwrap(), ann);
        assert_eq!(shop.login(&shop.answer(&mut key)).unwrap(), ann);
        assert!(shop.auth.passkeys(ann).unwrap()[0].used_at.is_some());

        // The password needs a second factor now: a passkey, or a recovery code.
        let with = |proof| shop.auth.login_with("ann", PASSWORD, proof, client());
        let missing = with(SecondProof::default()).unwrap_err();
        let fields: Vec<&str> =
            missing.violations().iter().map(|violation| &*violation.field).collect();
        assert_eq!(fields, ["code", "passkey"]);
        let answer = shop.answer(&mut phone);
        let by_passkey = SecondProof { passkey: Some(&answer), code: None };
        with(by_passkey).unwrap();
        unknown(with(by_passkey));
        with(Some(&*codes[0]).into()).unwrap();
        unknown(with(Some(&*codes[0]).into()));
        unknown(with(Some("000000").into()));

        // Names belong to their user.
        let eve = user(&shop.auth, "eve");
        refused(shop.auth.rename_passkey(eve, added.id, "mine"), ErrorKind::NotFound);
        refused(shop.auth.rename_passkey(ann, added.id, " "), ErrorKind::Invalid);
        shop.auth.rename_passkey(ann, added.id, "old phone").unwrap();
        assert_eq!(shop.auth.personal_data(ann).unwrap().passkeys[0].name, "old phone");
        refused(shop.auth.remove_passkey(&shop.known("eve"), added.id), ErrorKind::NotFound);

        shop.auth.remove_passkey(&known, added.id).unwrap();
        unknown(shop.login(&shop.answer(&mut phone)));
        let left = shop.auth.passkeys(ann).unwrap()[0].id;
        shop.auth.remove_passkey(&known, left).unwrap();
        shop.auth.login("ann", PASSWORD, None).unwrap();
        assert_eq!(shop.auth.recovery_codes_left(ann).unwrap(), None);
        let heard = shop.heard.lock().unwrap();
        for event in [
            SecurityEvent::PasskeyAdded { user: ann, passkey: added.id },
            SecurityEvent::PasskeyRemoved { user: ann, passkey: added.id },
        ] {
            assert!(heard.contains(&event), "{event:?}");
        }
    }
}

#[test]
fn attacks_with_answers_are_refused_and_recorded() {
    for store in stores() {
        let shop = Shop::new(&store);
        let ann = user(&shop.auth, "ann");
        let eve = user(&shop.auth, "eve");
        let (mut phone, mut other) = (Authenticator::new(), Authenticator::new());
        shop.add(&shop.known("ann"), &mut phone);
        shop.add(&shop.known("eve"), &mut other);

        // A challenge is answered once.
        let answer = shop.answer(&mut phone);
        assert_eq!(shop.login(&answer).unwrap(), ann);
        shop.refuses(&answer, "the challenge is unknown, was used, or has expired");
        // And within five minutes.
        let late = shop.answer(&mut phone);
        shop.clock.advance(Duration::from_secs(301));
        shop.refuses(&late, "has expired");
        // On a page of this server.
        phone.origin = "https://shop.example.com";
        shop.refuses(&shop.answer(&mut phone), "origin");
        phone.origin = ORIGIN;
        // With the key of the user whom the answer names.
        let options = shop.auth.passkey_challenge(client()).unwrap();
        let mut mixed = phone.sign(&options);
        mixed["response"]["userHandle"] = other.sign(&options)["response"]["userHandle"].clone();
        shop.refuses(&mixed.to_string(), "user handle");
        let options = shop.auth.passkey_challenge(client()).unwrap();
        let mut mixed = other.sign(&options);
        for name in ["id", "rawId"] {
            mixed[name] = phone.sign(&options)[name].clone();
        }
        shop.refuses(&mixed.to_string(), "user handle");
        // With its signature.
        let options = shop.auth.passkey_challenge(client()).unwrap();
        let mut tampered = phone.sign(&options);
        tampered["response"]["signature"] = phone.sign(&options)["response"]["signature"].clone();
        shop.refuses(&tampered.to_string(), "signature");
        // With a counter that increases: a copy of the key has not seen the last use.
        let used = phone.counter;
        assert_eq!(shop.login(&shop.answer(&mut phone)).unwrap(), ann);
        phone.counter = used - 1;
        shop.refuses(&shop.answer(&mut phone), "counter");
        phone.counter = used + 100;
        // After the authenticator has verified the person.
        phone.flags = 0x01;
        shop.refuses(&shop.answer(&mut phone), "verified");
        phone.flags = 0x05;
        // A passkey that is not known, and no answer at all.
        let mut stranger = Authenticator::new();
        shop.refuses(&shop.answer(&mut stranger), "not known here");
        for text in ["", "{}", "[]", r#"{"id":"x","response":{"clientDataJSON":"e30"}}"#] {
            shop.refuses(text, "challenge");
        }
        // As the second factor, it must be the passkey of the user with the password.
        let foreign = shop.answer(&mut other);
        let proof = SecondProof { passkey: Some(&foreign), code: None };
        unknown(shop.auth.login_with("ann", PASSWORD, proof, client()));
        let kept = shop.auth.security_events(None, Some("passkey-refused")).unwrap();
        assert_eq!(kept[0].user, Some(ann));
        // None of it has changed what is right.
        assert_eq!(shop.login(&shop.answer(&mut phone)).unwrap(), ann);
        assert_eq!(shop.login(&shop.answer(&mut other)).unwrap(), eve);
        shop.auth.change_user(eve, None, None, Some(true)).unwrap();
        refused(shop.login(&shop.answer(&mut other)), ErrorKind::Denied);
    }
}

#[test]
fn a_passkey_is_added_by_its_user_with_a_recent_authentication() {
    for store in stores() {
        let shop = Shop::new(&store);
        let ann = user(&shop.auth, "ann");
        user(&shop.auth, "eve");
        let (known, eve) = (shop.known("ann"), shop.known("eve"));
        let mut phone = Authenticator::new();
        // A challenge of another user, or for a sign-in.
        let answer = phone.create(&shop.auth.begin_passkey(&eve).unwrap());
        unknown(shop.auth.add_passkey(&known, "phone", &answer, None).map(|_| ()));
        let mut options = shop.auth.passkey_challenge(client()).unwrap();
        options["user"]["id"] = serde_json::json!("AAAA");
        let answer = phone.create(&options);
        unknown(shop.auth.add_passkey(&known, "phone", &answer, None).map(|_| ()));
        // Without verification of the person.
        phone.flags = 0x01;
        let answer = phone.create(&shop.auth.begin_passkey(&known).unwrap());
        unknown(shop.auth.add_passkey(&known, "phone", &answer, None).map(|_| ()));
        phone.flags = 0x05;
        // One credential belongs to one user.
        let added = shop.add(&known, &mut phone);
        let handle = phone.handle.clone();
        let answer = phone.create(&shop.auth.begin_passkey(&eve).unwrap());
        refused(
            shop.auth.add_passkey(&eve, "phone", &answer, None).map(|_| ()),
            ErrorKind::Conflict,
        );
        phone.handle = handle;

        shop.clock.advance(Duration::from_secs(601));
        let error = shop.auth.begin_passkey(&known).unwrap_err();
        assert_eq!((error.kind(), &*error.violations()[0].rule), (ErrorKind::Denied, "step-up"));
        refused(shop.auth.remove_passkey(&known, added.id), ErrorKind::Denied);
        unknown(shop.auth.step_up_with_passkey(&eve, &shop.answer(&mut phone), None));
        shop.auth.step_up_with_passkey(&known, &shop.answer(&mut phone), None).unwrap();
        shop.auth.begin_passkey(&known).unwrap();
        // A key is of a program.
        let key = shop.auth.make_key_for(ann, "key", None).unwrap().1;
        let by_key = shop.auth.authenticate(&key).run().unwrap();
        refused(shop.auth.begin_passkey(&by_key), ErrorKind::Denied);
        refused(
            shop.auth.step_up_with_passkey(&by_key, &shop.answer(&mut phone), None),
            ErrorKind::Denied,
        );
        // An administrator removes passkeys that were lost.
        shop.auth.remove_passkeys(ann).unwrap();
        refused(shop.auth.remove_passkeys(ann), ErrorKind::NotFound);
        shop.auth.login("ann", PASSWORD, None).unwrap();
        // A user who is removed takes them along.
        shop.add(&shop.known("eve"), &mut Authenticator::new());
        shop.auth.remove_user(eve.user()).unwrap();
    }
}

#[test]
fn passkeys_and_an_app_share_their_recovery_codes() {
    for store in stores() {
        let shop = Shop::new(&store);
        let ann = user(&shop.auth, "ann");
        let known = shop.known("ann");
        let mut phone = Authenticator::new();
        let codes = shop.add(&known, &mut phone).recovery_codes.unwrap();
        let setup = shop.auth.begin_totp(ann, PASSWORD, None).unwrap();
        // An app that was not confirmed changes nothing.
        let with = |code: &str| shop.auth.login_with("ann", PASSWORD, Some(code), client());
        with(&codes[0]).unwrap();
        assert!(!shop.auth.has_app(ann).unwrap());
        let app = crate::second_factor::app(&setup.secret);
        let seconds = shop.clock.0.load(std::sync::atomic::Ordering::SeqCst) / 1_000_000;
        let code = app.generate(u64::try_from(seconds).unwrap()).to_string();
        let fresh = shop.auth.confirm_totp(ann, &code, None).unwrap();
        unknown(with(&codes[1]));
        with(&fresh[0]).unwrap();
        // Without the app, the codes are for the passkey.
        shop.auth.remove_second_factor(ann).unwrap();
        assert!(!shop.auth.has_app(ann).unwrap());
        refused(shop.auth.remove_second_factor(ann), ErrorKind::NotFound);
        with(&fresh[1]).unwrap();
        // A program without passkeys does not ask for them.
        let without = Auth::new(shop.auth.store(), settings()).unwrap();
        without.login("ann", PASSWORD, None).unwrap();
        refused(without.passkey_challenge(client()), ErrorKind::Unsupported);
    }
}

#[test]
fn an_account_is_deleted_by_its_passkey() {
    for store in stores() {
        let shop = Shop::new(&store);
        let (ann, eve) = (user(&shop.auth, "ann"), user(&shop.auth, "eve"));
        let (mut phone, mut other) = (Authenticator::new(), Authenticator::new());
        shop.add(&shop.known("ann"), &mut phone);
        shop.add(&shop.known("eve"), &mut other);
        let delete = |answer: &str| shop.auth.delete_account_with_passkey(ann, answer, None);
        unknown(delete(&shop.answer(&mut other)));
        let refused = shop.auth.security_events(None, Some("passkey-refused")).unwrap();
        assert_eq!((refused.len(), refused[0].user), (1, Some(ann)));
        let answer = shop.answer(&mut phone);
        delete(&answer).unwrap();
        unknown(shop.login(&answer));
        unknown(shop.login(&shop.answer(&mut phone)));
        // A password that exists is needed.
        let login = shop.auth.login_with_passkey(&shop.answer(&mut other), client()).unwrap();
        let known = shop.auth.authenticate(&login.token).run().unwrap();
        unknown(shop.auth.delete_account_without_password(&known));
        assert!(shop.auth.users().unwrap().iter().any(|user| user.id == eve));
    }
}

#[test]
fn one_answer_at_the_same_time_signs_in_once() {
    for store in stores() {
        let shop = Shop::new(&store);
        user(&shop.auth, "ann");
        let mut phone = Authenticator::new();
        shop.add(&shop.known("ann"), &mut phone);
        let answer = shop.answer(&mut phone);
        let results: Vec<_> = std::thread::scope(|scope| {
            let one = |_| scope.spawn(|| shop.login(&answer));
            let threads: Vec<_> = (0..8).map(one).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
    }
}

#[test]
fn challenges_are_limited_for_each_client() {
    for store in stores() {
        let shop = Shop::new(&store);
        let from = |last| LoginClient { address: Some([192, 0, 2, last].into()), device: None };
        for _ in 0..50 {
            shop.auth.passkey_challenge(from(1)).unwrap();
        }
        refused(shop.auth.passkey_challenge(from(1)), ErrorKind::Busy);
        shop.auth.passkey_challenge(from(2)).unwrap();
    }
}

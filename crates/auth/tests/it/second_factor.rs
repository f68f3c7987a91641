//! Authenticator apps and recovery codes.

use marmota_auth::{Auth, LoginClient, SecurityEvent};
use marmota_model::{Error, ErrorKind};
use totp_rs::{Builder, Secret, Totp};

use crate::{Clock, PASSWORD, hours, listening, ms, refused, settings, stores, user};

pub(crate) fn app(secret: &str) -> Totp {
    let secret = Secret::try_from_base32(secret).unwrap();
    Builder::new().with_secret(secret).with_account_name("ann").build().unwrap()
}

fn login(auth: &Auth, code: Option<&str>) -> Result<i64, Error> {
    auth.login_with("ann", PASSWORD, code, LoginClient::default()).map(|login| login.user)
}

#[track_caller]
fn refused_code<T: std::fmt::Debug>(result: Result<T, Error>, rule: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    let violation = &error.violations()[0];
    assert_eq!((&*violation.field, &*violation.rule), ("code", rule));
}

#[test]
fn a_code_is_needed_and_accepted_once() {
    for store in stores() {
        let clock = Clock::new();
        let (settings, heard) = listening(clock.of(settings()));
        let auth = Auth::new(&store, settings).unwrap();
        let ann = user(&auth, "ann");
        refused(auth.begin_totp(ann, "wrong", None), ErrorKind::Unauthenticated);
        let setup = auth.begin_totp(ann, PASSWORD, None).unwrap();
        assert!(setup.url.contains(&setup.secret));
        let app = app(&setup.secret);
        let code = || {
            let seconds = clock.0.load(std::sync::atomic::Ordering::SeqCst) / 1_000_000;
            app.generate(u64::try_from(seconds).unwrap()).to_string()
        };
        // It is not needed until the first code has come.
        login(&auth, None).unwrap();
        refused_code(auth.confirm_totp(ann, "000 000", None).map(drop), "code");
        let used = code();
        let recovery = auth.confirm_totp(ann, &used, None).unwrap();
        refused(auth.begin_totp(ann, PASSWORD, None), ErrorKind::Conflict);

        refused_code(login(&auth, None), "required");
        refused_code(login(&auth, Some(&used)), "code");
        clock.advance(ms(30_000));
        let next = code();
        assert_eq!(login(&auth, Some(&next)).unwrap(), ann);
        refused_code(login(&auth, Some(&next)), "code");
        // An earlier code than the last one is refused, although its time is not over.
        refused_code(login(&auth, Some(&used)), "code");
        // `login` has no code.
        refused_code(auth.login("ann", PASSWORD, None), "required");

        // A recovery code replaces a code once.
        assert_eq!(login(&auth, Some(&recovery[3])).unwrap(), ann);
        refused_code(login(&auth, Some(&recovery[3])), "code");
        assert_eq!(auth.recovery_codes_left(ann).unwrap(), Some(9));
        clock.advance(ms(30_000));
        let fresh = auth.new_recovery_codes(ann, &code(), None).unwrap();
        refused_code(login(&auth, Some(&recovery[4])), "code");
        assert_eq!(login(&auth, Some(&fresh[0])).unwrap(), ann);

        // A new password keeps the app.
        let token = auth.new_token(ann).unwrap();
        auth.set_password("ann", &token, PASSWORD, None).unwrap();
        refused_code(login(&auth, None), "required");
        refused_code(auth.remove_totp(ann, PASSWORD, "000000", None), "code");
        auth.remove_totp(ann, PASSWORD, &fresh[1], None).unwrap();
        login(&auth, None).unwrap();
        refused(auth.remove_second_factor(ann), ErrorKind::NotFound);
        let heard = heard.lock().unwrap();
        for event in [
            SecurityEvent::SecondFactorSet { user: ann },
            SecurityEvent::RecoveryCodeUsed { user: ann, left: 9 },
            SecurityEvent::CodeFailed { user: ann, address: None },
            SecurityEvent::SecondFactorRemoved { user: ann },
        ] {
            assert!(heard.contains(&event), "{event:?}");
        }
    }
}

#[test]
fn codes_are_limited_for_all_addresses_together() {
    for store in stores() {
        let clock = Clock::new();
        let auth = Auth::new(&store, clock.of(settings())).unwrap();
        let ann = user(&auth, "ann");
        let setup = auth.begin_totp(ann, PASSWORD, None).unwrap();
        let seconds = clock.0.load(std::sync::atomic::Ordering::SeqCst) / 1_000_000;
        let code = app(&setup.secret).generate(u64::try_from(seconds).unwrap()).to_string();
        let recovery = auth.confirm_totp(ann, &code, None).unwrap();
        let from = |last| LoginClient { address: Some([10, 0, 0, last].into()), device: None };
        for last in 0..10 {
            refused_code(auth.login_with("ann", PASSWORD, Some("000000"), from(last)), "code");
        }
        let right = auth.login_with("ann", PASSWORD, Some(&*recovery[0]), from(100));
        assert_eq!(right.unwrap_err().kind(), ErrorKind::Busy);
        clock.advance(hours(1));
        auth.login_with("ann", PASSWORD, Some(&*recovery[0]), from(100)).unwrap();
    }
}

#[test]
fn one_code_at_the_same_time_logs_in_once() {
    for store in stores() {
        let clock = Clock::new();
        let auth = Auth::new(&store, clock.of(settings())).unwrap();
        let ann = user(&auth, "ann");
        let setup = auth.begin_totp(ann, PASSWORD, None).unwrap();
        let seconds = clock.0.load(std::sync::atomic::Ordering::SeqCst) / 1_000_000;
        let code = app(&setup.secret).generate(u64::try_from(seconds).unwrap()).to_string();
        let recovery = auth.confirm_totp(ann, &code, None).unwrap();
        let results: Vec<_> = std::thread::scope(|scope| {
            let one = |_| scope.spawn(|| login(&auth, Some(&*recovery[0])));
            let threads: Vec<_> = (0..8).map(one).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
    }
}

#[test]
fn a_session_on_another_device_is_ended() {
    for store in stores() {
        let auth = Auth::new(&store, settings()).unwrap();
        let (ann, eve) = (user(&auth, "ann"), user(&auth, "eve"));
        let on = |device| LoginClient { device: Some(device), address: None };
        let phone = auth.login_with("ann", PASSWORD, None, on("phone")).unwrap();
        let laptop = auth.login_with("ann", PASSWORD, None, on("laptop")).unwrap();
        let sessions = auth.sessions(ann).unwrap();
        let session = sessions.iter().find(|one| one.device.as_deref() == Some("phone")).unwrap();
        auth.authenticate(&phone.token).run().unwrap();
        refused(auth.revoke_session(eve, session.id), ErrorKind::NotFound);
        auth.revoke_session(ann, session.id).unwrap();
        assert!(auth.authenticate(&phone.token).run().is_err());
        auth.authenticate(&laptop.token).run().unwrap();
    }
}

#[test]
fn an_export_has_the_rows_that_refer_to_the_person() {
    for store in stores() {
        let auth = Auth::new(&store, settings()).unwrap();
        let (ann, eve) = (user(&auth, "ann"), user(&auth, "eve"));
        let table = store.table("note").unwrap();
        for (owner, text) in [(ann, "hers"), (eve, "other")] {
            let mut note = marmota_model::Record::new(table.clone());
            note.set("owner", owner).unwrap();
            note.set("text", text).unwrap();
            store.insert_record(&note).run().unwrap();
        }
        auth.login("ann", PASSWORD, None).unwrap();
        let data = auth.personal_data(ann).unwrap();
        assert_eq!((&*data.name, data.sessions.len()), ("ann", 1));
        assert_eq!(data.rows["note"].len(), 1);
        assert_eq!(data.rows["note"][0]["text"], "hers");
        // The note refers to Ann, and its model has no action for deletes.
        let refused = auth.delete_account(ann, PASSWORD, None, None).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
    }
}

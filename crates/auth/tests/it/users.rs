//! Users, groups, passwords and attempts.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use marmota_auth::{Auth, Proof, SecurityEvent, Settings};
use marmota_model::{ErrorKind, Record, Value};
use marmota_mongo::{Mongo, TemporaryMongo};
use marmota_store::Store;
use marmota_store::rights::{Grant, Right};

use crate::{PASSWORD, listening, memory, ms, open, refused, settings, stores, unknown, user};

#[test]
fn the_first_administrator_has_a_token() {
    for store in stores() {
        let auth = Auth::new(&store, settings()).unwrap();
        unknown(auth.login("admin", "", None));
        let old = auth.setup_token().unwrap().to_owned();
        // The program was started again.
        let auth = Auth::new(&store, settings()).unwrap();
        let token = auth.setup_token().unwrap().to_owned();
        unknown(auth.set_password("admin", &old, PASSWORD, None));
        refused(auth.set_password("admin", &token, "short", None), ErrorKind::Invalid);
        auth.set_password("admin", &token, PASSWORD, None).unwrap();
        unknown(auth.set_password("admin", &token, "another one", None));
        let login = auth.login("admin", PASSWORD, None).unwrap();
        assert!(auth.authenticate(&login.token).run().unwrap().is_admin());
        assert_eq!(Auth::new(&store, settings()).unwrap().setup_token(), None);
    }
}

#[test]
fn a_one_time_token_ends() {
    for store in stores() {
        let auth = Auth::new(&store, settings().token_age(ms(0))).unwrap();
        let token = auth.setup_token().unwrap().to_owned();
        unknown(auth.set_password("admin", &token, PASSWORD, None));
    }
}

#[test]
fn a_new_password_ends_sessions() {
    for store in stores() {
        let auth = Auth::new(&store, settings()).unwrap();
        let ann = user(&auth, "ann");
        let login = auth.login("ann", PASSWORD, None).unwrap();
        auth.authenticate(&login.token).run().unwrap();
        unknown(auth.change_password(ann, "wrong", "battery staple", None));
        auth.authenticate(&login.token).run().unwrap();
        auth.change_password(ann, PASSWORD, "battery staple", None).unwrap();
        unknown(auth.authenticate(&login.token).run());
        unknown(auth.login("ann", PASSWORD, None));
        auth.login("ann", "battery staple", None).unwrap();
        let token = auth.new_token(ann).unwrap();
        auth.login("ann", "battery staple", None).unwrap();
        auth.set_password("ann", &token, PASSWORD, None).unwrap();
        unknown(auth.login("ann", "battery staple", None));
    }
}

#[test]
fn failed_logins_are_limited() {
    for store in stores() {
        let (settings, heard) = listening(settings().attempts(3, ms(60_000)));
        let auth = Auth::new(&store, settings).unwrap();
        user(&auth, "ann");
        let here = Some(IpAddr::from([10, 0, 0, 1]));
        for _ in 0..3 {
            unknown(auth.login("ann", "wrong", here));
        }
        refused(auth.login("ann", PASSWORD, here), ErrorKind::Busy);
        // From elsewhere she still gets in.
        auth.login("ann", PASSWORD, Some(IpAddr::from([10, 0, 0, 2]))).unwrap();
        let heard = heard.lock().unwrap();
        let count =
            |wanted: fn(&SecurityEvent) -> bool| heard.iter().filter(|event| wanted(event)).count();
        assert_eq!(count(|event| matches!(event, SecurityEvent::LoginFailed { .. })), 3);
        assert_eq!(count(|event| matches!(event, SecurityEvent::LoginLimited { .. })), 1);
        assert_eq!(count(|event| matches!(event, SecurityEvent::LoggedIn { .. })), 1);
        assert!(!format!("{heard:?}").contains(PASSWORD));
    }
}

/// An unknown name takes as long as a wrong password does: the medians of 1,000 tries, one after
/// the other, differ by less than the spread of either.
#[test]
fn names_are_not_told_by_time() {
    let settings = Settings::default().password_cost(256, 1).attempts(10_000, ms(60_000));
    let auth = Auth::new(&memory(), settings).unwrap();
    user(&auth, "ann");
    let mut times = [Vec::new(), Vec::new()];
    let mut messages = std::collections::BTreeSet::new();
    for number in 0..1_000 {
        let which = number % 2;
        let begin = Instant::now();
        let error = auth.login(["ann", "nora"][which], "wrong password", None).unwrap_err();
        times[which].push(begin.elapsed());
        messages.insert(error.message().to_owned());
    }
    assert_eq!(messages.len(), 1, "{messages:?}");
    let [ann, nora] = times.map(|mut times| {
        times.sort();
        let at = |part: usize| times[times.len() * part / 100];
        (at(50), at(90) - at(10))
    });
    let spread = ann.1.max(nora.1).max(Duration::from_micros(50));
    assert!(ann.0.abs_diff(nora.0) < spread, "{ann:?} and {nora:?}");
    // Both are in the record, which has a limit for each client and minute.
    let failed = auth.security_events(None, Some("login-failed")).unwrap();
    for name in ["ann", "nora"] {
        assert!(failed.iter().any(|event| event.detail.0["name"] == name));
    }
}

#[test]
fn users_have_the_rights_of_their_groups() {
    for store in stores() {
        let auth = Auth::new(&store, settings()).unwrap();
        let note = store.table("note").unwrap();
        auth.set_password("admin", auth.setup_token().unwrap(), PASSWORD, None).unwrap();
        let (ann, bob) = (user(&auth, "ann"), user(&auth, "bob"));
        let login = auth.login("ann", PASSWORD, None).unwrap();
        let stores = || auth.authenticate(&login.token).run().unwrap().store().clone();
        let row = |owner: i64| {
            let mut row = Record::new(note.clone());
            row.set("owner", owner).unwrap();
            row.set("text", "x").unwrap();
            row
        };
        // Her own, though she may not read users.
        stores().insert_record(&row(ann)).run().unwrap();
        refused(stores().insert_record(&row(bob)).run(), ErrorKind::Denied);
        let users = store.table("marmota_user").unwrap();
        refused(stores().list_records(&users).run(), ErrorKind::Denied);
        store.insert_record(&row(bob)).run().unwrap();
        let seen = || stores().list_records(&note).run().unwrap().len();
        assert_eq!(seen(), 1);
        refused(auth.change_user(ann, Some(&["staff".to_owned()]), None, None), ErrorKind::Invalid);
        auth.set_group("staff", &[Grant::new("note", &[Right::Read])]).unwrap();
        auth.change_user(ann, Some(&["staff".to_owned()]), None, None).unwrap();
        assert_eq!(seen(), 2);
        auth.set_group("staff", &[Grant::new("note", &[Right::Read]).rule("text = 'y'")]).unwrap();
        assert_eq!(seen(), 1);
        for table in ["marmota_user", "marmota_session", "marmota_key"] {
            let grant = Grant::new(table, &[Right::Read]);
            refused(auth.set_group("staff", &[grant]), ErrorKind::Invalid);
        }
        refused(auth.set_group("staff", &[Grant::new("nte", &Right::ALL)]), ErrorKind::NotFound);
        // Administrators have all of the program's models, and no secrets.
        auth.change_user(ann, None, Some(true), None).unwrap();
        assert_eq!(seen(), 2);
        refused(stores().list_records(&users).run(), ErrorKind::Denied);
        auth.change_user(ann, None, None, Some(true)).unwrap();
        unknown(auth.authenticate(&login.token).run());
        unknown(auth.login("ann", PASSWORD, None));
        refused(auth.remove_user(bob), ErrorKind::Conflict);
        let id = Value::Int(2);
        store.delete_record(&note, id).run().unwrap();
        auth.remove_user(bob).unwrap();
        unknown(auth.login("bob", PASSWORD, None));
    }
}

/// Rules compare with `@user.id`: nobody may come to have the id of a deleted user.
#[test]
fn an_id_is_never_given_again() {
    for store in stores() {
        let auth = Auth::new(&store, settings()).unwrap();
        auth.set_password("admin", auth.setup_token().unwrap(), PASSWORD, None).unwrap();
        let ann = user(&auth, "ann");
        let mut given = vec![ann];
        auth.remove_user(ann).unwrap();
        for name in ["mallory", "eve"] {
            let id = user(&auth, name);
            assert!(!given.contains(&id), "{name} has the id {id} of a deleted user");
            given.push(id);
            // By the program itself too, and behind a restart.
            store.delete::<marmota_auth::User>(id).run().unwrap();
            let auth = Auth::new(&store, settings()).unwrap();
            let (id, _) = auth.add_user("bob", &[], false).unwrap();
            assert!(!given.contains(&id), "bob has the id {id} of a deleted user");
            given.push(id);
            auth.remove_user(id).unwrap();
        }
        let login = auth.login("admin", PASSWORD, None).unwrap();
        let known = auth.authenticate(&login.token).run().unwrap();
        let (first, _) = auth.make_key(&known, "one", None).unwrap();
        auth.revoke_key(known.user(), first).unwrap();
        let (second, _) = auth.make_key(&known, "two", None).unwrap();
        assert_ne!(first, second);
        let Proof::Session(first) = known.proof() else { panic!("a key") };
        auth.logout(&known).unwrap();
        let login = auth.login("admin", PASSWORD, None).unwrap();
        let known = auth.authenticate(&login.token).run().unwrap();
        assert_ne!(known.proof(), Proof::Session(first));
    }
}

/// A standalone server of MongoDB has no transactions: the start is refused.
#[test]
fn accounts_need_transactions() {
    let server = TemporaryMongo::start().unwrap();
    let store = open(Store::builder(Mongo::from_url(&server.url()).unwrap()));
    let error = Auth::new(&store, settings()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("transactions"), "{error}");
}

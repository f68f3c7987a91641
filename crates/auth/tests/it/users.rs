//! Users, groups, passwords and attempts.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use marmota_auth::{Auth, Proof, SecurityEvent, Settings};
use marmota_model::{ErrorKind, Record, Value};
use marmota_store::rights::{Grant, Right};

use crate::{PASSWORD, listening, memory, ms, refused, settings, sqlite, unknown, user};

#[test]
fn the_first_administrator_has_a_token() {
    let store = sqlite();
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

#[test]
fn a_one_time_token_ends() {
    let auth = Auth::new(&memory(), settings().token_age(ms(0))).unwrap();
    let token = auth.setup_token().unwrap().to_owned();
    unknown(auth.set_password("admin", &token, PASSWORD, None));
}

#[test]
fn a_new_password_ends_sessions() {
    let auth = Auth::new(&memory(), settings()).unwrap();
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

#[test]
fn failed_logins_are_limited() {
    let (settings, heard) = listening(settings().attempts(3, ms(60_000)));
    let auth = Auth::new(&memory(), settings).unwrap();
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

/// A name that there is not takes as long as a wrong password does.
#[test]
fn names_are_not_told_by_time() {
    let settings = Settings::default().password_cost(1024, 1).attempts(1000, ms(60_000));
    let auth = Auth::new(&memory(), settings).unwrap();
    user(&auth, "ann");
    // In turns, and the shortest of each: what else the machine does comes on top of both.
    let mut shortest = [Duration::MAX; 2];
    for _ in 0..25 {
        for (name, shortest) in ["ann", "nobody"].into_iter().zip(&mut shortest) {
            let begin = Instant::now();
            unknown(auth.login(name, "wrong password", None));
            *shortest = begin.elapsed().min(*shortest);
        }
    }
    let [ann, nobody] = shortest;
    assert!(nobody > ann / 2 && ann > nobody / 2, "{ann:?} and {nobody:?}");
}

#[test]
fn users_have_the_rights_of_their_groups() {
    let store = sqlite();
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

/// Rules compare with `@user.id`: nobody may come to have the id of a deleted user.
#[test]
fn an_id_is_never_given_again() {
    for store in [memory(), sqlite()] {
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

//! Tokens: which are good, and for how long.

use marmota_auth::{Auth, Event, Proof};
use marmota_model::ErrorKind;

use crate::{PASSWORD, listening, memory, ms, refused, settings, sqlite, unknown, user};

#[test]
fn a_token_is_good_until_logout() {
    for store in [memory(), sqlite()] {
        let auth = Auth::new(&store, settings()).unwrap();
        let ann = user(&auth, "ann");
        unknown(auth.login("ann", "wrong", None));
        unknown(auth.login("bob", PASSWORD, None));
        let login = auth.login("ann", PASSWORD, None).unwrap();
        let other = auth.login("ann", PASSWORD, None).unwrap();
        assert_ne!(login.token, other.token);
        let known = auth.authenticate(&login.token).unwrap();
        assert_eq!((known.user(), &*known.caller().name), (ann, "ann"));
        assert_eq!(auth.still(&known).unwrap().user(), ann);
        auth.logout(&known).unwrap();
        unknown(auth.still(&known));
        unknown(auth.authenticate(&login.token));
        // Shown again later.
        unknown(auth.authenticate(&login.token));
        let known = auth.authenticate(&other.token).unwrap();
        auth.logout_everywhere(ann).unwrap();
        unknown(auth.still(&known));
        unknown(auth.authenticate(&other.token));
        // What is kept is no token.
        let kept = auth.login("ann", PASSWORD, None).unwrap();
        let rows = store.list::<marmota_auth::Session>().run().unwrap();
        assert!(rows.iter().all(|row| !kept.token.contains(&row.token)));
        unknown(auth.authenticate(&rows[0].token));
    }
}

#[test]
fn what_is_no_token_is_refused() {
    let auth = Auth::new(&memory(), settings()).unwrap();
    user(&auth, "ann");
    let login = auth.login("ann", PASSWORD, None).unwrap();
    let mut tampered = login.token.clone();
    let last = tampered.pop().unwrap();
    tampered.push(if last == 'A' { 'B' } else { 'A' });
    for token in ["", "ms_", "mk_", ".", "..", "a.b.c", "ms_é", &"x".repeat(5000), &tampered] {
        unknown(auth.authenticate(token));
    }
    unknown(auth.authenticate(&login.token.replace("ms_", "mk_")));
    auth.authenticate(&login.token).unwrap();
}

#[test]
fn a_session_ends_unless_it_is_used() {
    let (settings, heard) = listening(settings());
    let settings = settings.session_idle(ms(2_000)).believed_for(ms(20));
    let auth = Auth::new(&sqlite(), settings).unwrap();
    let ann = user(&auth, "ann");
    let login = auth.login("ann", PASSWORD, None).unwrap();
    for _ in 0..10 {
        std::thread::sleep(ms(250));
        auth.authenticate(&login.token).unwrap();
    }
    std::thread::sleep(ms(2_500));
    unknown(auth.authenticate(&login.token));
    assert!(heard.lock().unwrap().contains(&Event::SessionEnded { user: ann }));
    assert!(auth.sessions(ann).unwrap().is_empty());
}

#[test]
fn a_session_ends_however_it_is_used() {
    let settings = settings().session_idle(ms(1_500)).session_age_max(ms(2_000));
    let auth = Auth::new(&memory(), settings).unwrap();
    user(&auth, "ann");
    let login = auth.login("ann", PASSWORD, None).unwrap();
    let begin = std::time::Instant::now();
    while auth.authenticate(&login.token).is_ok() {
        assert!(begin.elapsed() < ms(60_000), "it never ends");
        std::thread::sleep(ms(20));
    }
    assert!(begin.elapsed() >= ms(1_000));
}

#[test]
fn another_process_hears_of_a_logout() {
    let store = memory();
    let here = Auth::new(&store, settings().believed_for(ms(50))).unwrap();
    let there = Auth::new(&store, settings().believed_for(ms(50))).unwrap();
    user(&here, "ann");
    let login = here.login("ann", PASSWORD, None).unwrap();
    there.authenticate(&login.token).unwrap();
    here.logout(&here.authenticate(&login.token).unwrap()).unwrap();
    std::thread::sleep(ms(60));
    unknown(there.authenticate(&login.token));
}

#[test]
fn one_session_a_user_if_asked_for() {
    let auth = Auth::new(&memory(), settings().one_session(true)).unwrap();
    user(&auth, "ann");
    let first = auth.login("ann", PASSWORD, None).unwrap();
    auth.authenticate(&first.token).unwrap();
    let second = auth.login("ann", PASSWORD, None).unwrap();
    unknown(auth.authenticate(&first.token));
    auth.authenticate(&second.token).unwrap();
    let few = Auth::new(&memory(), settings().sessions_max(2)).unwrap();
    let ann = user(&few, "ann");
    let logins: Vec<_> = (0..4).map(|_| few.login("ann", PASSWORD, None).unwrap()).collect();
    assert_eq!(few.sessions(ann).unwrap().len(), 2);
    unknown(few.authenticate(&logins[1].token));
    few.authenticate(&logins[2].token).unwrap();
}

#[test]
fn a_jwt_is_good_as_long_as_its_session() {
    let auth = Auth::new(&memory(), settings()).unwrap();
    user(&auth, "ann");
    let login = auth.login("ann", PASSWORD, None).unwrap();
    let known = auth.authenticate(&login.token).unwrap();
    let (jwt, _) = auth.jwt(&known).unwrap();
    let by_jwt = auth.authenticate(&jwt).unwrap();
    assert_eq!((by_jwt.user(), by_jwt.proof()), (known.user(), known.proof()));
    let other = Auth::new(&memory(), settings()).unwrap();
    unknown(other.authenticate(&jwt));
    auth.logout(&known).unwrap();
    unknown(auth.authenticate(&jwt));
}

#[test]
fn a_key_is_shown_once_and_can_be_revoked() {
    let auth = Auth::new(&sqlite(), settings()).unwrap();
    let (ann, bob) = (user(&auth, "ann"), user(&auth, "bob"));
    let login = auth.login("ann", PASSWORD, None).unwrap();
    let known = auth.authenticate(&login.token).unwrap();
    let (id, key) = auth.make_key(&known, "nightly", None).unwrap();
    let by_key = auth.authenticate(&key).unwrap();
    assert_eq!((by_key.user(), by_key.proof()), (ann, Proof::Key(id)));
    refused(auth.make_key(&by_key, "more", None), ErrorKind::Denied);
    refused(auth.jwt(&by_key), ErrorKind::Denied);
    refused(auth.logout(&by_key), ErrorKind::Denied);
    assert_eq!(auth.keys(ann).unwrap()[0].name, "nightly");
    refused(auth.revoke_key(bob, id), ErrorKind::NotFound);
    auth.logout_everywhere(ann).unwrap();
    auth.authenticate(&key).unwrap();
    auth.revoke_key(ann, id).unwrap();
    unknown(auth.authenticate(&key));
    let login = auth.login("ann", PASSWORD, None).unwrap();
    let known = auth.authenticate(&login.token).unwrap();
    let (_, brief) = auth.make_key(&known, "brief", Some(ms(0))).unwrap();
    unknown(auth.authenticate(&brief));
}

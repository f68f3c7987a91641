//! Tokens: which are good, and for how long.

use std::time::Instant;

use marmota_auth::{Auth, Proof, SecurityEvent};
use marmota_model::ErrorKind;

use crate::{Clock, PASSWORD, hours, listening, ms, refused, settings, stores, unknown, user};

#[test]
fn a_token_is_good_until_logout() {
    for store in stores() {
        let auth = Auth::new(&store, settings()).unwrap();
        let ann = user(&auth, "ann");
        unknown(auth.login("ann", "wrong", None));
        unknown(auth.login("bob", PASSWORD, None));
        let login = auth.login("ann", PASSWORD, None).unwrap();
        let other = auth.login("ann", PASSWORD, None).unwrap();
        assert_ne!(login.token, other.token);
        let known = auth.authenticate(&login.token).run().unwrap();
        assert_eq!((known.user(), &*known.caller().name), (ann, "ann"));
        assert_eq!(auth.revalidate(&known).run().unwrap().user(), ann);
        auth.logout(&known).unwrap();
        unknown(auth.revalidate(&known).run());
        unknown(auth.authenticate(&login.token).run());
        // Shown again later.
        unknown(auth.authenticate(&login.token).run());
        let known = auth.authenticate(&other.token).run().unwrap();
        auth.logout_everywhere(ann).unwrap();
        unknown(auth.revalidate(&known).run());
        unknown(auth.authenticate(&other.token).run());
        // What is kept is no token.
        let kept = auth.login("ann", PASSWORD, None).unwrap();
        let sessions = store.table("marmota_session").unwrap();
        let rows = store.list_records(&sessions).run().unwrap();
        assert!(!rows.is_empty());
        for row in rows {
            let hash = row.value("token").unwrap().as_ref().as_text().unwrap().to_owned();
            assert!(!kept.token.contains(&hash));
            unknown(auth.authenticate(&hash).run());
        }
        let shown = format!("{:?}", store.list::<marmota_auth::User>().run().unwrap());
        assert!(shown.contains("ann") && !shown.contains("argon2"), "{shown}");
    }
}

#[test]
fn what_is_no_token_is_refused() {
    for store in stores() {
        let auth = Auth::new(&store, settings()).unwrap();
        user(&auth, "ann");
        let login = auth.login("ann", PASSWORD, None).unwrap();
        let mut tampered = login.token.clone();
        let last = tampered.pop().unwrap();
        tampered.push(if last == 'A' { 'B' } else { 'A' });
        for token in ["", "ms_", "mk_", ".", "..", "a.b.c", "ms_é", &"x".repeat(5000), &tampered] {
            unknown(auth.authenticate(token).run());
        }
        unknown(auth.authenticate(&login.token.replace("ms_", "mk_")).run());
        auth.authenticate(&login.token).run().unwrap();
    }
}

#[test]
fn a_session_ends_unless_it_is_used() {
    for store in stores() {
        let (clock, (settings, heard)) = (Clock::new(), listening(settings()));
        let auth = Auth::new(&store, clock.of(settings)).unwrap();
        let ann = user(&auth, "ann");
        let login = auth.login("ann", PASSWORD, None).unwrap();
        for _ in 0..10 {
            clock.advance(hours(7));
            auth.authenticate(&login.token).run().unwrap();
        }
        // Its end is kept in the background.
        let begin = Instant::now();
        while auth.sessions(ann).unwrap().is_empty() {
            assert!(begin.elapsed() < ms(60_000), "its end is not kept");
            std::thread::yield_now();
        }
        clock.advance(hours(8));
        unknown(auth.authenticate(&login.token).run());
        assert!(heard.lock().unwrap().contains(&SecurityEvent::SessionEnded { user: ann }));
        assert!(auth.sessions(ann).unwrap().is_empty());
        // It is deleted, though no request waits for that.
        let begin = Instant::now();
        while store.count::<marmota_auth::LoginSession>().run().unwrap() > 0 {
            assert!(begin.elapsed() < ms(60_000), "an ended session stays");
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_session_ends_however_it_is_used() {
    for store in stores() {
        let clock = Clock::new();
        let auth = Auth::new(&store, clock.of(settings())).unwrap();
        user(&auth, "ann");
        let login = auth.login("ann", PASSWORD, None).unwrap();
        for _ in 0..(30 * 24 / 6 - 1) {
            clock.advance(hours(6));
            auth.authenticate(&login.token).run().unwrap();
        }
        // The session was entered a little after the clock was made.
        clock.advance(hours(6) + ms(60_000));
        unknown(auth.authenticate(&login.token).run());
    }
}

#[test]
fn another_process_hears_of_a_logout() {
    for store in stores() {
        let clock = Clock::new();
        let here = Auth::new(&store, clock.of(settings())).unwrap();
        let there = Auth::new(&store, clock.of(settings())).unwrap();
        user(&here, "ann");
        let login = here.login("ann", PASSWORD, None).unwrap();
        there.authenticate(&login.token).run().unwrap();
        here.logout(&here.authenticate(&login.token).run().unwrap()).unwrap();
        clock.advance(ms(10_000));
        unknown(there.authenticate(&login.token).run());
    }
}

/// Authentication never waits on the thread that asks: what is in memory is ready, and what is not
/// is a future.
#[test]
fn a_token_in_memory_is_ready_at_once() {
    for store in stores() {
        let auth = Auth::new(&store, settings()).unwrap();
        user(&auth, "ann");
        let login = auth.login("ann", PASSWORD, None).unwrap();
        let mut first = auth.authenticate(&login.token);
        assert!(first.ready().is_none());
        first.run().unwrap();
        let mut again = auth.authenticate(&login.token);
        assert_eq!(again.ready().unwrap().unwrap().caller().name, "ann");
        unknown(auth.authenticate(&"x".repeat(5000)).ready().unwrap());
    }
}

#[test]
fn one_session_a_user_if_asked_for() {
    for store in stores() {
        let auth = Auth::new(&store, settings().one_session(true)).unwrap();
        user(&auth, "ann");
        let first = auth.login("ann", PASSWORD, None).unwrap();
        auth.authenticate(&first.token).run().unwrap();
        let second = auth.login("ann", PASSWORD, None).unwrap();
        unknown(auth.authenticate(&first.token).run());
        auth.authenticate(&second.token).run().unwrap();
        let few = Auth::new(&store, settings().sessions_max(2)).unwrap();
        let bob = user(&few, "bob");
        let logins: Vec<_> = (0..4).map(|_| few.login("bob", PASSWORD, None).unwrap()).collect();
        assert_eq!(few.sessions(bob).unwrap().len(), 2);
        unknown(few.authenticate(&logins[1].token).run());
        few.authenticate(&logins[2].token).run().unwrap();
    }
}

#[test]
fn a_jwt_is_good_as_long_as_its_session() {
    for store in stores() {
        let auth = Auth::new(&store, settings()).unwrap();
        user(&auth, "ann");
        let login = auth.login("ann", PASSWORD, None).unwrap();
        let known = auth.authenticate(&login.token).run().unwrap();
        let (jwt, _) = auth.jwt(&known).unwrap();
        let by_jwt = auth.authenticate(&jwt).run().unwrap();
        assert_eq!((by_jwt.user(), by_jwt.proof()), (known.user(), known.proof()));
        let other = Auth::new(&store, settings()).unwrap();
        unknown(other.authenticate(&jwt).run());
        auth.logout(&known).unwrap();
        unknown(auth.authenticate(&jwt).run());
    }
}

#[test]
fn a_key_is_shown_once_and_can_be_revoked() {
    for store in stores() {
        let auth = Auth::new(&store, settings()).unwrap();
        let (ann, bob) = (user(&auth, "ann"), user(&auth, "bob"));
        let login = auth.login("ann", PASSWORD, None).unwrap();
        let known = auth.authenticate(&login.token).run().unwrap();
        let (id, key) = auth.make_key(&known, "nightly", None).unwrap();
        let by_key = auth.authenticate(&key).run().unwrap();
        assert_eq!((by_key.user(), by_key.proof()), (ann, Proof::Key(id)));
        refused(auth.make_key(&by_key, "more", None), ErrorKind::Denied);
        refused(auth.jwt(&by_key), ErrorKind::Denied);
        refused(auth.logout(&by_key), ErrorKind::Denied);
        assert_eq!(auth.keys(ann).unwrap()[0].name, "nightly");
        refused(auth.revoke_key(bob, id), ErrorKind::NotFound);
        auth.logout_everywhere(ann).unwrap();
        auth.authenticate(&key).run().unwrap();
        auth.revoke_key(ann, id).unwrap();
        unknown(auth.authenticate(&key).run());
        let login = auth.login("ann", PASSWORD, None).unwrap();
        let known = auth.authenticate(&login.token).run().unwrap();
        let (_, brief) = auth.make_key(&known, "brief", Some(ms(0))).unwrap();
        unknown(auth.authenticate(&brief).run());
    }
}

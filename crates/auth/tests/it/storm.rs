//! Logins and logouts of many users at once, on many threads: nobody is ever
//! taken for another, and no token is good behind its logout.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use marmota_auth::Auth;
use marmota_model::{ErrorKind, Record, Value};

use crate::{PASSWORD, settings, stores, unknown, user};

const THREADS: usize = 8;
const ROUNDS: usize = 40;

#[test]
fn no_session_leaks_to_another() {
    for store in stores() {
        let auth = Auth::new(&store, settings()).unwrap();
        let note = store.table("note").unwrap();
        let users: Vec<(String, i64)> = (0..4)
            .map(|number| {
                let name = format!("user {number}");
                let id = user(&auth, &name);
                (name, id)
            })
            .collect();
        // Tokens that others show meanwhile, each with its user.
        let shown: Mutex<Vec<(String, i64)>> = Mutex::default();
        let ended = AtomicUsize::new(0);
        let reads = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (auth, users, note) = (&auth, &users, &note);
                let (shown, ended, reads) = (&shown, &ended, &reads);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let (name, id) = &users[(thread + round) % users.len()];
                        let login = auth.login(name, PASSWORD, None).unwrap();
                        shown.lock().unwrap().push((login.token.clone(), *id));
                        let known = auth.authenticate(&login.token).run().unwrap();
                        assert_eq!(known.user(), *id);
                        let mut row = Record::new(note.clone());
                        row.set("owner", *id).unwrap();
                        row.set("text", name.as_str()).unwrap();
                        known.store().insert_record(&row).run().unwrap();
                        let others = shown.lock().unwrap().clone();
                        for (token, id) in others.iter().rev().take(6) {
                            // It may have ended since; it is never another's.
                            let Ok(known) = auth.authenticate(token).run() else { continue };
                            assert_eq!(known.user(), *id);
                            let rows = known.store().list_records(note).run();
                            for row in rows.unwrap() {
                                assert_eq!(row.value("owner").unwrap(), &Value::Int(*id));
                                reads.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                        if round % 2 == 0 {
                            auth.logout(&known).unwrap();
                            shown.lock().unwrap().retain(|(token, _)| *token != login.token);
                            unknown(auth.authenticate(&login.token).run());
                            ended.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(ended.load(Ordering::Relaxed), THREADS * ROUNDS / 2);
        assert!(reads.load(Ordering::Relaxed) > THREADS * ROUNDS);
        for (token, id) in shown.into_inner().unwrap() {
            match auth.authenticate(&token).run() {
                Ok(known) => assert_eq!(known.user(), id),
                // More sessions than a user may have: the oldest had to go.
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unauthenticated),
            }
        }
        for (_, id) in &users {
            auth.logout_everywhere(*id).unwrap();
        }
        assert!(users.iter().all(|(_, id)| auth.sessions(*id).unwrap().is_empty()));
    }
}

/// A token that is shown while it ends is never known afterwards.
#[test]
fn a_token_shown_while_it_ends_stays_ended() {
    for store in stores() {
        let auth = Auth::new(&store, settings()).unwrap();
        user(&auth, "ann");
        for _ in 0..100 {
            let login = auth.login("ann", PASSWORD, None).unwrap();
            let known = auth.authenticate(&login.token).run().unwrap();
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        (0..20).for_each(|_| drop(auth.authenticate(&login.token).run()));
                    });
                }
                scope.spawn(|| auth.logout(&known).unwrap());
            });
            unknown(auth.authenticate(&login.token).run());
        }
    }
}

//! Several stores on one database, as processes have them: what one changes, the others see at
//! their next request, or once their cache has ended.

use std::path::Path;
use std::process::Command;

use marmota_auth::{Auth, Settings};
use marmota_model::ErrorKind;
use marmota_sqlite::Sqlite;
use marmota_store::Store;
use marmota_store::rights::{Grant, Right};

use crate::databases::{Database, shared_databases};
use crate::{Clock, PASSWORD, hours, ms, open, refused, settings, stores, unknown, user};

fn store_on(file: &Path) -> Store {
    let url = format!("sqlite:{}", file.display());
    open(Store::builder(Sqlite::from_url(&url).unwrap()))
}

/// Caches tokens for longer than any test takes.
fn slow_to_doubt() -> Settings {
    settings().cache_ttl(hours(1))
}

fn reads() -> [Grant; 1] {
    [Grant::new("note", &[Right::Read])]
}

/// Returns true if the user of a token may list all notes.
fn may_read(auth: &Auth, token: &str) -> bool {
    let known = auth.authenticate(token).run().unwrap();
    let store = known.store();
    let note = store.table("note").unwrap();
    known.caller().groups.contains(&"staff".to_owned()) && store.list_records(&note).run().is_ok()
}

#[test]
fn what_another_store_changes_is_effective_when_it_is_promised() {
    for (database, at_once) in shared_databases() {
        changes_are_effective(&database, at_once);
    }
}

fn changes_are_effective(database: &Database, at_once: bool) {
    let (first, second) = (open(database.builder()), open(database.builder()));
    let clock = Clock::new();
    let settings = || match at_once {
        true => slow_to_doubt(),
        false => clock.of(settings()),
    };
    // Without a notice of the engine, a cached caller is valid for ten seconds.
    let wait = || clock.advance(ms(10_000));
    let here = Auth::new(&first, settings()).unwrap();
    let there = Auth::new(&second, settings()).unwrap();
    let ann = user(&here, "ann");
    let token = here.login("ann", PASSWORD, None).unwrap().token;
    for round in 0..3 {
        wait();
        assert!(!may_read(&here, &token), "{round}");
        // The group and its member in one transaction.
        second
            .transaction(|tx| {
                there.set_group_in(tx, "staff", &reads())?;
                there.change_user_in(tx, ann, Some(&["staff".to_owned()]), None, None)
            })
            .unwrap();
        wait();
        assert!(may_read(&here, &token), "{round}");
        second
            .transaction(|tx| {
                there.change_user_in(tx, ann, Some(&[]), None, None)?;
                there.remove_group_in(tx, "staff")
            })
            .unwrap();
    }
    wait();
    assert!(!may_read(&here, &token));
    there.logout_everywhere(ann).unwrap();
    wait();
    unknown(here.authenticate(&token).run());

    let login = here.login("ann", PASSWORD, None).unwrap();
    let known = here.authenticate(&login.token).run().unwrap();
    let (key, token) = here.make_key(&known, "program", None).unwrap();
    here.authenticate(&token).run().unwrap();
    there.revoke_key(ann, key).unwrap();
    wait();
    unknown(here.authenticate(&token).run());
    there.change_user(ann, None, None, Some(true)).unwrap();
    wait();
    unknown(here.authenticate(&login.token).run());
}

#[test]
fn a_transaction_that_is_undone_changes_nothing() {
    for store in stores() {
        let (settings, heard) = crate::listening(slow_to_doubt());
        let auth = Auth::new(&store, settings).unwrap();
        let ann = user(&auth, "ann");
        let token = auth.login("ann", PASSWORD, None).unwrap().token;
        auth.authenticate(&token).run().unwrap();
        heard.lock().unwrap().clear();
        let tx = store.begin_run().unwrap();
        auth.set_group_in(&tx, "staff", &reads()).unwrap();
        // The group exists within the transaction.
        auth.change_user_in(&tx, ann, Some(&["staff".to_owned()]), None, None).unwrap();
        refused(auth.remove_group_in(&tx, "others"), ErrorKind::NotFound);
        tx.rollback().run().unwrap();
        assert!(!may_read(&auth, &token) && auth.groups().unwrap().is_empty());
        assert!(heard.lock().unwrap().is_empty());
    }
}

#[test]
fn a_transaction_under_rights_changes_no_accounts() {
    for store in stores() {
        let auth = Auth::new(&store, settings()).unwrap();
        let ann = user(&auth, "ann");
        auth.change_user(ann, None, Some(true), None).unwrap();
        let token = auth.login("ann", PASSWORD, None).unwrap().token;
        let known = auth.authenticate(&token).run().unwrap();
        let set = known.store().transaction(|tx| auth.set_group_in(tx, "staff", &reads()));
        refused(set, ErrorKind::Denied);
    }
}

/// Changes accounts in a process of its own; started by the test below.
#[test]
#[ignore = "a child process of another test"]
fn child_that_changes_accounts() {
    let file = std::env::var("MARMOTA_ACCOUNTS_FILE").unwrap();
    let auth = Auth::new(&store_on(Path::new(&file)), settings()).unwrap();
    auth.set_group("staff", &reads()).unwrap();
    let users = auth.users().unwrap();
    let ann = users.iter().find(|user| user.name == "ann").unwrap().id;
    auth.change_user(ann, Some(&["staff".to_owned()]), None, None).unwrap();
}

#[test]
fn what_another_process_changes_is_effective_at_the_next_request() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("accounts.db");
    let auth = Auth::new(&store_on(&file), slow_to_doubt()).unwrap();
    user(&auth, "ann");
    let token = auth.login("ann", PASSWORD, None).unwrap().token;
    assert!(!may_read(&auth, &token));
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::child_that_changes_accounts", "--ignored"])
        .env("MARMOTA_ACCOUNTS_FILE", &file)
        .output()
        .unwrap();
    assert!(child.status.success(), "{child:?}");
    assert!(may_read(&auth, &token));
}

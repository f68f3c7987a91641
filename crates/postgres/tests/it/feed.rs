//! The change feed of several stores on one database, each with connections of its own, as
//! processes have them.

use std::time::Duration;

use marmota_model::{ErrorKind, NoRows, ValueRef};
use marmota_postgres::{Postgres, TemporaryPostgres};
use marmota_store::Store;
use marmota_store::action::block_on;
use marmota_store::change::{ChangeKind, ChangeRetention};
use marmota_store::operation::Operation;

use crate::feed_race::{self, Received, end, race, recording};
use crate::{Tally, label, server};

fn kill(number: u64) -> String {
    format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname=current_database() \
         AND pid<>pg_backend_pid() AND pid%7={number} AND state<>'idle in transaction'"
    )
}

#[test]
fn all_processes_read_the_same_commits_in_the_same_order() {
    let commits = race(&server().make_database().unwrap(), 4, 60, kill);
    assert!(commits > 100, "{commits}");
}

#[test]
fn a_commit_waits_for_one_with_an_earlier_number_until_that_has_ended() {
    let url = server().make_database().unwrap();
    let (one, other, plain) = (recording(&url), recording(&url), crate::open(&url));
    for commits in [false, true] {
        // Takes a number, as a transaction that is being committed.
        let open = plain.begin_run().unwrap();
        let sql = "INSERT INTO marmota_commit(at,bytes,changes) VALUES (now(),0,'')";
        open.execute(sql).run().unwrap();
        let table = one.table("tally").unwrap();
        let row = [ValueRef::Absent, ValueRef::Int(0), ValueRef::Null];
        let done = one.run(&mut Operation::insert(&table, &row), &mut NoRows).unwrap();
        let position = one.position_of(&done).unwrap();
        for store in [&one, &other] {
            let waited = block_on(store.reached(position, Duration::from_millis(100)));
            assert_eq!(waited.unwrap_err().kind(), ErrorKind::Timeout);
        }
        match commits {
            true => open.commit().run().unwrap(),
            false => open.rollback().run().unwrap(),
        }
        for store in [&one, &other] {
            block_on(store.reached(position, Duration::from_secs(20))).unwrap();
        }
    }
}

#[test]
fn an_open_transaction_does_not_delay_the_commits_of_others() {
    feed_race::open_transactions(&server().make_database().unwrap());
}

#[test]
fn a_server_that_crashes_loses_no_acknowledged_commit_of_the_feed() {
    let own = TemporaryPostgres::start(&[]).unwrap();
    let url = own.make_database().unwrap();
    feed_race::crashes(&url, || {
        own.crash();
        own.resume().unwrap();
    });
}

#[test]
fn changes_by_other_programs_are_recorded() {
    use ChangeKind::{Delete, Insert, Update};
    let url = server().make_database().unwrap();
    let store = recording(&url);
    let stream = store.changes().unwrap();
    let by_hand = Postgres::from_url(&url).unwrap();
    let run = |sql: &str| by_hand.execute(sql).unwrap();
    run("INSERT INTO tally(count) VALUES (0)");
    run("UPDATE tally SET count=count");
    // A client with another encoding.
    run("SET client_encoding='LATIN1'; UPDATE tally SET label=U&'\\00e9'; RESET client_encoding");
    run("UPDATE tally SET id=1000");
    run("BEGIN; INSERT INTO tally(count) VALUES (1); SAVEPOINT a; \
         INSERT INTO tally(count) VALUES (2); ROLLBACK TO a; DELETE FROM tally WHERE id=1000; COMMIT");
    run("BEGIN; INSERT INTO tally(count) VALUES (3); ROLLBACK");
    // More than a setting holds, in several statements.
    run("DO $$BEGIN FOR number IN 1..50 LOOP INSERT INTO tally(count,label) \
         SELECT number, number||' '||n||repeat('x',100) FROM generate_series(1,20) n; \
         END LOOP; END$$");
    run("WITH gone AS (DELETE FROM tally WHERE count>10 RETURNING 1) \
         INSERT INTO tally(count) SELECT count(*) FROM gone");
    run("TRUNCATE tally");
    end(&store);
    let received = Received::read(stream);
    received.assert_is(&store);
    let counts = |kinds: &[ChangeKind]| {
        [Insert, Update, Delete].map(|kind| kinds.iter().filter(|one| **one == kind).count())
    };
    let counts: Vec<_> = received.kinds.iter().map(|kinds| counts(kinds)).collect();
    let expected = [
        [1, 0, 0],
        [0, 1, 0],
        [1, 0, 1],
        [1, 0, 1],
        [1000, 0, 0],
        [1, 0, 800],
        [0, 0, 202],
        [1, 0, 0],
    ];
    assert_eq!(counts, expected);
}

#[test]
fn a_user_that_does_not_own_the_tables_gets_an_error_that_says_so() {
    let url = server().make_database().unwrap();
    drop(recording(&url));
    let owner = Postgres::from_url(&url).unwrap();
    owner.remove_change_triggers().unwrap();
    // Users belong to the server, which other tests share.
    let user = format!("feed_{}", std::process::id());
    owner
        .execute(&format!(
            "CREATE USER {user} PASSWORD 'guest'; \
             GRANT ALL ON ALL TABLES IN SCHEMA public TO {user}; \
             GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {user}"
        ))
        .unwrap();
    let (_, place) = url.split_once('@').unwrap();
    let engine = Postgres::from_url(&format!("postgres://{user}:guest@{place}")).unwrap();
    let builder = Store::builder(engine).model::<Tally>().changes(ChangeRetention::default());
    let error = builder.open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    assert!(error.message().contains("must own the tables"), "{error}");
    // Once the owner has created the triggers, other users write with them.
    let store = recording(&url);
    let start = store.position().unwrap();
    let guest = Postgres::from_url(&format!("postgres://{user}:guest@{place}")).unwrap();
    owner.execute(&format!("REVOKE ALL ON marmota_commit FROM {user}")).unwrap();
    guest.execute("INSERT INTO tally(count) VALUES (1)").unwrap();
    end(&store);
    let received = Received::read(store.changes().unwrap().from(start).unwrap());
    assert_eq!(received.kinds.len(), 2);
}

#[test]
fn triggers_are_removed_on_request() {
    let url = server().make_database().unwrap();
    let store = recording(&url);
    let start = store.position().unwrap();
    let engine = Postgres::from_url(&url).unwrap();
    store.insert(&label(1)).run().unwrap();
    store.close().unwrap();
    engine.remove_change_triggers().unwrap();
    engine.execute("INSERT INTO tally(count) VALUES (5)").unwrap();
    let store = recording(&url);
    end(&store);
    let received = Received::read(store.changes().unwrap().from(start).unwrap());
    assert_eq!(received.kinds, [[ChangeKind::Insert], [ChangeKind::Insert]]);
}

#[test]
fn two_processes_remove_old_commits() {
    feed_race::removed_commits(&server().make_database().unwrap());
}

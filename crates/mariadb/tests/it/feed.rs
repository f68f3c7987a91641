//! The change feed of several stores on one database, each with connections of its own, as
//! processes have them, and of other programs.

use std::time::{Duration, Instant};

use marmota_mariadb::TemporaryMariadb;
use marmota_model::ErrorKind;
use marmota_store::Store;
use marmota_store::action::block_on;
use marmota_store::change::{ChangeKind, ChangeRetention, ChangeStream, FeedEvent};

use crate::feed_race::{self, Received, end, race, recording};
use crate::{Tally, engine, server};

/// Returns a statement that kills a connection which executes a statement.
fn kill(number: u64) -> String {
    format!(
        "BEGIN NOT ATOMIC DECLARE one BIGINT; SELECT id INTO one FROM information_schema.processlist \
         WHERE db=database() AND id<>connection_id() AND id%7={number} AND command<>'Sleep' LIMIT 1; \
         IF one IS NOT NULL THEN EXECUTE IMMEDIATE concat('KILL ',one); END IF; END"
    )
}

fn kinds(stream: &mut ChangeStream) -> Vec<ChangeKind> {
    match block_on(stream.next()).unwrap() {
        Some(FeedEvent::Commit(commit)) => {
            commit.changes.iter().map(|change| change.kind).collect()
        }
        other => panic!("no commit: {other:?}"),
    }
}

#[test]
fn all_processes_read_the_same_commits_in_the_same_order() {
    // A delete by filter waits for rows of the transaction that stays open.
    let url = format!("{}?lock_timeout_s=1", server().make_database().unwrap());
    let commits = race(&url, 4, 40, kill);
    assert!(commits > 60, "{commits}");
}

#[test]
fn an_open_transaction_does_not_delay_the_commits_of_others() {
    feed_race::open_transactions(&server().make_database().unwrap());
}

#[test]
fn two_processes_remove_old_commits() {
    feed_race::removed_commits(&server().make_database().unwrap());
}

#[test]
fn a_server_that_crashes_loses_no_acknowledged_commit_of_the_feed() {
    let own = TemporaryMariadb::start().unwrap();
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
    let start = store.position().unwrap();
    let mut stream = store.changes().unwrap();
    let by_hand = engine(&url);
    let mut run = |sql: &str, expected: &[ChangeKind]| {
        by_hand.execute(sql).unwrap();
        assert_eq!(kinds(&mut stream), expected, "{sql}");
    };
    run("INSERT INTO tally(count,label) VALUES (0,'caf\u{e9}'),(7,NULL)", &[Insert; 2]);
    run("UPDATE tally SET count=count+1 WHERE count=0", &[Update]);
    // Another key is another row.
    run("UPDATE tally SET id=1000 WHERE count=7", &[Delete, Insert]);
    run("REPLACE INTO tally(id,count) VALUES (1000,8)", &[Delete, Insert]);
    run(
        "BEGIN NOT ATOMIC START TRANSACTION; INSERT INTO tally(count) VALUES (1); SAVEPOINT a; \
         INSERT INTO tally(count) VALUES (2); ROLLBACK TO SAVEPOINT a; \
         DELETE FROM tally WHERE id=1000; COMMIT; END",
        &[Insert, Delete],
    );
    // What is undone, and what changes nothing, is not there.
    let sql =
        "BEGIN NOT ATOMIC START TRANSACTION; INSERT INTO tally(count) VALUES (3); ROLLBACK; END";
    by_hand.execute(sql).unwrap();
    by_hand.execute("UPDATE tally SET count=count").unwrap();
    // More than one commit has.
    run(
        "INSERT INTO tally(count,label) SELECT 9,concat(seq,repeat('x',200)) FROM seq_1_to_1000",
        &[Insert; 1000],
    );
    run("DELETE FROM tally WHERE count=9", &[Delete; 1000]);
    end(&store);
    Received::read(store.changes().unwrap().from(start).unwrap()).assert_is(&store);
}

#[test]
fn a_change_of_another_program_has_an_earlier_number_than_one_that_follows_it() {
    let url = server().make_database().unwrap();
    let (store, by_hand) = (recording(&url), engine(&url));
    let stream = store.changes().unwrap();
    let id = store.insert(&Tally::default()).run().unwrap();
    for round in 0..60 {
        by_hand.execute("UPDATE tally SET count=count+1").unwrap();
        match round % 3 {
            0 => drop(store.increment(Tally::COUNT, id, 1).run().unwrap()),
            1 => drop(store.patch::<Tally>(id).set(Tally::COUNT, round).run().unwrap()),
            _ => store.transaction(|tx| tx.increment(Tally::COUNT, id, 1).run()).map(drop).unwrap(),
        }
    }
    end(&store);
    // It asserts that each change begins with the row of the one before.
    Received::read(stream).assert_is(&store);
}

#[test]
fn an_open_transaction_of_another_program_delays_no_one_and_is_recorded_once_it_ends() {
    let url = server().make_database().unwrap();
    let (store, plain) = (recording(&url), crate::open_tally(&url));
    let mut stream = store.changes().unwrap();
    let open = plain.begin_run().unwrap();
    open.insert_many(&vec![Tally::default(); 2]).run().unwrap();
    store.insert(&Tally::default()).run().unwrap();
    assert_eq!(kinds(&mut stream).len(), 1);
    store.transaction(|tx| tx.insert(&Tally::default()).run()).unwrap();
    assert_eq!(kinds(&mut stream).len(), 1);
    open.commit().run().unwrap();
    assert_eq!(kinds(&mut stream).len(), 2);
}

#[test]
fn a_large_transaction_is_several_commits_which_are_visible_together() {
    const TEXT: usize = 40_000;
    let url = server().make_database().unwrap();
    let store = recording(&url);
    let mut stream = store.changes().unwrap();
    let row = |count, text: usize| {
        // The bytes of the label are limited by its index, those of the row by its number.
        Tally {
            count,
            label: Some(format!("{count}{}", "y".repeat(text.min(200)))),
            ..Tally::default()
        }
    };
    let rows: Vec<Tally> = (0..TEXT as i64).map(|count| row(count, TEXT)).collect();
    store.insert_many(&rows).run().unwrap();
    let (mut commits, mut changes) = (0, 0);
    while changes < rows.len() {
        changes += kinds(&mut stream).len();
        commits += 1;
        assert_eq!(store.count::<Tally>().run().unwrap(), rows.len() as u64);
    }
    assert!((2..10).contains(&commits), "{commits}");
    assert_eq!(store.position().unwrap(), stream.position());
}

#[test]
fn triggers_are_removed_on_request() {
    let url = server().make_database().unwrap();
    let store = recording(&url);
    let start = store.position().unwrap();
    let by_hand = engine(&url);
    store.insert(&Tally::default()).run().unwrap();
    store.close().unwrap();
    by_hand.remove_change_triggers().unwrap();
    by_hand.execute("INSERT INTO tally(count) VALUES (5)").unwrap();
    let store = recording(&url);
    end(&store);
    let received = Received::read(store.changes().unwrap().from(start).unwrap());
    assert_eq!(received.kinds, [[ChangeKind::Insert], [ChangeKind::Insert]]);
}

#[test]
fn a_user_without_the_right_to_create_triggers_gets_an_error_that_names_it() {
    let url = server().make_database().unwrap();
    drop(recording(&url));
    let owner = engine(&url);
    owner.remove_change_triggers().unwrap();
    let name = url.rsplit('/').next().unwrap();
    let all = format!("feed_{name}");
    server().execute(&format!("CREATE USER {all} IDENTIFIED BY 'guest'")).unwrap();
    let rights =
        "SELECT,INSERT,UPDATE,DELETE,CREATE,ALTER,INDEX,REFERENCES,CREATE TEMPORARY TABLES";
    server().execute(&format!("GRANT {rights} ON {name}.* TO {all}")).unwrap();
    let guest = format!("mariadb://{all}:guest@127.0.0.1:{}/{name}", server().port());
    let open = || {
        let builder = Store::builder(engine(&guest)).model::<Tally>();
        builder.changes(ChangeRetention::default()).open()
    };
    let error = open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    assert!(error.message().contains("TRIGGER"), "{error}");
    // Once a user with the right has created them, others write and read with them.
    let store = recording(&url);
    let mut stream = store.changes().unwrap();
    crate::open_tally(&guest).insert(&Tally::default()).run().unwrap();
    assert_eq!(kinds(&mut stream), [ChangeKind::Insert]);
    let store = open().unwrap();
    store.insert(&Tally::default()).run().unwrap();
    assert_eq!(kinds(&mut stream), [ChangeKind::Insert]);
}

#[test]
fn a_commit_of_another_process_is_reached_by_its_position() {
    let url = server().make_database().unwrap();
    let (one, other) = (recording(&url), recording(&url));
    let until = Instant::now() + Duration::from_secs(60);
    for _ in 0..20 {
        one.insert(&Tally::default()).run().unwrap();
        let position = one.position().unwrap();
        block_on(other.reached(position, Duration::from_secs(20))).unwrap();
        assert!(other.has_reached(position).unwrap() && Instant::now() < until);
    }
}

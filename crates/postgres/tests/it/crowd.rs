//! Many clients that write to the same rows.

use std::time::{Duration, Instant};

use marmota_postgres::Postgres;
use marmota_store::Store;

use crate::cancel::Numbers;
use crate::{Tally, label, open, server};

/// The server ends the sessions of a store that was closed within this.
const SESSIONS_END: Duration = Duration::from_secs(60);

#[test]
fn updates_of_overlapping_sets_do_not_block_each_other() {
    const KEYS: u64 = 60;
    let url = server().make_database().unwrap();
    // A connection for each.
    let store = open(&format!("{url}?connections_max=256&acquire_timeout_ms=60000"));
    let keys = store.insert_many(&(0..KEYS).map(label).collect::<Vec<_>>()).run().unwrap();
    std::thread::scope(|scope| {
        for client in 1..=64_u64 {
            let (store, keys) = (&store, &keys);
            scope.spawn(move || {
                let mut numbers = Numbers(client.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                for _ in 0..20 {
                    // In any order, and some of them twice.
                    let rows: Vec<Tally> = (0..20)
                        .map(|_| {
                            let at = numbers.below(KEYS) as usize;
                            Tally { id: keys[at], count: client as i64, ..label(at) }
                        })
                        .collect();
                    store.update_many(&rows).run().unwrap();
                }
            });
        }
    });
    store.close().unwrap();
    assert_eq!(deadlocks(&url), 0);
}

/// How many deadlocks the server has met in a database, whose sessions must have been closed. A
/// session reports its counts at the latest before it leaves `pg_stat_activity`.
fn deadlocks(url: &str) -> i64 {
    let (_, database) = url.rsplit_once('/').unwrap();
    let own =
        Store::builder(Postgres::from_url(&server().url("postgres")).unwrap()).open().unwrap();
    let number = |sql: &str| own.sql(sql).bind(database).value::<i64>().run().unwrap().unwrap();
    let until = Instant::now() + SESSIONS_END;
    let sessions = || number("SELECT count(*) FROM pg_stat_activity WHERE datname=$1");
    while sessions() > 0 {
        assert!(Instant::now() < until, "{} sessions do not end", sessions());
        std::thread::sleep(Duration::from_millis(5));
    }
    number("SELECT deadlocks FROM pg_stat_database WHERE datname=$1")
}

#[test]
fn of_rows_with_the_same_key_the_later_wins() {
    let store = open(&server().make_database().unwrap());
    let keys = store.insert_many(&(0..3).map(label).collect::<Vec<_>>()).run().unwrap();
    let row = |at: usize, count| Tally { id: keys[at], count, ..label(at) };
    let rows = [row(2, 1), row(0, 2), row(2, 3), row(1, 4), row(0, 5)];
    store.update_many(&rows).run().unwrap();
    for (key, count) in keys.iter().zip([5, 4, 3]) {
        assert_eq!(store.get::<Tally>(*key).run().unwrap().count, count);
    }
    // The first that is not there is named, by where it was given.
    let rows = [row(2, 7), Tally { id: 99, ..row(0, 7) }, row(0, 7), row(2, 8)];
    let error = store.update_many(&rows).run().unwrap_err();
    assert!(error.to_string().contains("row 1"), "{error}");
    assert_eq!(store.get::<Tally>(keys[2]).run().unwrap().count, 3);
}

#[test]
fn statements_of_ones_own_are_planned_as_the_server_likes() {
    let store = open(&server().make_database().unwrap());
    let keys = store.insert_many(&(0..3).map(label).collect::<Vec<_>>()).run().unwrap();
    let row = |at: usize, count| Tally { id: keys[at], count, ..label(at) };
    let rows = || [row(2, 1), row(0, 2), row(1, 3)];
    // What SQL meets on the connection that updates of many go by.
    let met = || {
        let names = ["hashjoin", "mergejoin", "seqscan"];
        let settings = names.map(|name| format!("current_setting('enable_{name}')")).join("||");
        let sql = format!("UPDATE tally SET label={settings} WHERE id=?");
        store.execute(sql).bind(keys[0]).run().unwrap();
        store.get::<Tally>(keys[0]).run().unwrap().label.unwrap()
    };
    assert_eq!(met(), "ononon");
    for _ in 0..2 {
        store.update_many(&rows()).run().unwrap();
        store.update_many(&rows()).run().unwrap();
        assert_eq!(met(), "ononon");
    }
    // The server takes back what a group has set that fails.
    store.update_many(&[row(2, 7), Tally { id: 99, ..row(0, 7) }]).run().unwrap_err();
    assert_eq!(met(), "ononon");
    store.update_many(&rows()).run().unwrap();
    store.execute("UPDATE tally SET count=1/(count-count)").run().unwrap_err();
    assert_eq!(met(), "ononon");
    store.update_many(&rows()).run().unwrap();
    assert_eq!(store.get::<Tally>(keys[2]).run().unwrap().count, 1);
}

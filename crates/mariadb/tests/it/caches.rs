//! Stores with a cache and a change feed on one database, each with connections of its own, as
//! processes have them: none reads a row that is older than a position it has reached.

use std::thread;
use std::time::{Duration, Instant};

use marmota_mariadb::TemporaryMariadb;
use marmota_store::Store;
use marmota_store::action::block_on;
use marmota_store::change::ChangeRetention;

use crate::{Tally, engine, open_tally, server, wait_until};

const LONG: Duration = Duration::from_secs(30);

fn cached(url: &str) -> Store {
    let builder = Store::builder(engine(url)).model::<Tally>().cache(8 << 20);
    builder.changes(ChangeRetention::default()).open().unwrap()
}

fn count(store: &Store, key: i64) -> i64 {
    store.get::<Tally>(key).run().unwrap().count
}

/// Has a row answered by the cache.
fn keep(store: &Store, key: i64) {
    let hits = || store.cache_stats().unwrap().hits;
    let before = hits();
    wait_until("the cache answers nothing", || {
        store.get::<Tally>(key).run().unwrap();
        hits() > before
    });
}

#[test]
fn no_cached_row_is_older_than_a_position_that_was_reached() {
    let url = server().make_database().unwrap();
    let (one, other) = (cached(&url), cached(&url));
    let key = one.insert(&Tally::default()).run().unwrap();
    block_on(other.reached(one.position().unwrap(), LONG)).unwrap();
    for round in 1..=40 {
        let (writer, reader) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        keep(writer, key);
        keep(reader, key);
        match round % 4 {
            0 | 1 => drop(writer.increment(Tally::COUNT, key, 1).run().unwrap()),
            2 => writer.execute("UPDATE tally SET count=count+1").run().map(drop).unwrap(),
            _ => {
                writer
                    .transaction(|tx| tx.increment(Tally::COUNT, key, 1).run())
                    .map(drop)
                    .unwrap();
            }
        }
        assert_eq!(count(writer, key), round);
        block_on(reader.reached(writer.position().unwrap(), LONG)).unwrap();
        assert_eq!(count(reader, key), round);
    }
}

#[test]
fn rows_that_other_programs_write_are_read_again() {
    let url = server().make_database().unwrap();
    let (store, plain, by_hand) = (cached(&url), open_tally(&url), engine(&url));
    let key = store.insert(&Tally::default()).run().unwrap();
    for round in 0..4 {
        keep(&store, key);
        plain.increment(Tally::COUNT, key, 1).run().unwrap();
        wait_until("the row of a store without a feed", || count(&store, key) == 2 * round + 1);
        keep(&store, key);
        by_hand.execute("UPDATE tally SET count=count+1").unwrap();
        wait_until("the row of another program", || count(&store, key) == 2 * round + 2);
    }
}

#[test]
fn nothing_is_cached_while_the_server_is_away() {
    let own = TemporaryMariadb::start().unwrap();
    let url = own.make_database().unwrap();
    let (store, plain) = (cached(&url), open_tally(&url));
    let key = store.insert(&Tally::default()).run().unwrap();
    keep(&store, key);
    own.crash();
    let until = Instant::now() + LONG;
    while store.get::<Tally>(key).run().is_ok() {
        assert!(Instant::now() < until, "the cache answers for a server that is away");
        thread::sleep(Duration::from_millis(5));
    }
    own.resume().unwrap();
    wait_until("the server is back", || plain.increment(Tally::COUNT, key, 1).run().is_ok());
    wait_until("the new row", || store.get::<Tally>(key).run().is_ok_and(|row| row.count == 1));
    keep(&store, key);
}

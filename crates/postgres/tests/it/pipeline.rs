//! What goes over the wire: one round trip an operation, one write for many
//! that are submitted together.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use futures_lite::future::{block_on, poll_fn};
use marmota_model::{ErrorKind, Result};
use marmota_postgres::Postgres;
use marmota_store::Store;

use crate::wire_proxy::WireProxy;
use crate::{Tally, label, open, server, store};

/// Awaits all of them, as a server's thread does: each is polled in turn.
fn join<T>(mut futures: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    block_on(poll_fn(|context| {
        for (future, done) in futures.iter_mut().zip(&mut done) {
            if done.is_none()
                && let Poll::Ready(result) = future.as_mut().poll(context)
            {
                *done = Some(result);
            }
        }
        if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    }));
    done.into_iter().map(Option::unwrap).collect()
}

fn proxied() -> (WireProxy, Store) {
    let proxy = WireProxy::start(server().port());
    let url = server().make_database().unwrap();
    let url = proxy.through(&url, server().port());
    let engine = Postgres::from_url(&format!("{url}?sslmode=disable")).unwrap();
    let store = Store::builder(engine).model::<Tally>().open().unwrap();
    (proxy, store)
}

#[test]
fn an_operation_is_one_round_trip() {
    let (proxy, store) = proxied();
    let keys = store.insert_many(&(0..1_000).map(label).collect::<Vec<_>>()).run().unwrap();
    store.get::<Tally>(keys[0]).run().unwrap();
    store.increment(Tally::COUNT, keys[0], 1).run().unwrap();
    let before = proxy.pieces();
    for key in &keys[..50] {
        store.get::<Tally>(*key).run().unwrap();
        store.increment(Tally::COUNT, *key, 1).run().unwrap();
    }
    let after = proxy.pieces();
    assert_eq!((after.0 - before.0, after.1 - before.1), (100, 100));
    // Statements of their own the first time, and no more round trips for it.
    let rows: Vec<Tally> = (5_000..6_000).map(label).collect();
    store.insert_many(&rows).run().unwrap();
    let up = proxy.pieces().0 - after.0;
    // A thousand rows are more than one piece holds, sent in a row.
    assert!(up <= 4, "{up}");
}

#[test]
fn what_is_submitted_together_is_one_write() {
    let (proxy, store) = proxied();
    let keys = store.insert_many(&(0..200).map(label).collect::<Vec<_>>()).run().unwrap();
    store.get::<Tally>(keys[0]).run().unwrap();
    let before = proxy.pieces();
    let gets = keys.iter().map(|key| -> Pin<Box<dyn Future<Output = Result<Tally>>>> {
        let (store, key) = (store.clone(), *key);
        Box::pin(async move { store.get::<Tally>(key).await })
    });
    let rows = join(gets.collect());
    let after = proxy.pieces();
    assert!(rows.iter().zip(&keys).all(|(row, key)| row.as_ref().unwrap().id == *key));
    assert_eq!(after.0 - before.0, 1, "writes");
    // They share a Sync: the server sends when its buffer of 8 kB is full, and at the end.
    assert!(after.1 - before.1 <= 4, "{} pieces for 200 rows", after.1 - before.1);
}

#[test]
fn reads_with_a_sync_each_come_to_the_same() {
    let store = open(&format!("{}?group_reads=false", server().make_database().unwrap()));
    let keys = store.insert_many(&(0..50).map(label).collect::<Vec<_>>()).run().unwrap();
    check_all(&store, &keys);
}

#[test]
fn reads_after_one_that_fails_are_sent_again() {
    let url = server().make_database().unwrap();
    let (store, hand) = (open(&url), Postgres::from_url(&url).unwrap());
    let keys = store.insert_many(&(0..50).map(label).collect::<Vec<_>>()).run().unwrap();
    check_all(&store, &keys);
    for kind in ["varchar(100)", "text"] {
        // The first of them fails, as its statement is prepared for other columns; the server
        // executes none of those that share its Sync.
        hand.execute(&format!("ALTER TABLE tally ALTER COLUMN label TYPE {kind}")).unwrap();
        check_all(&store, &keys);
    }
}

/// Reads all rows in one turn, lists and raw SQL between them.
fn check_all(store: &Store, keys: &[i64]) {
    let reads = keys.iter().map(|key| -> Pin<Box<dyn Future<Output = Result<Vec<i64>>> + '_>> {
        Box::pin(async move {
            match key % 7 {
                0 => {
                    let rows = store.list::<Tally>().filter(Tally::ID.eq(*key)).await?;
                    Ok(rows.iter().map(|row| row.id).collect())
                }
                1 => {
                    let sql = store.sql("SELECT id FROM tally WHERE id=?").bind(*key);
                    Ok(sql.value::<i64>().await?.into_iter().collect())
                }
                _ => Ok(vec![store.get::<Tally>(*key).await?.id]),
            }
        })
    });
    for (row, key) in join(reads.collect()).into_iter().zip(keys) {
        assert_eq!(row.unwrap(), [*key]);
    }
}

#[test]
fn one_that_fails_fails_alone() {
    let store = store();
    let rows: Vec<Tally> = (0..60).map(|number| label(number % 40)).collect();
    let inserts = rows.iter().map(|row| -> Pin<Box<dyn Future<Output = Result<i64>> + '_>> {
        Box::pin(async { store.insert(row).await })
    });
    let results = join(inserts.collect());
    let failed = results.iter().filter(|result| result.is_err()).count();
    assert_eq!(failed, 20);
    for error in results.iter().filter_map(|result| result.as_ref().err()) {
        assert_eq!((error.kind(), &*error.violations()[0].field), (ErrorKind::Conflict, "label"));
    }
    assert_eq!(store.count::<Tally>().run().unwrap(), 40);
}

#[test]
fn long_answers_wait_for_whoever_asked() {
    let store = store();
    // Each list is larger than what is kept for another.
    let text = "x".repeat(60_000);
    let rows: Vec<Tally> = (0..150).map(|number| label(format!("{number} {text}"))).collect();
    store.insert_many(&rows).run().unwrap();
    let lists = (0..4).map(|_| -> Pin<Box<dyn Future<Output = Result<Vec<Tally>>> + '_>> {
        Box::pin(async { store.list::<Tally>().await })
    });
    for list in join(lists.collect()) {
        let list = list.unwrap();
        assert_eq!(list.len(), 150);
        assert!(list.iter().all(|row| row.label.as_ref().unwrap().len() > 60_000));
    }
    // One that nobody reads holds nobody up for ever.
    let mut unread = Box::pin(async { store.list::<Tally>().await });
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for _ in 0..2 {
        let _ = unread.as_mut().poll(&mut context);
    }
    drop(unread);
    assert_eq!(store.count::<Tally>().run().unwrap(), 150);
}

#[test]
fn a_list_that_ends_early_leaves_the_connection_usable() {
    let store = open(&server().make_database().unwrap());
    store.insert_many(&(0..5_000).map(label).collect::<Vec<_>>()).run().unwrap();
    let table = store.table("tally").unwrap();
    for _ in 0..5 {
        let mut rows = 0;
        let query = marmota_model::RowQuery::new();
        let mut sink = |_: &[marmota_model::ValueRef<'_>]| {
            rows += 1;
            std::ops::ControlFlow::Break(())
        };
        let mut operation =
            marmota_store::operation::Operation::List { table: &table, query: &query };
        store.run(&mut operation, &mut sink).unwrap();
        assert_eq!(rows, 1);
        assert_eq!(store.count::<Tally>().run().unwrap(), 5_000);
    }
}

//! A Galera cluster of three nodes, each of which accepts writes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use marmota_mariadb::TemporaryMariadb;
use marmota_model::Value;
use marmota_store::action::block_on;
use marmota_store::change::ChangeRetention;
use marmota_store::{Store, Transaction};

use crate::feed_race::{Received, end, recording};
use crate::{Tally, engine, insert_until, open_tally, wait_until};

const WRITERS: usize = 4;
const INCREMENTS: usize = 15;

#[test]
fn conflicts_between_nodes_are_repeated_and_a_killed_node_loses_no_acknowledged_row() {
    let nodes = TemporaryMariadb::start_cluster(3).unwrap();
    let url = nodes[0].make_database().unwrap();
    let name = url.rsplit('/').next().unwrap();
    let stores: Vec<_> = nodes.iter().map(|node| open_tally(&node.url(name))).collect();

    // The same row is changed on all nodes; the conflict of a commit (1213) is repeated.
    let id = stores[0].insert(&Tally::default()).run().unwrap();
    for store in &stores {
        wait_until("the row on each node", || store.get::<Tally>(id).run().is_ok());
    }
    thread::scope(|scope| {
        for store in stores.iter().flat_map(|store| [store, store]) {
            scope.spawn(move || {
                for number in 0..INCREMENTS {
                    let add = |tx: &mut Transaction| tx.increment(Tally::COUNT, id, 1).run();
                    match number % 2 {
                        0 => store.transaction(add).map(drop).unwrap(),
                        _ => store.increment(Tally::COUNT, id, 1).run().map(drop).unwrap(),
                    }
                }
            });
        }
    });
    let sum = (6 * INCREMENTS) as i64;
    for store in &stores {
        wait_until("all increments on each node", || {
            store.get::<Tally>(id).run().unwrap().count == sum
        });
    }

    // The node that is used is killed under load.
    let store = open_tally(&nodes[0].url_with(&[&nodes[1], &nodes[2]], name));
    let ends = AtomicBool::new(false);
    let keys: Vec<i64> = thread::scope(|scope| {
        let writers: Vec<_> =
            (0..WRITERS).map(|_| scope.spawn(|| insert_until(&store, &ends))).collect();
        let rows = || stores[1].count::<Tally>().run().unwrap_or(0);
        wait_until("rows before", || rows() > 50);
        nodes[0].crash();
        let before = rows();
        wait_until("rows after", || rows() > before + 50);
        ends.store(true, Ordering::Relaxed);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    for store in &stores[1..] {
        wait_until("each acknowledged row on each node", || {
            keys.iter().all(|&key| store.get::<Tally>(key).run().is_ok())
        });
    }
}

#[test]
fn the_nodes_of_a_cluster_number_each_commit_once() {
    let nodes = TemporaryMariadb::start_cluster(3).unwrap();
    let url = nodes[0].make_database().unwrap();
    let name = url.rsplit('/').next().unwrap();
    let mut stores = vec![recording(&url)];
    for node in &nodes[1..] {
        // Not all of its tables may be there yet.
        let builder = || Store::builder(engine(&node.url(name))).model::<Tally>();
        wait_until("the tables on each node", || {
            let open = builder().changes(ChangeRetention::default()).open();
            open.map(|store| stores.push(store)).is_ok()
        });
    }
    let start = stores[0].position().unwrap();
    let id = stores[0].insert(&Tally::default()).run().unwrap();
    let after = stores[0].position().unwrap();
    for store in &stores {
        block_on(store.reached(after, Duration::from_secs(60))).unwrap();
    }

    // Each kind of write on each node, and one of another program.
    let by_hand = engine(&nodes[2].url(name));
    let streams: Vec<_> =
        stores.iter().map(|store| store.changes().unwrap().from(start).unwrap()).collect();
    let received: Vec<Received> = thread::scope(|scope| {
        let readers: Vec<_> =
            streams.into_iter().map(|stream| scope.spawn(|| Received::read(stream))).collect();
        thread::scope(|scope| {
            for store in stores.iter().flat_map(|store| [store, store]) {
                scope.spawn(move || {
                    for number in 0..INCREMENTS {
                        let add = |tx: &mut Transaction| {
                            tx.insert(&Tally::default()).run()?;
                            tx.increment(Tally::COUNT, id, 1).run()
                        };
                        match number % 3 {
                            0 => store.transaction(add).map(drop).unwrap(),
                            1 => drop(store.increment(Tally::COUNT, id, 1).run().unwrap()),
                            _ => drop(store.insert(&Tally::default()).run().unwrap()),
                        }
                    }
                });
            }
            for _ in 0..INCREMENTS {
                by_hand.execute("INSERT INTO tally(count) VALUES (5)").unwrap();
            }
        });
        end(&stores[1]);
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    // All nodes have the same commits in the same order, and they lead to the same rows.
    let first = &received[0];
    let count = |received: &Received| received.rows[&id][1].clone();
    assert_eq!(count(first), Value::Int((6 * INCREMENTS / 3 * 2) as i64));
    // The row from before, those of the nodes, of the other program, and the last one.
    assert_eq!(first.rows.len(), 1 + 6 * INCREMENTS / 3 * 2 + INCREMENTS + 1);
    for other in &received[1..] {
        assert_eq!(other.positions, first.positions);
        assert_eq!(other.kinds, first.kinds);
        assert_eq!(other.rows, first.rows);
    }
}

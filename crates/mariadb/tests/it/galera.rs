//! A Galera cluster of three nodes, each of which accepts writes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use marmota_mariadb::TemporaryMariadb;
use marmota_store::Transaction;

use crate::{Tally, insert_until, open_tally, wait_until};

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

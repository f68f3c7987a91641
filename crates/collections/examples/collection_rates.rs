//! Operations a second, on one thread and on two, beside what one would take
//! otherwise: `cargo run --release -p marmota-collections --example collection_rates`.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dashmap::DashMap;
use marmota_collections::{Expiry, Interner, List, Map, Persist, SharedMap, Sorted, Symbols};

const KEYS: usize = 200_000;
const ROUNDS: usize = 6;
/// Over the keys of shared maps: what lasts a few milliseconds may well be run
/// on one core, however many threads it has.
const PASSES: usize = 4;

#[derive(Clone)]
struct Item {
    key: u64,
    _rest: [u64; 2],
}

/// Numbers without an order, each once.
fn keys() -> Vec<u64> {
    (0..KEYS as u64).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect()
}

fn item(key: u64) -> Item {
    Item { key, _rest: [key; 2] }
}

fn ignore<T>(_: T) {}

/// The best of some rounds, in millions of keys a second.
fn rate(count: usize, mut round: impl FnMut()) -> f64 {
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        round();
        best = best.min(begun.elapsed());
    }
    count as f64 / best.as_secs_f64() / 1e6
}

fn line(name: &str, rates: [f64; 2], beside: [f64; 2]) {
    let [insert, find] = rates;
    let ratios = [insert / beside[0], find / beside[1]];
    println!("{name:<44} {insert:>8.2} {find:>8.2}   {:>5.2} {:>5.2}", ratios[0], ratios[1]);
}

/// Insert and find rates of one structure, filled from nothing.
fn measure<C>(
    keys: &[u64],
    make: impl Fn() -> C,
    insert: impl Fn(&mut C, u64),
    find: impl Fn(&C, u64) -> u64,
) -> [f64; 2] {
    let fill = || {
        let mut filled = make();
        keys.iter().for_each(|&key| insert(&mut filled, key));
        filled
    };
    let inserts = rate(keys.len(), || drop(black_box(fill())));
    let filled = fill();
    let finds = rate(keys.len(), || {
        let sum: u64 = keys.iter().rev().fold(0, |sum, &key| sum.wrapping_add(find(&filled, key)));
        black_box(sum);
    });
    [inserts, finds]
}

/// The same by several threads at once, each with keys of its own to insert
/// and all keys to find.
fn measure_shared<C: Sync>(
    keys: &[u64],
    threads: usize,
    make: impl Fn() -> C,
    insert: impl Fn(&C, u64) + Sync,
    find: impl Fn(&C, u64) -> u64 + Sync,
) -> [f64; 2] {
    let fill = || {
        let filled = make();
        std::thread::scope(|scope| {
            for own in keys.chunks(keys.len().div_ceil(threads)) {
                scope.spawn(|| {
                    for key in
                        (0..PASSES as u64).flat_map(|pass| own.iter().map(move |key| key ^ pass))
                    {
                        insert(&filled, key);
                    }
                });
            }
        });
        filled
    };
    let inserts = rate(keys.len() * PASSES, || drop(black_box(fill())));
    let filled = fill();
    let finds = rate(keys.len() * threads * PASSES, || {
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..PASSES {
                        let add = |sum: u64, &key: &u64| sum.wrapping_add(find(&filled, key));
                        black_box(keys.iter().fold(0, add));
                    }
                });
            }
        });
    });
    [inserts, finds]
}

fn one_thread(keys: &[u64]) {
    println!(
        "\n{KEYS} keys, millions a second{:>23} {:>8}    ratio to the first",
        "insert", "find"
    );
    let std = measure(
        keys,
        HashMap::new,
        |map, key| ignore(map.insert(key, key)),
        |map, key| *map.get(&key).unwrap_or(&0),
    );
    line("std HashMap", std, std);
    let brown = measure(
        keys,
        hashbrown::HashMap::<u64, u64>::new,
        |map, key| ignore(map.insert(key, key)),
        |map, key| *map.get(&key).unwrap_or(&0),
    );
    line("hashbrown HashMap", brown, std);
    let find = |map: &Map<u64, u64>, key| *map.get(&key).unwrap_or(&0);
    let map = measure(keys, Map::new, |map, key| ignore(map.insert(key, key)), find);
    line("Map", map, std);
    let hour = Expiry::After(Duration::from_secs(3600));
    let insert = |map: &mut Map<u64, u64>, key| ignore(map.insert_for(key, key, hour));
    line("Map, each key with a time to live", measure(keys, Map::new, insert, find), std);
    let list = measure(
        keys,
        || List::hashed_by(|item: &Item| &item.key),
        |list, key| ignore(list.add(item(key))),
        |list, key| list.find(&key).map_or(0, |item| item.key),
    );
    line("List, hashed (items of 24 bytes)", list, std);

    println!();
    let tree = measure(
        keys,
        BTreeMap::new,
        |map, key| ignore(map.insert(key, key)),
        |map, key| *map.get(&key).unwrap_or(&0),
    );
    line("std BTreeMap", tree, tree);
    let sorted = measure(
        keys,
        Map::<u64, u64, Sorted>::sorted,
        |map, key| ignore(map.insert(key, key)),
        |map, key| *map.get(&key).unwrap_or(&0),
    );
    line("Map, sorted", sorted, tree);

    for count in [1000, 20_000] {
        println!("\n{count} keys");
        let keys = &keys[..count];
        let plain = measure(
            keys,
            Vec::new,
            |items: &mut Vec<Item>, key| {
                let place = items.partition_point(|item| item.key < key);
                items.insert(place, item(key));
            },
            |items, key| {
                items.binary_search_by_key(&key, |item| item.key).map_or(0, |at| at as u64)
            },
        );
        line("std Vec, sorted by hand", plain, plain);
        let list = measure(
            keys,
            || List::sorted_by(|item: &Item| &item.key),
            |list, key| ignore(list.add(item(key))),
            |list, key| list.place_of(&key).map_or(0, |at| at as u64),
        );
        line("List, sorted", list, plain);
        let all = rate(count, || {
            let mut list = List::sorted_by(|item: &Item| &item.key);
            drop(black_box(list.add_all(keys.iter().map(|&key| item(key)))));
        });
        println!("{:<44} {all:>8.2}", "List, sorted, by add_all");
    }
}

/// How much more two threads do than one that share nothing: 2 on a machine
/// of its own, less where others use the second core.
fn cores_free() -> f64 {
    let rate_of = |threads: usize| {
        rate(threads, || {
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    let step = |sum: u64, number: u64| {
                        black_box(sum.wrapping_mul(31).wrapping_add(number))
                    };
                    scope.spawn(move || black_box((0..50_000_000).fold(0, step)));
                }
            });
        })
    };
    rate_of(2) / rate_of(1)
}

fn shared(keys: &[u64]) {
    for threads in [1, 2] {
        println!("\n{threads} threads, millions a second in all");
        if threads == 2 {
            println!("(arithmetic without locks gains {:.2} by the second one now)", cores_free());
        }
        let dash = measure_shared(
            keys,
            threads,
            DashMap::new,
            |map, key| ignore(map.insert(key, key)),
            |map, key| map.get(&key).map_or(0, |value| *value),
        );
        line("dashmap", dash, dash);
        let locked = measure_shared(
            keys,
            threads,
            || Mutex::new(HashMap::new()),
            |map, key| ignore(map.lock().map(|mut map| map.insert(key, key))),
            |map, key| map.lock().map_or(0, |map| *map.get(&key).unwrap_or(&0)),
        );
        line("Mutex<HashMap>", locked, dash);
        let map = measure_shared(
            keys,
            threads,
            SharedMap::<u64, u64>::new,
            |map, key| ignore(map.insert(key, key)),
            |map, key| map.get(&key).unwrap_or(0),
        );
        line("SharedMap", map, dash);
    }
}

fn texts(keys: &[u64]) {
    let words: Vec<String> = keys.iter().map(|key| format!("word {}", key % 10_000)).collect();
    println!("\n{} texts, 10 000 of them different, millions a second", words.len());
    let copies = rate(words.len(), || {
        drop(black_box(
            words.iter().map(|word| Arc::from(word.as_str())).collect::<Vec<Arc<str>>>(),
        ));
    });
    println!("{:<44} {copies:>8.2}", "a copy of each (Arc<str>)");
    let interner = Interner::new();
    let interned = rate(words.len(), || {
        drop(black_box(words.iter().map(|word| interner.intern(word)).collect::<Vec<_>>()));
    });
    println!("{:<44} {interned:>8.2}   {:?}", "Interner", interner.held());
    let symbols = Symbols::new();
    let numbered = rate(words.len(), || {
        drop(black_box(words.iter().map(|word| symbols.symbol(word).ok()).collect::<Vec<_>>()));
    });
    println!("{:<44} {numbered:>8.2}   {:?}", "Symbols", symbols.held());
}

fn saved(keys: &[u64]) -> marmota_model::Result<()> {
    let map: Map<u64, String> = keys.iter().map(|&key| (key, format!("value {key}"))).collect();
    println!("\n{} entries of number and text", map.len());
    let (json, binary) = (map.to_json()?, map.to_binary()?);
    for (name, bytes, write, read) in [
        (
            "JSON",
            json.len(),
            rate(keys.len(), || drop(black_box(map.to_json()))),
            rate(keys.len(), || drop(black_box(Map::<u64, String>::from_json(&json)))),
        ),
        (
            "binary",
            binary.len(),
            rate(keys.len(), || drop(black_box(map.to_binary()))),
            rate(keys.len(), || drop(black_box(Map::<u64, String>::from_binary(&binary)))),
        ),
    ] {
        println!("{name:<8} {:>6} kB, {write:.2} M/s written, {read:.2} M/s read", bytes / 1024);
    }
    Ok(())
}

fn main() -> marmota_model::Result<()> {
    let keys = keys();
    one_thread(&keys);
    shared(&keys);
    texts(&keys);
    saved(&keys)
}

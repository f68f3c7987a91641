//! Shared collections under threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Weak};
use std::thread;
use std::time::Duration;

use marmota_collections::{
    Expiry, Interner, List, ManualClock, Map, SharedList, SharedMap, Sorted, Symbols,
};

const THREADS: usize = 4;

fn assert_shareable<T: Send + Sync>() {}

#[test]
fn they_may_be_shared() {
    assert_shareable::<SharedMap<String, Vec<u8>>>();
    assert_shareable::<SharedMap<String, Vec<u8>, Sorted>>();
    assert_shareable::<SharedList<String>>();
    assert_shareable::<Interner>();
    assert_shareable::<Symbols>();
}

/// Runs the same on several threads that begin together.
fn together(run: impl Fn(usize) + Sync) {
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (barrier, run) = (&barrier, &run);
            scope.spawn(move || {
                barrier.wait();
                run(number);
            });
        }
    });
}

#[test]
fn no_update_is_lost() {
    let map = SharedMap::<u32, u32>::new();
    let list = SharedList::from(List::hashed());
    together(|_| {
        for at in 0..20_000 {
            map.update_or_insert_with(at % 50, || 0, |count| *count += 1);
            list.write(|list| list.add(at % 500).is_ok());
        }
    });
    assert_eq!(map.snapshot().values().sum::<u32>(), 20_000 * THREADS as u32);
    assert_eq!((map.len(), list.len()), (50, 500));
}

#[test]
fn a_value_is_made_once_however_many_ask() {
    for _ in 0..200 {
        let (map, made) = (SharedMap::<u8, usize>::new(), AtomicUsize::new(0));
        together(|_| {
            for key in 0..4 {
                let value = map.get_or_insert_with(key, || {
                    thread::yield_now();
                    made.fetch_add(1, Ordering::Relaxed);
                    usize::from(key) * 10
                });
                assert_eq!(value, usize::from(key) * 10);
            }
        });
        assert_eq!(made.load(Ordering::Relaxed), 4);
        assert_eq!(map.len(), 4);
    }
}

#[test]
fn who_fails_to_make_a_value_leaves_it_to_the_next() {
    let (map, tries) = (SharedMap::<u8, usize>::new(), AtomicUsize::new(0));
    together(|_| {
        let result = catch_unwind(AssertUnwindSafe(|| {
            map.get_or_try_insert_with(1, || match tries.fetch_add(1, Ordering::Relaxed) {
                0 => panic!("on purpose"),
                1 => Err("not yet"),
                try_ => Ok(try_),
            })
        }));
        assert!(!matches!(result, Ok(Ok(value)) if value != 2));
    });
    assert_eq!(tries.load(Ordering::Relaxed), 3);
    assert_eq!(map.get(&1), Some(2));
}

#[test]
fn what_is_set_or_taken_while_a_value_is_made_counts() {
    let map = SharedMap::<u8, &str>::new();
    let made = map.get_or_insert_with(1, || {
        map.insert(1, "newer");
        "older"
    });
    assert_eq!((made, map.get(&1)), ("older", Some("newer")));
    let made = map.get_or_insert_with(2, || {
        assert_eq!(map.take(&2), None);
        "stale"
    });
    assert_eq!((made, map.get(&2)), ("stale", None));
    // The maker may ask for what it makes, and for others.
    let made = map.get_or_insert_with(3, || map.get_or_insert_with(3, || "inner"));
    assert_eq!((made, map.get(&3)), ("inner", Some("inner")));
    let made = map.get_or_insert_with(4, || map.get_or_insert_with(5, || "five"));
    assert_eq!((made, map.len()), ("five", 4));
}

#[test]
fn a_closure_that_comes_back_panics_instead_of_waiting_for_itself() {
    let map = SharedMap::<u8, u8>::new();
    let other = SharedMap::<u8, u8>::new();
    map.insert(1, 1);
    other.insert(1, 7);
    let again = catch_unwind(AssertUnwindSafe(|| map.update(&1, |_| map.get(&1))));
    let message = again.unwrap_err().downcast::<&str>().unwrap();
    assert!(message.contains("used the same collection"), "{message}");
    // Nothing stays locked, and another collection may be used.
    assert_eq!(map.update(&1, |value| *value += other.get(&1).unwrap()), Some(()));
    assert_eq!(map.get(&1), Some(8));
    let list = SharedList::from(List::from(vec![1]));
    assert!(catch_unwind(AssertUnwindSafe(|| list.read(|_| list.len()))).is_err());
    assert_eq!(list.len(), 1);
}

#[test]
fn a_value_whose_drop_uses_the_map_is_dropped_outside_of_its_lock() {
    struct Uses(Weak<SharedMap<u8, Uses>>);
    impl Drop for Uses {
        fn drop(&mut self) {
            if let Some(map) = self.0.upgrade() {
                // Waits for ever if any part is still locked for writing.
                let _ = map.held();
            }
        }
    }
    let clock = ManualClock::new();
    let map = Arc::new(SharedMap::<u8, Uses>::new().with_clock(&clock.clock()));
    let insert = |key| {
        let value = Uses(Arc::downgrade(&map));
        map.insert_for(key, value, Expiry::After(Duration::from_secs(1)))
    };
    for key in (0..200).chain(0..10) {
        insert(key);
    }
    map.take(&1);
    clock.advance(Duration::from_secs(1));
    insert(2);
    map.take(&3);
    map.update_or_insert_with(4, || Uses(Weak::new()), |_| ());
    for _ in 0..100 {
        insert(5);
    }
    map.sweep();
    map.clear();
    assert_eq!(map.held(), 0);
}

#[test]
fn a_snapshot_is_of_one_moment() {
    // Each step takes from one key and gives to the next: never both or none.
    let map = SharedMap::<u32, u32>::new();
    map.insert(0, 1);
    thread::scope(|scope| {
        let walker = scope.spawn(|| {
            for at in 0..30_000 {
                map.insert(at + 1, 1);
                map.take(&at);
            }
        });
        while !walker.is_finished() {
            let keys: Vec<u32> = map.snapshot().keys().copied().collect();
            let near = matches!(*keys.as_slice(), [_])
                || matches!(*keys.as_slice(), [a, b] if a.abs_diff(b) == 1);
            assert!(near, "{keys:?}");
        }
    });
    assert_eq!(map.len(), 1);
}

#[test]
fn a_sorted_one_answers_in_order_across_its_parts() {
    let map = SharedMap::<u32, u32, Sorted>::sorted();
    together(|number| {
        for key in (number as u32..1000).step_by(THREADS) {
            map.insert(key, key * 2);
        }
    });
    let expected: Vec<_> = (100..200).map(|key| (key, key * 2)).collect();
    assert_eq!(map.range(100..200), expected);
    assert!(map.snapshot().keys().copied().eq(0..1000));
    assert_eq!(map.retain(|key, _| key % 2 == 0), 500);
    map.clear();
    assert!(map.is_empty());
}

#[test]
fn times_to_live_are_shared_and_kept_in_snapshots() {
    let clock = ManualClock::new();
    let mut map = Map::<&str, u8>::new().with_clock(clock.clock()).with_ttl(Duration::from_secs(9));
    map.insert("nine", 1);
    map.insert_for("two", 2, Expiry::After(Duration::from_secs(2)));
    let shared = SharedMap::from(map);
    shared.insert("later", 3);
    assert!(shared.expire("nine", Expiry::Never));
    clock.advance(Duration::from_secs(1));
    let copy = shared.snapshot();
    assert_eq!(copy.expiry("two"), Some(Expiry::After(Duration::from_secs(1))));
    assert_eq!(copy.expiry("nine"), Some(Expiry::Never));
    clock.advance(Duration::from_secs(1));
    assert_eq!((shared.get("two"), copy.get("two"), shared.contains("later")), (None, None, true));
    assert_eq!(shared.read("nine", |value| *value), Some(1));
    assert_eq!((shared.sweep(), shared.held()), (1, 2));
}

#[test]
fn expiring_keys_are_never_seen_while_threads_write() {
    let map = SharedMap::<usize, usize>::new().with_ttl(Duration::from_millis(2));
    together(|number| {
        for at in 0..20_000 {
            let key = at % 100;
            let value = map.get_or_insert_with(key, || key);
            assert_eq!(value, key);
            if number == 0 && at % 500 == 0 {
                map.sweep();
            }
        }
    });
    thread::sleep(Duration::from_millis(3));
    assert_eq!(map.len(), 0);
    map.sweep();
    assert_eq!(map.held(), 0);
}

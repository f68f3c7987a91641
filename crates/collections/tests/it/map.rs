//! Maps, compared with std's and a list of deadlines; and what expires.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::rc::Rc;
use std::time::Duration;

use marmota_collections::{Base, Expiry, Hashed, Lookup, ManualClock, Map, Sorted};
use proptest::prelude::*;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u8, Expiry),
    Take(u8),
    Update(u8),
    GetOrInsert(u8),
    Expire(u8, Expiry),
    Advance(u8),
    Retain(u8),
    Sweep,
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0_u8..40;
    let expiry = prop_oneof![
        Just(Expiry::Default),
        Just(Expiry::Never),
        (0_u64..6).prop_map(|count| Expiry::After(seconds(count))),
    ];
    let step = prop_oneof![
        10 => (key.clone(), expiry.clone()).prop_map(|(key, expiry)| Step::Insert(key, expiry)),
        2 => key.clone().prop_map(Step::Take),
        2 => key.clone().prop_map(Step::Update),
        2 => key.clone().prop_map(Step::GetOrInsert),
        2 => (key.clone(), expiry).prop_map(|(key, expiry)| Step::Expire(key, expiry)),
        4 => (0_u8..3).prop_map(Step::Advance),
        1 => key.prop_map(Step::Retain),
        1 => Just(Step::Sweep),
        1 => Just(Step::Clear),
    ];
    prop::collection::vec(step, 0..120)
}

/// Values and the second at which each is gone.
type Model = BTreeMap<u8, (usize, Option<u64>)>;

fn compare<B>(steps: Vec<Step>, ttl: Option<u64>, in_order: bool) -> Result<(), TestCaseError>
where
    B: Base<u8, usize, Entries: Lookup<u8, usize, u8>>,
{
    let clock = ManualClock::new();
    let mut map = Map::<u8, usize, B>::default().with_clock(clock.clock());
    if let Some(ttl) = ttl {
        map = map.with_ttl(seconds(ttl));
    }
    let (mut model, mut now) = (Model::new(), 0);
    for (mark, step) in steps.into_iter().enumerate() {
        model.retain(|_, (_, end)| end.is_none_or(|end| end > now));
        let end = |expiry| match (expiry, ttl) {
            (Expiry::After(time), _) => Some(now + time.as_secs()),
            (Expiry::Default, Some(ttl)) => Some(now + ttl),
            _ => None,
        };
        match step {
            Step::Insert(key, expiry) => {
                let old = model.insert(key, (mark, end(expiry))).map(|(value, _)| value);
                prop_assert_eq!(map.insert_for(key, mark, expiry), old);
            }
            Step::Take(key) => {
                prop_assert_eq!(map.take(&key), model.remove(&key).map(|(value, _)| value));
            }
            Step::Update(key) => {
                let old = model.get_mut(&key).map(|(value, _)| std::mem::replace(value, mark));
                prop_assert_eq!(map.update(&key, |value| std::mem::replace(value, mark)), old);
            }
            Step::GetOrInsert(key) => {
                let value = model.entry(key).or_insert((mark, end(Expiry::Default))).0;
                prop_assert_eq!(*map.get_or_insert_with(key, || mark), value);
            }
            Step::Expire(key, expiry) => {
                let found = model.get_mut(&key).map(|(_, old)| *old = end(expiry));
                prop_assert_eq!(map.expire(&key, expiry), found.is_some());
            }
            Step::Advance(count) => {
                now += u64::from(count);
                clock.advance(seconds(count.into()));
            }
            Step::Retain(below) => {
                let before = model.len();
                model.retain(|&key, _| key < below);
                prop_assert_eq!(map.retain(|&key, _| key < below), before - model.len());
            }
            Step::Sweep => {
                let held = map.held();
                prop_assert_eq!(map.sweep(), held - model.len());
                prop_assert_eq!(map.held(), model.len());
            }
            Step::Clear => {
                map.clear();
                model.clear();
            }
        }
        model.retain(|_, (_, end)| end.is_none_or(|end| end > now));
        prop_assert_eq!(map.len(), model.len());
        prop_assert_eq!(map.is_empty(), model.is_empty());
        for key in 0..40 {
            prop_assert_eq!(map.get(&key), model.get(&key).map(|(value, _)| value));
            let left = model.get(&key).map(|&(_, end)| {
                end.map_or(Expiry::Never, |end| Expiry::After(seconds(end - now)))
            });
            prop_assert_eq!(map.expiry(&key), left);
        }
        let mut all = map.snapshot();
        if !in_order {
            all.sort_unstable();
        }
        let expected: Vec<_> = model.iter().map(|(&key, &(value, _))| (key, value)).collect();
        prop_assert_eq!(all, expected);
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_hashed_map_is_what_was_put_and_has_not_expired(steps in steps(), ttl in prop::option::of(1_u64..5)) {
        compare::<Hashed>(steps, ttl, false)?;
    }

    #[test]
    fn a_sorted_map_is_the_same_in_order(steps in steps(), ttl in prop::option::of(1_u64..5)) {
        compare::<Sorted>(steps, ttl, true)?;
    }

    #[test]
    fn ranges_are_those_of_a_tree(
        keys in prop::collection::btree_set(0_u8..50, 0..30), start in 0_u8..50, end in 0_u8..50,
    ) {
        let map: Map<u8, (), Sorted> = keys.iter().map(|&key| (key, ())).collect();
        let expected: Vec<_> = keys.iter().filter(|&&key| start <= key && key < end).collect();
        prop_assert!(map.range(start..end).map(|(key, ())| key).eq(expected));
        prop_assert_eq!(map.first().map(|(key, ())| key), keys.first());
        prop_assert_eq!(map.last().map(|(key, ())| key), keys.last());
    }
}

fn is_given_back_by_writes<B>()
where
    B: Base<u32, Rc<()>, Entries: Lookup<u32, Rc<()>, u32>>,
{
    let clock = ManualClock::new();
    let mut map = Map::<u32, Rc<()>, B>::default().with_clock(clock.clock());
    let value = Rc::new(());
    for key in 0..1000 {
        map.insert_for(key, Rc::clone(&value), Expiry::After(seconds(1)));
    }
    clock.advance(seconds(1));
    assert_eq!((map.len(), map.held(), Rc::strong_count(&value)), (0, 1000, 1001));
    assert_eq!(map.get(&7), None);
    // One key, written again and again: a walk over 1000 takes 500 writes.
    let mut most = 0;
    for _ in 0..520 {
        let before = map.held();
        map.insert_for(5000, Rc::new(()), Expiry::After(seconds(9)));
        most = most.max(before.saturating_sub(map.held()));
    }
    assert_eq!((map.len(), map.held(), Rc::strong_count(&value)), (1, 1, 1));
    assert!(most <= 16, "one write gave back {most}");
}

#[test]
fn what_expired_is_given_back_by_writes_a_few_at_a_time() {
    is_given_back_by_writes::<Hashed>();
    is_given_back_by_writes::<Sorted>();
}

#[test]
fn keys_are_looked_up_by_what_they_borrow_as() {
    let mut hashed = Map::<String, u32>::new();
    let mut sorted = Map::<String, u32, Sorted>::sorted();
    hashed.insert("one".to_owned(), 1);
    sorted.insert("one".to_owned(), 1);
    assert_eq!((hashed.get("one"), sorted.get("one")), (Some(&1), Some(&1)));
    assert_eq!((hashed.take("one"), sorted.take("one")), (Some(1), Some(1)));
}

#[test]
fn a_time_to_live_of_centuries_is_none_that_ends() {
    let mut map = Map::new().with_ttl(Duration::MAX);
    map.insert(1, 1);
    assert_eq!(map.get(&1), Some(&1));
    assert_eq!(map.sweep(), 0);
}

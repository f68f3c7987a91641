//! Lists, compared with vectors that are sorted and searched in the plainest way.

use marmota_collections::{HashedBy, KeyOf, List, SortedBy};
use marmota_model::{Error, ErrorKind};
use proptest::prelude::*;

#[derive(Clone, Debug, PartialEq)]
struct Item {
    key: u8,
    mark: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct ByKey;

impl KeyOf<Item> for ByKey {
    type Key = u8;

    fn key_of<'t>(&self, item: &'t Item) -> &'t u8 {
        &item.key
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8),
    AddAll(Vec<u8>),
    Put(u8),
    Take(u8),
    Remove(usize),
    SwapRemove(usize),
    Update(usize, u8),
    Retain(u8),
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0_u8..24;
    let place = 0_usize..30;
    let step = prop_oneof![
        8 => key.clone().prop_map(Step::Add),
        1 => prop::collection::vec(key.clone(), 0..5).prop_map(Step::AddAll),
        2 => key.clone().prop_map(Step::Put),
        2 => key.clone().prop_map(Step::Take),
        2 => place.clone().prop_map(Step::Remove),
        2 => place.clone().prop_map(Step::SwapRemove),
        3 => (place, key.clone()).prop_map(|(place, key)| Step::Update(place, key)),
        1 => key.prop_map(Step::Retain),
        1 => Just(Step::Clear),
    ];
    prop::collection::vec(step, 0..80)
}

fn has_twice(keys: impl IntoIterator<Item = u8>) -> bool {
    let mut seen = std::collections::HashSet::new();
    !keys.into_iter().all(|key| seen.insert(key))
}

proptest! {
    #[test]
    fn a_sorted_list_is_a_vector_sorted_after_each_step(steps in steps(), unique: bool) {
        let mut list = List::<Item, SortedBy<ByKey>>::default();
        if unique {
            list = list.unique().unwrap();
        }
        let mut model: Vec<Item> = Vec::new();
        for (mark, step) in (0..).zip(steps) {
            let item = |key| Item { key, mark };
            let first = |model: &[Item], key| model.iter().position(|item| item.key == key);
            match step {
                Step::Add(key) => {
                    let same = first(&model, key);
                    match list.add(item(key)) {
                        Ok(place) => {
                            prop_assert!(!(unique && same.is_some()));
                            model.push(item(key));
                            model.sort_by_key(|item| item.key);
                            prop_assert_eq!(&list[place], &item(key));
                        }
                        Err(refused) => {
                            prop_assert!(unique && same.is_some());
                            prop_assert_eq!(refused.place, same);
                            prop_assert_eq!(refused.item, item(key));
                        }
                    }
                }
                Step::AddAll(keys) => {
                    let all = model.iter().map(|item| item.key).chain(keys.iter().copied());
                    let refuse = unique && has_twice(all);
                    let added = list.add_all(keys.iter().map(|&key| item(key)));
                    prop_assert_eq!(added.is_err(), refuse);
                    if !refuse {
                        model.extend(keys.iter().map(|&key| item(key)));
                        model.sort_by_key(|item| item.key);
                    }
                }
                Step::Put(key) => {
                    let (place, old) = list.put(item(key));
                    match first(&model, key) {
                        Some(at) => {
                            prop_assert_eq!(place, at);
                            prop_assert_eq!(old, Some(std::mem::replace(&mut model[at], item(key))));
                        }
                        None => {
                            prop_assert_eq!(old, None);
                            model.push(item(key));
                            model.sort_by_key(|item| item.key);
                        }
                    }
                }
                Step::Take(key) => {
                    let expected = first(&model, key).map(|at| model.remove(at));
                    prop_assert_eq!(list.take(&key), expected);
                }
                Step::Remove(place) | Step::SwapRemove(place) => {
                    let expected = (place < model.len()).then(|| model.remove(place));
                    prop_assert_eq!(list.remove(place).ok(), expected);
                }
                Step::Update(place, key) => {
                    let other = first(&model, key).filter(|&at| model[at].key != model.get(place).map_or(key, |item| item.key));
                    let updated = list.update(place, |found| *found = item(key));
                    let fails = place >= model.len() || (unique && other.is_some());
                    prop_assert_eq!(updated.is_err(), fails);
                    if let Ok(now) = updated {
                        prop_assert_eq!(&list[now], &item(key));
                        if model[place].key == key {
                            model[place] = item(key);
                        } else {
                            model.remove(place);
                            model.push(item(key));
                            model.sort_by_key(|item| item.key);
                        }
                    }
                }
                Step::Retain(below) => {
                    let before = model.len();
                    model.retain(|item| item.key < below);
                    prop_assert_eq!(list.retain(|item| item.key < below), before - model.len());
                }
                Step::Clear => {
                    list.clear();
                    model.clear();
                }
            }
            prop_assert_eq!(list.as_slice(), &model[..]);
            for key in 0..24 {
                prop_assert_eq!(list.place_of(&key), first(&model, key));
                let equal: Vec<_> = model.iter().filter(|item| item.key == key).collect();
                prop_assert!(list.equal_to(&key).iter().eq(equal));
            }
            let range: Vec<_> = model.iter().filter(|item| (5..=12).contains(&item.key)).collect();
            prop_assert!(list.range(5..=12).iter().eq(range));
        }
    }

    #[test]
    fn a_hashed_list_finds_each_key_where_it_is(steps in steps()) {
        let mut list = List::<Item, HashedBy<ByKey>>::default();
        let mut model: Vec<Item> = Vec::new();
        for (mark, step) in (0..).zip(steps) {
            let item = |key| Item { key, mark };
            let place_of = |model: &[Item], key| model.iter().position(|item| item.key == key);
            match step {
                Step::Add(key) => match list.add(item(key)) {
                    Ok(place) => {
                        prop_assert_eq!(place, model.len());
                        prop_assert_eq!(place_of(&model, key), None);
                        model.push(item(key));
                    }
                    Err(refused) => prop_assert_eq!(refused.place, place_of(&model, key)),
                },
                Step::AddAll(keys) => {
                    let all = model.iter().map(|item| item.key).chain(keys.iter().copied());
                    let refuse = has_twice(all);
                    prop_assert_eq!(list.add_all(keys.iter().map(|&key| item(key))).is_err(), refuse);
                    if !refuse {
                        model.extend(keys.iter().map(|&key| item(key)));
                    }
                }
                Step::Put(key) => {
                    let (place, _) = list.put(item(key)).unwrap();
                    match place_of(&model, key) {
                        Some(at) => model[at] = item(key),
                        None => model.push(item(key)),
                    }
                    prop_assert_eq!(Some(place), place_of(&model, key));
                }
                Step::Take(key) => {
                    let expected = place_of(&model, key).map(|at| model.remove(at));
                    prop_assert_eq!(list.take(&key), expected);
                }
                Step::Remove(place) => {
                    let expected = (place < model.len()).then(|| model.remove(place));
                    prop_assert_eq!(list.remove(place).ok(), expected);
                }
                Step::SwapRemove(place) => {
                    let expected = (place < model.len()).then(|| model.swap_remove(place));
                    prop_assert_eq!(list.swap_remove(place).ok(), expected);
                }
                Step::Update(place, key) => {
                    let free = place_of(&model, key).is_none_or(|at| at == place);
                    let updated = list.update(place, |found| *found = item(key));
                    prop_assert_eq!(updated.is_ok(), place < model.len() && free);
                    if updated.is_ok() {
                        model[place] = item(key);
                    }
                }
                Step::Retain(below) => {
                    model.retain(|item| item.key < below);
                    list.retain(|item| item.key < below);
                }
                Step::Clear => {
                    list.clear();
                    model.clear();
                }
            }
            prop_assert_eq!(list.as_slice(), &model[..]);
            for key in 0..24 {
                prop_assert_eq!(list.place_of(&key), place_of(&model, key));
            }
        }
    }
}

#[test]
fn a_plain_list_says_what_is_wrong_instead_of_panicking() {
    let mut list: List<_> = ["a", "b"].into_iter().collect();
    assert_eq!(list.insert(1, "c").map(|()| list.to_vec()).unwrap(), ["a", "c", "b"]);
    let error = list.remove(3).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.to_string(), "place 3 is past the end of a list of 3 items");
    assert!(list.insert(4, "d").is_err());
    assert!(list.at(3).is_err());
    list.sort_unstable();
    assert_eq!(list.pop(), Some("c"));
}

#[test]
fn texts_are_found_without_a_string_and_ranges_may_be_empty() {
    let mut words = List::sorted();
    words.add_all(["to", "be", "or", "not"].map(str::to_owned)).unwrap();
    assert_eq!(words.place_of("not"), Some(1));
    assert!(
        words.range::<str>((std::ops::Bound::Included("z"), std::ops::Bound::Unbounded)).is_empty()
    );
    let mut numbers = List::sorted();
    numbers.add_all([1, 2, 3]).unwrap();
    #[expect(clippy::reversed_empty_ranges, reason = "what users may ask for")]
    let reversed = numbers.range(3..1);
    assert!(reversed.is_empty());
}

#[test]
fn what_is_there_twice_is_a_conflict() {
    let mut list = List::sorted_by(|item: &Item| &item.key);
    list.add_all([1, 1].map(|key| Item { key, mark: 0 })).unwrap();
    assert_eq!(list.clone().unique().unwrap_err().kind(), ErrorKind::Conflict);
    let mut hashed = List::hashed();
    hashed.add("one").unwrap();
    let error = Error::from(hashed.add("one").unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let error = hashed.replace_all(vec!["two", "three", "two"]).unwrap_err();
    assert!(error.to_string().contains("items 0 and 2"), "{error}");
    assert_eq!(hashed.find("one"), Some(&"one"));
}

#[test]
fn a_panic_while_retaining_changes_nothing() {
    let mut list = List::hashed();
    list.add_all(0..10).unwrap();
    let retained = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        list.retain(|&item| if item == 5 { panic!("on purpose") } else { false })
    }));
    assert!(retained.is_err());
    assert_eq!(list.len(), 10);
    assert!((0..10).all(|item| list.place_of(&item) == Some(item)));
}

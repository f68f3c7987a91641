//! Lists that find the place of an item by its key in O(1), and contain each key once.
//!
//! The index is the same as for unique fields in the memory engine: a hash table of places that
//! stores each place with its hash. So the table grows without reading items, and a lookup nearly
//! always reads only the right item.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashTable};
use marmota_model::Result;

use super::discipline::Discipline;
use super::discipline::sealed::{Keeps, Twice};
use super::items::{List, past_the_end};
use super::refused::Refused;
use crate::{KeyOf, Whole};

/// A discipline: items are found by the hash of their key; keys are unique.
#[derive(Clone, Debug, Default)]
pub struct HashedBy<B = Whole> {
    by: B,
    hasher: DefaultHashBuilder,
    /// Hash and place.
    places: HashTable<(u32, u32)>,
}

/// hashbrown takes buckets from the low bits and tags from the high bits: spreads 32 bits over
/// both.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn add_place(places: &mut HashTable<(u32, u32)>, hash: u32, place: u32) {
    places.insert_unique(spread(hash), (hash, place), |&(hash, _)| spread(hash));
}

impl<B> HashedBy<B> {
    fn new(by: B) -> Self {
        Self { by, hasher: DefaultHashBuilder::default(), places: HashTable::new() }
    }

    fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u32 {
        let hash = self.hasher.hash_one(key);
        (hash ^ hash >> 32) as u32
    }

    fn place_of<T, Q: Hash + Eq + ?Sized>(&self, items: &[T], hash: u32, key: &Q) -> Option<usize>
    where
        B: KeyOf<T>,
        B::Key: Borrow<Q>,
    {
        let same = |&(other, place): &(u32, u32)| {
            other == hash
                && items.get(place as usize).is_some_and(|it| self.by.key_of(it).borrow() == key)
        };
        self.places.find(spread(hash), same).map(|&(_, place)| place as usize)
    }

    fn forget(&mut self, hash: u32, place: usize) {
        let entry = self.places.find_entry(spread(hash), |&(_, at)| at as usize == place);
        if let Ok(entry) = entry {
            entry.remove();
        }
    }

    fn renumber(&mut self, hash: u32, from: usize, to: usize) {
        if let Some(entry) = self.places.find_mut(spread(hash), |&(_, at)| at as usize == from) {
            entry.1 = to as u32;
        }
    }
}

impl<T, B: KeyOf<T, Key: Hash + Eq>> Discipline<T> for HashedBy<B> {}

impl<T, B: KeyOf<T, Key: Hash + Eq>> Keeps<T> for HashedBy<B> {
    fn restore(&mut self, items: &mut Vec<T>) -> Result<(), Twice> {
        let old = std::mem::replace(&mut self.places, HashTable::with_capacity(items.len()));
        for (at, item) in items.iter().enumerate() {
            let key = self.by.key_of(item);
            let hash = self.hash(key);
            let found = self.place_of(items, hash, key);
            match (found, u32::try_from(at)) {
                (None, Ok(place)) => add_place(&mut self.places, hash, place),
                (found, _) => {
                    self.places = old;
                    return Err(Twice(found.unwrap_or_default(), at));
                }
            }
        }
        Ok(())
    }

    fn removing(&mut self, items: &[T], place: usize) {
        let hash = self.hash(self.by.key_of(&items[place]));
        self.forget(hash, place);
        for (_, at) in &mut self.places {
            if *at as usize > place {
                *at -= 1;
            }
        }
    }

    fn keeping(&mut self, keep: &[bool]) {
        let mut next = 0;
        let places: Vec<u32> = keep
            .iter()
            .map(|&kept| {
                let place = next;
                next += u32::from(kept);
                place
            })
            .collect();
        self.places.retain(|(_, at)| {
            let old = *at as usize;
            *at = places[old];
            keep[old]
        });
    }

    fn clearing(&mut self) {
        self.places.clear();
    }
}

impl<T: Hash + Eq> List<T, HashedBy> {
    /// Creates an empty list that contains each item once and finds it in O(1).
    ///
    /// ```
    /// use marmota_collections::List;
    /// let mut seen = List::hashed();
    /// assert!(seen.add("a").is_ok());
    /// assert!(seen.add("a").is_err());
    /// ```
    #[must_use]
    pub fn hashed() -> Self {
        Self { items: Vec::new(), discipline: HashedBy::new(Whole) }
    }
}

impl<T, F> List<T, HashedBy<F>> {
    /// Creates an empty list that contains each key once and finds its item in O(1).
    ///
    /// ```
    /// use marmota_collections::List;
    /// let mut users = List::hashed_by(|user: &(String, u32)| &user.0);
    /// users.add(("ann".to_owned(), 7)).unwrap();
    ///
    /// assert_eq!(users.find("ann").map(|user| user.1), Some(7));
    /// ```
    #[must_use]
    pub fn hashed_by<K>(key: F) -> Self
    where
        K: Hash + Eq + ?Sized,
        F: for<'t> Fn(&'t T) -> &'t K,
    {
        Self { items: Vec::new(), discipline: HashedBy::new(key) }
    }
}

impl<T, B: KeyOf<T, Key: Hash + Eq>> List<T, HashedBy<B>> {
    /// Adds an item at the end and returns its place.
    ///
    /// # Errors
    /// Returns the item, with the place of the item that has the same key.
    pub fn add(&mut self, item: T) -> Result<usize, Refused<T>> {
        let key = self.discipline.by.key_of(&item);
        let hash = self.discipline.hash(key);
        let same = self.discipline.place_of(&self.items, hash, key);
        let place = self.items.len();
        match (same, u32::try_from(place)) {
            (None, Ok(at)) => {
                add_place(&mut self.discipline.places, hash, at);
                self.items.push(item);
                Ok(place)
            }
            (same, _) => Err(Refused { item, place: same }),
        }
    }

    /// Adds many items: all of them, or none on an error.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`](marmota_model::ErrorKind::Conflict) if a key would occur twice; the
    /// list is then unchanged.
    pub fn add_all(&mut self, items: impl IntoIterator<Item = T>) -> Result<()> {
        let before = self.items.len();
        for item in items {
            if let Err(refused) = self.add(item) {
                while self.items.len() > before {
                    self.swap_remove(self.items.len() - 1)?;
                }
                return Err(refused.into());
            }
        }
        Ok(())
    }

    /// Replaces the item with this key, or adds it. Returns the place and the replaced item.
    ///
    /// ```
    /// use marmota_collections::List;
    /// let mut users = List::hashed_by(|user: &(String, u32)| &user.0);
    /// users.add(("ann".to_owned(), 7)).unwrap();
    ///
    /// let (place, old) = users.put(("ann".to_owned(), 8)).unwrap();
    /// assert_eq!((place, old.map(|user| user.1)), (0, Some(7)));
    /// ```
    ///
    /// # Errors
    /// Returns the item if the list is full.
    pub fn put(&mut self, item: T) -> Result<(usize, Option<T>), Refused<T>> {
        match self.add(item) {
            Ok(place) => Ok((place, None)),
            Err(Refused { item, place: Some(place) }) => {
                Ok((place, Some(std::mem::replace(&mut self.items[place], item))))
            }
            Err(full) => Err(full),
        }
    }

    /// Returns the item with this key.
    pub fn find<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&T>
    where
        B::Key: Borrow<Q>,
    {
        self.place_of(key).map(|place| &self.items[place])
    }

    /// Returns the place of the item with this key.
    pub fn place_of<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<usize>
    where
        B::Key: Borrow<Q>,
    {
        self.discipline.place_of(&self.items, self.discipline.hash(key), key)
    }

    /// Removes and returns the item with this key. The following items move up, which takes O(n);
    /// [`List::swap_remove`] is O(1).
    pub fn take<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<T>
    where
        B::Key: Borrow<Q>,
    {
        let place = self.place_of(key)?;
        self.remove(place).ok()
    }

    /// Removes the item at a place in O(1): the last item moves to its place.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](marmota_model::ErrorKind::NotFound) if the place is past the end.
    pub fn swap_remove(&mut self, place: usize) -> Result<T> {
        let hash = self.discipline.hash(self.discipline.by.key_of(self.at(place)?));
        self.discipline.forget(hash, place);
        let last = self.items.len() - 1;
        if place < last {
            let hash = self.discipline.hash(self.discipline.by.key_of(&self.items[last]));
            self.discipline.renumber(hash, last, place);
        }
        Ok(self.items.swap_remove(place))
    }

    /// Changes a copy of the item at a place, then stores the copy.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](marmota_model::ErrorKind::NotFound) if the place is past the end,
    /// [`ErrorKind::Conflict`](marmota_model::ErrorKind::Conflict) if another item has the new key;
    /// the list is then unchanged.
    pub fn update(&mut self, place: usize, change: impl FnOnce(&mut T)) -> Result<()>
    where
        T: Clone,
    {
        let mut item = self.at(place)?.clone();
        change(&mut item);
        self.replace(place, item).map(drop)
    }

    /// Replaces the item at a place and returns the old one.
    ///
    /// # Errors
    /// As [`List::update`].
    pub fn replace(&mut self, place: usize, item: T) -> Result<T> {
        let old = self.items.get(place).ok_or_else(|| past_the_end(place, self.items.len()))?;
        let (old_key, key) = (self.discipline.by.key_of(old), self.discipline.by.key_of(&item));
        if old_key != key {
            let (old_hash, hash) = (self.discipline.hash(old_key), self.discipline.hash(key));
            if let Some(other) = self.discipline.place_of(&self.items, hash, key) {
                return Err(Refused { item, place: Some(other) }.into());
            }
            self.discipline.forget(old_hash, place);
            add_place(&mut self.discipline.places, hash, place as u32);
        }
        Ok(std::mem::replace(&mut self.items[place], item))
    }
}

//! Lists that stay in the order of a key: found by binary search, with ranges
//! as slices.

use std::borrow::Borrow;
use std::ops::{Bound, RangeBounds};

use marmota_model::Result;

use super::discipline::Discipline;
use super::discipline::sealed::{Keeps, Twice};
use super::items::{List, past_the_end, twice};
use super::refused::Refused;
use crate::{KeyOf, Whole};

/// In the order of a key, and each key once if that is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct SortedBy<B = Whole> {
    by: B,
    unique: bool,
}

impl<B> SortedBy<B> {
    fn repeated<T>(&self, items: &[T]) -> Option<Twice>
    where
        B: KeyOf<T>,
        B::Key: Ord,
    {
        let same = |pair: &[T]| self.by.key_of(&pair[0]) == self.by.key_of(&pair[1]);
        let first = items.windows(2).position(same)?;
        Some(Twice(first, first + 1))
    }
}

impl<T, B: KeyOf<T, Key: Ord>> Discipline<T> for SortedBy<B> {}

impl<T, B: KeyOf<T, Key: Ord>> Keeps<T> for SortedBy<B> {
    fn restore(&mut self, items: &mut Vec<T>) -> Result<(), Twice> {
        items.sort_by(|a, b| self.by.key_of(a).cmp(self.by.key_of(b)));
        match self.repeated(items) {
            Some(found) if self.unique => Err(found),
            _ => Ok(()),
        }
    }

    fn removing(&mut self, _: &[T], _: usize) {}

    fn keeping(&mut self, _: &[bool]) {}

    fn clearing(&mut self) {}
}

impl<T: Ord> List<T, SortedBy> {
    /// An empty list that stays in the order of its items.
    #[must_use]
    pub const fn sorted() -> Self {
        Self { items: Vec::new(), discipline: SortedBy { by: Whole, unique: false } }
    }
}

impl<T, F> List<T, SortedBy<F>> {
    /// An empty list that stays in the order of a key.
    #[must_use]
    pub const fn sorted_by<K>(key: F) -> Self
    where
        K: Ord + ?Sized,
        F: for<'t> Fn(&'t T) -> &'t K,
    {
        Self { items: Vec::new(), discipline: SortedBy { by: key, unique: false } }
    }
}

impl<T, B: KeyOf<T, Key: Ord>> List<T, SortedBy<B>> {
    /// The same list, which from now on takes each key once.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`](marmota_model::ErrorKind::Conflict) if it has
    /// one twice already.
    pub fn unique(mut self) -> Result<Self> {
        match self.discipline.repeated(&self.items) {
            Some(found) => Err(twice(found)),
            None => {
                self.discipline.unique = true;
                Ok(self)
            }
        }
    }

    /// Adds an item where it belongs, behind its equals, and returns the place.
    ///
    /// # Errors
    /// Gives the item back if the list is unique and has its key.
    pub fn add(&mut self, item: T) -> Result<usize, Refused<T>> {
        let key = self.discipline.by.key_of(&item);
        // What comes in order is not searched for.
        let place = match self.items.last() {
            Some(last) if self.discipline.by.key_of(last) > key => self.end_of(key),
            _ => self.items.len(),
        };
        if self.discipline.unique
            && let Some(before) = place.checked_sub(1)
            && self.discipline.by.key_of(&self.items[before]) == key
        {
            return Err(Refused { item, place: Some(before) });
        }
        self.items.insert(place, item);
        Ok(place)
    }

    /// Adds many items at once, in O(n) when they are in order and O(n log n)
    /// when not: all, or none with an error.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`](marmota_model::ErrorKind::Conflict) if the list
    /// is unique and one of their keys is there twice; it is then as it was.
    pub fn add_all(&mut self, items: impl IntoIterator<Item = T>) -> Result<()> {
        let mut new = Vec::from_iter(items);
        self.discipline.restore(&mut new).map_err(twice)?;
        if self.discipline.unique {
            for (at, item) in new.iter().enumerate() {
                if let Some(place) = self.place_of(self.discipline.by.key_of(item)) {
                    return Err(twice(Twice(place, self.items.len() + at)));
                }
            }
        }
        self.items.append(&mut new);
        // Two runs in order: the stable sort merges them.
        self.items.sort_by(|a, b| self.discipline.by.key_of(a).cmp(self.discipline.by.key_of(b)));
        Ok(())
    }

    /// Replaces the first item with this key, or adds it; the place, and what
    /// was there.
    pub fn put(&mut self, item: T) -> (usize, Option<T>) {
        let key = self.discipline.by.key_of(&item);
        let place = self.start_of(key);
        match self.items.get_mut(place) {
            Some(found) if self.discipline.by.key_of(found) == key => {
                (place, Some(std::mem::replace(found, item)))
            }
            _ => {
                self.items.insert(place, item);
                (place, None)
            }
        }
    }

    /// The first item with this key.
    pub fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&T>
    where
        B::Key: Borrow<Q>,
    {
        self.place_of(key).map(|place| &self.items[place])
    }

    /// Where the first item with this key is.
    pub fn place_of<Q: Ord + ?Sized>(&self, key: &Q) -> Option<usize>
    where
        B::Key: Borrow<Q>,
    {
        let place = self.start_of(key);
        let found = self.items.get(place)?;
        (self.discipline.by.key_of(found).borrow() == key).then_some(place)
    }

    /// All items with this key.
    pub fn equal_to<Q: Ord + ?Sized>(&self, key: &Q) -> &[T]
    where
        B::Key: Borrow<Q>,
    {
        &self.items[self.start_of(key)..self.end_of(key)]
    }

    /// The items with keys in a range; none if it ends before it starts.
    pub fn range<Q: Ord + ?Sized>(&self, keys: impl RangeBounds<Q>) -> &[T]
    where
        B::Key: Borrow<Q>,
    {
        let start = match keys.start_bound() {
            Bound::Included(key) => self.start_of(key),
            Bound::Excluded(key) => self.end_of(key),
            Bound::Unbounded => 0,
        };
        let end = match keys.end_bound() {
            Bound::Included(key) => self.end_of(key),
            Bound::Excluded(key) => self.start_of(key),
            Bound::Unbounded => self.items.len(),
        };
        self.items.get(start..end).unwrap_or_default()
    }

    /// Removes and returns the first item with this key.
    pub fn take<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<T>
    where
        B::Key: Borrow<Q>,
    {
        let place = self.place_of(key)?;
        Some(self.items.remove(place))
    }

    /// Changes the item at a place by way of a copy, and moves it if its key
    /// has changed; its place then.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](marmota_model::ErrorKind::NotFound) past the
    /// end, [`ErrorKind::Conflict`](marmota_model::ErrorKind::Conflict) if the
    /// list is unique and another item has the new key; nothing has changed.
    pub fn update(&mut self, place: usize, change: impl FnOnce(&mut T)) -> Result<usize>
    where
        T: Clone,
    {
        let mut item = self.at(place)?.clone();
        change(&mut item);
        self.replace(place, item).map(|(place, _)| place)
    }

    /// Replaces the item at a place; where the new one is, and the old one.
    ///
    /// # Errors
    /// As [`List::update`].
    pub fn replace(&mut self, place: usize, item: T) -> Result<(usize, T)> {
        let len = self.items.len();
        let old = self.items.get_mut(place).ok_or_else(|| past_the_end(place, len))?;
        let (key, by) = (self.discipline.by.key_of(&item), &self.discipline.by);
        if by.key_of(old) == key {
            return Ok((place, std::mem::replace(old, item)));
        }
        if self.discipline.unique
            && let Some(other) = self.place_of(key)
        {
            return Err(Refused { item, place: Some(other) }.into());
        }
        // Found while the old one is still there; all behind it then move up.
        let mut new_place = self.end_of(key);
        if new_place > place {
            new_place -= 1;
            self.items[place..=new_place].rotate_left(1);
        } else {
            self.items[new_place..=place].rotate_right(1);
        }
        Ok((new_place, std::mem::replace(&mut self.items[new_place], item)))
    }

    /// The first place whose key is not below this one.
    fn start_of<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        B::Key: Borrow<Q>,
    {
        self.items.partition_point(|item| self.discipline.by.key_of(item).borrow() < key)
    }

    /// The first place whose key is above this one.
    fn end_of<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        B::Key: Borrow<Q>,
    {
        self.items.partition_point(|item| self.discipline.by.key_of(item).borrow() <= key)
    }
}

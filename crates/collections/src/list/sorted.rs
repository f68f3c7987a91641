//! Lists that stay in the order of a key: lookups by binary search, ranges as slices.

use std::borrow::Borrow;
use std::ops::{Bound, RangeBounds};

use marmota_model::Result;

use super::discipline::Discipline;
use super::discipline::sealed::{Keeps, Twice};
use super::items::{List, past_the_end, twice};
use super::refused::Refused;
use crate::{KeyOf, Whole};

/// A discipline: items are in the order of a key, and keys are unique if [`List::unique`] was
/// called.
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
    /// Creates an empty list that stays in the order of its items.
    ///
    /// ```
    /// use marmota_collections::List;
    /// let mut list = List::sorted();
    /// list.add_all([3, 1, 2]).unwrap();
    /// assert_eq!(list.as_slice(), [1, 2, 3]);
    /// ```
    #[must_use]
    pub const fn sorted() -> Self {
        Self { items: Vec::new(), discipline: SortedBy { by: Whole, unique: false } }
    }
}

impl<T, F> List<T, SortedBy<F>> {
    /// Creates an empty list that stays in the order of a key.
    ///
    /// ```
    /// use marmota_collections::List;
    /// let mut words = List::sorted_by(|word: &(u32, String)| &word.0);
    /// words.add((2, "b".to_owned())).unwrap();
    /// words.add((1, "a".to_owned())).unwrap();
    /// assert_eq!(words.find(&1).map(|word| &*word.1), Some("a"));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
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
    /// Makes the list unique: from now on it contains each key once.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`](marmota_model::ErrorKind::Conflict) if a key already occurs twice.
    pub fn unique(mut self) -> Result<Self> {
        match self.discipline.repeated(&self.items) {
            Some(found) => Err(twice(found)),
            None => {
                self.discipline.unique = true;
                Ok(self)
            }
        }
    }

    /// Inserts an item in order, after items with an equal key, and returns its place.
    ///
    /// ```
    /// use marmota_collections::List;
    /// let mut list = List::sorted();
    /// assert_eq!(list.add("b").ok(), Some(0));
    /// assert_eq!(list.add("a").ok(), Some(0));
    /// assert_eq!(list.as_slice(), ["a", "b"]);
    /// ```
    ///
    /// # Errors
    /// Returns the item if the list is unique and contains its key.
    pub fn add(&mut self, item: T) -> Result<usize, Refused<T>> {
        let key = self.discipline.by.key_of(&item);
        // Items that arrive in order need no search.
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

    /// Adds many items, in O(n) if they are in order and in O(n log n) otherwise. Adds all of them,
    /// or none on an error.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`](marmota_model::ErrorKind::Conflict) if the list is unique and a key
    /// would occur twice; the list is then unchanged.
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
        // Both parts are in order: the stable sort merges them.
        self.items.sort_by(|a, b| self.discipline.by.key_of(a).cmp(self.discipline.by.key_of(b)));
        Ok(())
    }

    /// Replaces the first item with this key, or adds it. Returns the place and the replaced item.
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

    /// Returns the first item with this key.
    pub fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&T>
    where
        B::Key: Borrow<Q>,
    {
        self.place_of(key).map(|place| &self.items[place])
    }

    /// Returns the place of the first item with this key.
    pub fn place_of<Q: Ord + ?Sized>(&self, key: &Q) -> Option<usize>
    where
        B::Key: Borrow<Q>,
    {
        let place = self.start_of(key);
        let found = self.items.get(place)?;
        (self.discipline.by.key_of(found).borrow() == key).then_some(place)
    }

    /// Returns all items with this key.
    ///
    /// ```
    /// use marmota_collections::List;
    /// let mut stops = List::sorted_by(|stop: &(u32, &str)| &stop.0);
    /// stops.add_all([(730, "Alewife"), (745, "Davis"), (745, "Porter")])?;
    ///
    /// assert_eq!(stops.equal_to(&745).len(), 2);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn equal_to<Q: Ord + ?Sized>(&self, key: &Q) -> &[T]
    where
        B::Key: Borrow<Q>,
    {
        &self.items[self.start_of(key)..self.end_of(key)]
    }

    /// Returns the items with keys in a range; an empty slice if the range ends before it starts.
    ///
    /// ```
    /// use marmota_collections::List;
    /// let mut stops = List::sorted_by(|stop: &(u32, &str)| &stop.0);
    /// stops.add_all([(730, "Alewife"), (745, "Davis"), (745, "Porter")])?;
    ///
    /// assert_eq!(stops.range(740..), [(745, "Davis"), (745, "Porter")]);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
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

    /// Changes a copy of the item at a place, stores it, and moves it if its key has changed.
    /// Returns its new place.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](marmota_model::ErrorKind::NotFound) if the place is past the end,
    /// [`ErrorKind::Conflict`](marmota_model::ErrorKind::Conflict) if the list is unique and
    /// another item has the new key; the list is then unchanged.
    pub fn update(&mut self, place: usize, change: impl FnOnce(&mut T)) -> Result<usize>
    where
        T: Clone,
    {
        let mut item = self.at(place)?.clone();
        change(&mut item);
        self.replace(place, item).map(|(place, _)| place)
    }

    /// Replaces the item at a place. Returns the place of the new item, and the old item.
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
        // The new place is searched with the old item still in the list; the items after it then
        // move up.
        let mut new_place = self.end_of(key);
        if new_place > place {
            new_place -= 1;
            self.items[place..=new_place].rotate_left(1);
        } else {
            self.items[new_place..=place].rotate_right(1);
        }
        Ok((new_place, std::mem::replace(&mut self.items[new_place], item)))
    }

    /// Returns the first place whose key is not less than `key`.
    fn start_of<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        B::Key: Borrow<Q>,
    {
        self.items.partition_point(|item| self.discipline.by.key_of(item).borrow() < key)
    }

    /// Returns the first place whose key is greater than `key`.
    fn end_of<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        B::Key: Borrow<Q>,
    {
        self.items.partition_point(|item| self.discipline.by.key_of(item).borrow() <= key)
    }
}

//! The storage of a map's entries: an `IndexMap` for hashed maps, a `BTreeMap` for sorted ones. All
//! other code is shared.
//!
//! `IndexMap` is a vector of entries and a hashbrown table of places, like the rows and unique
//! indexes of the memory engine. Compared with a plain hash map it has the two operations that
//! expiry needs: access to a few entries at a time by number, and a removal that moves only one
//! entry.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::Hash;
use std::ops::Bound;

use hashbrown::DefaultHashBuilder;
use indexmap::IndexMap;

/// Entries found by hash, in insertion order as long as none is removed. Keys are `Hash + Eq`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hashed;

/// Entries in the order of their keys. Keys are `Ord + Clone`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sorted;

/// A value with its deadline.
#[derive(Clone, Debug)]
pub struct Entry<V> {
    pub(crate) value: V,
    pub(crate) deadline_ns: u64,
}

/// [`Hashed`] or [`Sorted`].
pub trait Base<K, V> {
    /// The collection that stores the entries.
    type Entries: Entries<K, V>;
}

impl<K: Hash + Eq, V> Base<K, V> for Hashed {
    type Entries = IndexMap<K, Entry<V>, DefaultHashBuilder>;
}

impl<K: Ord + Clone, V> Base<K, V> for Sorted {
    type Entries = BTreeMap<K, Entry<V>>;
}

/// The storage of a map's entries. It is used only through a map.
pub trait Entries<K, V>: Default + IntoIterator<Item = (K, Entry<V>)> {
    /// The position of a walk for expired entries.
    type Cursor: Default;

    /// Returns the number of entries, including expired ones.
    fn held(&self) -> usize;
    /// Sets an entry and returns the previous one.
    fn put(&mut self, key: K, entry: Entry<V>) -> Option<Entry<V>>;
    /// Returns all entries, in order if the storage is sorted.
    fn iter<'e>(&'e self) -> impl Iterator<Item = (&'e K, &'e Entry<V>)>
    where
        K: 'e,
        V: 'e;
    /// Keeps the entries for which `keep` returns true.
    fn keep(&mut self, keep: impl FnMut(&K, &mut Entry<V>) -> bool);

    /// Checks the next `most` entries and moves expired ones to `out`. Returns true if the walk has
    /// reached its end.
    fn walk(
        &mut self,
        cursor: &mut Self::Cursor,
        now_ns: u64,
        most: usize,
        out: &mut Vec<(K, Entry<V>)>,
    ) -> bool;

    /// Reserves room for `more` entries.
    fn reserve(&mut self, more: usize);
    /// Frees the memory of removed entries, if it is most of the memory.
    fn shrink(&mut self);
}

/// Lookup of entries by keys or by their borrowed form.
pub trait Lookup<K, V, Q: ?Sized> {
    /// Returns the entry of a key.
    fn find(&self, key: &Q) -> Option<&Entry<V>>;
    /// Returns the entry of a key for modification.
    fn find_mut(&mut self, key: &Q) -> Option<&mut Entry<V>>;
    /// Removes the entry of a key.
    fn take(&mut self, key: &Q) -> Option<(K, Entry<V>)>;
}

impl<K: Hash + Eq, V> Entries<K, V> for IndexMap<K, Entry<V>, DefaultHashBuilder> {
    type Cursor = usize;

    fn held(&self) -> usize {
        self.len()
    }

    fn put(&mut self, key: K, entry: Entry<V>) -> Option<Entry<V>> {
        self.insert(key, entry)
    }

    fn iter<'e>(&'e self) -> impl Iterator<Item = (&'e K, &'e Entry<V>)>
    where
        K: 'e,
        V: 'e,
    {
        self.iter()
    }

    fn keep(&mut self, keep: impl FnMut(&K, &mut Entry<V>) -> bool) {
        self.retain(keep);
    }

    fn walk(
        &mut self,
        cursor: &mut usize,
        now_ns: u64,
        most: usize,
        out: &mut Vec<(K, Entry<V>)>,
    ) -> bool {
        for _ in 0..most {
            let Some((_, entry)) = self.get_index(*cursor) else {
                *cursor = 0;
                return true;
            };
            if entry.deadline_ns > now_ns {
                *cursor += 1;
            } else {
                // The last entry moves to this place and is checked next.
                out.extend(self.swap_remove_index(*cursor));
            }
        }
        false
    }

    fn reserve(&mut self, more: usize) {
        self.reserve(more);
    }

    fn shrink(&mut self) {
        if self.len() < self.capacity() / 4 {
            self.shrink_to_fit();
        }
    }
}

impl<K, V, Q> Lookup<K, V, Q> for IndexMap<K, Entry<V>, DefaultHashBuilder>
where
    K: Hash + Eq + Borrow<Q>,
    Q: Hash + Eq + ?Sized,
{
    fn find(&self, key: &Q) -> Option<&Entry<V>> {
        self.get(key)
    }

    fn find_mut(&mut self, key: &Q) -> Option<&mut Entry<V>> {
        self.get_mut(key)
    }

    fn take(&mut self, key: &Q) -> Option<(K, Entry<V>)> {
        self.swap_remove_entry(key)
    }
}

impl<K: Ord + Clone, V> Entries<K, V> for BTreeMap<K, Entry<V>> {
    /// The last key that was checked and kept.
    type Cursor = Option<K>;

    fn held(&self) -> usize {
        self.len()
    }

    fn put(&mut self, key: K, entry: Entry<V>) -> Option<Entry<V>> {
        self.insert(key, entry)
    }

    fn iter<'e>(&'e self) -> impl Iterator<Item = (&'e K, &'e Entry<V>)>
    where
        K: 'e,
        V: 'e,
    {
        self.iter()
    }

    fn keep(&mut self, keep: impl FnMut(&K, &mut Entry<V>) -> bool) {
        self.retain(keep);
    }

    fn walk(
        &mut self,
        cursor: &mut Option<K>,
        now_ns: u64,
        most: usize,
        out: &mut Vec<(K, Entry<V>)>,
    ) -> bool {
        let start = match &*cursor {
            Some(key) => Bound::Excluded(key),
            None => Bound::Unbounded,
        };
        let (mut last, mut seen, mut past) = (None, 0, Vec::new());
        for (key, entry) in self.range((start, Bound::Unbounded)).take(most) {
            seen += 1;
            last = Some(key);
            if entry.deadline_ns <= now_ns {
                past.push(key.clone());
            }
        }
        // A walk of fewer steps than `most` has reached the end.
        let ended = seen < most;
        *cursor = if ended { None } else { last.cloned() };
        out.extend(past.iter().filter_map(|key| self.remove_entry(key)));
        ended
    }

    fn reserve(&mut self, _: usize) {}

    fn shrink(&mut self) {}
}

impl<K, V, Q> Lookup<K, V, Q> for BTreeMap<K, Entry<V>>
where
    K: Ord + Borrow<Q>,
    Q: Ord + ?Sized,
{
    fn find(&self, key: &Q) -> Option<&Entry<V>> {
        self.get(key)
    }

    fn find_mut(&mut self, key: &Q) -> Option<&mut Entry<V>> {
        self.get_mut(key)
    }

    fn take(&mut self, key: &Q) -> Option<(K, Entry<V>)> {
        self.remove_entry(key)
    }
}

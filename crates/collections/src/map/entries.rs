//! What a map keeps its entries in, so that all else is written once: an
//! `IndexMap` for hashed maps, a `BTreeMap` for sorted ones.
//!
//! `IndexMap` is a vector of entries and a hashbrown table of places, as the
//! memory engine's rows and unique indexes are. Over a plain hash map it has
//! the two things that expiry needs: entries that are visited a few at a time
//! by number, and removal that moves only one.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::Hash;
use std::ops::Bound;

use hashbrown::DefaultHashBuilder;
use indexmap::IndexMap;

/// Entries that are found by hash, in the order of adding as long as none is
/// removed. Keys are `Hash + Eq`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hashed;

/// Entries in the order of their keys, which are `Ord + Clone`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sorted;

/// A value and when it is seen for the last time.
#[derive(Clone, Debug)]
pub struct Entry<V> {
    pub(crate) value: V,
    pub(crate) deadline_ns: u64,
}

/// [`Hashed`] or [`Sorted`].
pub trait Base<K, V> {
    /// What keeps the entries.
    type Entries: Entries<K, V>;
}

impl<K: Hash + Eq, V> Base<K, V> for Hashed {
    type Entries = IndexMap<K, Entry<V>, DefaultHashBuilder>;
}

impl<K: Ord + Clone, V> Base<K, V> for Sorted {
    type Entries = BTreeMap<K, Entry<V>>;
}

/// Entries of a map; of no use without one.
pub trait Entries<K, V>: Default + IntoIterator<Item = (K, Entry<V>)> {
    /// How far a walk for expired entries has come.
    type Cursor: Default;

    /// How many entries there are, past or not.
    fn held(&self) -> usize;
    /// Sets an entry; the one that was there.
    fn put(&mut self, key: K, entry: Entry<V>) -> Option<Entry<V>>;
    /// All entries, in order if they have one.
    fn iter<'e>(&'e self) -> impl Iterator<Item = (&'e K, &'e Entry<V>)>
    where
        K: 'e,
        V: 'e;
    /// Keeps those that `keep` is true for.
    fn keep(&mut self, keep: impl FnMut(&K, &mut Entry<V>) -> bool);

    /// Looks at the next `most` entries, removes those whose time is past into
    /// `out`, and says whether the walk has come to its end.
    fn walk(
        &mut self,
        cursor: &mut Self::Cursor,
        now_ns: u64,
        most: usize,
        out: &mut Vec<(K, Entry<V>)>,
    ) -> bool;

    /// Makes room for `more` entries.
    fn reserve(&mut self, more: usize);
    /// Gives back the memory of entries that are gone, if it is most of it.
    fn shrink(&mut self);
}

/// Finding entries by keys or what they borrow as.
pub trait Lookup<K, V, Q: ?Sized> {
    /// The entry of a key.
    fn find(&self, key: &Q) -> Option<&Entry<V>>;
    /// The entry of a key, to be changed.
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
                // The last entry comes to this place and is looked at next.
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
    /// The last key that was looked at and stayed.
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
        // A walk of fewer steps than asked for has come to the end.
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

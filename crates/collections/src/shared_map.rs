//! [`SharedMap`]: a [`Map`] for many threads, divided by the hash of the keys into parts with a
//! lock each, so that contention is rare.
//!
//! No method returns a guard: values are copied, or passed to a closure while their part is locked.
//! Removed values are dropped after the lock is released.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::{DefaultHashBuilder, HashMap};
use parking_lot::RwLock;

use crate::inside::{self, Inside};
use crate::map::{Base, Gone, Lookup};
use crate::{Clock, Expiry, Hashed, Map, Sorted};
use making::Making;

mod making;

/// Parts per core. With this many, two threads seldom need the same part.
const PARTS_PER_CORE: usize = 8;
const PARTS_MAX: usize = 256;

/// A [`Map`] for many threads. Keys are `Hash` in the sorted one too: only results with many
/// entries ([`SharedMap::range`], [`SharedMap::snapshot`]) are in order.
///
/// ```
/// use marmota_collections::SharedMap;
///
/// let visits = SharedMap::<String, u32>::new();
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| visits.update_or_insert_with("home".to_owned(), || 0, |count| *count += 1));
///     }
/// });
/// assert_eq!(visits.get("home"), Some(4));
/// ```
pub struct SharedMap<K, V, B: Base<K, V> = Hashed> {
    parts: Box<[Part<K, V, B>]>,
    hasher: DefaultHashBuilder,
}

/// Aligned to two cache lines, so that the locks of neighbours do not share a line (false sharing).
#[repr(align(128))]
struct Part<K, V, B: Base<K, V>>(RwLock<Content<K, V, B>>);

struct Content<K, V, B: Base<K, V>> {
    map: Map<K, V, B>,
    /// Values that some thread is computing now.
    making: HashMap<K, Arc<Making<V>>>,
}

impl<K: Hash + Eq, V> SharedMap<K, V> {
    /// Creates an empty hashed map.
    #[must_use]
    pub fn new() -> Self {
        Self::from(Map::new())
    }
}

impl<K: Hash + Ord + Clone, V> SharedMap<K, V, Sorted> {
    /// Creates an empty sorted map.
    #[must_use]
    pub fn sorted() -> Self {
        Self::from(Map::sorted())
    }

    /// Returns a consistent copy of the entries with keys in a range, in order.
    #[must_use]
    pub fn range(&self, keys: impl std::ops::RangeBounds<K>) -> Vec<(K, V)>
    where
        V: Clone,
    {
        inside::check(self);
        let locked: Vec<_> = self.parts.iter().map(|part| part.0.read()).collect();
        let mut entries = Vec::new();
        for content in &locked {
            let found = content.map.range((keys.start_bound(), keys.end_bound()));
            entries.extend(found.map(|(key, value)| (key.clone(), value.clone())));
        }
        drop(locked);
        // The parts are in order: the stable sort merges them.
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        entries
    }
}

impl<K: Hash + Eq, V, B: Base<K, V>> From<Map<K, V, B>> for SharedMap<K, V, B> {
    /// Shares a map with its clock, its time to live and its entries.
    fn from(map: Map<K, V, B>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let parts = (cores * PARTS_PER_CORE).next_power_of_two().min(PARTS_MAX);
        let part = |_| Part(RwLock::new(Content { map: map.like(), making: HashMap::new() }));
        let shared =
            Self { parts: (0..parts).map(part).collect(), hasher: DefaultHashBuilder::default() };
        for (key, value, expiry) in map.into_timed() {
            shared.insert_for(key, value, expiry);
        }
        shared
    }
}

impl<K: Hash + Eq, V, B: Base<K, V>> SharedMap<K, V, B> {
    /// Sets the time to live of entries that are added without their own.
    #[must_use]
    pub fn with_ttl(self, ttl: Duration) -> Self {
        self.with(|map| map.with_ttl(ttl))
    }

    /// Reads the time from another clock, for tests.
    #[must_use]
    pub fn with_clock(self, clock: &Clock) -> Self {
        self.with(|map| map.with_clock(clock.clone()))
    }

    fn with(mut self, change: impl Fn(Map<K, V, B>) -> Map<K, V, B>) -> Self {
        for part in &mut self.parts {
            let map = &mut part.0.get_mut().map;
            *map = change(std::mem::take(map));
        }
        self
    }

    fn part<Q: Hash + ?Sized>(&self, key: &Q) -> &RwLock<Content<K, V, B>> {
        inside::check(self);
        // The table of each part takes its buckets from the low bits.
        let hash = self.hasher.hash_one(key) >> 32;
        &self.parts[hash as usize & (self.parts.len() - 1)].0
    }

    /// Sets a value with the map's time to live, and returns the previous value.
    ///
    /// # Panics
    /// If it is called inside a closure that runs under this map's lock. This applies to all
    /// methods.
    pub fn insert(&self, key: K, value: V) -> Option<V> {
        self.insert_for(key, value, Expiry::Default)
    }

    /// Sets a value with its own time to live, and returns the previous value.
    pub fn insert_for(&self, key: K, value: V, expiry: Expiry) -> Option<V> {
        let mut past = Vec::new();
        let mut part = self.part(&key).write();
        let making = part.cancel(&key);
        let old = part.map.insert_and_walk(key, value, expiry, &mut past);
        drop(part);
        // Expired entries and the cancelled computation are dropped after the lock is released.
        drop((past, making));
        old.and_then(Gone::seen)
    }

    /// Returns a copy of the value of a key. This is cheap for a number or an `Arc`; for other
    /// types use [`SharedMap::read`].
    ///
    /// ```
    /// use marmota_collections::SharedMap;
    /// let map = SharedMap::<String, u32>::new();
    /// map.insert("a".to_owned(), 1);
    /// assert_eq!((map.get("a"), map.get("b")), (Some(1), None));
    /// ```
    pub fn get<Q: Hash + ?Sized>(&self, key: &Q) -> Option<V>
    where
        V: Clone,
        B::Entries: Lookup<K, V, Q>,
    {
        self.part(key).read().map.get(key).cloned()
    }

    /// Returns true if a key has a value.
    pub fn contains<Q: Hash + ?Sized>(&self, key: &Q) -> bool
    where
        B::Entries: Lookup<K, V, Q>,
    {
        self.part(key).read().map.contains(key)
    }

    /// Runs `read` on the value of a key while its part of the map is locked for reading.
    ///
    /// ```
    /// use marmota_collections::SharedMap;
    /// let map = SharedMap::<u32, String>::new();
    /// map.insert(7, "a long text".to_owned());
    /// assert_eq!(map.read(&7, |text| text.len()), Some(11));
    /// ```
    pub fn read<Q: Hash + ?Sized, R>(&self, key: &Q, read: impl FnOnce(&V) -> R) -> Option<R>
    where
        B::Entries: Lookup<K, V, Q>,
    {
        let part = self.part(key).read();
        let value = part.map.get(key)?;
        let _inside = Inside::enter(self);
        Some(read(value))
    }

    /// Changes the value of a key while its part of the map is locked. Returns the result of
    /// `change`; `None` if the key is missing.
    pub fn update<Q: Hash + ?Sized, R>(
        &self,
        key: &Q,
        change: impl FnOnce(&mut V) -> R,
    ) -> Option<R>
    where
        B::Entries: Lookup<K, V, Q>,
    {
        let mut part = self.part(key).write();
        let value = part.map.get_mut(key)?;
        let _inside = Inside::enter(self);
        Some(change(value))
    }

    /// Changes the value of a key, created by `make` if the key is missing. Both closures run while
    /// its part of the map is locked, which suits counters and the like. For values that take long
    /// to compute use [`SharedMap::get_or_insert_with`].
    ///
    /// ```
    /// use marmota_collections::SharedMap;
    /// let counts = SharedMap::<&str, u32>::new();
    /// counts.update_or_insert_with("a", || 0, |count| *count += 1);
    /// assert_eq!(counts.get("a"), Some(1));
    /// ```
    pub fn update_or_insert_with<R>(
        &self,
        key: K,
        make: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> R,
    ) -> R
    where
        B::Entries: Lookup<K, V, K>,
    {
        let mut past = Vec::new();
        let mut part = self.part(&key).write();
        let inside = Inside::enter(self);
        if let Some(value) = part.map.get_mut(&key) {
            return change(value);
        }
        let mut value = make();
        let result = change(&mut value);
        drop(inside);
        let making = part.cancel(&key);
        let old = part.map.insert_and_walk(key, value, Expiry::Default, &mut past);
        drop(part);
        drop((making, old));
        result
    }

    /// Removes a key and returns its value.
    pub fn take<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        B::Entries: Lookup<K, V, Q>,
    {
        let mut part = self.part(key).write();
        let making = part.cancel(key);
        let value = part.map.take_any(key);
        drop(part);
        drop(making);
        value.and_then(Gone::seen)
    }

    /// Sets a new time to live for the entry of a key, from now. Returns false if the key is
    /// missing.
    pub fn expire<Q: Hash + ?Sized>(&self, key: &Q, expiry: Expiry) -> bool
    where
        B::Entries: Lookup<K, V, Q>,
    {
        self.part(key).write().map.expire(key, expiry)
    }

    /// Returns the remaining time to live of the entry of a key.
    pub fn expiry<Q: Hash + ?Sized>(&self, key: &Q) -> Option<Expiry>
    where
        B::Entries: Lookup<K, V, Q>,
    {
        self.part(key).read().map.expiry(key)
    }

    /// Returns a copy of the value of a key. If the key is missing, computes the value with `make`:
    /// once, even if several threads need it at the same time; the others wait for the first.
    ///
    /// Only this key is locked while `make` runs, so `make` may use the map for other keys. (If it
    /// requests its own key, the value is computed again instead of waited for. Two keys whose
    /// computations on two threads request each other deadlock.) If `make` panics, the next waiting
    /// thread computes the value. If the key is set or taken meanwhile, that takes precedence: the
    /// waiting threads get the computed value, but the map does not store it.
    ///
    /// ```
    /// let lengths = marmota_collections::SharedMap::<String, usize>::new();
    /// assert_eq!(lengths.get_or_insert_with("four".to_owned(), || 4), 4);
    /// assert_eq!(lengths.get_or_insert_with("four".to_owned(), || unreachable!()), 4);
    /// ```
    pub fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> V
    where
        K: Clone,
        V: Clone,
        B::Entries: Lookup<K, V, K>,
    {
        match self.get_or_try_insert_with(key, || Ok::<V, std::convert::Infallible>(make())) {
            Ok(value) => value,
        }
    }

    /// As [`SharedMap::get_or_insert_with`], for a closure that can fail. On an error the map
    /// stores nothing, and the next waiting thread runs its own closure.
    ///
    /// # Errors
    /// That of `make`.
    ///
    /// ```
    /// use marmota_collections::SharedMap;
    /// let map = SharedMap::<String, u32>::new();
    /// let parse = |text: &str| map.get_or_try_insert_with(text.to_owned(), || text.parse());
    /// assert_eq!(parse("7"), Ok(7));
    /// assert!(parse("seven").is_err());
    /// assert_eq!(map.len(), 1);
    /// ```
    pub fn get_or_try_insert_with<E>(
        &self,
        key: K,
        make: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, E>
    where
        K: Clone,
        V: Clone,
        B::Entries: Lookup<K, V, K>,
    {
        if let Some(value) = self.get(&key) {
            return Ok(value);
        }
        let making = {
            let mut part = self.part(&key).write();
            // Another thread may have computed it since, or may be computing it now.
            if let Some(value) = part.map.get(&key) {
                return Ok(value.clone());
            }
            Arc::clone(part.making.entry(key.clone()).or_default())
        };
        let ticket = Ticket { map: self, key, making };
        let value = ticket.making.get_or_try_make(make)?;
        ticket.keep(value.clone());
        Ok(value)
    }

    /// Returns the number of entries that have not expired. Locks one part after the other.
    #[must_use]
    pub fn len(&self) -> usize {
        inside::check(self);
        self.parts.iter().map(|part| part.0.read().map.len()).sum()
    }

    /// Returns true if the map has no entries, apart from expired ones. Locks one part after the
    /// other.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        inside::check(self);
        self.parts.iter().all(|part| part.0.read().map.is_empty())
    }

    /// Returns the number of entries in memory, including expired ones.
    #[must_use]
    pub fn held(&self) -> usize {
        inside::check(self);
        self.parts.iter().map(|part| part.0.read().map.held()).sum()
    }

    /// Returns a consistent copy of the map; all parts are locked meanwhile. Entries keep their
    /// remaining time to live.
    #[must_use]
    pub fn snapshot(&self) -> Map<K, V, B>
    where
        K: Clone,
        V: Clone,
    {
        inside::check(self);
        // No other call waits for a part while it holds one.
        let locked: Vec<_> = self.parts.iter().map(|part| part.0.read()).collect();
        let mut copy = locked[0].map.like();
        copy.reserve(locked.iter().map(|content| content.map.held()).sum());
        for (key, value, left_ns) in locked.iter().flat_map(|content| content.map.iter_timed()) {
            let left = left_ns.map(Duration::from_nanos);
            copy.insert_for(key.clone(), value.clone(), left.map_or(Expiry::Never, Expiry::After));
        }
        copy
    }

    /// Keeps only the entries for which `keep` returns true, and returns the number of removed
    /// ones. Locks one part after the other; entries are dropped while their part is locked.
    pub fn retain(&self, mut keep: impl FnMut(&K, &mut V) -> bool) -> usize {
        inside::check(self);
        let retain = |part: &Part<K, V, B>| {
            let mut part = part.0.write();
            let _inside = Inside::enter(self);
            part.map.retain(&mut keep)
        };
        self.parts.iter().map(retain).sum()
    }

    /// Removes all entries. Locks one part after the other.
    pub fn clear(&self) {
        inside::check(self);
        for part in &self.parts {
            let mut part = part.0.write();
            let empty = Content { map: part.map.like(), making: HashMap::new() };
            let old = std::mem::replace(&mut *part, empty);
            drop(part);
            drop(old);
        }
    }

    /// Frees the memory of all expired entries, and returns their number. Locks one part after the
    /// other. Call it from a timer if many entries expire and writes are rare.
    pub fn sweep(&self) -> usize {
        inside::check(self);
        let sweep = |part: &Part<K, V, B>| {
            let mut past = Vec::new();
            part.0.write().map.sweep_into(&mut past);
            past.len()
        };
        self.parts.iter().map(sweep).sum()
    }
}

impl<K: Hash + Eq, V, B: Base<K, V>> Content<K, V, B> {
    /// Cancels a running computation for this key: its result will not be stored.
    #[must_use = "it is dropped after the lock"]
    fn cancel<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<(K, Arc<Making<V>>)>
    where
        K: Borrow<Q>,
    {
        if self.making.is_empty() { None } else { self.making.remove_entry(key) }
    }
}

/// One thread's wait for a value, or its computation of the value.
struct Ticket<'m, K: Hash + Eq, V, B: Base<K, V>> {
    map: &'m SharedMap<K, V, B>,
    key: K,
    making: Arc<Making<V>>,
}

impl<K: Hash + Eq + Clone, V, B: Base<K, V>> Ticket<'_, K, V, B> {
    /// Stores the value, unless another waiting thread has done so, or the key was set or taken
    /// meanwhile.
    fn keep(&self, value: V) {
        let mut past = Vec::new();
        let mut part = self.map.part(&self.key).write();
        if part.making.get(&self.key).is_some_and(|making| Arc::ptr_eq(making, &self.making)) {
            let made = part.cancel(&self.key);
            let key = self.key.clone();
            let old = part.map.insert_and_walk(key, value, Expiry::Default, &mut past);
            drop(part);
            drop((made, old));
        }
    }
}

impl<K: Hash + Eq, V, B: Base<K, V>> Drop for Ticket<'_, K, V, B> {
    /// Removes the entry in `making` when the last ticket is dropped after an error or a panic.
    fn drop(&mut self) {
        let mut part = self.map.part(&self.key).write();
        let same = |making: &Arc<Making<V>>| Arc::ptr_eq(making, &self.making);
        // A count of 2 is the table's and this one: no other thread waits for it, or can start to.
        let last = Arc::strong_count(&self.making) == 2;
        if last && part.making.get(&self.key).is_some_and(same) {
            let making = part.cancel(&self.key);
            drop(part);
            drop(making);
        }
    }
}

impl<K: Hash + Eq, V, B: Base<K, V>> Default for SharedMap<K, V, B> {
    fn default() -> Self {
        Self::from(Map::default())
    }
}

impl<K, V, B: Base<K, V>> fmt::Debug for SharedMap<K, V, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedMap").field("parts", &self.parts.len()).finish_non_exhaustive()
    }
}

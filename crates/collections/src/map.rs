//! [`Map`]: keys and values, hashed or sorted, each with an optional time to live.
//!
//! Expired entries are never returned: each read compares the deadline with the clock (which is
//! read only for entries with a deadline). Their memory is freed later: every eighth write checks
//! the next 16 entries, so a walk over `n` entries takes `n / 2` writes and no write takes long.
//! [`Map::sweep`] checks all entries. There is no background thread.

use std::fmt;
use std::ops::RangeBounds;
use std::time::Duration;

pub use entries::{Base, Entries, Entry, Hashed, Lookup, Sorted};

use marmota_model::{Error, ErrorKind, Result};

use crate::clock::{Clock, NEVER};

mod entries;

/// The number of writes between two walks over entries that may have expired.
const WRITES_PER_WALK: u32 = 8;
/// The number of entries that each walk checks.
const ENTRIES_PER_WALK: usize = 16;

/// The time to live of an entry.
///
/// ```
/// use marmota_collections::Map;
/// use std::time::Duration;
/// use marmota_collections::Expiry;
/// let mut map = Map::new();
/// map.insert_for("a", 1, Expiry::After(Duration::from_secs(60)));
/// map.insert_for("b", 2, Expiry::Never);
/// assert_eq!(map.expiry(&"b"), Some(Expiry::Never));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expiry {
    /// The map's own time to live; see [`Map::with_ttl`].
    #[default]
    Default,
    /// Until it is removed.
    Never,
    /// This long from now.
    After(Duration),
}

/// A collection of keys and values.
///
/// `Map<K, V>` is hashed, `Map<K, V, Sorted>` (or [`SortedMap`]) is sorted. Both have the same
/// methods; the sorted one also has [`Map::range`], [`Map::first`] and [`Map::last`].
///
/// ```
/// use std::time::Duration;
/// use marmota_collections::{Expiry, Map};
///
/// let mut map = Map::new();
/// map.insert("Bourges".to_owned(), 18);
/// map.insert_for("Paris".to_owned(), 75, Expiry::After(Duration::from_secs(60)));
/// assert_eq!(map.get("Bourges"), Some(&18));
/// assert_eq!(*map.get_or_insert_with("Lyon".to_owned(), || 69), 69);
/// assert_eq!(map.update("Lyon", |number| *number += 1), Some(()));
/// assert_eq!(map.take("Lyon"), Some(70));
/// assert_eq!(map.len(), 2);
/// ```
pub struct Map<K, V, B: Base<K, V> = Hashed> {
    entries: B::Entries,
    clock: Clock,
    ttl: Option<Duration>,
    /// Number of entries with a deadline.
    timed: usize,
    cursor: <B::Entries as Entries<K, V>>::Cursor,
    writes: u32,
}

/// A map in the order of its keys.
pub type SortedMap<K, V> = Map<K, V, Sorted>;

impl<K, V> Map<K, V>
where
    Hashed: Base<K, V>,
{
    /// Creates an empty hashed map.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl<K: Ord + Clone, V> Map<K, V, Sorted> {
    /// Creates an empty sorted map.
    #[must_use]
    pub fn sorted() -> Self {
        Self::default()
    }

    /// Returns the entries with keys in a range, in order; empty if the range ends before it
    /// starts.
    ///
    /// ```
    /// let mut map = marmota_collections::Map::sorted();
    /// map.insert(3, "c");
    /// map.insert(1, "a");
    /// map.insert(2, "b");
    /// assert!(map.range(2..).eq([(&2, &"b"), (&3, &"c")]));
    /// ```
    pub fn range(&self, keys: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        let now_ns = self.now_ns();
        let range = is_range(&keys).then(|| self.entries.range(keys));
        let live = move |(_, entry): &(&K, &Entry<V>)| entry.deadline_ns > now_ns;
        range.into_iter().flatten().filter(live).map(|(key, entry)| (key, &entry.value))
    }

    /// Returns the entry with the least key.
    ///
    /// ```
    /// use marmota_collections::Map;
    /// let mut map = Map::sorted();
    /// map.insert(2, "b");
    /// map.insert(1, "a");
    /// assert_eq!((map.first(), map.last()), (Some((&1, &"a")), Some((&2, &"b"))));
    /// ```
    pub fn first(&self) -> Option<(&K, &V)> {
        self.range(..).next()
    }

    /// Returns the entry with the greatest key.
    pub fn last(&self) -> Option<(&K, &V)> {
        self.range(..).next_back()
    }
}

/// Returns true if `BTreeMap::range` accepts these bounds without a panic.
fn is_range<K: Ord>(keys: &impl RangeBounds<K>) -> bool {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    match (keys.start_bound(), keys.end_bound()) {
        (Unbounded, _) | (_, Unbounded) => true,
        (Excluded(start), Excluded(end)) => start < end,
        (Included(start) | Excluded(start), Included(end) | Excluded(end)) => start <= end,
    }
}

impl<K, V, B: Base<K, V>> Map<K, V, B> {
    /// Sets the time to live of entries that are added without their own.
    ///
    /// ```
    /// use marmota_collections::Map;
    /// use std::time::Duration;
    /// use marmota_collections::ManualClock;
    /// let clock = ManualClock::new();
    /// let mut codes = Map::new().with_ttl(Duration::from_secs(60)).with_clock(clock.clock());
    /// codes.insert("a", 1);
    /// clock.advance(Duration::from_secs(61));
    /// assert_eq!(codes.get(&"a"), None);
    /// ```
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Reads the time from another clock, for tests.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Returns an empty map with the same clock and time to live.
    pub(crate) fn like(&self) -> Self {
        Self { clock: self.clock.clone(), ttl: self.ttl, ..Self::default() }
    }

    /// Sets a value with the map's time to live, and returns the previous value.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.insert_for(key, value, Expiry::Default)
    }

    /// Sets a value with its own time to live, and returns the previous value.
    pub fn insert_for(&mut self, key: K, value: V, expiry: Expiry) -> Option<V> {
        self.insert_and_walk(key, value, expiry, &mut Vec::new()).and_then(Gone::seen)
    }

    /// As [`Map::insert_for`], but moves expired entries to `past`, for the caller to drop.
    pub(crate) fn insert_and_walk(
        &mut self,
        key: K,
        value: V,
        expiry: Expiry,
        past: &mut Vec<(K, Entry<V>)>,
    ) -> Option<Gone<V>> {
        self.walk_sometimes(past);
        let deadline_ns = self.deadline_ns(expiry);
        self.timed += usize::from(deadline_ns != NEVER);
        let old = self.entries.put(key, Entry { value, deadline_ns })?;
        Some(self.gone(old))
    }

    /// Returns the value of a key.
    pub fn get<Q: ?Sized>(&self, key: &Q) -> Option<&V>
    where
        B::Entries: Lookup<K, V, Q>,
    {
        let entry = self.entries.find(key)?;
        self.is_live(entry.deadline_ns).then_some(&entry.value)
    }

    /// Returns the value of a key for modification.
    pub fn get_mut<Q: ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        B::Entries: Lookup<K, V, Q>,
    {
        let entry = self.entries.find_mut(key)?;
        let live = entry.deadline_ns == NEVER || entry.deadline_ns > self.clock.now_ns();
        live.then_some(&mut entry.value)
    }

    /// Returns true if a key has a value.
    pub fn contains<Q: ?Sized>(&self, key: &Q) -> bool
    where
        B::Entries: Lookup<K, V, Q>,
    {
        self.get(key).is_some()
    }

    /// Returns the value of a key. Inserts the result of `make` if the key is missing.
    ///
    /// ```
    /// use marmota_collections::Map;
    /// let mut words = Map::new();
    /// for word in ["a", "b", "a"] {
    ///     *words.get_or_insert_with(word, || 0) += 1;
    /// }
    /// assert_eq!(words.get(&"a"), Some(&2));
    /// ```
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V
    where
        K: Clone,
        B::Entries: Lookup<K, V, K>,
    {
        if !self.contains(&key) {
            self.insert(key.clone(), make());
        }
        match self.entries.find_mut(&key) {
            Some(entry) => &mut entry.value,
            None => unreachable!("the entry exists or was just inserted"),
        }
    }

    /// Changes the value of a key, and returns the result of `change`; `None` if the key is
    /// missing.
    pub fn update<Q: ?Sized, R>(&mut self, key: &Q, change: impl FnOnce(&mut V) -> R) -> Option<R>
    where
        B::Entries: Lookup<K, V, Q>,
    {
        self.get_mut(key).map(change)
    }

    /// Removes a key and returns its value.
    pub fn take<Q: ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        B::Entries: Lookup<K, V, Q>,
    {
        self.take_any(key).and_then(Gone::seen)
    }

    pub(crate) fn take_any<Q: ?Sized>(&mut self, key: &Q) -> Option<Gone<V>>
    where
        B::Entries: Lookup<K, V, Q>,
    {
        let (_, entry) = self.entries.take(key)?;
        Some(self.gone(entry))
    }

    /// Sets a new time to live for the entry of a key, from now. Returns false if the key is
    /// missing.
    pub fn expire<Q: ?Sized>(&mut self, key: &Q, expiry: Expiry) -> bool
    where
        B::Entries: Lookup<K, V, Q>,
    {
        let (now_ns, deadline_ns) = (self.clock.now_ns(), self.deadline_ns(expiry));
        let Some(entry) = self.entries.find_mut(key).filter(|it| it.deadline_ns > now_ns) else {
            return false;
        };
        self.timed -= usize::from(entry.deadline_ns != NEVER);
        self.timed += usize::from(deadline_ns != NEVER);
        entry.deadline_ns = deadline_ns;
        true
    }

    /// Returns the remaining time to live of the entry of a key: [`Expiry::Never`] or
    /// [`Expiry::After`].
    pub fn expiry<Q: ?Sized>(&self, key: &Q) -> Option<Expiry>
    where
        B::Entries: Lookup<K, V, Q>,
    {
        let entry = self.entries.find(key)?;
        if entry.deadline_ns == NEVER {
            return Some(Expiry::Never);
        }
        let left_ns = entry.deadline_ns.checked_sub(self.clock.now_ns()).filter(|&left| left > 0);
        left_ns.map(|left_ns| Expiry::After(Duration::from_nanos(left_ns)))
    }

    /// Returns the entries that have not expired; in a sorted map in order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.iter_timed().map(|(key, value, _)| (key, value))
    }

    /// As [`Map::iter`], with the nanoseconds that each entry has left.
    pub(crate) fn iter_timed(&self) -> impl Iterator<Item = (&K, &V, Option<u64>)> {
        let now_ns = self.now_ns();
        self.entries.iter().filter(move |(_, entry)| entry.deadline_ns > now_ns).map(
            move |(key, entry)| {
                let timed = entry.deadline_ns != NEVER;
                (key, &entry.value, timed.then(|| entry.deadline_ns - now_ns))
            },
        )
    }

    /// Returns the keys, as [`Map::iter`].
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// Returns the values, as [`Map::iter`].
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Returns a copy of all entries.
    #[must_use]
    pub fn snapshot(&self) -> Vec<(K, V)>
    where
        K: Clone,
        V: Clone,
    {
        self.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Keeps only the entries for which `keep` returns true. Returns the number of removed entries,
    /// without those that had expired.
    ///
    /// ```
    /// use marmota_collections::Map;
    /// let mut map = Map::new();
    /// map.insert("a", 1);
    /// map.insert("b", 2);
    /// assert_eq!(map.retain(|_, value| *value > 1), 1);
    /// assert_eq!(map.len(), 1);
    /// ```
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) -> usize {
        self.sweep();
        let (mut removed, timed) = (0, &mut self.timed);
        self.entries.keep(|key, entry| {
            let kept = keep(key, &mut entry.value);
            if !kept {
                *timed -= usize::from(entry.deadline_ns != NEVER);
                removed += 1;
            }
            kept
        });
        removed
    }

    /// Returns the number of entries that have not expired: O(1) if no entry has a deadline, else
    /// O(n). [`Map::held`] is always O(1).
    #[must_use]
    pub fn len(&self) -> usize {
        if self.timed == 0 { self.entries.held() } else { self.iter().count() }
    }

    /// Returns true if the map has no entries, apart from expired ones.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Returns the number of entries in memory, including expired ones.
    #[must_use]
    pub fn held(&self) -> usize {
        self.entries.held()
    }

    /// Reserves room for `more` entries.
    pub fn reserve(&mut self, more: usize) {
        self.entries.reserve(more);
    }

    /// Replaces all entries by others, each with the milliseconds that it has left.
    pub(crate) fn replace_entries(&mut self, entries: Vec<(K, V, Option<u64>)>) -> Result<()>
    where
        B::Entries: Lookup<K, V, K>,
    {
        let expiry = |left_ms| Expiry::After(Duration::from_millis(left_ms));
        self.replace_timed(
            entries
                .into_iter()
                .map(|(key, value, left_ms)| (key, value, left_ms.map_or(Expiry::Never, expiry))),
        )
    }

    /// Replaces all entries by others, which get the map's time to live.
    pub(crate) fn replace_pairs(&mut self, pairs: Vec<(K, V)>) -> Result<()>
    where
        B::Entries: Lookup<K, V, K>,
    {
        self.replace_timed(pairs.into_iter().map(|(key, value)| (key, value, Expiry::Default)))
    }

    fn replace_timed(
        &mut self,
        entries: impl ExactSizeIterator<Item = (K, V, Expiry)>,
    ) -> Result<()>
    where
        B::Entries: Lookup<K, V, K>,
    {
        let mut new = self.like();
        new.reserve(entries.len());
        for (at, (key, value, expiry)) in entries.enumerate() {
            if new.entries.find(&key).is_some() {
                let message = format!(
                    "the key of entry {at} occurs twice; remove one of the \
                                       entries"
                );
                return Err(Error::new(ErrorKind::Conflict, message));
            }
            new.insert_for(key, value, expiry);
        }
        *self = new;
        Ok(())
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        *self = self.like();
    }

    /// Frees all expired entries, and the memory of a table that has become four times too large.
    /// Returns the number of freed entries.
    pub fn sweep(&mut self) -> usize {
        let mut past = Vec::new();
        self.sweep_into(&mut past);
        past.len()
    }

    pub(crate) fn sweep_into(&mut self, past: &mut Vec<(K, Entry<V>)>) {
        if self.timed > 0 {
            self.cursor = Default::default();
            self.walk(usize::MAX, past);
        }
        self.entries.shrink();
    }

    fn walk_sometimes(&mut self, past: &mut Vec<(K, Entry<V>)>) {
        self.writes = self.writes.wrapping_add(1);
        if self.timed > 0 && self.writes.is_multiple_of(WRITES_PER_WALK) {
            self.walk(ENTRIES_PER_WALK, past);
        }
    }

    fn walk(&mut self, most: usize, past: &mut Vec<(K, Entry<V>)>) {
        let before = past.len();
        self.entries.walk(&mut self.cursor, self.clock.now_ns(), most, past);
        // Only entries with a deadline can expire.
        self.timed -= past.len() - before;
    }

    /// Returns the time if any entry has a deadline, otherwise 0.
    fn now_ns(&self) -> u64 {
        if self.timed == 0 { 0 } else { self.clock.now_ns() }
    }

    fn is_live(&self, deadline_ns: u64) -> bool {
        deadline_ns == NEVER || deadline_ns > self.clock.now_ns()
    }

    fn deadline_ns(&self, expiry: Expiry) -> u64 {
        match (expiry, self.ttl) {
            (Expiry::After(ttl), _) | (Expiry::Default, Some(ttl)) => self.clock.deadline_ns(ttl),
            (Expiry::Never, _) | (Expiry::Default, None) => NEVER,
        }
    }

    /// Updates the count of entries with a deadline after an entry was removed.
    fn gone(&mut self, entry: Entry<V>) -> Gone<V> {
        self.timed -= usize::from(entry.deadline_ns != NEVER);
        Gone { live: self.is_live(entry.deadline_ns), value: entry.value }
    }

    /// Returns the entries that have not expired, with their remaining time to live.
    pub(crate) fn into_timed(mut self) -> impl Iterator<Item = (K, V, Expiry)> {
        self.sweep();
        let now_ns = self.clock.now_ns();
        self.entries.into_iter().map(move |(key, entry)| {
            let left_ns = entry.deadline_ns.saturating_sub(now_ns);
            let expiry = match entry.deadline_ns {
                NEVER => Expiry::Never,
                _ => Expiry::After(Duration::from_nanos(left_ns)),
            };
            (key, entry.value, expiry)
        })
    }
}

/// A removed value, to be dropped after all locks are released.
pub(crate) struct Gone<V> {
    live: bool,
    value: V,
}

impl<V> Gone<V> {
    /// Returns the value unless it has expired.
    pub(crate) fn seen(self) -> Option<V> {
        self.live.then_some(self.value)
    }
}

impl<K, V, B: Base<K, V>> Default for Map<K, V, B> {
    fn default() -> Self {
        Self {
            entries: Default::default(),
            clock: Clock::default(),
            ttl: None,
            timed: 0,
            cursor: Default::default(),
            writes: 0,
        }
    }
}

impl<K: Clone, V: Clone, B: Base<K, V, Entries: Clone>> Clone for Map<K, V, B> {
    fn clone(&self) -> Self {
        Self {
            entries: self.entries.clone(),
            clock: self.clock.clone(),
            ttl: self.ttl,
            timed: self.timed,
            cursor: Default::default(),
            writes: 0,
        }
    }
}

impl<K: fmt::Debug, V: fmt::Debug, B: Base<K, V>> fmt::Debug for Map<K, V, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K, V: PartialEq, B: Base<K, V, Entries: Lookup<K, V, K>>> PartialEq for Map<K, V, B> {
    /// Compares keys and values; times to live are not compared.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl<K, V, B: Base<K, V>> Extend<(K, V)> for Map<K, V, B> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K, V, B: Base<K, V>> FromIterator<(K, V)> for Map<K, V, B> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.extend(entries);
        map
    }
}

impl<K, V, B: Base<K, V>> IntoIterator for Map<K, V, B> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_timed().map(|(key, value, _)| (key, value)).collect::<Vec<_>>().into_iter()
    }
}

//! The cached rows: each is valid as long as its table has the version at which it was read.
//!
//! Rows are evicted by `quick_cache`, with the algorithm S3-FIFO (Yang et al., 2023), when their
//! sizes exceed the maximum. A stale row is not removed at once; it is overwritten by the next read
//! of its key, or evicted.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use marmota_model::{FieldSet, RowSink, Table, Value, ValueRef};
use quick_cache::Weighter;
use quick_cache::sync::Cache as Kept;
use serde::Serialize;

use super::row_key::{RowKey, RowKeyRef};
use super::table_versions::{TableVersion, TableVersions};
use crate::contract::invalidation_feed::{Invalidated, Resume};
use crate::rows::registry::Registry;

/// Rows with at most this many fields are lent without an allocation.
const ROW_FIELDS_FEW: usize = 24;
/// The size of a cached row without its values, in bytes: measured, including its entry in the map.
const ROW_BYTES: u64 = 96;

/// How often a cache had the requested row (approximate if more than 64 threads read), and its
/// size.
///
/// ```
/// # use marmota_derive::Model;
/// # use marmota_memory::Memory;
/// # use marmota_store::Store;
/// # #[derive(Clone, Debug, Model)]
/// # struct City { id: i64, name: String }
/// let store = Store::builder(Memory::new()).model::<City>().cache(1 << 20).open()?;
/// let id = store.insert(&City { id: 0, name: "Bourges".to_owned() }).run()?;
/// for _ in 0..3 {
///     store.get::<City>(id).run()?;
/// }
/// let stats = store.cache_stats().expect("it has a cache");
/// assert_eq!((stats.misses, stats.hits, stats.rows), (1, 2, 1));
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheStats {
    /// Reads by key that the cache answered.
    pub hits: u64,
    /// Reads by key that the engine answered although the cache was allowed to.
    pub misses: u64,
    /// Cached rows, including stale ones.
    pub rows: u64,
    /// The approximate size of these rows in bytes.
    pub bytes: u64,
    /// The maximum size in bytes.
    pub bytes_max: u64,
}

/// A store's cache: the versions of its tables, the rows, and the counts of each thread.
pub(crate) struct Cache {
    pub(super) versions: TableVersions,
    rows: Kept<RowKey, Arc<Row>, ByBytes>,
    counts: Box<[HitCounts]>,
}

/// The counts of one thread, on a separate cache line.
#[repr(align(128))]
#[derive(Default)]
struct HitCounts {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// A cached row.
struct Row {
    version: TableVersion,
    values: Box<[Value]>,
}

/// Measures rows in bytes.
#[derive(Clone)]
struct ByBytes;

impl Weighter<RowKey, Arc<Row>> for ByBytes {
    fn weight(&self, key: &RowKey, row: &Arc<Row>) -> u64 {
        let kept = |value: &Value| match value {
            Value::Text(text) | Value::Json(text) => text.len(),
            Value::Blob(bytes) => bytes.len(),
            _ => 0,
        };
        let values: usize = row.values.iter().map(kept).sum();
        ROW_BYTES + (key.text_bytes() + values + size_of_val(&*row.values)) as u64
    }
}

/// A read by key that the cache may answer.
pub(super) struct Lookup<'a> {
    key: RowKeyRef<'a>,
    /// The requested fields; `None` if the read requests all cached fields.
    fields: Option<FieldSet>,
    version: TableVersion,
}

/// A read by key that waits, and whose row is to be cached.
#[derive(Debug)]
pub(super) struct Fetch {
    key: RowKey,
    version: TableVersion,
}

impl Lookup<'_> {
    /// Returns the lookup in owned form, for a row that arrives later.
    pub(super) fn fetch(&self) -> Box<Fetch> {
        Box::new(Fetch { key: self.key.to_owned(), version: self.version })
    }

    /// Returns true if the read requests all fields of a cached row, so that the row is the answer.
    pub(super) const fn is_whole(&self) -> bool {
        self.fields.is_none()
    }
}

impl Cache {
    /// Creates an empty cache of at most this many bytes, with counters for each slot of threads.
    pub(crate) fn new(registry: &Registry, bytes_max: u64, slots: usize) -> Self {
        let rows_about = usize::try_from(bytes_max / 256).unwrap_or(usize::MAX);
        Self {
            versions: TableVersions::new(registry),
            rows: Kept::with_weighter(rows_about, bytes_max, ByBytes),
            counts: (0..slots).map(|_| HitCounts::default()).collect(),
        }
    }

    /// Returns the version of a table as a number, which no later version of it has again; `None`
    /// while it is written to, or if it does not belong to this store.
    pub(crate) fn version(&self, table: &Table) -> Option<u64> {
        Some(self.versions.version(table)?.number())
    }

    /// Returns the lookup for a read by key; `None` if the read does not use the cache.
    #[inline]
    pub(super) fn lookup<'a>(
        &self,
        table: &Table,
        key: ValueRef<'a>,
        fields: FieldSet,
    ) -> Option<Lookup<'a>> {
        let kept = table.read_by_default();
        let fields = (fields != kept).then_some(fields);
        if fields.is_some_and(|fields| fields.iter().any(|field| !kept.contains(field))) {
            return None;
        }
        let number = self.versions.number(table)?;
        let version = self.versions.version_of(number)?;
        Some(Lookup { key: RowKeyRef::new(number, key)?, fields, version })
    }

    /// Lends the row to `sink` if it is cached and valid.
    #[inline]
    pub(super) fn lend(&self, lookup: &Lookup<'_>, slot: usize, sink: &mut dyn RowSink) -> bool {
        let counts = &self.counts[slot];
        let found = self.rows.get(&lookup.key).filter(|row| row.version == lookup.version);
        let Some(row) = found else {
            count(&counts.misses);
            return false;
        };
        count(&counts.hits);
        let (mut few, mut many) = ([ValueRef::Absent; ROW_FIELDS_FEW], Vec::new());
        let lent = match few.get_mut(..row.values.len()) {
            Some(lent) => lent,
            None => {
                many.resize(row.values.len(), ValueRef::Absent);
                &mut many[..]
            }
        };
        for (field, (to, value)) in lent.iter_mut().zip(&row.values).enumerate() {
            if lookup.fields.is_none_or(|fields| fields.contains(field)) {
                borrow(value, to);
            }
        }
        let _ = sink.row(lent);
        true
    }

    /// Caches a row that was read, unless its table was written to meanwhile: then it may be older
    /// than the write.
    pub(super) fn keep(&self, lookup: &Lookup<'_>, values: Box<[Value]>) {
        if self.versions.version_of(lookup.key.table) == Some(lookup.version) {
            let row = Row { version: lookup.version, values };
            self.rows.insert(lookup.key.to_owned(), Arc::new(row));
        }
    }

    /// [`Cache::keep`] for a read that had to wait.
    pub(super) fn keep_fetched(&self, fetch: Fetch, values: Box<[Value]>) {
        let Fetch { key, version } = fetch;
        if self.versions.version_of(key.table) == Some(version) {
            self.rows.insert(key, Arc::new(Row { version, values }));
        }
    }

    /// Returns the counts of all threads, and the size of the rows.
    pub(crate) fn stats(&self) -> CacheStats {
        let sum = |count: fn(&HitCounts) -> &AtomicU64| {
            self.counts.iter().map(|counts| count(counts).load(Ordering::Relaxed)).sum()
        };
        CacheStats {
            hits: sum(|counts| &counts.hits),
            misses: sum(|counts| &counts.misses),
            rows: self.rows.len() as u64,
            bytes: self.rows.weight(),
            bytes_max: self.rows.capacity(),
        }
    }
}

impl Invalidated for Cache {
    fn invalidate(&self, table: &str) {
        self.versions.invalidate(table);
    }

    fn pause(self: Arc<Self>, tables: &[Arc<Table>]) -> Resume {
        let writing = self.versions.pause(tables);
        Box::new(move || self.versions.ended(writing, true))
    }
}

/// Borrows a value into its destination: returned by value, it would be copied there, and the copy
/// would wait for the bytes just written.
#[inline(never)]
fn borrow<'v>(value: &'v Value, to: &mut ValueRef<'v>) {
    *to = value.as_ref();
}

/// Adds one to a counter, without an atomic addition, which costs as much as the lookup. A slot
/// belongs to one thread; if there are more threads than slots, a count may be lost.
#[inline]
fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// A sink that keeps a copy of the row that it passes on.
pub(super) struct Copying<'s> {
    pub(super) sink: &'s mut dyn RowSink,
    pub(super) copy: Option<Box<[Value]>>,
}

impl RowSink for Copying<'_> {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.copy = Some(row.iter().map(ValueRef::to_value).collect());
        self.sink.row(row)
    }
}

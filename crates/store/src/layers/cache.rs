//! A row cache in front of an engine; its rows are never older than the last acknowledged write.
//!
//! Every table has a version, which counts the writes to it. A cached row has the version at which
//! it was read, and is valid as long as the table has that version. A write to one table
//! invalidates no row of another, and the cache need not find out which rows a write has changed.
//!
//! # Why no read is stale
//! A write is announced before the engine gets it, and ended after its last step. Both add to one
//! word for each table: its low 20 bits count the writes in progress (a million at once), the
//! others are the version.
//! - Between the two, the engine may return the old row or the new one. So the cache is bypassed:
//!   it returns no row and stores none.
//! - A row is stored with the version that was known before the engine was called, so the row is at
//!   least as new as that version. (If the version has changed after the read, the row is never
//!   returned.)
//! - A reader of the cache reads the word first. If a write is announced just then, the read took
//!   place before it.
//!
//! A transaction announces its tables when it commits, since other sessions do not see its rows
//! before. A write that is cancelled while it waits may still be executed, but before any later
//! write to its database is acknowledged ([`crate::engine::Session::cancel`]). So it ends together
//! with the next write to that database that succeeds.
//!
//! Writes of other processes are known if the engine is notified of them ([`InvalidationFeed`]).
//! Each counts as a write that ends when the notification arrives; while the notifications are
//! interrupted, a write is in progress. So a row that another process has changed is returned until
//! the notification has arrived, and no longer. With an engine that receives no notifications, the
//! cache does not see the writes of others.
//!
//! [`InvalidationFeed`]: crate::InvalidationFeed

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use equivalent::Equivalent;
use hashbrown::HashMap;
use marmota_model::{FieldSet, RowSink, Table, Uuid, Value, ValueRef};
use parking_lot::Mutex;
use quick_cache::Weighter;
use quick_cache::sync::Cache as Kept;
use serde::Serialize;
use smallvec::SmallVec;

use crate::contract::invalidation_feed::{Invalidated, Resume};
use crate::contract::operation::Operation;
use crate::rows::registry::Registry;

/// Rows with at most this many fields are lent without an allocation.
const ROW_FIELDS_FEW: usize = 24;
/// The size of a cached row without its values, in bytes: measured, including its entry in the map.
const ROW_BYTES: u64 = 96;
/// One write in progress, in a table's word.
const UNDER_WAY: u64 = 1;
/// One version, in a table's word.
const VERSION: u64 = 1 << 20;

/// How often a cache had the requested row (approximate if more than 64 threads read), and its
/// size.
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

/// A store's cache.
pub(crate) struct Cache {
    tables: Box<[Watched]>,
    numbers: HashMap<usize, u32>,
    rows: Kept<Key, Arc<Row>, ByBytes>,
    /// Tables of writes that were cancelled while they waited; they are still announced.
    abandoned: Mutex<Vec<u32>>,
    any_abandoned: AtomicBool,
    counts: Box<[Counts]>,
}

/// A table and its word.
struct Watched {
    table: Arc<Table>,
    /// The index of its database.
    database: usize,
    word: AtomicU64,
}

/// The counts of one thread, on a separate cache line.
#[repr(align(128))]
#[derive(Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// A table's version, known while no write is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(u64);

impl Version {
    /// Returns it as a number, which no later version of the table has again.
    pub(crate) const fn number(self) -> u64 {
        self.0 / VERSION
    }
}

struct Row {
    version: Version,
    values: Box<[Value]>,
}

/// A row's table and key.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    table: u32,
    key: OwnedKey,
}

#[derive(Debug, PartialEq, Eq)]
enum OwnedKey {
    Int(i64),
    Uuid(Uuid),
    Text(Box<str>),
}

/// A borrowed [`Key`].
#[derive(Clone, Copy)]
struct KeyRef<'a> {
    table: u32,
    key: BorrowedKey<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BorrowedKey<'a> {
    Int(i64),
    Uuid(Uuid),
    Text(&'a str),
}

impl OwnedKey {
    #[inline]
    fn borrow(&self) -> BorrowedKey<'_> {
        match self {
            Self::Int(key) => BorrowedKey::Int(*key),
            Self::Uuid(key) => BorrowedKey::Uuid(*key),
            Self::Text(key) => BorrowedKey::Text(key),
        }
    }
}

// The two have the same hash, since both hash the borrowed form.
impl std::hash::Hash for OwnedKey {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.borrow().hash(state);
    }
}

impl std::hash::Hash for BorrowedKey<'_> {
    #[inline]
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        match self {
            Self::Int(key) => key.hash(state),
            Self::Uuid(key) => key.hash(state),
            Self::Text(key) => key.hash(state),
        }
    }
}

impl std::hash::Hash for KeyRef<'_> {
    #[inline]
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.table.hash(state);
        self.key.hash(state);
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    #[inline]
    fn equivalent(&self, other: &Key) -> bool {
        self.table == other.table && self.key == other.key.borrow()
    }
}

impl<'a> KeyRef<'a> {
    fn new(table: u32, key: ValueRef<'a>) -> Option<Self> {
        let key = match key {
            ValueRef::Int(key) => BorrowedKey::Int(key),
            ValueRef::Uuid(key) => BorrowedKey::Uuid(key),
            ValueRef::Text(key) => BorrowedKey::Text(key),
            _ => return None,
        };
        Some(Self { table, key })
    }

    fn to_owned(self) -> Key {
        let key = match self.key {
            BorrowedKey::Int(key) => OwnedKey::Int(key),
            BorrowedKey::Uuid(key) => OwnedKey::Uuid(key),
            BorrowedKey::Text(key) => OwnedKey::Text(key.into()),
        };
        Key { table: self.table, key }
    }
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, Arc<Row>> for ByBytes {
    fn weight(&self, key: &Key, row: &Arc<Row>) -> u64 {
        let key = match &key.key {
            OwnedKey::Text(text) => text.len(),
            _ => 0,
        };
        let kept = |value: &Value| match value {
            Value::Text(text) | Value::Json(text) => text.len(),
            Value::Blob(bytes) => bytes.len(),
            _ => 0,
        };
        let values: usize = row.values.iter().map(kept).sum();
        ROW_BYTES + (key + values + size_of_val(&*row.values)) as u64
    }
}

/// A read by key that the cache may answer.
pub(crate) struct Lookup<'a> {
    key: KeyRef<'a>,
    /// The requested fields; `None` if the read requests all cached fields.
    fields: Option<FieldSet>,
    version: Version,
}

/// A read by key that waits, and whose row is to be cached.
#[derive(Debug)]
pub(crate) struct Fetch {
    key: Key,
    version: Version,
}

/// Tables that are being written to. Announced writes have to be ended by [`Cache::ended`] or
/// [`Cache::abandon`]; otherwise their tables are never cached again.
#[derive(Debug, Default)]
pub(crate) struct Writing {
    tables: SmallVec<[u32; 4]>,
    /// The tables of writes cancelled before, which end with this one.
    taken_over: Option<Box<[u32]>>,
}

impl Lookup<'_> {
    /// Returns the lookup in owned form, for a row that arrives later.
    pub(crate) fn fetch(&self) -> Box<Fetch> {
        Box::new(Fetch { key: self.key.to_owned(), version: self.version })
    }

    /// Returns true if the read requests all fields of a cached row, so that the row is the answer.
    pub(crate) const fn is_whole(&self) -> bool {
        self.fields.is_none()
    }
}

impl Cache {
    pub(crate) fn new(registry: &Registry, bytes_max: u64, slots: usize) -> Self {
        let tables: Box<[Watched]> = registry
            .tables()
            .iter()
            .map(|table| Watched {
                table: Arc::clone(table),
                database: registry.database_of(table),
                word: AtomicU64::new(0),
            })
            .collect();
        let address = |watched: &Watched| Arc::as_ptr(&watched.table) as usize;
        let numbers = tables.iter().map(address).zip(0..).collect();
        let rows_about = usize::try_from(bytes_max / 256).unwrap_or(usize::MAX);
        Self {
            tables,
            numbers,
            rows: Kept::with_weighter(rows_about, bytes_max, ByBytes),
            abandoned: Mutex::default(),
            any_abandoned: AtomicBool::new(false),
            counts: (0..slots).map(|_| Counts::default()).collect(),
        }
    }

    #[inline]
    fn number(&self, table: &Table) -> Option<u32> {
        self.numbers.get(&(std::ptr::from_ref(table) as usize)).copied()
    }

    /// Returns the version of a table; `None` while it is written to, or if it does not belong to
    /// this store.
    pub(crate) fn version(&self, table: &Table) -> Option<Version> {
        self.version_of(self.number(table)?)
    }

    #[inline]
    fn version_of(&self, number: u32) -> Option<Version> {
        let word = self.tables[number as usize].word.load(Ordering::Acquire);
        word.is_multiple_of(VERSION).then_some(Version(word))
    }

    /// Returns the lookup for a read by key; `None` if the read does not use the cache.
    #[inline]
    pub(crate) fn lookup<'a>(
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
        let number = self.number(table)?;
        let version = self.version_of(number)?;
        Some(Lookup { key: KeyRef::new(number, key)?, fields, version })
    }

    /// Lends the row to `sink` if it is cached and valid.
    #[inline]
    pub(crate) fn lend(&self, lookup: &Lookup<'_>, slot: usize, sink: &mut dyn RowSink) -> bool {
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

    /// Caches a row that was read, unless its table was written to meanwhile.
    pub(crate) fn keep(&self, lookup: &Lookup<'_>, values: Box<[Value]>) {
        if self.version_of(lookup.key.table) == Some(lookup.version) {
            let row = Row { version: lookup.version, values };
            self.rows.insert(lookup.key.to_owned(), Arc::new(row));
        }
    }

    /// [`Cache::keep`] for a read that had to wait.
    pub(crate) fn keep_fetched(&self, fetch: Fetch, values: Box<[Value]>) {
        let Fetch { key, version } = fetch;
        if self.version_of(key.table) == Some(version) {
            self.rows.insert(key, Arc::new(Row { version, values }));
        }
    }

    fn begin(&self, tables: &[u32]) {
        for &number in tables {
            self.tables[number as usize].word.fetch_add(UNDER_WAY, Ordering::AcqRel);
        }
    }

    /// Announces a write to the operation's tables. It is ended with [`Cache::ended`].
    pub(crate) fn write(&self, operation: &Operation<'_>) -> Writing {
        let mut writing = Writing::default();
        self.note(&mut writing, operation);
        self.announce(&mut writing);
        writing
    }

    /// Adds the tables of an operation to those of its transaction.
    pub(crate) fn note(&self, writing: &mut Writing, operation: &Operation<'_>) {
        match operation {
            // The tables are unknown: a statement may run triggers and cascades.
            Operation::Sql { statement, .. } if statement.writes => {
                writing.tables = (0..self.tables.len() as u32).collect();
            }
            _ => operation.each_table_written(|table| self.add(writing, table)),
        }
    }

    fn add(&self, writing: &mut Writing, table: &Table) {
        if let Some(number) = self.number(table)
            && !writing.tables.contains(&number)
        {
            writing.tables.push(number);
        }
    }

    /// Announces the writes to the collected tables.
    pub(crate) fn announce(&self, writing: &mut Writing) {
        self.begin(&writing.tables);
        if self.any_abandoned.load(Ordering::Acquire) {
            self.take_over(writing);
        }
    }

    /// Ends announced writes. One that failed does not end those that were cancelled before it.
    pub(crate) fn ended(&self, writing: Writing, succeeded: bool) {
        self.finish(&writing.tables);
        match writing.taken_over {
            Some(tables) if succeeded => self.finish(&tables),
            Some(tables) => self.leave(&tables),
            None => {}
        }
    }

    fn finish(&self, tables: &[u32]) {
        for &number in tables {
            // This is the version that the next reader sees that finds no write in progress.
            self.tables[number as usize].word.fetch_add(VERSION - UNDER_WAY, Ordering::AcqRel);
        }
    }

    /// Leaves announced writes open until the next write has ended: they may still be executed.
    pub(crate) fn abandon(&self, writing: Writing) {
        self.leave(&writing.tables);
        if let Some(tables) = writing.taken_over {
            self.leave(&tables);
        }
    }

    fn leave(&self, tables: &[u32]) {
        if !tables.is_empty() {
            self.abandoned.lock().extend(tables);
            self.any_abandoned.store(true, Ordering::Release);
        }
    }

    /// Makes the cancelled writes to the same database end with this one; until then they stay
    /// announced.
    #[cold]
    fn take_over(&self, writing: &mut Writing) {
        let database = |number: &u32| self.tables[*number as usize].database;
        let Some(own) = writing.tables.first().map(database) else { return };
        // SQL may write to any table, but only to one database, which is not known here.
        if writing.tables.iter().any(|number| database(number) != own) {
            return;
        }
        let mut abandoned = self.abandoned.lock();
        let (taken, others) = abandoned.drain(..).partition(|number| database(number) == own);
        *abandoned = others;
        self.any_abandoned.store(!abandoned.is_empty(), Ordering::Release);
        let taken: Vec<u32> = taken;
        if !taken.is_empty() {
            writing.taken_over = Some(taken.into());
        }
    }

    pub(crate) fn stats(&self) -> CacheStats {
        let sum = |count: fn(&Counts) -> &AtomicU64| {
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
        if let Some(watched) = self.tables.iter().find(|watched| watched.table.name() == table) {
            watched.word.fetch_add(VERSION, Ordering::AcqRel);
        }
    }

    /// Announces a write to all these tables, except those that do not belong to this store.
    fn pause(self: Arc<Self>, tables: &[Arc<Table>]) -> Resume {
        let mut writing = Writing::default();
        tables.iter().for_each(|table| self.add(&mut writing, table));
        self.begin(&writing.tables);
        Box::new(move || self.ended(writing, true))
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
pub(crate) struct Copying<'s> {
    pub(crate) sink: &'s mut dyn RowSink,
    pub(crate) copy: Option<Box<[Value]>>,
}

impl RowSink for Copying<'_> {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.copy = Some(row.iter().map(ValueRef::to_value).collect());
        self.sink.row(row)
    }
}

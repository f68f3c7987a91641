//! Rows kept in front of an engine, never older than what was acknowledged.
//!
//! Every table has a version, which counts the writes to it. A row is kept
//! with the version that it was read at, and is good as long as the table has
//! that version: a write to one table makes nothing of another stale, and
//! nobody has to find what a write has changed.
//!
//! # Why no read is stale
//! A write is announced before the engine gets it and ended behind its last
//! step, by adding to one word a table: the writes under way in its low 20
//! bits (a million at once), the version in the others.
//! - Between the two, the engine may show the old row or the new one, so the
//!   cache is passed by: nobody is given a row from it, none is put into it.
//! - A row is put into it with the version that was known before the engine
//!   was asked, so that it is at least as new as that. (If there is another
//!   version behind the read, nobody would be given it.)
//! - Who is given a row reads the word first. If a write is announced just
//!   then, the read took place before it.
//!
//! A transaction announces its tables when it commits: nobody sees its rows
//! before. A write that is given up while it waits may still take place, but
//! before any later write to its database is acknowledged
//! ([`crate::engine::Session::cancel`]): it ends with the next one to that
//! database that succeeds.
//!
//! What other processes write is known where the engine hears of it ([`InvalidationFeed`]):
//! it counts as a write that ends when it is heard, and while nobody listens
//! one is under way. So a row that another has changed is given until the news
//! has come, and no longer. With an engine that hears nothing, what others
//! write is not seen here.
//!
//! [`InvalidationFeed`]: crate::invalidation_feed::InvalidationFeed

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

use crate::operation::Operation;
use crate::registry::Registry;

/// Rows of at most this many fields need no allocation to be lent.
const ROW_FIELDS_FEW: usize = 24;
/// What a kept row takes beside its values, in bytes: measured, with the
/// place in the map.
const ROW_BYTES: u64 = 96;
/// One write under way, in a table's word.
const UNDER_WAY: u64 = 1;
/// One version, in a table's word.
const VERSION: u64 = 1 << 20;

/// How often a cache had what was asked for (nearly, where more than 64
/// threads ask), and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheStats {
    /// Reads by key that it answered.
    pub hits: u64,
    /// Reads by key that it could have answered, and the engine did.
    pub misses: u64,
    /// Rows kept, stale ones among them.
    pub rows: u64,
    /// Bytes they take, about.
    pub bytes: u64,
    /// Bytes they may take.
    pub bytes_max: u64,
}

/// A store's cache.
pub(crate) struct Cache {
    tables: Box<[Watched]>,
    numbers: HashMap<usize, u32>,
    rows: Kept<Key, Arc<Row>, ByBytes>,
    /// Tables of writes that were given up while they waited; they are still
    /// announced.
    abandoned: Mutex<Vec<u32>>,
    any_abandoned: AtomicBool,
    counts: Box<[Counts]>,
}

/// A table and its word.
struct Watched {
    table: Arc<Table>,
    /// The place of its database.
    database: usize,
    word: AtomicU64,
}

/// The counts of one thread, on a cache line of their own.
#[repr(align(128))]
#[derive(Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// A table's version, known while no write is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(u64);

impl Version {
    /// As a number, which no later version of the table has again.
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

/// The same, borrowed.
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

// The two hash alike, since both hash what they borrow.
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
    /// The fields that are asked for, where they are not all that are kept.
    fields: Option<FieldSet>,
    version: Version,
}

/// A read by key that waits; what it reads is to be kept.
#[derive(Debug)]
pub(crate) struct Fetch {
    key: Key,
    version: Version,
}

/// Tables that are being written to. Announced, they have to be ended by
/// [`Cache::ended`] or [`Cache::abandon`]: else they stay without a cache.
#[derive(Debug, Default)]
pub(crate) struct Writing {
    tables: SmallVec<[u32; 4]>,
    /// Those of writes that were given up before, which end with this one.
    taken_over: Option<Box<[u32]>>,
}

impl Lookup<'_> {
    /// The same, for when its row comes later.
    pub(crate) fn fetch(&self) -> Box<Fetch> {
        Box::new(Fetch { key: self.key.to_owned(), version: self.version })
    }

    /// True if it asks for all that a kept row has, so that its answer is one.
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

    /// The version of a table; none while it is written to, or if it is not
    /// of this store.
    pub(crate) fn version(&self, table: &Table) -> Option<Version> {
        self.version_of(self.number(table)?)
    }

    #[inline]
    fn version_of(&self, number: u32) -> Option<Version> {
        let word = self.tables[number as usize].word.load(Ordering::Acquire);
        word.is_multiple_of(VERSION).then_some(Version(word))
    }

    /// What to look up for a read by key; none if it is not for the cache.
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

    /// Lends the row, if it is kept and good.
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

    /// Keeps a row that was read, unless its table was written to meanwhile.
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

    /// Others have written to a table.
    pub(crate) fn others_wrote(&self, table: &str) {
        if let Some(watched) = self.tables.iter().find(|watched| watched.table.name() == table) {
            watched.word.fetch_add(VERSION, Ordering::AcqRel);
        }
    }

    /// Announces a write to all of these tables that are of this store.
    pub(crate) fn announce_all(&self, tables: &[Arc<Table>]) -> Writing {
        let mut writing = Writing::default();
        tables.iter().for_each(|table| self.add(&mut writing, table));
        self.begin(&writing.tables);
        writing
    }

    fn begin(&self, tables: &[u32]) {
        for &number in tables {
            self.tables[number as usize].word.fetch_add(UNDER_WAY, Ordering::AcqRel);
        }
    }

    /// Announces a write to the operation's tables. Ended with
    /// [`Cache::ended`].
    pub(crate) fn write(&self, operation: &Operation<'_>) -> Writing {
        let mut writing = Writing::default();
        self.note(&mut writing, operation);
        self.announce(&mut writing);
        writing
    }

    /// Adds the tables of an operation to those of its transaction.
    pub(crate) fn note(&self, writing: &mut Writing, operation: &Operation<'_>) {
        match operation {
            // Nobody knows which: a statement has triggers and cascades behind it.
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

    /// Announces the writes to tables that were noted.
    pub(crate) fn announce(&self, writing: &mut Writing) {
        self.begin(&writing.tables);
        if self.any_abandoned.load(Ordering::Acquire) {
            self.take_over(writing);
        }
    }

    /// Announced writes have ended, or taken place. One that failed tells
    /// nothing of those that were given up before it.
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
            // The version first seen by who sees no write under way.
            self.tables[number as usize].word.fetch_add(VERSION - UNDER_WAY, Ordering::AcqRel);
        }
    }

    /// Announced writes may take place until the next one has.
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

    /// Makes the writes to the same database that were given up end with this
    /// one; until then they stay announced.
    #[cold]
    fn take_over(&self, writing: &mut Writing) {
        let database = |number: &u32| self.tables[*number as usize].database;
        let Some(own) = writing.tables.first().map(database) else { return };
        // SQL may write to any table, but writes to one database: nobody says which.
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

/// Borrows a value to where it is wanted: returned, it would be copied there,
/// and the copy would wait for the bytes just written.
#[inline(never)]
fn borrow<'v>(value: &'v Value, to: &mut ValueRef<'v>) {
    *to = value.as_ref();
}

/// Counts one more. Not one atomic step, which costs as much as the look into
/// the cache: a slot is one thread's, and if more than its number share it, a
/// count may be lost.
#[inline]
fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Keeps a copy of the row that it hands on.
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

//! The versions of tables, by which the cache knows whether a row is valid. `layers/cache.rs`
//! explains the protocol.
//!
//! A version is one atomic word for each table: the low 20 bits count the writes in progress, the
//! others the writes that have ended. Readers load it, writers add to it; there is no lock. Only
//! the writes that were cancelled while they waited are in a list, which is empty almost always.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hashbrown::HashMap;
use marmota_model::Table;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::contract::operation::{Operation, Write};
use crate::rows::registry::Registry;

/// One write in progress, in a table's word.
const UNDER_WAY: u64 = 1;
/// One version, in a table's word.
const VERSION: u64 = 1 << 20;

/// The versions of a store's tables.
pub(super) struct TableVersions {
    tables: Box<[Watched]>,
    /// The number of each table, by its address.
    numbers: HashMap<usize, u32>,
    /// Tables of writes that were cancelled while they waited; they are still announced.
    abandoned: Mutex<Vec<u32>>,
    any_abandoned: AtomicBool,
}

/// A table and its word.
struct Watched {
    table: Arc<Table>,
    /// The index of its database.
    database: usize,
    /// The tables with rows that a delete may delete or change.
    reached: Box<[Arc<Table>]>,
    word: AtomicU64,
}

/// A table's version, known while no write is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableVersion(u64);

impl TableVersion {
    /// Returns it as a number, which no later version of the table has again.
    pub(crate) const fn number(self) -> u64 {
        self.0 / VERSION
    }
}

/// Tables that are being written to. Announced writes have to be ended by
/// [`TableVersions::ended`] or [`TableVersions::abandon`]; otherwise their tables are never cached
/// again.
#[derive(Debug, Default)]
pub(crate) struct Writing {
    tables: SmallVec<[u32; 4]>,
    /// The tables of writes cancelled before, which end with this one.
    taken_over: Option<Box<[u32]>>,
}

impl TableVersions {
    /// Creates the versions of all tables of a store.
    pub(super) fn new(registry: &Registry) -> Self {
        let tables: Box<[Watched]> = registry
            .tables()
            .iter()
            .map(|table| Watched {
                table: Arc::clone(table),
                database: registry.database_of(table),
                reached: registry.cascades().of(table).map_or_else(Box::default, |plan| {
                    plan.tables[1..].iter().map(|reached| Arc::clone(&reached.table)).collect()
                }),
                word: AtomicU64::new(0),
            })
            .collect();
        let address = |watched: &Watched| Arc::as_ptr(&watched.table) as usize;
        let numbers = tables.iter().map(address).zip(0..).collect();
        Self { tables, numbers, abandoned: Mutex::default(), any_abandoned: AtomicBool::new(false) }
    }

    /// Returns the number of a table; `None` if it does not belong to this store.
    #[inline]
    pub(super) fn number(&self, table: &Table) -> Option<u32> {
        self.numbers.get(&(std::ptr::from_ref(table) as usize)).copied()
    }

    /// Returns the version of a table; `None` while it is written to, or if it does not belong to
    /// this store.
    pub(super) fn version(&self, table: &Table) -> Option<TableVersion> {
        self.version_of(self.number(table)?)
    }

    /// Returns the version of a table by its number; `None` while it is written to.
    #[inline]
    pub(super) fn version_of(&self, number: u32) -> Option<TableVersion> {
        let word = self.tables[number as usize].word.load(Ordering::Acquire);
        word.is_multiple_of(VERSION).then_some(TableVersion(word))
    }

    /// Adds a write in progress to each of these tables.
    fn begin(&self, tables: &[u32]) {
        for &number in tables {
            self.tables[number as usize].word.fetch_add(UNDER_WAY, Ordering::AcqRel);
        }
    }

    /// Announces a write to the operation's tables. It is ended with
    /// [`TableVersions::ended`].
    pub(super) fn write(&self, operation: &Operation<'_>) -> Writing {
        let mut writing = Writing::default();
        self.note(&mut writing, operation);
        self.announce(&mut writing);
        writing
    }

    /// Adds the tables of an operation to those of its transaction.
    pub(super) fn note(&self, writing: &mut Writing, operation: &Operation<'_>) {
        match operation {
            // The tables are unknown: a statement may run triggers and cascades.
            Operation::Sql { statement, .. } if statement.writes => {
                writing.tables = (0..self.tables.len() as u32).collect();
            }
            // The server of a remote store deletes and changes the rows that refer to deleted ones.
            Operation::Delete { table, .. } | Operation::DeleteWhere { table, .. } => {
                self.add_deletes(writing, table);
            }
            Operation::Batch { writes, .. } => {
                for write in *writes {
                    write.tables().for_each(|table| self.add(writing, table));
                    if let Write::Delete { table, .. } | Write::DeleteWhere { table, .. } = write {
                        self.add_deletes(writing, table);
                    }
                }
            }
            _ => operation.each_table_written(|table| self.add(writing, table)),
        }
    }

    /// Adds a table that rows are deleted from, and those with rows that may refer to them.
    fn add_deletes(&self, writing: &mut Writing, table: &Table) {
        self.add(writing, table);
        if let Some(number) = self.number(table) {
            let reached = &self.tables[number as usize].reached;
            reached.iter().for_each(|table| self.add(writing, table));
        }
    }

    /// Adds a table to those that are written to, unless it is one of them or belongs to another
    /// store.
    fn add(&self, writing: &mut Writing, table: &Table) {
        if let Some(number) = self.number(table)
            && !writing.tables.contains(&number)
        {
            writing.tables.push(number);
        }
    }

    /// Announces the writes to the collected tables.
    pub(super) fn announce(&self, writing: &mut Writing) {
        self.begin(&writing.tables);
        if self.any_abandoned.load(Ordering::Acquire) {
            self.take_over(writing);
        }
    }

    /// Ends announced writes. One that failed does not end those that were cancelled before it.
    pub(super) fn ended(&self, writing: Writing, succeeded: bool) {
        self.finish(&writing.tables);
        match writing.taken_over {
            Some(tables) if succeeded => self.finish(&tables),
            Some(tables) => self.leave(&tables),
            None => {}
        }
    }

    /// Ends a write to each of these tables, which gives each a new version.
    fn finish(&self, tables: &[u32]) {
        for &number in tables {
            // This is the version that the next reader sees that finds no write in progress.
            self.tables[number as usize].word.fetch_add(VERSION - UNDER_WAY, Ordering::AcqRel);
        }
    }

    /// Leaves announced writes open until the next write has ended: they may still be executed.
    pub(super) fn abandon(&self, writing: Writing) {
        self.leave(&writing.tables);
        if let Some(tables) = writing.taken_over {
            self.leave(&tables);
        }
    }

    /// Adds tables to those of cancelled writes.
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

    /// Records a write by others to the table called `name`.
    pub(super) fn invalidate(&self, name: &str) {
        if let Some(watched) = self.tables.iter().find(|watched| watched.table.name() == name) {
            watched.word.fetch_add(VERSION, Ordering::AcqRel);
        }
    }

    /// Announces a write to all these tables, except those that do not belong to this store.
    pub(super) fn pause(&self, tables: &[Arc<Table>]) -> Writing {
        let mut writing = Writing::default();
        tables.iter().for_each(|table| self.add(&mut writing, table));
        self.begin(&writing.tables);
        writing
    }
}

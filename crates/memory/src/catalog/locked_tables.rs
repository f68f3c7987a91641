//! The locked tables of an operation. All are locked before it begins, in the order of their
//! numbers, so no two operations can wait for each other.
//!
//! These locks are held for one operation only, so an operation blocks for a short time to get one,
//! unless there is a long read ([`crate::lock::long_reads`]). A transaction holds no locks between
//! operations, but owns tables instead (see [`crate::lock::transaction_gate`]).

use std::sync::atomic::Ordering;

use marmota_model::{Error, ErrorKind, FieldSet, FilterExpr, OnDelete, Result, ValueRef};
use marmota_store::operation::{OnConflict, Operation, Write};
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use smallvec::{SmallVec, smallvec};

use crate::catalog::{Catalog, Slot};
use crate::table::table_rows::TableRows;

/// The tables that an operation needs, and whether it changes each.
#[derive(Default)]
pub(crate) struct Needs {
    tables: SmallVec<[(u32, bool); 4]>,
    /// The table that the operation names, unless it is a batch.
    pub(crate) table: u32,
}

/// The reason why an operation cannot be executed right now.
pub(crate) enum NotNow {
    /// A table was replaced: it has to be found in the new catalog.
    Retired,
    /// A table belongs to another session's transaction, or a long read uses it.
    Owned,
}

enum Guard<'c> {
    Read(RwLockReadGuard<'c, TableRows>),
    Write(RwLockWriteGuard<'c, TableRows>),
}

/// The locked tables.
pub(crate) struct LockedTables<'c> {
    pub(crate) catalog: &'c Catalog,
    guards: SmallVec<[(u32, Guard<'c>); 2]>,
}

impl Needs {
    /// Returns the tables that an operation needs; empty for an operation without a table.
    pub(crate) fn new(catalog: &Catalog, operation: &Operation<'_>) -> Result<Self> {
        let mut needs = Self::default();
        match operation {
            Operation::Get { table, .. } => {
                needs.table = catalog.find(table)?;
                needs.tables.push((needs.table, false));
            }
            Operation::List { table, query } => {
                needs.table = catalog.find(table)?;
                needs.tables.push((needs.table, false));
                needs.relate(catalog, query.filter.as_ref())?;
            }
            Operation::Count { table, filter } => {
                needs.table = catalog.find(table)?;
                needs.tables.push((needs.table, false));
                needs.relate(catalog, *filter)?;
            }
            Operation::Insert { table, on_conflict, .. }
            | Operation::InsertMany { table, on_conflict, .. } => {
                needs.table = catalog.find(table)?;
                needs.put(catalog, needs.table, *on_conflict);
            }
            Operation::UpdateMany { table, .. } => {
                needs.table = catalog.find(table)?;
                needs.insert(catalog, needs.table);
            }
            Operation::Update { table, row, .. } => {
                needs.table = catalog.find(table)?;
                needs.update(catalog, needs.table, FieldSet::present(row));
            }
            Operation::Increment { table, .. } => {
                needs.table = catalog.find(table)?;
                needs.tables.push((needs.table, true));
            }
            Operation::Delete { table, .. } => {
                needs.table = catalog.find(table)?;
                needs.delete(catalog, needs.table);
            }
            Operation::DeleteWhere { table, filter } => {
                needs.table = catalog.find(table)?;
                needs.delete(catalog, needs.table);
                needs.relate(catalog, *filter)?;
            }
            Operation::Batch { writes, once, .. } => {
                if let Some(once) = once {
                    needs.tables.push((catalog.find(once.table)?, true));
                }
                for write in *writes {
                    needs.write(catalog, write)?;
                    write.each_related(&mut |table| needs.read(catalog, table))?;
                }
            }
            _ => {}
        }
        needs.settle();
        Ok(needs)
    }

    /// Adds the tables that one write of a batch needs.
    /// Adds a table that is written to.
    pub(crate) fn also_write(&mut self, table: u32) {
        self.tables.push((table, true));
        self.settle();
    }

    fn write(&mut self, catalog: &Catalog, write: &Write) -> Result<()> {
        let number = catalog.find(write.table())?;
        match write {
            Write::Insert { on_conflict, .. } => self.put(catalog, number, *on_conflict),
            Write::Update { .. } => self.insert(catalog, number),
            Write::Increment { .. } => self.tables.push((number, true)),
            Write::Delete { .. } | Write::DeleteWhere { .. } => self.delete(catalog, number),
            // It reads the table itself, and those that it refers to.
            Write::Guarded { write: inner, .. } | Write::Compared { write: inner } => {
                self.write(catalog, inner)?;
            }
            // A hook may change any field.
            Write::Hooked { write: inner, .. } => {
                self.write(catalog, inner)?;
                self.insert(catalog, number);
            }
            // Writes to the referring rows may have hooks.
            Write::Cascading { write: inner, cascade } => {
                self.write(catalog, inner)?;
                for table in cascade.tables() {
                    let number = catalog.find(table)?;
                    self.insert(catalog, number);
                    self.delete(catalog, number);
                }
            }
            Write::Audited { write: inner, .. } => {
                self.write(catalog, inner)?;
                for table in write.tables() {
                    self.tables.push((catalog.find(table)?, true));
                }
            }
            _ => return Err(unknown_operation()),
        }
        Ok(())
    }

    /// Adds the related tables that a filter reads.
    fn relate(&mut self, catalog: &Catalog, filter: Option<&FilterExpr>) -> Result<()> {
        filter.map_or(Ok(()), |filter| filter.each_related(&mut |table| self.read(catalog, table)))
    }

    /// Adds a table that is read.
    fn read(&mut self, catalog: &Catalog, table: &str) -> Result<()> {
        let number = catalog.number(table).ok_or_else(|| {
            let message = format!("a filter uses rows of `{table}`, which is not a table here");
            Error::new(ErrorKind::Invalid, message)
        })?;
        self.tables.push((number, false));
        Ok(())
    }

    fn insert(&mut self, catalog: &Catalog, number: u32) {
        self.tables.push((number, true));
        let slot = &catalog.slots[number as usize];
        self.tables.extend(slot.refers.iter().map(|&(_, target)| (target, false)));
    }

    /// Adds the tables of an insert, which may replace rows.
    fn put(&mut self, catalog: &Catalog, number: u32, on_conflict: OnConflict) {
        self.insert(catalog, number);
        if on_conflict == OnConflict::Replace {
            self.delete(catalog, number);
        }
    }

    fn update(&mut self, catalog: &Catalog, number: u32, fields: FieldSet) {
        self.tables.push((number, true));
        let slot = &catalog.slots[number as usize];
        let written = slot.refers.iter().filter(|(field, _)| fields.contains(*field));
        self.tables.extend(written.map(|&(_, target)| (target, false)));
    }

    /// Adds a table from which rows are deleted, and those with rows that refer to them.
    fn delete(&mut self, catalog: &Catalog, number: u32) {
        let (mut from, mut at): (SmallVec<[u32; 4]>, _) = (smallvec![number], 0);
        while let Some(&number) = from.get(at) {
            at += 1;
            self.tables.push((number, true));
            for &(field, source) in &catalog.slots[number as usize].referred {
                let on_delete = catalog.on_delete(source, field);
                self.tables.push((source, on_delete != OnDelete::Restrict));
                if on_delete == OnDelete::Cascade && !from.contains(&source) {
                    from.push(source);
                }
            }
        }
    }

    /// Sorts the tables and removes duplicates; a table is changed if one part changes it.
    fn settle(&mut self) {
        if self.tables.len() > 1 {
            self.tables.sort_unstable_by_key(|&(number, write)| (number, !write));
            self.tables.dedup_by_key(|&mut (number, _)| number);
        }
    }

    /// Returns the tables, and whether each is changed.
    pub(crate) fn tables(&self) -> &[(u32, bool)] {
        &self.tables
    }
}

impl<'c> LockedTables<'c> {
    /// Locks the needed tables for a session.
    pub(crate) fn new(catalog: &'c Catalog, needs: &Needs, session: u64) -> Result<Self, NotNow> {
        let mut locked = Self { catalog, guards: SmallVec::new() };
        for &(number, write) in &needs.tables {
            let slot = &catalog.slots[number as usize];
            let guard = if write {
                Guard::Write(slot.long_reads.lock(&slot.rows).ok_or(NotNow::Owned)?)
            } else {
                Guard::Read(slot.rows.read())
            };
            let rows = guard.rows();
            if rows.retired {
                return Err(NotNow::Retired);
            }
            if rows.is_kept_from(session, write) {
                return Err(NotNow::Owned);
            }
            locked.guards.push((number, guard));
        }
        Ok(locked)
    }

    /// Locks the tables of a session's transaction: for writing if it has changed them, since no
    /// other session reads those. `also` is another table, which is locked for writing.
    pub(crate) fn of_transaction(
        catalog: &'c Catalog,
        numbers: impl Iterator<Item = u32>,
        also: Option<u32>,
    ) -> Self {
        let mut numbers: SmallVec<[u32; 8]> = numbers.chain(also).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let lock = |number: u32| {
            let rows = &catalog.slots[number as usize].rows;
            if also == Some(number) {
                return (number, Guard::Write(rows.write()));
            }
            let read = rows.read();
            if !read.changed {
                return (number, Guard::Read(read));
            }
            drop(read);
            (number, Guard::Write(rows.write()))
        };
        Self { catalog, guards: numbers.into_iter().map(lock).collect() }
    }

    /// Releases the ownership of a transaction's table.
    pub(crate) fn disown(&mut self, number: u32) {
        match self.guards.iter_mut().find(|(other, _)| *other == number) {
            Some((_, Guard::Write(rows))) => {
                *rows.owner.get_mut() = 0;
                rows.changed = false;
            }
            Some((_, Guard::Read(rows))) => rows.owner.store(0, Ordering::Relaxed),
            None => {}
        }
    }

    /// Returns a table with its references.
    pub(crate) fn slot(&self, number: u32) -> &'c Slot {
        &self.catalog.slots[number as usize]
    }

    /// Returns the rows of a locked table.
    #[inline]
    pub(crate) fn rows(&self, number: u32) -> Result<&TableRows> {
        let guard = self.guards.iter().find(|(other, _)| *other == number);
        guard.map(|(_, guard)| guard.rows()).ok_or_else(unlocked)
    }

    /// Returns the rows of a table that is locked for writing.
    #[inline]
    pub(crate) fn rows_mut(&mut self, number: u32) -> Result<&mut TableRows> {
        match self.guards.iter_mut().find(|(other, _)| *other == number) {
            Some((_, Guard::Write(rows))) => Ok(rows),
            _ => Err(unlocked()),
        }
    }

    /// Returns the row with this key.
    pub(crate) fn find(&self, number: u32, key: ValueRef<'_>) -> Result<Option<u32>> {
        let rows = self.rows(number)?;
        Ok(rows.keys.find(&rows.pages, key))
    }
}

impl Guard<'_> {
    #[inline]
    fn rows(&self) -> &TableRows {
        match self {
            Self::Read(rows) => rows,
            Self::Write(rows) => rows,
        }
    }
}

#[cold]
fn unlocked() -> Error {
    Error::new(ErrorKind::Bug, "the memory engine did not lock a table that it uses")
}

/// The error for an operation of a newer store that this engine does not support.
#[cold]
fn unknown_operation() -> Error {
    Error::new(ErrorKind::Bug, "the memory engine does not support this operation here")
}

//! One table in memory: its rows, its key and its indexes, changed together so that they are always
//! consistent. References to other tables, and locks and transactions of sessions, are elsewhere.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use marmota_model::rule::violation;
use marmota_model::{Error, ErrorKind, FieldSet, KeyKind, Result, Table, Value, ValueRef};
use marmota_store::refusal::taken_message;
use smallvec::{SmallVec, smallvec};

use crate::lock::long_reads::LongReads;
use crate::table::key_index::KeyIndex;
use crate::table::layout;
use crate::table::layout::Layout;
use crate::table::pages::Pages;
use crate::table::row_index::RowIndex;
use crate::table::scan_copies::Scans;

/// A row's values, on the stack for tables of usual width.
pub(crate) type Values<'a> = SmallVec<[ValueRef<'a>; 16]>;

/// The rows of one table.
pub(crate) struct TableRows {
    pub(crate) table: Arc<Table>,
    pub(crate) pages: Pages,
    pub(crate) keys: KeyIndex,
    pub(crate) indexes: Vec<RowIndex>,
    /// The reads that continue later, and see rows as they were.
    pub(crate) scans: Scans,
    /// The long reads by statements of other engines.
    pub(crate) long_reads: Arc<LongReads>,
    /// The session whose open transaction has used the table, or 0. Other sessions may not change
    /// it. It is set under either lock, by the session that holds the gate.
    pub(crate) owner: AtomicU64,
    /// True if that transaction has changed the table: other sessions may not read it either.
    pub(crate) changed: bool,
    /// True once [`crate::catalog`] has replaced it by other rows.
    pub(crate) retired: bool,
}

impl TableRows {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        let key = table.key();
        let indexes = table.indexes().iter().map(|index| RowIndex::new(index, &table)).collect();
        Self {
            pages: Pages::new(Layout::new(&table)),
            keys: KeyIndex::new(key, table.key_kind()),
            indexes,
            scans: Scans::default(),
            long_reads: Arc::default(),
            owner: AtomicU64::new(0),
            changed: false,
            retired: false,
            table,
        }
    }

    /// Returns true if a session may not use it, because of another's transaction.
    #[inline]
    pub(crate) fn is_kept_from(&self, session: u64, write: bool) -> bool {
        let owner = self.owner.load(Ordering::Relaxed);
        owner != 0 && owner != session && (write || self.changed)
    }

    pub(crate) fn next_key(&self) -> Result<i64> {
        match self.keys.last_int(&self.pages) {
            None => Ok(1),
            Some(last) => last.checked_add(1).ok_or_else(|| {
                let message = format!(
                    "no automatic key is left for `{}`, because the highest key, {last}, is used: \
                     give keys yourself, or delete that row",
                    self.table.name()
                );
                Error::new(ErrorKind::Conflict, message)
            }),
        }
    }

    /// Inserts a row and returns its number.
    pub(crate) fn insert(&mut self, row: &[ValueRef<'_>]) -> Result<u32> {
        let field = self.table.key();
        let key = match row[field] {
            ValueRef::Absent if self.table.key_kind() == KeyKind::Auto => {
                ValueRef::Int(self.next_key()?)
            }
            key => {
                if self.keys.find(&self.pages, key).is_some() {
                    let fields = self.table.key_order();
                    return Err(collision(&self.table, fields, |field| row[field]));
                }
                key
            }
        };
        let number = self.pages.take().ok_or_else(|| full(&self.table))?;
        let (table, fields) = (&self.table, self.table.fields());
        let filled = self.pages.fill(number, fields, |position| match row[position] {
            _ if position == field => key,
            ValueRef::Absent => table.default(position).unwrap_or(ValueRef::Null),
            value => value,
        });
        let filled = filled.and_then(|()| {
            if self.indexes.is_empty() {
                return Ok(());
            }
            let stored = self.pages.row(number);
            let columns = &self.pages.layout.columns;
            self.check_unique(self.table.all(), None, |field| stored.value(&columns[field]))
        });
        if let Err(error) = filled {
            self.pages.remove(number);
            return Err(error);
        }
        self.enter(number);
        Ok(number)
    }

    /// Returns the rows that a new one conflicts with: first the one with its key, then those of
    /// the unique indexes in their order.
    pub(crate) fn in_the_way(&self, row: &[ValueRef<'_>]) -> SmallVec<[u32; 4]> {
        let mut found = SmallVec::new();
        let key = row[self.table.key()];
        if !key.is_absent() {
            found.extend(self.keys.find(&self.pages, key));
        }
        for index in &self.indexes {
            let Some(unique) = &index.unique else { continue };
            // An absent key gets a value that no row has.
            if unique.fields().iter().any(|&field| row[field].is_absent()) {
                continue;
            }
            let or_default = |field: usize| match row[field] {
                ValueRef::Absent => self.table.default(field).unwrap_or(ValueRef::Null),
                value => value,
            };
            if !index.selects(&self.pages, or_default) {
                continue;
            }
            let same = unique.find(&self.pages, |field| row[field]);
            found.extend(same.filter(|number| !found.contains(number)));
        }
        found
    }

    /// Adds a row that was written to the key index and all indexes.
    fn enter(&mut self, number: u32) {
        self.keys.insert(&self.pages, number);
        for index in &mut self.indexes {
            index.insert(&self.pages, number);
        }
    }

    /// Returns an error for values that conflict with a row other than `own` in a unique index with
    /// one of the fields `changed`.
    fn check_unique<'v>(
        &self,
        changed: FieldSet,
        own: Option<u32>,
        value: impl Fn(usize) -> ValueRef<'v>,
    ) -> Result<()> {
        for index in &self.indexes {
            let Some(unique) = &index.unique else { continue };
            if !index.is_touched_by(changed) || !index.selects(&self.pages, &value) {
                continue;
            }
            let found = unique.find(&self.pages, &value);
            if found.is_some() && found != own {
                return Err(collision(&self.table, unique.fields(), value));
            }
        }
        Ok(())
    }

    /// Returns an error for changes that are invalid for the row (absent fields do not change).
    pub(crate) fn check_update(&self, number: u32, changes: &[ValueRef<'_>]) -> Result<()> {
        let columns = &self.pages.layout.columns;
        let changed = FieldSet::present(changes);
        for position in changed.iter() {
            let field = &self.table.fields()[position];
            layout::check(&columns[position], field, changes[position])?;
        }
        let stored = self.pages.row(number);
        self.check_unique(changed, Some(number), |field| match changes[field] {
            ValueRef::Absent => stored.value(&columns[field]),
            value => value,
        })
    }

    /// Writes changes that [`TableRows::check_update`] has accepted.
    pub(crate) fn update(&mut self, number: u32, changes: &[ValueRef<'_>]) {
        self.keep_for_scans(number);
        let changed = FieldSet::present(changes);
        for index in self.indexes.iter_mut().filter(|index| index.is_touched_by(changed)) {
            index.remove(&self.pages, number);
        }
        for field in changed.iter() {
            self.pages.write(number, field, changes[field]);
        }
        for index in self.indexes.iter_mut().filter(|index| index.is_touched_by(changed)) {
            index.insert(&self.pages, number);
        }
    }

    /// Copies a row for open scans; called before it changes or is removed.
    #[inline]
    fn keep_for_scans(&mut self, number: u32) {
        if !self.scans.are_none() {
            let mut scans = std::mem::take(&mut self.scans);
            scans.keep(number, || self.copy(number, self.table.all()));
            self.scans = scans;
        }
    }

    /// Removes a row.
    pub(crate) fn remove(&mut self, number: u32) {
        self.keep_for_scans(number);
        self.keys.remove(&self.pages, number);
        for index in &mut self.indexes {
            index.remove(&self.pages, number);
        }
        self.pages.remove(number);
    }

    /// Restores a row under its previous number.
    pub(crate) fn restore(&mut self, number: u32, values: &[Value]) {
        if self.pages.take_again(number) {
            for (field, value) in values.iter().enumerate() {
                self.pages.write(number, field, value.as_ref());
            }
            self.enter(number);
        }
    }

    /// [`TableRows::insert`] for a row of a file, which may have an older schema: the error
    /// explains what to do about fields without a value.
    pub(crate) fn insert_loaded(&mut self, row: &[ValueRef<'_>]) -> Result<()> {
        for (position, field) in self.table.fields().iter().enumerate() {
            let is_given = position == self.table.key()
                || field.nullable
                || self.table.default(position).is_some();
            if row[position].is_absent() && !is_given {
                let message = format!(
                    "field `{}` of model `{}`: rows in the file have no value for the field; give \
                     it a default, or make it optional",
                    field.name,
                    self.table.name()
                );
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
        self.insert(row).map(drop)
    }

    /// Lends every row with all fields, in the order of keys, until `lend` fails.
    pub(crate) fn try_each<E>(
        &self,
        mut lend: impl FnMut(&[ValueRef<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let columns = &self.pages.layout.columns;
        let mut row: Values<'_> = smallvec![ValueRef::Absent; columns.len()];
        let mut result = Ok(());
        let range = self.keys.range(&self.pages, None, None);
        let _ = self.keys.walk(range, false, |number| {
            let stored = self.pages.row(number);
            for (value, column) in row.iter_mut().zip(columns) {
                *value = stored.value(column);
            }
            result = lend(&row);
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        result
    }

    /// Returns a copy of a row with the fields `fields`; the others are absent.
    pub(crate) fn copy(&self, number: u32, fields: FieldSet) -> Box<[Value]> {
        let row = self.pages.row(number);
        let columns = self.pages.layout.columns.iter().enumerate();
        columns
            .map(|(field, column)| match fields.contains(field) {
                true => row.value(column).to_value(),
                false => Value::Absent,
            })
            .collect()
    }
}

#[cold]
fn full(table: &Table) -> Error {
    let message = format!("`{}` is full: a table in memory cannot have more rows", table.name());
    Error::new(ErrorKind::Conflict, message)
}

/// The error for values that another row has already.
#[cold]
fn collision<'v>(table: &Table, fields: &[usize], value: impl Fn(usize) -> ValueRef<'v>) -> Error {
    let names: Vec<&str> = fields.iter().map(|&field| &*table.fields()[field].name).collect();
    let message = format!("another row of `{}` has the same {}", table.name(), names.join(", "));
    let why = taken_message(table, fields);
    fields.iter().fold(Error::new(ErrorKind::Conflict, message), |error, &field| {
        error.with_violation(violation(&table.fields()[field], value(field), "unique", &*why))
    })
}

//! The changes of a transaction in progress, encoded as they are stored.
//!
//! ```text
//! changes   change*
//! change    1 table row          an insert
//!           2 table row fields   an update: the row before it, and what has changed
//!           3 table row          a delete
//!           4 text               the actor of the changes after it; empty for no actor
//! table     the number of a recorded table
//! fields    (place + 1, value)*, 0
//! ```
//! Numbers, texts and values are in the format of [`marmota_model::binary`]. Blobs are encoded as
//! absent values.

use std::sync::Arc;

use marmota_model::ValueRef;
use marmota_model::binary::{put_bytes, put_unsigned, put_value};

use super::recorder::RecordedTable;

pub(crate) const INSERT: u8 = 1;
pub(crate) const UPDATE: u8 = 2;
pub(crate) const DELETE: u8 = 3;
pub(crate) const ACTOR: u8 = 4;
/// The first byte of an entry in the encoding of an engine.
pub(crate) const ENGINE_ROWS: u8 = 0;

/// The changes of a transaction in progress.
///
/// An engine takes a [mark](Self::mark) before each operation, and goes back to it
/// ([`Self::undo_to`]) if the operation fails or is rolled back to a savepoint.
#[derive(Debug, Default)]
pub struct ChangeBuffer {
    bytes: Vec<u8>,
    changes: u32,
    /// The actor of the next changes.
    actor: Option<Arc<str>>,
    /// The actor of the last change in `bytes`.
    written_actor: Option<Arc<str>>,
}

/// Encodes the values of a row of [`ChangeBuffer::encoded`].
#[derive(Debug)]
pub struct RowEncoder<'b> {
    bytes: &'b mut Vec<u8>,
    table: &'b RecordedTable,
    /// The field of the next value.
    place: usize,
}

impl RowEncoder<'_> {
    /// Adds the value of the next field.
    #[inline]
    pub fn put(&mut self, value: ValueRef<'_>) {
        put_value(self.bytes, self.table.kept(self.place, value));
        self.place += 1;
    }
}

/// A state of a [`ChangeBuffer`] to which it can return.
#[derive(Clone, Debug, Default)]
pub struct ChangeMark {
    bytes: usize,
    changes: u32,
    written_actor: Option<Arc<str>>,
}

impl ChangeBuffer {
    /// Sets the actor of the next changes.
    pub fn set_actor(&mut self, actor: Option<&Arc<str>>) {
        if self.actor.as_deref() != actor.map(|actor| &**actor) {
            self.actor = actor.cloned();
        }
    }

    /// Adds an inserted row. It has a value for each field of the table; absent values are stored
    /// as NULL.
    pub fn inserted(&mut self, table: &RecordedTable, row: &[ValueRef<'_>]) {
        self.begin(INSERT, table);
        self.row(table, row);
    }

    /// Adds an inserted row whose values are lent one after the other, one for each field of the
    /// table: without a list of them.
    #[inline]
    pub fn inserted_from<'v>(
        &mut self,
        table: &RecordedTable,
        values: impl Iterator<Item = ValueRef<'v>>,
    ) {
        self.begin(INSERT, table);
        for (place, value) in values.enumerate() {
            put_value(&mut self.bytes, table.kept(place, value));
        }
    }

    /// Adds an updated row, if a value has changed. Both rows have a value for each field of the
    /// table.
    pub fn updated(
        &mut self,
        table: &RecordedTable,
        before: &[ValueRef<'_>],
        after: &[ValueRef<'_>],
    ) {
        let mark = self.mark();
        self.begin(UPDATE, table);
        self.row(table, before);
        let mut is_changed = false;
        for (place, (old, new)) in before.iter().zip(after).enumerate() {
            if old == new {
                continue;
            }
            is_changed = true;
            put_unsigned(&mut self.bytes, place as u64 + 1);
            put_value(&mut self.bytes, table.kept(place, *new));
        }
        put_unsigned(&mut self.bytes, 0);
        if !is_changed {
            self.undo_to(&mark);
        }
    }

    /// Adds a deleted row.
    pub fn deleted(&mut self, table: &RecordedTable, before: &[ValueRef<'_>]) {
        self.begin(DELETE, table);
        self.row(table, before);
    }

    /// Adds an inserted row, or a deleted one, whose values `write` encodes one after the other.
    /// Returns false and adds nothing if `write` returns false.
    pub fn encoded(
        &mut self,
        table: &RecordedTable,
        is_insert: bool,
        write: impl FnOnce(&mut RowEncoder<'_>) -> bool,
    ) -> bool {
        let mark = self.mark();
        self.begin(if is_insert { INSERT } else { DELETE }, table);
        let is_written = write(&mut RowEncoder { bytes: &mut self.bytes, table, place: 0 });
        if !is_written {
            self.undo_to(&mark);
        }
        is_written
    }

    /// Returns the current state.
    #[must_use]
    pub fn mark(&self) -> ChangeMark {
        let written_actor = self.written_actor.clone();
        ChangeMark { bytes: self.bytes.len(), changes: self.changes, written_actor }
    }

    /// Removes the changes since a mark.
    pub fn undo_to(&mut self, mark: &ChangeMark) {
        self.bytes.truncate(mark.bytes);
        self.changes = mark.changes;
        self.written_actor.clone_from(&mark.written_actor);
    }

    /// Returns true if it has no changes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.changes == 0
    }

    /// Returns the number of changes.
    #[must_use]
    pub const fn changes(&self) -> u32 {
        self.changes
    }

    /// Returns the encoded changes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes all changes and returns them encoded.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        self.changes = 0;
        self.written_actor = None;
        std::mem::take(&mut self.bytes)
    }

    /// Keeps the memory of [taken](Self::take) changes for the next ones, unless it is more than
    /// 64 KiB. The buffer is empty.
    pub fn reuse(&mut self, mut taken: Vec<u8>) {
        /// The most bytes that are kept.
        const KEPT_MAX: usize = 64 << 10;
        if self.bytes.is_empty() && taken.capacity() <= KEPT_MAX {
            taken.clear();
            self.bytes = taken;
        }
    }

    #[inline]
    fn begin(&mut self, kind: u8, table: &RecordedTable) {
        if (self.actor.is_some() || self.written_actor.is_some())
            && self.actor.as_deref() != self.written_actor.as_deref()
        {
            self.put_actor();
        }
        self.changes += 1;
        self.bytes.push(kind);
        put_unsigned(&mut self.bytes, u64::from(table.number()));
    }

    #[cold]
    fn put_actor(&mut self) {
        self.bytes.push(ACTOR);
        put_bytes(&mut self.bytes, self.actor.as_deref().unwrap_or_default().as_bytes());
        self.written_actor.clone_from(&self.actor);
    }

    fn row(&mut self, table: &RecordedTable, row: &[ValueRef<'_>]) {
        for (place, &value) in row.iter().enumerate() {
            put_value(&mut self.bytes, table.kept(place, value));
        }
    }
}

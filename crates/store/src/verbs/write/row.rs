//! Rows between structs and operations.

use std::cell::RefCell;

use marmota_model::{
    Error, ErrorKind, FieldSet, FieldValue, Model, Result, RowSink, RowSource, Scratch, Table,
    ValueRef,
};

use crate::contract::operation::Operation;
use crate::rows::prepare::{self, ValueSource, WriteTimestamp};

/// The callback to which a verb passes its operation.
pub(super) type Call<'c> = dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()> + 'c;

/// Rows with at most this many fields are written without an allocation.
const ROW_FIELDS_FEW: usize = 24;

/// Memory for a row: on the stack, unless the model is wide.
pub(super) struct RowBuffer<'a> {
    few: [ValueRef<'a>; ROW_FIELDS_FEW],
    many: Vec<ValueRef<'a>>,
}

impl<'a> RowBuffer<'a> {
    pub(super) const fn new() -> Self {
        Self { few: [ValueRef::Absent; ROW_FIELDS_FEW], many: Vec::new() }
    }

    /// Returns a row of the table with every field absent.
    pub(super) fn row(&mut self, table: &Table) -> &mut [ValueRef<'a>] {
        let fields = table.fields().len();
        if let Some(row) = self.few.get_mut(..fields) {
            return row;
        }
        self.many.resize(fields, ValueRef::Absent);
        &mut self.many
    }
}

/// Structs as a source of prepared rows: each is checked and filled in when the engine pulls it, so
/// an insert of many rows holds one of them at a time.
pub(super) struct Structs<'a, M: Model> {
    pub(super) table: &'a Table,
    pub(super) models: std::slice::Iter<'a, M>,
    pub(super) scratch: &'a Scratch,
    pub(super) stamp: WriteTimestamp,
    pub(super) updates: bool,
    /// The fields that every row has to have, if existing rows are written to.
    pub(super) given: Option<FieldSet>,
    pub(super) index: usize,
    /// Receives the keys of inserted rows, if the store generates them. It is a cell, because an
    /// operation keeps its source borrowed.
    pub(super) keys: Option<&'a RefCell<Vec<M::Key>>>,
}

impl<'a, M: Model> RowSource<'a> for Structs<'a, M> {
    fn remaining(&self) -> usize {
        self.models.len()
    }

    fn next(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool> {
        let Some(model) = self.models.next() else { return Ok(false) };
        model.write(row, self.scratch);
        if self.given.is_some_and(|given| given != FieldSet::present(row)) {
            return Err(self.at(&prepare::not_the_same_fields()));
        }
        let prepared = if self.updates {
            let key = row[self.table.key()];
            let updated =
                prepare::update(self.table, row, ValueSource::Struct, self.stamp, self.scratch);
            row[self.table.key()] = key;
            updated
        } else {
            prepare::insert(self.table, row, ValueSource::Struct, self.stamp, self.scratch)
        };
        prepared.map_err(|error| self.at(&error))?;
        if let Some(keys) = self.keys {
            keys.borrow_mut().extend(M::Key::from_row(row[self.table.key()]));
        }
        self.index += 1;
        Ok(true)
    }
}

impl<M: Model> Structs<'_, M> {
    /// Adds the index of the row to an error.
    #[cold]
    fn at(&self, error: &Error) -> Error {
        let mut at = Error::new(error.kind(), format!("row {}: {}", self.index, error.message()));
        for violation in error.violations() {
            at = at.with_violation(violation.clone());
        }
        at
    }
}

/// The error for a key that the engine did not return, or of another kind.
#[cold]
pub(super) fn lost_key(table: &Table) -> Error {
    let message =
        format!("the engine did not return a key of the right kind for `{}`", table.name());
    Error::new(ErrorKind::Bug, message)
}

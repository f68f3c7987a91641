//! How rows travel: engines push them into a [`RowSink`], writes pull them
//! from a [`RowSource`]. Both lend one row at a time and keep none.

use std::ops::ControlFlow;

use crate::{Result, ValueRef};

/// Takes the rows of a read, one by one.
///
/// A row has one value for each field of the table, in its order;
/// fields that were not asked for are [`ValueRef::Absent`]. It is lent for the
/// call only. A sink runs inside the engine's step and is given no session,
/// so that it cannot call the engine again.
pub trait RowSink {
    /// Takes a row; `Break` ends the read early.
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()>;
}

impl<F: FnMut(&[ValueRef<'_>]) -> ControlFlow<()>> RowSink for F {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self(row)
    }
}

/// A sink for operations that give no rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRows;

impl RowSink for NoRows {
    fn row(&mut self, _: &[ValueRef<'_>]) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

/// Gives the rows of a write, one by one. What a row's values borrow lives
/// as long as the source's data (`'a`), so an engine may bind many rows
/// before it steps a statement once.
pub trait RowSource<'a> {
    /// How many rows are left.
    fn remaining(&self) -> usize;

    /// Fills `row`, which has one value for each field, with the next row;
    /// false when there is none.
    ///
    /// # Errors
    /// The next row breaks a rule: the write as a whole is to be undone and
    /// to fail with this error.
    fn next(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool>;
}

//! The transfer of rows: engines push them into a [`RowSink`], writes pull them from a
//! [`RowSource`]. Both lend one row at a time and store none.

use std::ops::ControlFlow;

use crate::{Result, ValueRef};

/// A receiver of the rows of a read, one by one.
///
/// A row has one value for each field of the table, in order; fields that were not requested are
/// [`ValueRef::Absent`]. The row is lent for the duration of the call. A sink runs inside the
/// engine's step and has no session, so it cannot call the engine again.
///
/// Every closure with this signature is a sink:
///
/// ```
/// use std::ops::ControlFlow;
/// use marmota_model::{RowSink, ValueRef};
///
/// fn read(sink: &mut dyn RowSink) {
///     for name in ["Ada", "Grace", "Marie"] {
///         if sink.row(&[ValueRef::Text(name)]).is_break() {
///             return;
///         }
///     }
/// }
///
/// let mut names = Vec::new();
/// read(&mut |row: &[ValueRef<'_>]| {
///     names.extend(row[0].as_text().map(str::to_owned));
///     if names.len() == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
/// });
/// assert_eq!(names, ["Ada", "Grace"]);
/// ```
pub trait RowSink {
    /// Receives a row; `Break` ends the read early.
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()>;
}

impl<F: FnMut(&[ValueRef<'_>]) -> ControlFlow<()>> RowSink for F {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self(row)
    }
}

/// A sink for operations that return no rows.
///
/// ```
/// use marmota_model::{NoRows, RowSink};
/// assert!(NoRows.row(&[]).is_break());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRows;

impl RowSink for NoRows {
    fn row(&mut self, _: &[ValueRef<'_>]) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

/// A supplier of the rows of a write, one by one. Borrowed values of a row live as long as the data
/// of the source (`'a`), so an engine may bind many rows before it executes a statement once.
///
/// ```
/// use marmota_model::{Result, RowSource, ValueRef};
///
/// struct Names<'a>(std::slice::Iter<'a, String>);
///
/// impl<'a> RowSource<'a> for Names<'a> {
///     fn remaining(&self) -> usize {
///         self.0.len()
///     }
///
///     fn next(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool> {
///         let Some(name) = self.0.next() else { return Ok(false) };
///         row[0] = ValueRef::Text(name);
///         Ok(true)
///     }
/// }
///
/// let names = ["Ada".to_owned(), "Grace".to_owned()];
/// let (mut source, mut row) = (Names(names.iter()), [ValueRef::Absent]);
/// assert!(source.next(&mut row)?);
/// assert_eq!((row[0], source.remaining()), (ValueRef::Text("Ada"), 1));
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub trait RowSource<'a> {
    /// Returns the number of rows left.
    fn remaining(&self) -> usize;

    /// Fills `row`, which has one value for each field, with the next row. Returns false if no row
    /// is left.
    ///
    /// # Errors
    /// If the next row breaks a rule: the engine must undo the whole write and return this error.
    fn next(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool>;
}

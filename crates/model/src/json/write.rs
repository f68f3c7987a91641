//! Conversion of rows to JSON bytes.

use std::ops::ControlFlow;

use super::line::RowWriter;
use crate::{FieldSet, RowSink, Table, ValueRef};

/// Appends `fields` of a row as an object; absent fields are left out. For many rows reuse a
/// [`RowWriter`].
pub fn write_row(out: &mut Vec<u8>, table: &Table, fields: FieldSet, row: &[ValueRef<'_>]) {
    RowWriter::new().write(out, table, fields, row);
}

/// A sink that appends each row as an object, separated by commas.
#[derive(Debug)]
pub struct JsonRows<'a> {
    out: &'a mut Vec<u8>,
    table: &'a Table,
    fields: FieldSet,
    writer: RowWriter,
    /// The number of rows written.
    pub count: u64,
}

impl<'a> JsonRows<'a> {
    /// Creates a sink for rows of `table` that appends their `fields` to `out`.
    #[must_use]
    pub const fn new(out: &'a mut Vec<u8>, table: &'a Table, fields: FieldSet) -> Self {
        Self { out, table, fields, writer: RowWriter::new(), count: 0 }
    }
}

impl RowSink for JsonRows<'_> {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        if self.count > 0 {
            self.out.push(b',');
        }
        self.count += 1;
        self.writer.write(self.out, self.table, self.fields, row);
        ControlFlow::Continue(())
    }
}

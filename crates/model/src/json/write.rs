//! Conversion of rows to JSON bytes.

use std::ops::ControlFlow;

use super::line::{RowWriter, write_value_as};
use crate::{FieldSet, RowSink, Table, ValueRef};

/// Appends `fields` of a row as an object; absent fields are left out. For many rows reuse a
/// [`RowWriter`].
///
/// ```
/// # use marmota_model::{Field, Kind, Role, Schema, Table};
/// # let table = Table::new(Schema::new("person", vec![
/// #     Field::new("id", Kind::I64).role(Role::Key),
/// #     Field::new("name", Kind::TEXT),
/// #     Field::new("born", Kind::Date).nullable(true)]))?;
/// use marmota_model::{FieldSet, ValueRef, json};
/// let row = [ValueRef::Int(1), ValueRef::Text("Ada"), ValueRef::Null];
/// let mut out = Vec::new();
/// json::write_row(&mut out, &table, FieldSet::EMPTY.with(1).with(2), &row);
/// assert_eq!(out, br#"{"name":"Ada","born":null}"#);
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub fn write_row(out: &mut Vec<u8>, table: &Table, fields: FieldSet, row: &[ValueRef<'_>]) {
    RowWriter::new().write(out, table, fields, row);
}

/// Appends `fields` of a row as an array of values, in the order of the schema. An absent field is
/// `null`, so that each value has its place.
///
/// ```
/// # use marmota_model::{Field, Kind, Role, Schema, Table};
/// # let table = Table::new(Schema::new("person", vec![
/// #     Field::new("id", Kind::I64).role(Role::Key),
/// #     Field::new("name", Kind::TEXT),
/// #     Field::new("born", Kind::Date).nullable(true)]))?;
/// use marmota_model::{FieldSet, ValueRef, json};
/// let row = [ValueRef::Int(1), ValueRef::Text("Ada"), ValueRef::Absent];
/// let mut out = Vec::new();
/// json::write_values(&mut out, &table, FieldSet::EMPTY.with(1).with(2), &row);
/// assert_eq!(out, br#"["Ada",null]"#);
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub fn write_values(out: &mut Vec<u8>, table: &Table, fields: FieldSet, row: &[ValueRef<'_>]) {
    out.push(b'[');
    let chosen = row.iter().zip(table.fields()).enumerate();
    let mut chosen = chosen.filter(|(position, _)| fields.contains(*position)).peekable();
    while let Some((_, (value, field))) = chosen.next() {
        write_value_as(out, &field.kind, *value);
        if chosen.peek().is_some() {
            out.push(b',');
        }
    }
    out.push(b']');
}

/// A sink that appends each row as an object, separated by commas.
///
/// ```
/// # use marmota_model::{Field, Kind, Role, Schema, Table};
/// # let table = Table::new(Schema::new("person", vec![
/// #     Field::new("id", Kind::I64).role(Role::Key),
/// #     Field::new("name", Kind::TEXT),
/// #     Field::new("born", Kind::Date).nullable(true)]))?;
/// use marmota_model::json::JsonRows;
/// use marmota_model::{RowSink, ValueRef};
/// let mut out = b"[".to_vec();
/// let mut rows = JsonRows::new(&mut out, &table, table.all());
/// for id in [1, 2] {
///     let _ = rows.row(&[ValueRef::Int(id), ValueRef::Absent, ValueRef::Absent]);
/// }
/// assert_eq!(rows.count, 2);
/// out.push(b']');
/// assert_eq!(out, br#"[{"id":1},{"id":2}]"#);
/// # Ok::<(), marmota_model::Error>(())
/// ```
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

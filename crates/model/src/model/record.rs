//! Rows of a schema made at run time: like a struct with `#[derive(Model)]`, but with access by
//! name.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::{Error, Result, RowSink, Scratch, Table, Value, ValueRef};

/// A row that owns its values.
///
/// ```
/// use std::sync::Arc;
/// use marmota_model::{Field, Kind, Record, Role, Schema, Table, Value};
/// let table = Arc::new(Table::new(Schema::new("city", vec![
///     Field::new("id", Kind::I64).role(Role::Key),
///     Field::new("name", Kind::TEXT),
/// ]))?);
/// let mut city = Record::new(table);
/// city.set("name", "Bourges")?;
/// assert_eq!(city.value("name")?, &Value::from("Bourges"));
/// assert!(city.set("mayor", "?").is_err());
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Record {
    table: Arc<Table>,
    values: Vec<Value>,
}

impl Record {
    /// Creates a row with no field set.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT),
    /// #     Field::new("born", Kind::Date).nullable(true)]))?;
    /// let ada = marmota_model::Record::new(table.into());
    /// assert_eq!(ada.value("name")?, &marmota_model::Value::Absent);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn new(table: Arc<Table>) -> Self {
        let values = vec![Value::Absent; table.fields().len()];
        Self { table, values }
    }

    /// Copies a row that an engine lends.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT),
    /// #     Field::new("born", Kind::Date).nullable(true)]))?;
    /// use marmota_model::{Record, Value, ValueRef};
    /// let row = [ValueRef::Int(1), ValueRef::Text("Ada"), ValueRef::Null];
    /// let ada = Record::from_row(table.into(), &row);
    /// assert_eq!(ada.value("name")?, &Value::from("Ada"));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn from_row(table: Arc<Table>, row: &[ValueRef<'_>]) -> Self {
        Self { table, values: row.iter().map(ValueRef::to_value).collect() }
    }

    /// Returns the table of the row.
    #[must_use]
    pub const fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Returns the values, in the order of fields.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Returns the value of a field.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] for an unknown field.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT),
    /// #     Field::new("born", Kind::Date).nullable(true)]))?;
    /// use marmota_model::{Record, Value};
    /// let mut ada = Record::new(table.into());
    /// ada.set("born", Value::Date("1815-12-10".parse().unwrap()))?;
    /// assert!(ada.value("born").is_ok() && ada.value("birth").is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn value(&self, field: &str) -> Result<&Value> {
        Ok(&self.values[self.table.position(field)?])
    }

    /// Sets a field, after its sanitizers are applied.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] for an unknown field, or a value that breaks a rule; the
    /// record is then unchanged.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT),
    /// #     Field::new("born", Kind::Date).nullable(true)]))?;
    /// use marmota_model::{Record, Value};
    /// let mut ada = Record::new(table.into());
    /// ada.set("name", "Ada")?;
    /// assert_eq!(ada.set("name", Value::Null).unwrap_err().violations()[0].rule, "required");
    /// assert_eq!(ada.value("name")?, &Value::from("Ada"));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn set(&mut self, field: &str, value: impl Into<Value>) -> Result<()> {
        let position = self.table.position(field)?;
        let (value, scratch) = (value.into(), Scratch::new());
        let mut row = vec![ValueRef::Absent; self.values.len()];
        row[position] = value.as_ref();
        self.table.sanitize(&mut row, &scratch);
        let mut violations = Vec::new();
        self.table.check(&row, &mut violations);
        if !violations.is_empty() {
            return Err(Error::invalid(violations));
        }
        self.values[position] = row[position].to_value();
        Ok(())
    }

    /// Returns the row, borrowed, in the form for engines.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT),
    /// #     Field::new("born", Kind::Date).nullable(true)]))?;
    /// use marmota_model::{Record, ValueRef};
    /// let mut ada = Record::new(table.into());
    /// ada.set("name", "Ada")?;
    /// assert_eq!(ada.as_row(), [ValueRef::Absent, ValueRef::Text("Ada"), ValueRef::Absent]);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn as_row(&self) -> Vec<ValueRef<'_>> {
        self.values.iter().map(Value::as_ref).collect()
    }
}

/// A sink that collects rows as records.
///
/// ```
/// # use marmota_model::{Field, Kind, Role, Schema, Table};
/// # let table = Table::new(Schema::new("person", vec![
/// #     Field::new("id", Kind::I64).role(Role::Key),
/// #     Field::new("name", Kind::TEXT),
/// #     Field::new("born", Kind::Date).nullable(true)]))?;
/// use std::sync::Arc;
/// use marmota_model::{Records, RowSink, ValueRef};
/// let mut records = Records::new(Arc::new(table));
/// let _ = records.row(&[ValueRef::Int(1), ValueRef::Text("Ada"), ValueRef::Null]);
/// assert_eq!(records.rows.len(), 1);
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Debug)]
pub struct Records {
    table: Arc<Table>,
    /// The rows received so far.
    pub rows: Vec<Record>,
}

impl Records {
    /// Creates a sink without rows.
    #[must_use]
    pub const fn new(table: Arc<Table>) -> Self {
        Self { table, rows: Vec::new() }
    }
}

impl RowSink for Records {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.rows.push(Record::from_row(Arc::clone(&self.table), row));
        ControlFlow::Continue(())
    }
}

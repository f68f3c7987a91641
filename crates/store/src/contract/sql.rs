//! Raw SQL: statements with bound values, and their rows. The verbs are in `verbs/sql.rs`. An engine
//! that supports SQL declares so in its [`Capability`](crate::engine::Capability).

mod refusal;
pub mod text;

use std::cell::OnceCell;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, FieldValue, Kind, Result, Table, Value, ValueRef, json};

use crate::contract::borrowed_table::BorrowedTables;

pub use self::refusal::SqlRefusal;

/// A statement that is passed to an engine.
///
/// An engine checks that the text is one statement. As [`ErrorKind::Denied`] it MUST refuse one that
/// changes rows if `writes` is false, and one that writes to an audited table if `unaudited` is
/// false. It sets `columns` before the first row, also if there are no rows.
#[derive(Clone, Copy, Debug)]
pub struct SqlCall<'a> {
    /// One statement.
    pub text: &'a str,
    /// The values of its parameters, in order.
    pub values: &'a [Value],
    /// True if it may change rows, false if it must not.
    pub writes: bool,
    /// True if it may write to audited tables without a history entry.
    pub unaudited: bool,
    /// The database to run it on, if the store has several and the caller named one.
    pub database: Option<&'a str>,
    /// Receives the columns, before the first row is lent.
    pub columns: &'a OnceCell<Arc<SqlColumns>>,
}

/// Lends tables of other databases to a statement that reads them.
///
/// The store implements it for a statement over several databases; an engine with SQL calls it
/// once, before the first step of the statement.
pub trait Lender {
    /// Lends the tables, in the order of `wanted`. They do not change until they are returned.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if a transaction holds one of them.
    fn lend(&mut self, wanted: &[Wanted]) -> Result<BorrowedTables>;
}

/// A table of another database.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The index of the database in the store.
    pub database: usize,
    /// The table.
    pub table: Arc<Table>,
}

/// The columns of a statement's rows.
///
/// ```
/// use marmota_model::Kind;
/// use marmota_store::sql::{SqlColumn, SqlColumns};
///
/// let columns = SqlColumns::new(vec![
///     SqlColumn { name: "name".into(), kind: Some(Kind::TEXT) },
///     SqlColumn { name: "total".into(), kind: None },
/// ]);
/// assert_eq!(columns.position("total")?, 1);
/// assert!(columns.position("age").is_err());
/// columns.check_names()?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct SqlColumns {
    columns: Box<[SqlColumn]>,
    /// The first column whose name another column has as well.
    twice: Option<usize>,
}

/// A column of a statement's rows.
#[derive(Clone, Debug)]
pub struct SqlColumn {
    /// Its name: the one after `AS`, otherwise the field's name, otherwise the expression.
    pub name: String,
    /// The kind of the field that it was read from; `None` for a computed value.
    pub kind: Option<Kind>,
}

impl SqlColumns {
    /// Creates a list of columns.
    #[must_use]
    pub fn new(columns: Vec<SqlColumn>) -> Self {
        let is_twice = |&at: &usize| columns[..at].iter().any(|c| c.name == columns[at].name);
        let twice = (0..columns.len()).find(is_twice);
        Self { columns: columns.into(), twice }
    }

    /// Returns the columns, in order.
    #[must_use]
    pub fn list(&self) -> &[SqlColumn] {
        &self.columns
    }

    /// Returns the index of the column called `name`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a name that no column or more than one has.
    pub fn position(&self, name: &str) -> Result<usize> {
        let mut found = self.columns.iter().enumerate().filter(|(_, column)| column.name == name);
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Ok(at),
            (Some(_), Some(_)) => Err(called_twice(name)),
            (None, _) => {
                let names: Vec<&str> = self.columns.iter().map(|c| &*c.name).collect();
                let name = marmota_model::text::excerpt(name);
                let message =
                    format!("the rows have no column `{name}`; they have: {}", names.join(", "));
                Err(Error::new(ErrorKind::Invalid, message))
            }
        }
    }

    /// Returns an error if two columns have the same name.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the name.
    pub fn check_names(&self) -> Result<()> {
        match self.twice {
            Some(at) => Err(called_twice(&self.columns[at].name)),
            None => Ok(()),
        }
    }
}

/// The error for a name that two columns have.
#[cold]
fn called_twice(name: &str) -> Error {
    let message = format!("two columns are called `{name}`: rename one of them with AS");
    Error::new(ErrorKind::Invalid, message)
}

/// A row of a statement, lent for one call.
///
/// ```
/// use marmota_model::{Kind, ValueRef};
/// use marmota_store::sql::{SqlColumn, SqlColumns, SqlRow};
///
/// let columns = SqlColumns::new(vec![
///     SqlColumn { name: "name".into(), kind: Some(Kind::TEXT) },
///     SqlColumn { name: "total".into(), kind: None },
/// ]);
/// let values = [ValueRef::Text("Ana"), ValueRef::Int(3)];
/// let row = SqlRow::new(&columns, &values);
/// assert_eq!(row.read::<i64>("total")?, 3);
///
/// let mut json = Vec::new();
/// row.write_json(&mut json);
/// assert_eq!(json, br#"{"name":"Ana","total":3}"#);
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SqlRow<'r> {
    columns: &'r SqlColumns,
    values: &'r [ValueRef<'r>],
}

impl<'r> SqlRow<'r> {
    /// Creates a row with these columns.
    #[must_use]
    pub const fn new(columns: &'r SqlColumns, values: &'r [ValueRef<'r>]) -> Self {
        Self { columns, values }
    }

    /// Returns the columns.
    #[must_use]
    pub const fn columns(&self) -> &'r SqlColumns {
        self.columns
    }

    /// Returns the values, in the order of columns.
    #[must_use]
    pub const fn values(&self) -> &'r [ValueRef<'r>] {
        self.values
    }

    /// Reads the value of a column as any type of a field.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a name that no column or more than one has; [`ErrorKind::Engine`]
    /// for a value that the type cannot hold.
    pub fn read<T: FieldValue>(&self, name: &str) -> Result<T> {
        self.read_at(self.columns.position(name)?)
    }

    /// Reads the value of the column at an index.
    ///
    /// # Errors
    /// Those of [`SqlRow::read`].
    pub fn read_at<T: FieldValue>(&self, place: usize) -> Result<T> {
        let value = self.values.get(place).copied().unwrap_or_default();
        read_as(value).ok_or_else(|| {
            let name = self.columns.columns.get(place).map_or("?", |column| &column.name);
            let value = marmota_model::text::excerpt_of(value);
            let message = format!(
                "column `{name}` has the value {value}, which is not a {} of this type",
                T::KIND.name()
            );
            Error::new(ErrorKind::Engine, message)
        })
    }

    /// Appends the row as a JSON object with the columns' names as members.
    ///
    /// A value of a field is written like that field in a row's JSON; a computed value by its type.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        for (at, (column, value)) in self.columns.columns.iter().zip(self.values).enumerate() {
            if at > 0 {
                out.push(b',');
            }
            json::write_string(out, &column.name);
            out.push(b':');
            match &column.kind {
                Some(kind) => json::write_value_as(out, kind, *value),
                None => json::write_value(out, *value),
            }
        }
        out.push(b'}');
    }
}

/// Reads a value as a type: by its kind, or from SQL's representation of that.
fn read_as<T: FieldValue>(value: ValueRef<'_>) -> Option<T> {
    T::from_row(value).or_else(|| T::from_row(T::KIND.read_stored(value)?))
}

/// The rows of a statement, with owned values.
#[derive(Clone, Debug, Default)]
pub struct SqlRows {
    /// The columns.
    pub columns: Arc<SqlColumns>,
    /// The rows; each has a value for each column.
    pub rows: Vec<Vec<Value>>,
}

impl SqlRows {
    /// Returns the value of a column of a row; `None` if the row does not exist.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a name that no column or more than one has.
    pub fn value(&self, row: usize, column: &str) -> Result<Option<&Value>> {
        let column = self.columns.position(column)?;
        Ok(self.rows.get(row).map(|row| &row[column]))
    }
}

/// The error of an engine that has no SQL.
#[cold]
#[must_use]
pub fn no_sql(engine: &str) -> Error {
    let message = format!(
        "the engine `{engine}` does not support SQL: keep the tables in SQLite or PostgreSQL, or \
         open a SQLite database next to it in the same store (`.database(\"sql\", …)`)"
    );
    Error::new(ErrorKind::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use marmota_model::{Currency, Timestamp};

    fn columns() -> SqlColumns {
        let column = |name: &str, kind| SqlColumn { name: name.to_owned(), kind };
        SqlColumns::new(vec![
            column("name", Some(Kind::TEXT)),
            column("sum(amount)", None),
            column("name", None),
        ])
    }

    #[test]
    fn columns_are_found_by_a_name_that_is_theirs_alone() {
        let columns = columns();
        assert_eq!(columns.position("sum(amount)").unwrap(), 1);
        assert!(columns.position("name").unwrap_err().message().contains("AS"));
        assert!(columns.position("none").unwrap_err().message().contains("sum(amount)"));
        assert!(columns.check_names().is_err());
    }

    #[test]
    fn what_was_worked_out_is_read_by_the_type_that_is_asked_for() {
        let columns = columns();
        let values = [ValueRef::Text("a"), ValueRef::Int(25_000), ValueRef::Null];
        let row = SqlRow::new(&columns, &values);
        assert_eq!(row.read_at::<Currency>(1).unwrap(), Currency::from_scaled(25_000));
        assert_eq!(row.read_at::<Timestamp>(1).unwrap().micros(), 25_000);
        assert_eq!(row.read_at::<Option<i64>>(2).unwrap(), None);
        assert!(row.read_at::<i64>(0).unwrap_err().message().contains("`name`"));
    }
}

//! The values of virtual generated columns for the change feed. SQLite does not store them, and the
//! hook of changes does not have them; nor may the hook execute statements of its connection. So a
//! database in memory has the same table, into which each changed row is inserted.

use std::ffi::c_int;

use marmota_model::{Error, Result, Table, Value, ValueForm, ValueRef};
use marmota_sql::quoted;

use crate::fault;
use crate::ffi::changes::{ChangedCells, ChangingRow};
use crate::ffi::{Bound, Cells, Connection, Failure, StatementId};
use crate::sql_words::sql_literal;
use crate::statement::column;

/// The number of fields that a table can have.
const FIELDS_MAX: usize = 128;

/// The virtual columns of a table.
pub(super) struct VirtualColumns {
    /// The database in memory. Its table is empty between two rows.
    connection: Connection,
    insert: StatementId,
    delete: StatementId,
    /// The numbers of the columns that are not generated.
    plain: Vec<c_int>,
    /// The fields with virtual columns.
    pub(super) fields: Vec<usize>,
    cells: ChangedCells,
}

/// A column as SQLite reports it.
pub(super) struct FileColumn {
    pub(super) number: c_int,
    pub(super) name: String,
    pub(super) is_generated: bool,
    /// True if it is generated and not stored.
    pub(super) is_virtual: bool,
}

/// Returns the columns of a table of the file.
pub(super) fn columns_of(connection: &mut Connection, table: &Table) -> Result<Vec<FileColumn>> {
    let literal = sql_literal(ValueRef::Text(table.name()));
    let sql = format!("SELECT cid, name, hidden FROM pragma_table_xinfo({literal})");
    let mut columns = Vec::new();
    connection
        .query(&sql, |row| {
            let hidden = row.at(2).int();
            columns.push(FileColumn {
                number: row.at(0).int() as c_int,
                name: String::from_utf8_lossy(row.at(1).bytes()).into_owned(),
                is_generated: hidden > 1,
                is_virtual: hidden == 2,
            });
        })
        .map_err(|failure| fault::of(&failure))?;
    Ok(columns)
}

impl VirtualColumns {
    /// Prepares the virtual columns of a table; `None` if no field has one.
    ///
    /// # Errors
    /// An error if SQLite cannot make the same table in memory.
    pub(super) fn of(
        connection: &mut Connection,
        table: &Table,
        columns: &[FileColumn],
    ) -> Result<Option<Self>> {
        let is_virtual = |field: &usize| {
            let name = &table.fields()[*field].name;
            columns.iter().any(|one| one.is_virtual && one.name.eq_ignore_ascii_case(name))
        };
        let fields: Vec<usize> = table.generated_fields().iter().filter(is_virtual).collect();
        if fields.is_empty() {
            return Ok(None);
        }
        let mut definition = String::new();
        let name = sql_literal(ValueRef::Text(table.name()));
        let sql = format!(
            "SELECT sql FROM sqlite_schema WHERE type='table' AND name={name} COLLATE NOCASE"
        );
        connection
            .query(&sql, |row| {
                definition = String::from_utf8_lossy(row.at(0).bytes()).into_owned();
            })
            .map_err(|failure| refusal(table, &failure))?;
        let made = Self::make(table, columns, fields, &definition);
        made.map(Some).map_err(|failure| refusal(table, &failure))
    }

    fn make(
        table: &Table,
        columns: &[FileColumn],
        fields: Vec<usize>,
        definition: &str,
    ) -> Result<Self, Failure> {
        let mut connection = Connection::open_memory()?;
        // The rows were checked where they are stored.
        connection.execute("PRAGMA foreign_keys=OFF; PRAGMA ignore_check_constraints=ON")?;
        connection.execute(definition)?;
        let plain = || columns.iter().filter(|column| !column.is_generated);
        let names: Vec<String> = plain().map(|column| quoted(&column.name)).collect();
        let values = vec!["?"; names.len()].join(",");
        let returned: Vec<String> =
            fields.iter().map(|&field| quoted(&table.fields()[field].name)).collect();
        let name = quoted(table.name());
        let insert = connection.prepare(&format!(
            "INSERT INTO {name} ({}) VALUES ({values}) RETURNING {}",
            names.join(","),
            returned.join(",")
        ))?;
        let delete = connection.prepare(&format!("DELETE FROM {name}"))?;
        let plain = plain().map(|column| column.number).collect();
        Ok(Self { connection, insert, delete, plain, fields, cells: ChangedCells::new() })
    }

    /// Returns the values of the virtual columns of a row that is being changed, in the order of
    /// their fields. `None` if SQLite has no memory for the row.
    ///
    /// # Errors
    /// An error for a value that the field cannot have.
    pub(super) fn read(
        &mut self,
        row: &ChangingRow<'_>,
        after: bool,
        table: &Table,
        forms: &[ValueForm],
    ) -> Result<Option<Vec<Value>>> {
        let Self { connection, insert, delete, plain, fields, cells } = self;
        let Some(plain) = row.read(after, plain, cells) else { return Ok(None) };
        let mut values = Vec::with_capacity(fields.len());
        {
            let mut run = connection.start(*insert);
            run.bind_all(plain.map(Bound::stored));
            let mut found = Cells::<FIELDS_MAX>::new();
            if run.step().map_err(|failure| refusal(table, &failure))? {
                let found = run.row(&mut found);
                for (place, &field) in fields.iter().enumerate() {
                    let (cell, mut value) = (found.cell(place), ValueRef::Absent);
                    if !column::read(forms[field], cell, &mut value) {
                        return Err(column::misfit(table, field, cell.stored()));
                    }
                    values.push(value.to_value());
                }
            }
            run.run_out().map_err(|failure| refusal(table, &failure))?;
        }
        connection.start(*delete).finish().map_err(|failure| refusal(table, &failure))?;
        Ok(Some(values))
    }
}

/// The error for a table whose virtual columns cannot be computed.
#[cold]
fn refusal(table: &Table, failure: &Failure) -> Error {
    let error = fault::of(failure);
    let message = format!(
        "the virtual generated columns of `{}` cannot be computed for the change feed: {}; remove \
         their fields, or make the columns STORED",
        table.name(),
        error.message()
    );
    Error::new(error.kind(), message).with_source(error)
}

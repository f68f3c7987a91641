//! The other databases of the store that the SQL of this engine sees: tables in memory as virtual
//! tables, SQLite files attached.

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Kind, Result, Table, ValueRef};
use marmota_store::engine::{AttachSource, AttachedDatabase};
use marmota_store::sql::Wanted;

use crate::fault;
use crate::ffi::{Connection, Failure};
use crate::file::attachable_file::AttachableFile;
use crate::sql_words::sql_literal;
use crate::virtual_table::VirtualTableShape;

/// The tables of other databases that a connection sees.
#[derive(Debug, Default)]
pub(crate) struct AttachedDatabases {
    /// By the name of the database.
    tables: Vec<(String, Vec<Arc<Table>>)>,
    /// Tables in memory, by their number on the connection.
    lent: Vec<Wanted>,
    unseen: Vec<Unseen>,
}

/// A database that the connection cannot see.
#[derive(Debug)]
struct Unseen {
    database: String,
    tables: Vec<Arc<Table>>,
    /// The reason, with a solution.
    why: &'static str,
}

impl AttachedDatabases {
    /// Returns the kind of a column.
    pub(crate) fn kind_of(&self, database: &str, table: &str, column: &str) -> Option<Kind> {
        let (_, tables) = self.tables.iter().find(|(name, _)| name == database)?;
        let table = tables.iter().find(|known| known.name().eq_ignore_ascii_case(table))?;
        let field = table.fields().iter().find(|f| f.name.eq_ignore_ascii_case(column))?;
        Some(field.kind.clone())
    }

    /// Returns the table in memory with this number.
    pub(crate) fn lent(&self, number: usize) -> Option<&Wanted> {
        self.lent.get(number)
    }

    /// Makes a database visible to a connection, if possible: files only for reading connections.
    pub(crate) fn add(
        &mut self,
        connection: &mut Connection,
        database: &AttachedDatabase,
        only_reads: bool,
    ) -> Result<()> {
        let tables = database.tables.clone();
        match &database.shown {
            AttachSource::Rows => {
                let shapes =
                    database.tables.iter().map(|table| VirtualTableShape::new(Arc::clone(table)));
                connection
                    .show(&database.name, shapes.collect())
                    .map_err(|failure| at_attached(fault::of(&failure), database))?;
                let wanted = |table: &Arc<Table>| Wanted {
                    database: database.place,
                    table: Arc::clone(table),
                };
                self.lent.extend(database.tables.iter().map(wanted));
            }
            AttachSource::Own(file) => {
                let Some(file) = file.downcast_ref::<AttachableFile>() else { return Ok(()) };
                if let Some(why) = file.unseen(only_reads) {
                    self.unseen.push(Unseen { database: database.name.clone(), tables, why });
                    return Ok(());
                }
                file.attach_to(connection, &database.name)
                    .map_err(|error| at_attached(error, database))?;
            }
            _ => return Ok(()),
        }
        self.tables.push((database.name.clone(), tables));
        Ok(())
    }

    /// Returns the error for a table that SQLite does not find, if it is in a database that the
    /// connection cannot see.
    pub(crate) fn why_unseen(&self, failure: &Failure) -> Option<Error> {
        let named = failure.message().strip_prefix("no such table: ")?;
        let (database, table) = match named.split_once('.') {
            Some((database, table)) => (Some(database), table),
            None => (None, named),
        };
        let is_it = |unseen: &&Unseen| {
            database.is_none_or(|name| name.eq_ignore_ascii_case(&unseen.database))
                && unseen.tables.iter().any(|known| known.name().eq_ignore_ascii_case(table))
        };
        let Unseen { database, why, .. } = self.unseen.iter().find(is_it)?;
        let message = format!(
            "the table `{table}` is in the database `{database}`, which this statement cannot use: \
             {why}; or run the statement there with `.on(\"{database}\")`"
        );
        Some(Error::new(ErrorKind::Unsupported, message))
    }
}

/// Adds the name of a database to the error of attaching it.
#[cold]
fn at_attached(error: Error, database: &AttachedDatabase) -> Error {
    let message = format!("database `{}` for SQL: {}", database.name, error.message());
    Error::new(error.kind(), message).with_source(error)
}

/// Refuses a table of another database with the name of a table of this one.
pub(crate) fn check_names(connection: &mut Connection, database: &AttachedDatabase) -> Result<()> {
    for table in &database.tables {
        let mut found = 0;
        let name = sql_literal(ValueRef::Text(table.name()));
        let sql = format!("SELECT count(*) FROM sqlite_schema WHERE name={name} COLLATE NOCASE");
        connection.query(&sql, |row| found = row.at(0).int()).map_err(|e| fault::of(&e))?;
        if found > 0 {
            let message = format!(
                "the table `{}` is in database `{}`, but this database has a table, view or index \
                 with the same name, so that the name would be ambiguous in SQL: rename the model, \
                 or drop the other one (`Sqlite::execute(\"DROP TABLE …\")`)",
                table.name(),
                database.name
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
    }
    Ok(())
}

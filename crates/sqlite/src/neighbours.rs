//! What the SQL of this engine sees of the other databases of its store: rows
//! in memory as virtual tables, SQLite files attached.

use std::path::Path;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Kind, Result, Table, ValueRef};
use marmota_store::engine::{Neighbour, Shown};
use marmota_store::sql::Wanted;

use crate::column::sql_literal;
use crate::engine::Shared;
use crate::fault;
use crate::ffi::{Connection, Failure};
use crate::lent::Shape;
use crate::shape::quoted;

/// The tables of other databases that a connection sees.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    /// By the name of the database.
    tables: Vec<(String, Vec<Arc<Table>>)>,
    /// Those in memory, by their number on the connection.
    lent: Vec<Wanted>,
}

impl Neighbours {
    /// The kind of a column.
    pub(crate) fn kind_of(&self, database: &str, table: &str, column: &str) -> Option<Kind> {
        let (_, tables) = self.tables.iter().find(|(name, _)| name == database)?;
        let table = tables.iter().find(|known| known.name().eq_ignore_ascii_case(table))?;
        let field = table.fields().iter().find(|f| f.name.eq_ignore_ascii_case(column))?;
        Some(field.kind.clone())
    }

    /// The table in memory with this number.
    pub(crate) fn lent(&self, number: usize) -> Option<&Wanted> {
        self.lent.get(number)
    }

    /// Has a connection see a database, if it can: files only where it reads.
    pub(crate) fn add(
        &mut self,
        connection: &mut Connection,
        neighbour: &Neighbour,
        only_reads: bool,
    ) -> Result<(), Failure> {
        match &neighbour.shown {
            Shown::Rows => {
                let shapes = neighbour.tables.iter().map(|table| Shape::new(Arc::clone(table)));
                connection.show(&neighbour.name, shapes.collect())?;
                let wanted = |table: &Arc<Table>| Wanted {
                    database: neighbour.place,
                    table: Arc::clone(table),
                };
                self.lent.extend(neighbour.tables.iter().map(wanted));
            }
            Shown::Own(shared) if only_reads => {
                let Some(path) = shared.downcast_ref::<Shared>().and_then(Shared::attachable)
                else {
                    return Ok(());
                };
                let (path, name) = (attached_name(path), quoted(&neighbour.name));
                connection.execute(&format!(
                    "ATTACH {} AS {name} KEY ''",
                    sql_literal(ValueRef::Text(&path))
                ))?;
            }
            _ => return Ok(()),
        }
        self.tables.push((neighbour.name.clone(), neighbour.tables.clone()));
        Ok(())
    }
}

/// A path as SQLite takes it: a relative one gets `./`, because `:memory:` and
/// the empty name mean something else.
fn attached_name(path: &Path) -> String {
    let name = path.to_string_lossy();
    if path.is_relative() { format!("./{name}") } else { name.into_owned() }
}

/// Refuses a table of another database whose name stands for one of this one.
pub(crate) fn check_names(connection: &mut Connection, neighbour: &Neighbour) -> Result<()> {
    for table in &neighbour.tables {
        let mut found = 0;
        let name = sql_literal(ValueRef::Text(table.name()));
        let sql = format!("SELECT count(*) FROM sqlite_schema WHERE name={name} COLLATE NOCASE");
        connection.query(&sql, |row| found = row.at(0).int()).map_err(|e| fault::of(&e))?;
        if found > 0 {
            let message = format!(
                "the table `{}` is in database `{}`, and this one has something of that name as \
                 well, so that SQL would not know which is meant: rename the model, or drop what \
                 is there (`Sqlite::execute(\"DROP TABLE …\")`)",
                table.name(),
                neighbour.name
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
    }
    Ok(())
}

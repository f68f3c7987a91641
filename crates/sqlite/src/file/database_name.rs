//! The names of databases in messages, and a setting of one.

use std::path::Path;

use crate::ffi::{Connection, Failure};
use crate::file::options::Location;

/// Returns the text of the only row of a PRAGMA.
pub(crate) fn pragma_text(connection: &mut Connection, sql: &str) -> Result<String, Failure> {
    let mut text = String::new();
    connection.query(sql, |row| {
        text = String::from_utf8_lossy(row.at(0).bytes()).into_owned();
    })?;
    Ok(text)
}

/// Returns a database's name for error messages.
pub(crate) fn location_name(location: &Location) -> String {
    match location {
        Location::File(path) => database_name(path),
        Location::Memory => "the database in memory".to_owned(),
    }
}

/// Returns a file's name for error messages.
pub(crate) fn database_name(path: &Path) -> String {
    format!("the database {}", path.display())
}

//! Exclusive access to a file that is to be replaced.

use std::path::{Path, PathBuf};

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::temporary_file::TemporaryFile;

use crate::ffi::{Connection, Failure, code};
use crate::file::database_name::{database_name, pragma_text};
use crate::file::encryption::error_at;

/// Makes a file have no log, and locks it as long as the connection is open. `then` is the end of
/// the error message: what to do after closing the file elsewhere.
pub(crate) fn lock_exclusively(connection: &mut Connection, path: &Path, then: &str) -> Result<()> {
    let busy = || {
        let message = format!(
            "{}: the file is open elsewhere; close every engine and program that uses the file, \
             then {then}",
            database_name(path)
        );
        Error::new(ErrorKind::Busy, message)
    };
    let at = |failure: Failure| {
        if failure.code() & 0xff == code::BUSY {
            return busy();
        }
        error_at(&failure, &database_name(path))
    };
    // A log belongs to the file by its name, so it must not outlive the file.
    let mode = pragma_text(connection, "PRAGMA journal_mode=DELETE").map_err(at)?;
    if mode != "delete" {
        return Err(busy());
    }
    connection
        .execute(
            "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=MEMORY; BEGIN EXCLUSIVE; COMMIT",
        )
        .map_err(at)?;
    // Another process may have opened the file in between.
    match pragma_text(connection, "PRAGMA journal_mode").map_err(at)?.as_str() {
        "memory" => Ok(()),
        _ => Err(busy()),
    }
}

/// The content of a database, for comparisons.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// The statements that created it, one per line.
    pub(crate) schema: String,
    /// The number of rows of each table.
    pub(crate) rows: Vec<(String, u64)>,
}

/// Reads the whole file and refuses it if it is damaged.
pub(crate) fn check(connection: &mut Connection, path: &Path) -> Result<Content> {
    let at = |failure: Failure| error_at(&failure, &database_name(path));
    let verdict = pragma_text(connection, "PRAGMA integrity_check(1)").map_err(at)?;
    if verdict != "ok" {
        let message = format!(
            "{}: the file is damaged ({verdict}); restore a backup first",
            database_name(path)
        );
        return Err(Error::new(ErrorKind::Engine, message));
    }
    content(connection).map_err(at)
}

/// Returns the schema of a database, and the number of rows of each table.
pub(crate) fn content(connection: &mut Connection) -> Result<Content, Failure> {
    let mut content = Content { schema: String::new(), rows: Vec::new() };
    let schema = "SELECT type, name, coalesce(sql, ''), rootpage FROM sqlite_schema ORDER BY 1, 2";
    connection.query(schema, |row| {
        let text = |column| String::from_utf8_lossy(row.at(column).bytes()).into_owned();
        let (kind, name) = (text(0), text(1));
        content.schema.push_str(&format!("{kind} {name} {}\n", text(2)));
        // A virtual table has no root page.
        if kind == "table" && row.at(3).int() > 0 {
            content.rows.push((name, 0));
        }
    })?;
    for (name, rows) in &mut content.rows {
        let sql = format!("SELECT count(*) FROM {}", marmota_sql::quoted(name));
        connection.query(&sql, |row| *rows = u64::try_from(row.at(0).int()).unwrap_or(0))?;
    }
    Ok(content)
}

/// Returns a file's name with a suffix.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns the temporary file whose name is that of a file with a suffix.
pub(crate) fn temporary(path: &Path, suffix: &str) -> std::io::Result<TemporaryFile> {
    TemporaryFile::new(with_suffix(path, suffix))
}

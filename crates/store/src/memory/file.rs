//! Files of a memory engine: which format, how one is written so that a crash
//! leaves the old or the new one whole, and what was read of tables that no
//! model has asked for yet.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use marmota_model::{Error, ErrorKind, Result};

use super::table_rows::TableRows;
use super::{file_binary, file_json};

/// How a file is written. Reading tells by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// One JSON document, a row a line: to be read and edited by people.
    Json,
    /// Compressed and with a checksum: smaller and faster.
    Binary,
}

/// What a file had.
#[derive(Default)]
pub(super) struct Loaded {
    /// Which it was.
    pub(super) path: PathBuf,
    /// The schema version of the program that wrote it.
    pub(super) schema: u32,
    /// Its tables that were not prepared yet.
    pub(super) tables: BTreeMap<String, Section>,
}

/// The schema version and tables of a file.
pub(super) type Read = (u32, BTreeMap<String, Section>);

/// One table of a file, as it stood there.
pub(super) enum Section {
    Json(Box<serde_json::value::RawValue>),
    Binary(file_binary::Section),
}

impl Section {
    /// Puts the rows into an empty table.
    pub(super) fn fill(&self, rows: &mut TableRows) -> Result<()> {
        match self {
            Self::Json(text) => file_json::fill(text, rows),
            Self::Binary(section) => section.fill(rows),
        }
    }
}

/// What a file is to have: tables with their rows, and sections that nobody
/// has asked for since they were loaded.
pub(super) struct Contents<'c> {
    pub(super) schema: u32,
    pub(super) tables: Vec<&'c TableRows>,
    pub(super) sections: &'c BTreeMap<String, Section>,
}

/// Reads a file.
///
/// # Errors
/// [`ErrorKind::Io`] if it cannot be read, [`ErrorKind::Invalid`] if it is
/// damaged or none of ours; both name it.
pub(super) fn load(path: &Path) -> Result<Loaded> {
    let bytes = std::fs::read(path).map_err(|error| failed("read", path, error))?;
    let loaded = if bytes.trim_ascii_start().first() == Some(&b'{') {
        file_json::load(&bytes)
    } else {
        file_binary::load(&bytes)
    };
    match loaded {
        Ok((schema, tables)) => Ok(Loaded { path: path.to_owned(), schema, tables }),
        Err(why) => Err(Error::new(ErrorKind::Invalid, format!("{} {why}", path.display()))),
    }
}

/// Writes a file: first beside it, then in its place.
///
/// # Errors
/// [`ErrorKind::Io`] naming it, with the old one untouched.
pub(super) fn save(path: &Path, format: Format, contents: &Contents<'_>) -> Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(folder).map_err(|error| failed("make the folder of", path, error))?;
    let Some(name) = path.file_name() else {
        let message = format!("{} names no file to save to", path.display());
        return Err(Error::new(ErrorKind::Invalid, message));
    };
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = Beside(folder.join(beside));
    let file = File::create(&beside.0).map_err(|error| failed("write", path, error))?;
    let mut out = BufWriter::with_capacity(1 << 16, file);
    match format {
        Format::Json => file_json::write(&mut out, contents)?,
        Format::Binary => file_binary::write(&mut out, contents)?,
    }
    .and_then(|()| out.flush())
    .and_then(|()| out.get_ref().sync_all())
    .and_then(|()| std::fs::rename(&beside.0, path))
    // The new name is only there for good once its folder is written.
    .and_then(|()| File::open(folder)?.sync_all())
    .map_err(|error| failed("write", path, error))
}

/// The file that is written, removed unless it came to its place.
struct Beside(PathBuf);

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cold]
fn failed(what: &str, path: &Path, error: std::io::Error) -> Error {
    let message = format!("cannot {what} {}: {error}", path.display());
    Error::new(ErrorKind::Io, message).with_source(error)
}

/// The refusal to write a table in another format than it was loaded from.
#[cold]
pub(super) fn other_format(table: &str, format: &str) -> Error {
    let message = format!(
        "table `{table}` was loaded from a file of another format and no model has asked for it \
         since, so that it cannot be written as {format}; register its model first"
    );
    Error::new(ErrorKind::Unsupported, message)
}

//! Files of a memory engine: their formats, atomic writes (after a crash the file is either the old
//! one or the new one, complete), and the loaded rows of tables whose models are not registered
//! yet.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_store::plan::Destructive;

use super::comparison::Shape;
use super::file_binary::Link;
use super::seal::Use;
use super::table_rows::TableRows;
use super::vault::Vault;
use super::{file_binary, file_json, file_sealed, journal};

/// The format in which a file is written. Reading detects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// One JSON document with one row per line, which people can read and edit.
    Json,
    /// Compressed and with a checksum: smaller and faster.
    Binary,
}

/// The content of a file.
#[derive(Default)]
pub(super) struct Loaded {
    /// The path of the file.
    pub(super) path: PathBuf,
    /// The schema version of the program that wrote it.
    pub(super) schema: u32,
    /// Its tables that were not prepared yet.
    pub(super) tables: BTreeMap<String, Section>,
}

impl Loaded {
    /// Returns the rows for a table and their name in the file: the table's name, or its previous
    /// one if no other table has that.
    pub(super) fn section(&self, table: &Table, all: &[Arc<Table>]) -> Option<(&str, &Section)> {
        let find = |name: &str| {
            let (name, section) = self.tables.get_key_value(name)?;
            Some((&**name, section))
        };
        find(table.name()).or_else(|| {
            let was = table.schema().was.as_deref()?;
            find(was).filter(|_| all.iter().all(|other| other.name() != was))
        })
    }
}

/// The content of a file, as it was read.
pub(super) struct Read {
    pub(super) schema: u32,
    pub(super) tables: BTreeMap<String, Section>,
    /// The link to the log, in a snapshot that has one.
    pub(super) link: Option<Link>,
}

/// One table of a file, as it was read.
pub(super) enum Section {
    Json(Box<serde_json::value::RawValue>),
    Binary(file_binary::Section),
}

impl Section {
    /// Copies the rows to an empty table.
    pub(super) fn fill(&self, rows: &mut TableRows, destructive: &Destructive) -> Result<()> {
        match self {
            Self::Json(text) => file_json::fill(text, rows, destructive),
            Self::Binary(section) => section.fill(rows, destructive),
        }
    }

    /// Returns the shape of the rows, for a plan.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the list does not consist of rows.
    pub(super) fn shape(&self) -> Result<Shape> {
        match self {
            Self::Json(text) => file_json::shape(text),
            Self::Binary(section) => Ok(section.shape()),
        }
    }

    /// Returns true if its rows are known to have exactly the fields of this table.
    pub(super) fn is_shaped_as(&self, rows: &TableRows) -> bool {
        match self {
            Self::Json(_) => false,
            Self::Binary(section) => section.is_shaped_as(rows),
        }
    }
}

/// The content to write to a file: tables with their rows, and loaded sections whose models are not
/// registered.
pub(super) struct Contents<'c> {
    pub(super) schema: u32,
    pub(super) tables: Vec<&'c TableRows>,
    pub(super) sections: &'c BTreeMap<String, Section>,
}

/// Reads a file without a log.
///
/// # Errors
/// [`ErrorKind::Io`] if it cannot be read, [`ErrorKind::Invalid`] if it is damaged or not a file of
/// this engine, or if a log has later data, [`ErrorKind::Denied`] without its key; all messages
/// have its path.
pub(super) fn load(path: &Path, vault: &Vault) -> Result<Loaded> {
    check_without_log(path)?;
    let read = read(path, vault)?;
    Ok(Loaded { path: path.to_owned(), schema: read.schema, tables: read.tables })
}

/// Refuses a file that has a log.
pub(super) fn check_without_log(path: &Path) -> Result<()> {
    if let Some(log) = journal::first_log(path)? {
        let message = format!(
            "{} is not all there is: {} has what was written since; open it with \
             ?durability=full, relaxed or none",
            path.display(),
            log.display()
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(())
}

/// Reads a file.
///
/// # Errors
/// Those of [`load`], without the check for logs.
pub(super) fn read(path: &Path, vault: &Vault) -> Result<Read> {
    let mut bytes = std::fs::read(path).map_err(|error| failed("read", path, error))?;
    let read = if bytes.trim_ascii_start().first() == Some(&b'{') {
        vault.check_json(path)?;
        file_json::load(&bytes)
    } else {
        if file_sealed::is_sealed(&bytes) {
            bytes = file_sealed::open(bytes, path, vault)?;
        } else {
            vault.check_plain(path)?;
        }
        file_binary::load(&bytes)
    };
    read.map_err(|why| Error::new(ErrorKind::Invalid, format!("{} {why}", path.display())))
}

/// Writes a file: first as a temporary file in the same folder, which is then renamed.
///
/// # Errors
/// [`ErrorKind::Io`] with its path, while the old file is unchanged; [`ErrorKind::Invalid`] for
/// JSON with a key.
pub(super) fn save(
    path: &Path,
    vault: &Vault,
    format: Format,
    contents: &Contents<'_>,
) -> Result<()> {
    if format == Format::Json {
        vault.check_json(path)?;
    }
    replace(path, vault, |mut out| match format {
        Format::Json => file_json::write(&mut out, contents),
        Format::Binary => file_binary::write(&mut out, contents),
    })
}

/// Writes a temporary file with `write`, encrypted if there is a key, and renames it to `path`.
///
/// # Errors
/// Those of [`save`] and of `write`.
pub(super) fn replace(
    path: &Path,
    vault: &Vault,
    write: impl FnOnce(&mut dyn Write) -> Result<io::Result<()>>,
) -> Result<()> {
    let cipher = vault.begin(Use::Snapshot)?;
    let folder = folder_of(path);
    marmota_store::private_file::have_folder(path, false)?;
    let beside = Beside(folder.join(format!("{}{}.tmp", beside(path)?, std::process::id())));
    let file = marmota_store::private_file::create(&beside.0)
        .and_then(|file| marmota_store::private_file::take_mode(&beside.0, path).map(|()| file))
        .map_err(|error| failed("write", path, error))?;
    let mut out = BufWriter::with_capacity(1 << 16, file);
    let written = match cipher {
        None => write(&mut out)?,
        Some(cipher) => file_sealed::Writer::new(&mut out, cipher)
            .map_err(|error| failed("write", path, error))
            .and_then(|mut out| Ok(write(&mut out)?.and_then(|()| out.finish())))?,
    };
    written
        .and_then(|()| out.flush())
        .and_then(|()| out.get_ref().sync_all())
        .and_then(|()| std::fs::rename(&beside.0, path))
        // The new name is only durable once its folder is synced.
        .and_then(|()| sync_folder(folder))
        .map_err(|error| failed("write", path, error))
}

/// Returns the prefix of the names of temporary files for a path.
fn beside(path: &Path) -> Result<String> {
    match path.file_name() {
        Some(name) => Ok(format!(".{}.", name.display())),
        None => {
            let message = format!("{} names no file to save to", path.display());
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}

/// Removes temporary files of [`replace`] that a killed process has left. The caller needs
/// exclusive access to the file.
pub(super) fn remove_leftovers(path: &Path) -> Result<()> {
    let begin = beside(path)?;
    let Ok(entries) = std::fs::read_dir(folder_of(path)) else { return Ok(()) };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process =
            name.to_str().and_then(|name| name.strip_prefix(&*begin)?.strip_suffix(".tmp"));
        if process.is_some_and(|process| process.bytes().all(|byte| byte.is_ascii_digit())) {
            // A file that cannot be removed has no effect.
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// Returns the folder that contains a file.
pub(super) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Waits until the names in a folder are on the disk.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// A temporary file, removed unless it was renamed to its final name.
struct Beside(PathBuf);

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cold]
pub(super) fn failed(what: &str, path: &Path, error: std::io::Error) -> Error {
    let message = format!("cannot {what} {}: {error}", path.display());
    Error::new(ErrorKind::Io, message).with_source(error)
}

/// The error for a table that would be written in another format than it was loaded from.
#[cold]
pub(super) fn other_format(table: &str, format: &str) -> Error {
    let message = format!(
        "table `{table}` was loaded from a file of another format and no model has asked for it \
         since, so that it cannot be written as {format}; register its model first"
    );
    Error::new(ErrorKind::Unsupported, message)
}

//! Files of a memory engine: which format, how one is written so that a crash
//! leaves the old or the new one whole, and what was read of tables that no
//! model has asked for yet.

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

impl Loaded {
    /// The rows for a table, and what they are called: by its name, or by the
    /// one it had before if that is no other table's.
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

/// What a file says.
pub(super) struct Read {
    pub(super) schema: u32,
    pub(super) tables: BTreeMap<String, Section>,
    /// Of a snapshot that has a log.
    pub(super) link: Option<Link>,
}

/// One table of a file, as it stood there.
pub(super) enum Section {
    Json(Box<serde_json::value::RawValue>),
    Binary(file_binary::Section),
}

impl Section {
    /// Puts the rows into an empty table.
    pub(super) fn fill(&self, rows: &mut TableRows, destructive: &Destructive) -> Result<()> {
        match self {
            Self::Json(text) => file_json::fill(text, rows, destructive),
            Self::Binary(section) => section.fill(rows, destructive),
        }
    }

    /// What it is like, for a plan.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a list that is none of rows.
    pub(super) fn shape(&self) -> Result<Shape> {
        match self {
            Self::Json(text) => file_json::shape(text),
            Self::Binary(section) => Ok(section.shape()),
        }
    }

    /// True if its rows have just the fields of this table, as far as that
    /// can be told.
    pub(super) fn is_shaped_as(&self, rows: &TableRows) -> bool {
        match self {
            Self::Json(_) => false,
            Self::Binary(section) => section.is_shaped_as(rows),
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

/// Reads a file that has no log.
///
/// # Errors
/// [`ErrorKind::Io`] if it cannot be read, [`ErrorKind::Invalid`] if it is
/// damaged or none of ours, or if a log has what is not in it,
/// [`ErrorKind::Denied`] without its key; all name it.
pub(super) fn load(path: &Path, vault: &Vault) -> Result<Loaded> {
    check_without_log(path)?;
    let read = read(path, vault)?;
    Ok(Loaded { path: path.to_owned(), schema: read.schema, tables: read.tables })
}

/// Refuses a file that a log goes on from.
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
/// As [`load`], without a look at logs.
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

/// Writes a file: first beside it, then in its place.
///
/// # Errors
/// [`ErrorKind::Io`] naming it, with the old one untouched;
/// [`ErrorKind::Invalid`] for JSON with a key.
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

/// Has a file written beside another one, encrypted if there is a key, and
/// puts it in its place.
///
/// # Errors
/// As [`save`], or what `write` fails with.
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
        // The new name is only there for good once its folder is written.
        .and_then(|()| sync_folder(folder))
        .map_err(|error| failed("write", path, error))
}

/// How the names of files begin that are written beside another one.
fn beside(path: &Path) -> Result<String> {
    match path.file_name() {
        Some(name) => Ok(format!(".{}.", name.display())),
        None => {
            let message = format!("{} names no file to save to", path.display());
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}

/// Removes what a program that was killed has left of [`replace`]. Only for
/// who has the file alone.
pub(super) fn remove_leftovers(path: &Path) -> Result<()> {
    let begin = beside(path)?;
    let Ok(entries) = std::fs::read_dir(folder_of(path)) else { return Ok(()) };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process =
            name.to_str().and_then(|name| name.strip_prefix(&*begin)?.strip_suffix(".tmp"));
        if process.is_some_and(|process| process.bytes().all(|byte| byte.is_ascii_digit())) {
            // What stays is in nobody's way.
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// The folder that a file is in.
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

/// The file that is written, removed unless it came to its place.
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

/// The refusal to write a table in another format than it was loaded from.
#[cold]
pub(super) fn other_format(table: &str, format: &str) -> Error {
    let message = format!(
        "table `{table}` was loaded from a file of another format and no model has asked for it \
         since, so that it cannot be written as {format}; register its model first"
    );
    Error::new(ErrorKind::Unsupported, message)
}

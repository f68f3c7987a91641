//! Another key for a file, a first one, or none any more.
//!
//! A copy is made beside the file, written anew under the other key, checked
//! in full and put in the file's place in one step. Whenever this is
//! interrupted, the file is either the old one or the new one, whole.

use std::fs::File;
use std::path::{Path, PathBuf};

use marmota_model::{Error, ErrorKind, Result};

use crate::engine::{Sqlite, place_of, text_of};
use crate::ffi::cipher::new_salt;
use crate::ffi::{Connection, Failure, code};
use crate::key::{Key, KeySource, Secret};
use crate::options::Options;
use crate::vault::{Vault, bytes_of};

/// What the copy is called, behind the file's name.
const COPY: &str = ".rekey";

impl Sqlite {
    /// Writes a file anew under another key: `None` as the old one if it is
    /// not encrypted yet, `None` as the new one if it shall no longer be.
    /// Nobody may have it open meanwhile, and the disk needs room for a second
    /// copy.
    ///
    /// The file is replaced in one step, after the copy was read back and
    /// checked in full; a fault before that leaves it as it was. What the file
    /// held before may still stand in blocks of the disk that are free now: to
    /// be sure that a plain text is gone, encrypt from the start, or wipe the
    /// disk.
    ///
    /// # Errors
    /// - [`ErrorKind::NotFound`] if there is no such file.
    /// - [`ErrorKind::Busy`] if anybody has it open.
    /// - [`ErrorKind::Denied`] if the old key is not its key, and
    ///   [`ErrorKind::Invalid`] if it has none.
    /// - [`ErrorKind::Engine`] if it is damaged, [`ErrorKind::Io`] if the disk
    ///   fails or is full.
    ///
    /// ```
    /// use marmota_sqlite::{Key, Sqlite};
    /// # let folder = std::env::temp_dir().join(format!("marmota-rekey-{}", std::process::id()));
    /// let path = folder.join("app.db");
    /// Sqlite::from_url(&format!("sqlite:{}", path.display()))?;
    /// let key = Key::passphrase("correct horse battery staple".to_owned())?;
    /// Sqlite::rekey(&path, None, Some(&key))?;
    /// assert!(Sqlite::from_url(&format!("sqlite:{}", path.display())).is_err());
    /// # std::fs::remove_dir_all(folder).ok();
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn rekey(path: &Path, old: Option<&Key>, new: Option<&Key>) -> Result<()> {
        if !path.is_file() {
            let message = format!("{}: there is no such file", place_of(path));
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        let mut before = open(path, old)?;
        have_alone(&mut before, path)?;
        let content = check(&mut before, path)?;
        let copy = Copy::beside(path)?;
        let at = |failure: Failure| crate::vault::at_place(&failure, &place_of(&copy.0));
        before.execute(&format!("VACUUM INTO {}", quoted(&copy.0)?)).map_err(at)?;
        write_anew(&copy.0, old, new)?;
        let mut after = open(&copy.0, new)?;
        if check(&mut after, &copy.0)? != content {
            let message = format!(
                "{}: the copy under the new key does not hold the same; the file was left as it is",
                place_of(path)
            );
            return Err(Error::new(ErrorKind::Bug, message));
        }
        drop(after);
        // `before` still keeps others out of the file that is replaced.
        put_in_place(&copy.0, path)
    }
}

/// The copy, removed however this ends; once it is in the file's place there
/// is nothing left to remove.
struct Copy(PathBuf);

impl Copy {
    fn beside(path: &Path) -> Result<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push(COPY);
        let copy = Self(name.into());
        // One may be left from a process that was killed.
        match std::fs::remove_file(&copy.0) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(disk(&copy.0, error)),
            _ => Ok(copy),
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn open(path: &Path, key: Option<&Key>) -> Result<Connection> {
    let mut options = Options::default();
    if let Some(key) = key {
        let again = match key.secret() {
            Secret::Raw(bytes) => Key::raw(**bytes),
            Secret::Passphrase(text) => Key::passphrase(text.to_string())?,
        };
        let given = parking_lot::Mutex::new(Some(again));
        let missing = || Error::new(ErrorKind::Bug, "a key was asked for twice");
        options.key = Some(KeySource::new(move || given.lock().take().ok_or_else(missing)));
    }
    let vault = Vault::new(&options);
    let mut connection = vault.open(path)?;
    connection.execute("PRAGMA trusted_schema=OFF").map_err(|failure| vault.at(&failure, path))?;
    // The first that reads the file: here a wrong key is seen.
    text_of(&mut connection, "PRAGMA encoding").map_err(|failure| vault.at(&failure, path))?;
    Ok(connection)
}

/// Has the file without a log, and locked as long as the connection is open.
fn have_alone(connection: &mut Connection, path: &Path) -> Result<()> {
    let at = |failure: Failure| {
        if failure.code() & 0xff == code::BUSY {
            return busy(path);
        }
        crate::vault::at_place(&failure, &place_of(path))
    };
    // A log belongs to the file by its name: it must not outlive the file.
    let mode = text_of(connection, "PRAGMA journal_mode=DELETE").map_err(at)?;
    if mode != "delete" {
        return Err(busy(path));
    }
    connection
        .execute(
            "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=MEMORY; BEGIN EXCLUSIVE; COMMIT",
        )
        .map_err(at)?;
    // Somebody may have come between.
    match text_of(connection, "PRAGMA journal_mode").map_err(at)?.as_str() {
        "memory" => Ok(()),
        _ => Err(busy(path)),
    }
}

#[cold]
fn busy(path: &Path) -> Error {
    let message = format!(
        "{}: it is open elsewhere; close every engine and program that uses it, then change its key",
        place_of(path)
    );
    Error::new(ErrorKind::Busy, message)
}

/// Reads all of the file and says what it holds: its schema, and how many rows
/// each table has.
fn check(connection: &mut Connection, path: &Path) -> Result<String> {
    let at = |failure: Failure| crate::vault::at_place(&failure, &place_of(path));
    let verdict = text_of(connection, "PRAGMA integrity_check(1)").map_err(at)?;
    if verdict != "ok" {
        let message =
            format!("{}: it is damaged ({verdict}); restore a backup first", place_of(path));
        return Err(Error::new(ErrorKind::Engine, message));
    }
    let mut content = String::new();
    let mut counts = Vec::new();
    let schema = "SELECT type, name, coalesce(sql, ''), rootpage FROM sqlite_schema ORDER BY 1, 2";
    connection
        .query(schema, |row| {
            let text = |column| String::from_utf8_lossy(row.at(column).bytes()).into_owned();
            let (kind, name) = (text(0), text(1));
            content.push_str(&format!("{kind} {name} {}\n", text(2)));
            // A virtual table has no page of its own.
            if kind == "table" && row.at(3).int() > 0 {
                counts.push(format!("SELECT count(*) FROM \"{}\"", name.replace('"', "\"\"")));
            }
        })
        .map_err(at)?;
    for count in counts {
        connection
            .query(&count, |row| content.push_str(&format!("{}\n", row.at(0).int())))
            .map_err(at)?;
    }
    Ok(content)
}

/// Changes the key of the copy, which nobody else knows of yet.
fn write_anew(copy: &Path, old: Option<&Key>, new: Option<&Key>) -> Result<()> {
    let at = |failure: Failure| crate::vault::at_place(&failure, &place_of(copy));
    let mut connection = open(copy, old)?;
    connection.execute("PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF").map_err(at)?;
    match new {
        None => connection.change_key(None).map_err(at),
        Some(key) => {
            let salt = new_salt().map_err(at)?;
            let bytes = bytes_of(key, &salt).map_err(at)?;
            connection.change_key(Some((&bytes, &salt))).map_err(at)
        }
    }
}

fn put_in_place(copy: &Path, path: &Path) -> Result<()> {
    let on_disk = || -> std::io::Result<()> {
        let rights = std::fs::metadata(path)?.permissions();
        std::fs::set_permissions(copy, rights)?;
        File::open(copy)?.sync_all()?;
        std::fs::rename(copy, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    };
    on_disk().map_err(|error| disk(path, error))
}

fn disk(path: &Path, error: std::io::Error) -> Error {
    let message = format!("{}: its key was not changed ({error}): check the disk", place_of(path));
    Error::new(ErrorKind::Io, message).with_source(error)
}

/// A path as a text of SQL.
fn quoted(path: &Path) -> Result<String> {
    let text = path.to_str().ok_or_else(|| {
        let message = format!("{}: its path must be UTF-8 to change its key", place_of(path));
        Error::new(ErrorKind::Unsupported, message)
    })?;
    Ok(format!("'{}'", text.replace('\'', "''")))
}

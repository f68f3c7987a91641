//! Restore of a database from a backup, for all engines.
//!
//! The manifest of a backup names the engine, the tables with their numbers of rows, and checksums. It
//! is compared with the files before anything is replaced. The engine then writes the new database
//! next to the old one and renames it, so an interruption leaves one of the two.

use std::collections::BTreeMap;
use std::path::Path;

use marmota_model::{Error, ErrorKind, Result, text};
use marmota_store::backup::Manifest;
use marmota_store::change::renew_feed;
use marmota_store::engine::Engine;

/// The name of a store's first database.
const MAIN: &str = "main";

/// Restores a database from a backup: compares the backup with its manifest, checks it, and
/// installs it at the URL. An existing database is replaced only if `replaces` is true, and no
/// other process may have it open. If the restore is interrupted, the database is either the old
/// one or the new one, complete.
///
/// # Errors
/// - [`ErrorKind::NotFound`] if there is no finished backup with this name.
/// - [`ErrorKind::Engine`] if the backup is damaged.
/// - [`ErrorKind::Invalid`] if the backup is of another engine than the URL, or contains several
///   databases: see [`restore_all`].
/// - [`ErrorKind::Conflict`] if the database exists and `replaces` is false,
///   [`ErrorKind::Busy`] if it is open elsewhere.
/// - [`ErrorKind::Io`] if the disk fails or is full.
///
/// The change feed of the restored database has a new identity: positions from before are refused,
/// because the next commits get the numbers of those that the restore has undone.
///
/// ```
/// use marmota::prelude::*;
///
/// #[derive(Model)]
/// struct Note {
///     id: i64,
///     text: String,
/// }
///
/// let folder = tempfile::tempdir()?;
/// let url = format!("sqlite:{}", folder.path().join("notes.db").display());
/// let builder = || Ok::<_, Error>(marmota::open(&url)?.model::<Note>());
/// let store = builder()?.open()?;
/// store.insert(&Note { id: 0, text: "kept".into() }).run()?;
/// let backup = folder.path().join("backup");
/// store.backup_to(&backup)?;
/// store.delete::<Note>(1).run()?;
/// store.close()?;
///
/// let manifest = marmota::restore(&backup, &url, true)?;
/// assert_eq!(manifest.tables["note"], 1);
/// assert_eq!(builder()?.open()?.get::<Note>(1).run()?.text, "kept");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn restore(backup: impl AsRef<Path>, url: &str, replaces: bool) -> Result<Manifest> {
    restore_all(backup, &[(MAIN, url)], replaces)
}

/// As [`restore`], for a backup of several databases: `urls` has the URL of each by its name in the
/// store; the first is `main`. The whole backup is compared with its manifest before the first
/// database is replaced. The databases are replaced one after the other: repeat an interrupted
/// restore with `replaces`.
///
/// # Errors
/// As [`restore`]; also [`ErrorKind::Invalid`] for a database of the backup without a URL, or a URL
/// whose name is not in the backup.
pub fn restore_all(
    backup: impl AsRef<Path>,
    urls: &[(&str, &str)],
    replaces: bool,
) -> Result<Manifest> {
    let backup = backup.as_ref();
    let manifest = Manifest::of(backup)?;
    let copies = copies_of(&manifest, backup, urls)?;
    manifest.verify(backup)?;
    if let Some(there) = copies.iter().find(|copy| !replaces && is_file(copy.url)) {
        let message = format!(
            "the database {} exists: name another file, or replace the file with `--replace`",
            text::excerpt(path_of(there.url))
        );
        return Err(Error::new(ErrorKind::Conflict, message));
    }
    let mut done: Vec<&str> = Vec::new();
    for copy in &copies {
        copy.put(replaces).map_err(|error| match done.is_empty() {
            true => error,
            false => {
                let message = format!(
                    "database `{}`: {}; already restored: {} (try again with `--replace`)",
                    copy.name,
                    error.message(),
                    done.join(", ")
                );
                Error::new(error.kind(), message).with_source(error)
            }
        })?;
        done.push(copy.name);
    }
    Ok(manifest)
}

/// A database of a backup, and its destination.
struct Copy<'c> {
    /// The name of the database in the store.
    name: &'c str,
    /// The engine that made the copy, as in URLs.
    engine: &'c str,
    /// The file of the copy.
    path: std::path::PathBuf,
    /// The number of rows of each table.
    tables: &'c BTreeMap<String, u64>,
    /// The database to restore.
    url: &'c str,
}

/// Returns the databases of a backup, the first one first, each with its URL.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a database without a URL, a URL without a database, or another engine.
fn copies_of<'c>(
    manifest: &'c Manifest,
    backup: &Path,
    urls: &'c [(&'c str, &'c str)],
) -> Result<Vec<Copy<'c>>> {
    let first = (MAIN, &*manifest.engine, backup.to_owned(), &manifest.tables);
    let others = manifest.others.iter();
    let others = others.map(|it| (&*it.name, &*it.engine, it.path(backup), &it.tables));
    let databases: Vec<_> = std::iter::once(first).chain(others).collect();
    let invalid = |message| Err(Error::new(ErrorKind::Invalid, message));
    let is_of_it = |name: &str| databases.iter().any(|(of, ..)| *of == name);
    if let Some((name, _)) = urls.iter().find(|(name, _)| !is_of_it(name)) {
        let name = text::excerpt(name);
        return invalid(format!("{} has no database `{name}`", backup.display()));
    }
    let mut copies = Vec::new();
    for (name, engine, path, tables) in databases {
        let Some((_, url)) = urls.iter().find(|(of, _)| *of == name) else {
            return invalid(format!(
                "{} has several databases, but no URL for `{name}`: set one with `restore_all` or \
                 `--database {name}=URL`",
                backup.display()
            ));
        };
        if url.split(':').next() != Some(engine) {
            let message = format!(
                "{} is a backup of a database of the engine `{}`: restore it to a URL of this \
                 engine",
                path.display(),
                text::excerpt(engine)
            );
            return invalid(message);
        }
        copies.push(Copy { name, engine, path, tables, url });
    }
    Ok(copies)
}

impl Copy<'_> {
    /// Installs the copy at its URL.
    fn put(&self, replaces: bool) -> Result<()> {
        let Self { url, path, tables, .. } = self;
        match self.engine {
            #[cfg(feature = "sqlite")]
            "sqlite" => {
                marmota_sqlite::Sqlite::restore(url, path, tables, replaces)?;
                renew(&marmota_sqlite::Sqlite::from_url(url)?)
            }
            "memory" => {
                marmota_memory::Memory::restore(url, path, tables, replaces)?;
                renew(&marmota_memory::Memory::from_url(url)?)
            }
            other => {
                let message = format!("this build has no engine `{}`", text::excerpt(other));
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }
}

/// Makes the positions of the change feed invalid: the restored database gives their numbers again.
fn renew(engine: &dyn Engine) -> Result<()> {
    renew_feed(engine).and_then(|()| engine.close())
}

/// Returns the path in a URL, without its scheme and parameters.
fn path_of(url: &str) -> &str {
    let (_, rest) = url.split_once(':').unwrap_or((url, ""));
    let path = rest.split('?').next().unwrap_or_default();
    path.strip_prefix("//").unwrap_or(path)
}

/// Returns true if a URL names an existing file.
fn is_file(url: &str) -> bool {
    let path = path_of(url);
    !path.is_empty() && (Path::new(path).exists() || has_log(path))
}

/// A database of the memory engine may consist of its log alone.
///
/// The first log has the number 1.
fn has_log(path: &str) -> bool {
    Path::new(&format!("{path}.log.1")).exists()
}

/// Returns false for the URL of a missing file: opening it would create it.
pub(crate) fn is_there(url: &str) -> bool {
    match (url.split(':').next(), path_of(url)) {
        (Some("sqlite"), ":memory:") | (Some("memory"), "") => true,
        (Some("sqlite" | "memory"), _) => is_file(url),
        _ => true,
    }
}

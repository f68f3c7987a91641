//! Databases from backups, of whatever engine they are.

use std::collections::BTreeMap;
use std::path::Path;

use marmota_model::{Error, ErrorKind, Result, text};
use marmota_store::backup::Manifest;

/// The name of a store's first database.
const MAIN: &str = "main";

/// Makes a database what a backup has: compares the backup with its manifest,
/// checks it, and puts it in the place that the URL names. What is there is
/// replaced only if `replaces` says so, and nobody may have it open.
/// Whenever this is interrupted, the database is the old one or the new one,
/// whole.
///
/// # Errors
/// - [`ErrorKind::NotFound`] if there is no finished backup of this name.
/// - [`ErrorKind::Engine`] if it is damaged.
/// - [`ErrorKind::Invalid`] if it is of another engine than the URL, or of
///   several databases: see [`restore_all`].
/// - [`ErrorKind::Conflict`] if there is a database and it is not to be
///   replaced, [`ErrorKind::Busy`] if it is open elsewhere.
/// - [`ErrorKind::Io`] if the disk fails or is full.
pub fn restore(backup: impl AsRef<Path>, url: &str, replaces: bool) -> Result<Manifest> {
    restore_all(backup, &[(MAIN, url)], replaces)
}

/// [`restore`] of a backup of several databases: the URL of each, by its name
/// in the store, the first being `main`. All of the backup is compared with
/// its manifest before the first database is replaced. One is replaced after
/// the other: what is interrupted is done again, with `replaces`.
///
/// # Errors
/// As [`restore`]; [`ErrorKind::Invalid`] too for a database of the backup
/// without a URL, or a URL for none of it.
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
            "there is a database {} already: name another file, or have it replaced (`--replace`)",
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
                    "database `{}`: {}; restored before it: {} (do it again with `--replace`)",
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

/// A database of a backup, and where it goes.
struct Copy<'c> {
    name: &'c str,
    engine: &'c str,
    path: std::path::PathBuf,
    tables: &'c BTreeMap<String, u64>,
    url: &'c str,
}

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
                "{} is of several databases, and `{name}` has no place yet: say where it goes, by \
                 `restore_all` or `--database {name}=URL`",
                backup.display()
            ));
        };
        if url.split(':').next() != Some(engine) {
            let message = format!(
                "{} is a backup of a database of the engine `{}`: restore it to a URL that begins \
                 so",
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
    fn put(&self, replaces: bool) -> Result<()> {
        let Self { url, path, tables, .. } = self;
        match self.engine {
            #[cfg(feature = "sqlite")]
            "sqlite" => marmota_sqlite::Sqlite::restore(url, path, tables, replaces),
            "memory" => marmota_memory::Memory::restore(url, path, tables, replaces),
            other => {
                let message = format!("this build has no engine `{}`", text::excerpt(other));
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }
}

fn path_of(url: &str) -> &str {
    let (_, rest) = url.split_once(':').unwrap_or((url, ""));
    let path = rest.split('?').next().unwrap_or_default();
    path.strip_prefix("//").unwrap_or(path)
}

/// Whether a URL names a file that is there.
fn is_file(url: &str) -> bool {
    let path = path_of(url);
    !path.is_empty() && (Path::new(path).exists() || has_log(path))
}

/// A file of the memory engine may be its log alone.
fn has_log(path: &str) -> bool {
    Path::new(&format!("{path}.log.1")).exists()
}

/// False for the URL of a file that is not there: opening it would make it.
pub(crate) fn is_there(url: &str) -> bool {
    match (url.split(':').next(), path_of(url)) {
        (Some("sqlite"), ":memory:") | (Some("memory"), "") => true,
        (Some("sqlite" | "memory"), _) => is_file(url),
        _ => true,
    }
}

//! Backups: checked copies of all committed data with a manifest in a separate file, taken while
//! other callers read and write.
//!
//! The engine makes the copy ([`crate::engine::Engine::copy_to`]). This file has the part that all
//! engines share: it ensures that a file under its final name is complete and on the disk, and
//! writes the manifest last. A copy without a manifest was never finished.
//!
//! A store of several databases has one copy of each, taken one after the other, and one manifest
//! for all. Each copy is a snapshot of one moment, but not of the same moment. No commit of the
//! store is in two databases.
//!
//! ```text
//!  app.backup                    the first database
//!  app.backup.archive            the database `archive`, of a store with several
//!  app.backup.manifest.json      the manifest, written last
//!  .app.backup.tmp               a copy in progress; removed by the next attempt
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use marmota_model::{Error, ErrorKind, Result, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::builder::StoreBuilder;
pub use crate::contract::engine::Copied;
use crate::contract::engine::Engine;
use crate::files::private_file::{folder_of, sync_folder_of};
use crate::files::temporary_file::TemporaryFile;
use crate::store::Store;

/// The name of the format in manifests.
const FORMAT: &str = "marmota-backup";
const VERSION: u32 = 1;
/// The version of a manifest of several databases, so that a program that supports only one
/// database refuses it.
const VERSION_OF_SEVERAL: u32 = 2;
/// The suffix of a manifest's name, after the name of its backup.
const SUFFIX: &str = ".manifest.json";
/// The maximum size of a manifest, which is read as a whole. A longer file is not a manifest.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;

/// The manifest of a backup, in the file `NAME.manifest.json` in the same folder.
///
/// The file is JSON, with the members named like these fields, plus `format` (`marmota-backup`) and
/// `version`: 1 for one database, 2 for several. A program refuses a higher version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    format: String,
    version: u32,
    /// The time when the copy was begun.
    pub taken: String,
    /// The engine of the database: the scheme of its URL.
    pub engine: String,
    /// The version of the engine that wrote it.
    pub engine_version: String,
    /// The version of Marmota that wrote it.
    pub program_version: String,
    /// The version of the models as a whole.
    pub schema_version: u32,
    /// True if it is encrypted.
    pub encrypted: bool,
    /// The size of the backup in bytes.
    pub bytes: u64,
    /// The SHA-256 hash of the backup, in hexadecimal digits.
    pub sha256: String,
    /// The number of rows of each table.
    pub tables: BTreeMap<String, u64>,
    /// The other databases, of a store of several databases; the fields above describe the first
    /// one. Each is in the file `NAME.DATABASE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Other>,
}

/// The description of the backup of one more database.
///
/// The fields have the same meaning as in [`Manifest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Other {
    /// The database's name in the store.
    pub name: String,
    /// The time when its copy was begun.
    pub taken: String,
    /// The engine of the database.
    pub engine: String,
    /// The version of the engine that wrote it.
    pub engine_version: String,
    /// The version of the models as a whole.
    pub schema_version: u32,
    /// True if it is encrypted.
    pub encrypted: bool,
    /// The size of the copy in bytes.
    pub bytes: u64,
    /// The SHA-256 hash of the copy, in hexadecimal digits.
    pub sha256: String,
    /// The number of rows of each table.
    pub tables: BTreeMap<String, u64>,
}

impl Store {
    /// Copies all committed data to a new file, and writes a manifest next to it. Other callers can
    /// read and write meanwhile. The copy has everything that was acknowledged before the call.
    ///
    /// With several databases, each copy is a snapshot of one moment; they are made one after the
    /// other, with one manifest for all. A write to a later database during the backup may be in
    /// its copy although an earlier write to a previous database is not.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Role, Schema};
    /// use marmota_memory::Memory;
    /// use marmota_store::{Store, backup::Manifest};
    /// # let folder = std::env::temp_dir().join(format!("marmota-backup-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    /// let store = Store::builder(Memory::new()).schema(city).open()?;
    /// let file = folder.join("monday.backup");
    /// let manifest = store.backup_to(&file)?;
    /// assert_eq!(manifest.tables["city"], 0);
    /// assert_eq!(Manifest::of(&file)?, manifest);
    /// manifest.verify(&file)?;
    /// # std::fs::remove_dir_all(folder).ok();
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`ErrorKind::Conflict`] if there is a file of this name.
    /// - [`ErrorKind::Engine`] if the database is damaged; then no backup is made.
    /// - [`ErrorKind::Io`] if the disk fails or is full.
    pub fn backup_to(&self, path: impl AsRef<Path>) -> Result<Manifest> {
        self.backup_with(path, &mut |_, _| {})
    }

    /// [`Store::backup_to`] with progress: `progress` receives how many parts (pages of a SQLite
    /// file, rows of the memory engine) of how many are done.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # let folder = std::env::temp_dir().join(format!("marmota-progress-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let city = Schema::new("city", vec![Field::new("id", Kind::I64).role(Role::Key)]);
    /// # let store = Store::builder(Memory::new()).schema(city).open()?;
    /// let manifest = store.backup_with(folder.join("monday"), &mut |done, total| {
    ///     assert!(done <= total);
    /// })?;
    /// assert!(manifest.bytes > 0 && manifest.others.is_empty());
    /// # std::fs::remove_dir_all(folder).ok();
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Store::backup_to`].
    pub fn backup_with(
        &self,
        path: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Manifest> {
        self.core.layers.sessions().check_open()?;
        make(self.engine(), path.as_ref(), progress)
    }
}

impl StoreBuilder {
    /// [`Store::backup_with`] of a database as it is: the tables are not prepared for the models,
    /// and the engine is closed afterwards.
    ///
    /// It is for a copy before an update: the database keeps the form of the older program.
    ///
    /// # Errors
    /// As [`Store::backup_to`].
    pub fn backup_with(
        self,
        path: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Manifest> {
        let engine = self.assemble()?.engine;
        let manifest = make(&*engine, path.as_ref(), progress);
        let closed = engine.close();
        let manifest = manifest?;
        closed.map(|()| manifest)
    }
}

/// Copies all databases of an engine, then writes the manifest. Until that is on the disk,
/// [`Copies`] removes what was copied if a later step fails.
fn make(engine: &dyn Engine, path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Manifest> {
    let databases = engine.databases();
    let (first, others) = match databases.split_first() {
        Some(((_, first), others)) => (*first, others),
        None => (engine, &[][..]),
    };
    let other_paths = others.iter().map(|(name, _)| other_path(path, name));
    for there in other_paths.chain([path.to_owned(), manifest_path(path)]) {
        if there.exists() {
            let message = format!("{} exists already: name another file", there.display());
            return Err(Error::new(ErrorKind::Conflict, message));
        }
    }
    crate::files::private_file::have_folder(path, false)?;
    let mut copies = Copies::default();
    let copy = copies.add(first, path, progress)?;
    let mut manifest = Manifest {
        format: FORMAT.to_owned(),
        version: if others.is_empty() { VERSION } else { VERSION_OF_SEVERAL },
        taken: copy.taken,
        engine: copy.of.engine.to_owned(),
        engine_version: copy.of.engine_version,
        program_version: env!("CARGO_PKG_VERSION").to_owned(),
        schema_version: copy.of.schema_version,
        encrypted: copy.of.encrypted,
        bytes: copy.bytes,
        sha256: copy.sha256,
        tables: copy.of.tables,
        others: Vec::new(),
    };
    for (name, engine) in others {
        let copied = copies.add(*engine, &other_path(path, name), progress);
        let copy = copied.map_err(|error| crate::databases::in_database(name, &error))?;
        manifest.others.push(Other {
            name: (*name).to_owned(),
            taken: copy.taken,
            engine: copy.of.engine.to_owned(),
            engine_version: copy.of.engine_version,
            schema_version: copy.of.schema_version,
            encrypted: copy.of.encrypted,
            bytes: copy.bytes,
            sha256: copy.sha256,
            tables: copy.of.tables,
        });
    }
    manifest.write(&manifest_path(path)).map_err(|error| failed(path, error))?;
    copies.0.clear();
    Ok(manifest)
}

/// The error for a file that cannot be written.
fn failed(path: &Path, error: io::Error) -> Error {
    let message = format!("{}: the backup failed ({error})", path.display());
    Error::new(ErrorKind::Io, message).with_source(error)
}

/// A copy under its final name.
struct Copy {
    taken: String,
    of: Copied,
    bytes: u64,
    sha256: String,
}

/// Files under their final names, which are removed again unless a manifest is written.
#[derive(Default)]
struct Copies(Vec<PathBuf>);

impl Copies {
    /// Copies a database to a temporary name, syncs it, computes its checksum, and renames it. The
    /// folder is synced as well, so that the new name survives a power loss.
    fn add(
        &mut self,
        engine: &dyn Engine,
        path: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Copy> {
        let failed = |error| failed(path, error);
        let temporary = temporary(path).map_err(failed)?;
        let taken = Timestamp::now().to_string();
        let of = engine.copy_to(temporary.path(), progress)?;
        let file = File::open(temporary.path()).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        let (bytes, sha256) = summed(&file).map_err(failed)?;
        std::fs::rename(temporary.path(), path).map_err(failed)?;
        self.0.push(path.to_owned());
        sync_folder_of(path).map_err(failed)?;
        Ok(Copy { taken, of, bytes, sha256 })
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Manifest {
    /// Reads the manifest of a backup.
    ///
    /// `backup` is the path of the backup itself, without the suffix of the manifest. The file is
    /// not compared; see [`Manifest::verify`].
    ///
    /// ```
    /// use marmota_model::ErrorKind;
    /// use marmota_store::backup::Manifest;
    /// let error = Manifest::of("missing.backup".as_ref()).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::NotFound);
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the file is missing, [`ErrorKind::Invalid`] if it is not a
    /// manifest, or one of a newer program.
    pub fn of(backup: &Path) -> Result<Self> {
        let path = manifest_path(backup);
        let refuse =
            |why: String| Error::new(ErrorKind::Invalid, format!("{} {why}", path.display()));
        let mut text = String::new();
        let read = File::open(&path)
            .and_then(|file| file.take(MANIFEST_BYTES_MAX).read_to_string(&mut text));
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let message = format!(
                    "{} is not a backup, or the backup was not finished: {} is missing",
                    backup.display(),
                    path.display()
                );
                return Err(Error::new(ErrorKind::NotFound, message));
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(refuse("is not the manifest of a backup".to_owned()));
            }
            Err(error) => {
                let message = format!("{} cannot be read: {error}", path.display());
                return Err(Error::new(ErrorKind::Io, message).with_source(error));
            }
            Ok(_) => {}
        }
        let manifest: Self = serde_json::from_str(&text)
            .map_err(|error| refuse(format!("is not the manifest of a backup: {error}")))?;
        if manifest.format != FORMAT {
            return Err(refuse(format!("has the unknown format {:?}", manifest.format)));
        }
        if !matches!(manifest.version, VERSION | VERSION_OF_SEVERAL) {
            return Err(refuse(format!(
                "has the version {}, but this program reads versions up to {VERSION_OF_SEVERAL}: \
                 use the program that wrote the backup, or a newer one",
                manifest.version
            )));
        }
        // The names become paths.
        if !manifest.has_sane_names() {
            return Err(refuse("has an invalid name of a database".to_owned()));
        }
        Ok(manifest)
    }

    /// Compares a backup, with all its databases, to its manifest.
    ///
    /// It reads every file completely, and compares its size and SHA-256 hash.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`] if it is another backup, or damaged; [`ErrorKind::Io`] if it cannot be
    /// read.
    pub fn verify(&self, backup: &Path) -> Result<()> {
        verify(backup, self.bytes, &self.sha256)?;
        self.others
            .iter()
            .try_for_each(|other| verify(&other.path(backup), other.bytes, &other.sha256))
    }

    /// Returns true if the names of the databases are safe as parts of file names.
    fn has_sane_names(&self) -> bool {
        self.others.iter().all(|other| crate::databases::is_name(&other.name))
    }

    /// Writes the manifest under a temporary name, syncs and renames it.
    fn write(&self, path: &Path) -> io::Result<()> {
        let temporary = temporary(path)?;
        let mut file = crate::files::private_file::create(temporary.path())?;
        serde_json::to_writer_pretty(&mut file, self)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        std::fs::rename(temporary.path(), path)?;
        sync_folder_of(path)
    }
}

impl Other {
    /// Returns the path of the copy.
    #[must_use]
    pub fn path(&self, backup: &Path) -> PathBuf {
        other_path(backup, &self.name)
    }
}

/// Compares one file with its size and checksum.
fn verify(path: &Path, bytes: u64, sha256: &str) -> Result<()> {
    let found = File::open(path).and_then(|file| summed(&file)).map_err(|error| {
        let message = format!("{} cannot be read: {error}", path.display());
        Error::new(ErrorKind::Io, message).with_source(error)
    })?;
    if (found.0, &*found.1) == (bytes, sha256) {
        return Ok(());
    }
    let message = format!(
        "{} is damaged, or does not belong to its manifest: it has {} bytes instead of {bytes}, \
         and another checksum; use another backup",
        path.display(),
        found.0
    );
    Err(Error::new(ErrorKind::Engine, message))
}

/// Returns the path of the copy of a further database.
fn other_path(backup: &Path, name: &str) -> PathBuf {
    let mut path = backup.as_os_str().to_owned();
    path.push(".");
    path.push(name);
    path.into()
}

/// Returns the path of a backup's manifest.
///
/// ```
/// use std::path::Path;
/// use marmota_store::backup::manifest_path;
/// let path = manifest_path(Path::new("backups/monday"));
/// assert_eq!(path, Path::new("backups/monday.manifest.json"));
/// ```
#[must_use]
pub fn manifest_path(backup: &Path) -> PathBuf {
    let mut name = backup.as_os_str().to_owned();
    name.push(SUFFIX);
    name.into()
}

/// Returns the finished backups in a folder whose names start with `begin`, sorted by name, the
/// newest last.
///
/// Names with a time in UTC, such as `backup-20260704T091500Z`, are sorted by that time.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("marmota-list-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// use marmota_store::backup;
/// std::fs::write(folder.join("backup-2.manifest.json"), "{}")?;
/// std::fs::write(folder.join("backup-1.manifest.json"), "{}")?;
/// // A file without a manifest is not a backup.
/// std::fs::write(folder.join("backup-3"), "")?;
/// let found = backup::in_folder(&folder, "backup-")?;
/// assert_eq!(found, [folder.join("backup-1"), folder.join("backup-2")]);
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Io`] if the folder cannot be read.
pub fn in_folder(folder: &Path, begin: &str) -> Result<Vec<PathBuf>> {
    let failed = |error: io::Error| {
        let message = format!("{} cannot be read: {error}", folder.display());
        Error::new(ErrorKind::Io, message).with_source(error)
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let backup = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
        if let Some(backup) = backup.filter(|name| name.starts_with(begin)) {
            found.push(folder.join(backup));
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the path of a new backup in a folder, which is named by the time:
/// `backup-20260704T091500.123456Z` for the beginning `backup-`.
///
/// ```
/// use std::path::Path;
/// let path = marmota_store::backup::new_in_folder(Path::new("backups"), "backup-");
/// assert!(path.to_string_lossy().starts_with("backups/backup-2"));
/// ```
#[must_use]
pub fn new_in_folder(folder: &Path, begin: &str) -> PathBuf {
    let stamp = Timestamp::now().to_string().replace(['-', ':'], "");
    folder.join(format!("{begin}{stamp}"))
}

/// Removes all backups in a folder whose names start with `begin`, except for the newest `keep`.
/// Returns those that were removed, the newest first.
///
/// # Errors
/// Those of [`in_folder`] and [`remove`].
pub fn keep_newest(folder: &Path, begin: &str, keep: usize) -> Result<Vec<PathBuf>> {
    let backups = in_folder(folder, begin)?;
    let old: Vec<PathBuf> = backups.into_iter().rev().skip(keep).collect();
    old.iter().try_for_each(|backup| remove(backup))?;
    Ok(old)
}

/// Removes a backup. Its manifest is removed first, so that the rest no longer counts as a backup.
///
/// # Errors
/// [`ErrorKind::Io`] if it cannot be removed; the errors of [`Manifest::of`] if it is not known
/// which files belong to it.
pub fn remove(backup: &Path) -> Result<()> {
    let others = Manifest::of(backup)?.others;
    let others = others.iter().map(|other| other.path(backup));
    let files = [manifest_path(backup), backup.to_owned()].into_iter().chain(others);
    files.into_iter().try_for_each(std::fs::remove_file).map_err(|error| {
        let message = format!("{} cannot be removed: {error}", backup.display());
        Error::new(ErrorKind::Io, message).with_source(error)
    })
}

/// Returns the size of a file and its SHA-256 hash (FIPS 180-4) in hexadecimal digits.
fn summed(mut file: &File) -> io::Result<(u64, String)> {
    let mut sum = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => {
                sum.update(&buffer[..read]);
                bytes += read as u64;
            }
        }
    }
    let digits = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((bytes, digits))
}

/// Returns the temporary file for a backup, next to it.
fn temporary(path: &Path) -> io::Result<TemporaryFile> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    TemporaryFile::new(folder_of(path).join(format!(".{}.tmp", name.display())))
}

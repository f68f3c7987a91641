//! Backups: a copy of all that is committed, taken while others go on, checked
//! and with a manifest beside it.
//!
//! The engine makes the copy ([`crate::engine::Engine::copy_to`]); this file
//! has what is the same for all of them: that a file under its final name is
//! whole and on the disk, and the manifest, which is written last. A copy
//! without a manifest was never finished.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use marmota_model::{Error, ErrorKind, Result, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::engine::Engine;
use crate::store::{Store, StoreBuilder};

/// What manifests call their format.
const FORMAT: &str = "marmota-backup";
const VERSION: u32 = 1;
/// What a manifest is called, behind its backup's name.
const SUFFIX: &str = ".manifest.json";
/// A manifest is read whole: one that is longer is none.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;

/// What an engine has copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The engine: the scheme of its URL.
    pub engine: &'static str,
    /// The engine's own version.
    pub engine_version: String,
    /// The version of the models as a whole.
    pub schema_version: u32,
    /// True if the copy is encrypted, with the key of what was copied.
    pub encrypted: bool,
    /// How many rows each table has.
    pub tables: BTreeMap<String, u64>,
}

/// What is known of a backup, in the file `NAME.manifest.json` beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    format: String,
    version: u32,
    /// When it was begun.
    pub taken: String,
    /// The engine it is of: the scheme of its URL.
    pub engine: String,
    /// The version of the engine that wrote it.
    pub engine_version: String,
    /// The version of Marmota that wrote it.
    pub program_version: String,
    /// The version of the models as a whole.
    pub schema_version: u32,
    /// True if it is encrypted.
    pub encrypted: bool,
    /// How long it is.
    pub bytes: u64,
    /// SHA-256 of it, in hexadecimal digits.
    pub sha256: String,
    /// How many rows each table has.
    pub tables: BTreeMap<String, u64>,
}

impl Store {
    /// Copies all that is committed to a new file, with a manifest beside it.
    /// Others go on meanwhile; what is acknowledged before the call is in it.
    ///
    /// ```
    /// use marmota_model::{Field, Kind, Role, Schema};
    /// use marmota_store::{Store, backup::Manifest, memory::Memory};
    /// # let folder = std::env::temp_dir().join(format!("marmota-backup-{}", std::process::id()));
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
    /// - [`ErrorKind::Engine`] if the database is damaged: there is no backup
    ///   of it then.
    /// - [`ErrorKind::Io`] if the disk fails or is full.
    pub fn backup_to(&self, path: impl AsRef<Path>) -> Result<Manifest> {
        self.backup_with(path, &mut |_, _| {})
    }

    /// [`Store::backup_to`] that tells how far it is: how many parts (pages of
    /// a SQLite file, rows of the memory engine) of how many.
    ///
    /// # Errors
    /// As [`Store::backup_to`].
    pub fn backup_with(
        &self,
        path: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Manifest> {
        self.shared.check_open()?;
        make(&*self.shared.engine, path.as_ref(), progress)
    }
}

impl StoreBuilder {
    /// [`Store::backup_with`] of a database as it is: nothing is prepared for
    /// the models, and the engine is closed then.
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

fn make(engine: &dyn Engine, path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Manifest> {
    let failed = |error: io::Error| {
        let message = format!("{}: no backup was made ({error})", path.display());
        Error::new(ErrorKind::Io, message).with_source(error)
    };
    for there in [path, &manifest_path(path)] {
        if there.exists() {
            let message = format!("{} is there already: name another file", there.display());
            return Err(Error::new(ErrorKind::Conflict, message));
        }
    }
    let folder = folder_of(path);
    std::fs::create_dir_all(folder).map_err(failed)?;
    let beside = Beside::of(path).map_err(failed)?;
    let taken = Timestamp::now().to_string();
    let copied = engine.copy_to(&beside.0, progress)?;
    let file = File::open(&beside.0).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    let (bytes, sha256) = summed(&file).map_err(failed)?;
    let manifest = Manifest {
        format: FORMAT.to_owned(),
        version: VERSION,
        taken,
        engine: copied.engine.to_owned(),
        engine_version: copied.engine_version,
        program_version: env!("CARGO_PKG_VERSION").to_owned(),
        schema_version: copied.schema_version,
        encrypted: copied.encrypted,
        bytes,
        sha256,
        tables: copied.tables,
    };
    std::fs::rename(&beside.0, path)
        .and_then(|()| sync(folder))
        .and_then(|()| manifest.write(&manifest_path(path)))
        .map_err(failed)?;
    Ok(manifest)
}

impl Manifest {
    /// The manifest of a backup.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is none, [`ErrorKind::Invalid`] if it
    /// is no manifest, or of a newer program.
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
                    "{} is no backup, or one that was not finished: there is no {}",
                    backup.display(),
                    path.display()
                );
                return Err(Error::new(ErrorKind::NotFound, message));
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(refuse("is no manifest of a backup".to_owned()));
            }
            Err(error) => {
                let message = format!("{} cannot be read: {error}", path.display());
                return Err(Error::new(ErrorKind::Io, message).with_source(error));
            }
            Ok(_) => {}
        }
        let manifest: Self = serde_json::from_str(&text)
            .map_err(|error| refuse(format!("is no manifest of a backup: {error}")))?;
        if manifest.format != FORMAT {
            return Err(refuse(format!("is of the format {:?}", manifest.format)));
        }
        if manifest.version != VERSION {
            return Err(refuse(format!(
                "has the version {}, and this program reads {VERSION}: use the program that wrote \
                 it, or a newer one",
                manifest.version
            )));
        }
        Ok(manifest)
    }

    /// Compares a backup with what its manifest says of it.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`] if it is another, or damaged; [`ErrorKind::Io`] if
    /// it cannot be read.
    pub fn verify(&self, backup: &Path) -> Result<()> {
        let (bytes, sha256) =
            File::open(backup).and_then(|file| summed(&file)).map_err(|error| {
                let message = format!("{} cannot be read: {error}", backup.display());
                Error::new(ErrorKind::Io, message).with_source(error)
            })?;
        if bytes == self.bytes && sha256 == self.sha256 {
            return Ok(());
        }
        let message = format!(
            "{} is damaged, or not the file its manifest is of: it has {bytes} bytes where there \
             were {}, and another checksum; take another backup",
            backup.display(),
            self.bytes
        );
        Err(Error::new(ErrorKind::Engine, message))
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let beside = Beside::of(path)?;
        let mut file = File::create(&beside.0)?;
        serde_json::to_writer_pretty(&mut file, self)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        std::fs::rename(&beside.0, path)?;
        sync(folder_of(path))
    }
}

/// Where the manifest of a backup is.
#[must_use]
pub fn manifest_path(backup: &Path) -> PathBuf {
    let mut name = backup.as_os_str().to_owned();
    name.push(SUFFIX);
    name.into()
}

/// The finished backups in a folder whose names begin so, the newest last by
/// their names.
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

/// Removes a backup, its manifest first: what is left then counts no more.
///
/// # Errors
/// [`ErrorKind::Io`] if it cannot be removed.
pub fn remove(backup: &Path) -> Result<()> {
    std::fs::remove_file(manifest_path(backup)).and_then(|()| std::fs::remove_file(backup)).map_err(
        |error| {
            let message = format!("{} cannot be removed: {error}", backup.display());
            Error::new(ErrorKind::Io, message).with_source(error)
        },
    )
}

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

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The file that is written, removed unless it came to its place. One that a
/// killed process has left is removed as well.
struct Beside(PathBuf);

impl Beside {
    fn of(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let beside = Self(folder_of(path).join(format!(".{}.tmp", name.display())));
        match std::fs::remove_file(&beside.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(beside),
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

//! The file next to a database with its part in a replication: primary or replica.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::private_file;
use serde::{Deserialize, Serialize};

/// The suffix of the file.
const SUFFIX: &str = "-replication.json";

/// The part of a database in a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    Primary,
    Replica,
}

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StateFile {
    pub(crate) role: Role,
    /// The identity of the database.
    pub(crate) database: String,
    pub(crate) epoch: u64,
    /// The last segment that the database has, if it is a replica.
    pub(crate) index: u64,
    /// The chain of that segment.
    pub(crate) chain: u64,
    /// True if the log was overwritten before all of it was in the target.
    #[serde(default)]
    pub(crate) has_gap: bool,
    /// The file after it was closed with everything in the target.
    pub(crate) closed: Option<ClosedFile>,
}

/// A file that has all commits up to a segment, and no log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClosedFile {
    pub(crate) index: u64,
    pub(crate) bytes: u64,
    pub(crate) modified_ns: u64,
}

impl ClosedFile {
    /// Describes a file that has all commits up to the segment.
    pub(crate) fn of(path: &Path, index: u64) -> Option<Self> {
        let file = fs::metadata(path).ok()?;
        let modified = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        let modified_ns = u64::try_from(modified.as_nanos()).ok()?;
        Some(Self { index, bytes: file.len(), modified_ns })
    }
}

impl StateFile {
    /// Returns the state of a replica whose files are incomplete: they are fetched at the next start.
    pub(crate) const fn unfinished_replica() -> Self {
        Self {
            role: Role::Replica,
            database: String::new(),
            epoch: 0,
            index: 0,
            chain: 0,
            has_gap: false,
            closed: None,
        }
    }

    fn path(database: &Path) -> PathBuf {
        let mut name = database.as_os_str().to_owned();
        name.push(SUFFIX);
        name.into()
    }

    /// Reads the file; `None` if it is missing.
    pub(crate) fn read(database: &Path) -> Result<Option<Self>> {
        let path = Self::path(database);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io(&path, error)),
        };
        serde_json::from_slice(&text).map(Some).map_err(|error| {
            let message = format!(
                "{} is damaged ({error}): delete it and the database, and restore the database",
                path.display()
            );
            Error::new(ErrorKind::Engine, message).with_source(error)
        })
    }

    /// Writes the file, all of it or nothing.
    pub(crate) fn write(&self, database: &Path) -> Result<()> {
        let path = Self::path(database);
        let mut new = path.clone().into_os_string();
        new.push(".new");
        let new = PathBuf::from(new);
        let text = serde_json::to_vec(self).map_err(|error| {
            Error::new(ErrorKind::Bug, format!("a state cannot be written: {error}"))
        })?;
        let _ = fs::remove_file(&new);
        let written = private_file::create(&new).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&new, &path)).map_err(|error| io(&path, error))
    }
}

#[cold]
fn io(path: &Path, error: std::io::Error) -> Error {
    let message = format!("{}: {error}", path.display());
    Error::new(ErrorKind::Io, message).with_source(error)
}

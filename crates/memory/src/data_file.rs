//! Files of a memory engine: which format, and how one is read and written. Logs are not known here.

pub(crate) mod binary;
pub(crate) mod binary_section;
pub(crate) mod contents;
mod json;
mod json_section;
pub(crate) mod replace;
pub(crate) mod row_codec;
mod sealed;
pub(crate) mod snapshot;

use std::path::Path;

use marmota_model::{Error, ErrorKind, Result};

use crate::encryption::file_encryption::FileEncryption;
use contents::{Contents, ReadFile};
use replace::{failed, replace};

/// The format in which a file is written. Reading detects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileFormat {
    /// One JSON document with one row per line, which people can read and edit.
    Json,
    /// Compressed and with a checksum: smaller and faster.
    Binary,
}

/// Reads a file.
///
/// # Errors
/// [`ErrorKind::Io`] if it cannot be read, [`ErrorKind::Invalid`] if it is damaged or not a file of
/// the engine, [`ErrorKind::Denied`] without its key; all name it.
pub(crate) fn read(path: &Path, encryption: &FileEncryption) -> Result<ReadFile> {
    let mut bytes = std::fs::read(path).map_err(|error| failed("read", path, error))?;
    let read = if bytes.trim_ascii_start().first() == Some(&b'{') {
        encryption.check_json(path)?;
        json::load(&bytes)
    } else {
        if sealed::is_sealed(&bytes) {
            bytes = sealed::open(bytes, path, encryption)?;
        } else {
            encryption.check_plain(path)?;
        }
        binary::load(&bytes)
    };
    read.map_err(|why| Error::new(ErrorKind::Invalid, format!("{} {why}", path.display())))
}

/// Writes a file: first as a temporary file in the same folder, which is then renamed.
///
/// # Errors
/// [`ErrorKind::Io`] with its path, while the old file is unchanged; [`ErrorKind::Invalid`] for
/// JSON with a key.
pub(crate) fn save(
    path: &Path,
    encryption: &FileEncryption,
    format: FileFormat,
    contents: &Contents<'_>,
) -> Result<()> {
    if format == FileFormat::Json {
        encryption.check_json(path)?;
    }
    replace(path, encryption, |mut out| match format {
        FileFormat::Json => json::write(&mut out, contents),
        FileFormat::Binary => binary::write(&mut out, contents),
    })
}

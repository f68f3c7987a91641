//! Files of collections. A file is written under a temporary name in the same directory, synced,
//! and renamed over the old one, so that a crash leaves either the old or the new file complete.
//! Reads are limited in size.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use marmota_model::{Error, ErrorKind, Result};

/// A counter for unique temporary names: two threads may save to the same name.
static NUMBER: AtomicU64 = AtomicU64::new(0);

pub(crate) fn save(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let Some(name) = path.file_name() else {
        let message = format!("{} is not the path of a file to save to", path.display());
        return Err(Error::new(ErrorKind::Invalid, message));
    };
    let mut temporary = OsString::from(".");
    temporary.push(name);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    temporary.push(format!(".{}-{number}.tmp", std::process::id()));
    let temporary = TemporaryFile(folder.join(temporary));
    File::create(&temporary.0)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&temporary.0, path))
        // The rename is durable only after its directory is synced.
        .and_then(|()| File::open(folder)?.sync_all())
        .map_err(|error| failed("write", path, error))
}

/// Reads the whole file; an error if it has more than `bytes_max` bytes.
pub(crate) fn load(path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes))
        .map_err(|error| failed("read", path, error))?;
    if bytes.len() as u64 > bytes_max {
        let message = format!(
            "{} has more than {bytes_max} bytes, which is the limit; raise `DecodeLimits::bytes_max`",
            path.display()
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(bytes)
}

/// A temporary file, removed on drop unless it was renamed.
struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cold]
fn failed(what: &str, path: &Path, error: std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Io,
    };
    let message = format!("cannot {what} {}: {error}", path.display());
    Error::new(kind, message).with_source(error)
}

//! Writing a file so that a crash leaves the old or the new one whole.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use marmota_model::{Error, ErrorKind, Result};

use super::sealed;
use crate::encryption::file_encryption::FileEncryption;
use crate::encryption::seal::Use;

/// Writes a temporary file with `write`, encrypted if there is a key, and renames it to `path`.
///
/// # Errors
/// Those of [`save`](super::save) and of `write`.
pub(crate) fn replace(
    path: &Path,
    encryption: &FileEncryption,
    write: impl FnOnce(&mut dyn Write) -> Result<io::Result<()>>,
) -> Result<()> {
    let cipher = encryption.begin(Use::Snapshot)?;
    let folder = folder_of(path);
    marmota_store::private_file::have_folder(path, false)?;
    let beside = Beside(folder.join(format!("{}{}.tmp", beside(path)?, std::process::id())));
    let file = marmota_store::private_file::create(&beside.0)
        .and_then(|file| marmota_store::private_file::take_mode(&beside.0, path).map(|()| file))
        .map_err(|error| failed("write", path, error))?;
    let mut out = BufWriter::with_capacity(1 << 16, file);
    let written = match cipher {
        None => write(&mut out)?,
        Some(cipher) => sealed::Writer::new(&mut out, cipher)
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
            let message = format!("{} is not the path of a file to save to", path.display());
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}

/// Removes temporary files of [`replace`] that a killed process has left. The caller needs
/// exclusive access to the file.
pub(crate) fn remove_leftovers(path: &Path) -> Result<()> {
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
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Waits until the names in a folder are on the disk.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
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
pub(crate) fn failed(what: &str, path: &Path, error: std::io::Error) -> Error {
    let message = format!("cannot {what} {}: {error}", path.display());
    Error::new(ErrorKind::Io, message).with_source(error)
}

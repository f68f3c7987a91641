//! Writing a file so that a crash leaves the old or the new one whole.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::private_file::{self, folder_of, sync_folder_of};
use marmota_store::temporary_file::TemporaryFile;

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
    private_file::have_folder(path, false)?;
    let name = format!("{}{}.tmp", temporary_prefix(path)?, std::process::id());
    let temporary = TemporaryFile::new(folder_of(path).join(name))
        .map_err(|error| failed("write", path, error))?;
    let file = private_file::create(temporary.path())
        .and_then(|file| private_file::take_mode(temporary.path(), path).map(|()| file))
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
        .and_then(|()| std::fs::rename(temporary.path(), path))
        // The new name is only durable once its folder is synced.
        .and_then(|()| sync_folder_of(path))
        .map_err(|error| failed("write", path, error))
}

/// Returns the prefix of the names of temporary files for a path.
fn temporary_prefix(path: &Path) -> Result<String> {
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
    let begin = temporary_prefix(path)?;
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

#[cold]
pub(crate) fn failed(what: &str, path: &Path, error: std::io::Error) -> Error {
    let message = format!("cannot {what} {}: {error}", path.display());
    Error::new(ErrorKind::Io, message).with_source(error)
}

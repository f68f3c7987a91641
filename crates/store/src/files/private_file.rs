//! Files and folders of a database. They are created for their owner only (modes 0600 and 0700,
//! less the umask), since they contain rows, including hashes of passwords. Existing files keep
//! their mode.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

use marmota_model::{Error, ErrorKind, Result};

/// Returns options that create a file for its owner only, if they create one.
///
/// The caller adds `read`, `write` and `create`.
#[must_use]
pub fn options() -> OpenOptions {
    #[allow(unused_mut, reason = "file modes exist only on Unix")]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a file, or truncates the existing one.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("marmota-private-{}", std::process::id()));
/// let file = marmota_store::private_file::create(&path)?;
/// # #[cfg(unix)]
/// assert_eq!(std::os::unix::fs::PermissionsExt::mode(&file.metadata()?.permissions()) & 0o077, 0);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Those of the system.
pub fn create(path: &Path) -> io::Result<File> {
    options().write(true).create(true).truncate(true).open(path)
}

/// Gives a new file the mode of the file that it replaces, if that exists.
///
/// # Errors
/// Those of the system.
pub fn take_mode(new: &Path, replaced: &Path) -> io::Result<()> {
    match std::fs::metadata(replaced) {
        Ok(metadata) => std::fs::set_permissions(new, metadata.permissions()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the folder that contains a file.
///
/// ```
/// use std::path::Path;
/// use marmota_store::private_file::folder_of;
/// assert_eq!(folder_of(Path::new("data/app.db")), Path::new("data"));
/// assert_eq!(folder_of(Path::new("app.db")), Path::new("."));
/// ```
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Waits until the names in a file's folder are on the disk, which fsync(2) of the file does not.
///
/// # Errors
/// Those of the system.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

/// Ensures that a file's folder exists; creates it if `creates` is true.
///
/// # Errors
/// [`ErrorKind::Io`] with the folder and an alternative.
pub fn have_folder(path: &Path, creates: bool) -> Result<()> {
    let folder = folder_of(path);
    if folder.is_dir() {
        return Ok(());
    }
    if folder.exists() {
        let message = format!("{} for {} is not a folder", folder.display(), path.display());
        return Err(Error::new(ErrorKind::Io, message));
    }
    if !creates {
        let (file, folder) = (path.display(), folder.display());
        let message = format!(
            "the folder {folder} for {file} does not exist: correct the path, or create the folder \
             (mkdir -p {folder}); in the URL of a database, create_folders=true creates it"
        );
        return Err(Error::new(ErrorKind::Io, message));
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| {
        let message = format!(
            "the folder {} for {} cannot be created ({error}): create it, or choose another",
            folder.display(),
            path.display()
        );
        Error::new(ErrorKind::Io, message).with_source(error)
    })
}

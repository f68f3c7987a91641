//! A file with a temporary name, which is removed unless it gets its final name.

use std::io;
use std::path::{Path, PathBuf};

/// A file with a temporary name. It is removed on drop; after a rename nothing is left to remove.
///
/// ```
/// use marmota_store::temporary_file::TemporaryFile;
///
/// # let folder = std::env::temp_dir().join(format!("marmota-temporary-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let abandoned = TemporaryFile::new(folder.join(".a.tmp"))?;
/// std::fs::write(abandoned.path(), "half")?;
/// drop(abandoned);
/// assert!(!folder.join(".a.tmp").exists());
///
/// let complete = TemporaryFile::new(folder.join(".b.tmp"))?;
/// std::fs::write(complete.path(), "whole")?;
/// std::fs::rename(complete.path(), folder.join("b"))?;
/// drop(complete);
/// assert_eq!(std::fs::read_to_string(folder.join("b"))?, "whole");
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TemporaryFile(PathBuf);

impl TemporaryFile {
    /// Returns the file with this name, which does not exist yet: a file that a killed process has
    /// left there is removed.
    ///
    /// # Errors
    /// Those of the system if that file cannot be removed.
    pub fn new(path: PathBuf) -> io::Result<Self> {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(Self(path)),
        }
    }

    /// Returns the temporary name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // Nothing is there after a rename.
        let _ = std::fs::remove_file(&self.0);
    }
}

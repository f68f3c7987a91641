//! The database of an engine, as the copier of its log uses it.

use std::path::{Path, PathBuf};
use std::sync::Weak;

use marmota_model::Result;
use marmota_store::log_copy::{FillPages, LoggedDatabase};

use super::shared::Shared;
use crate::commit::group_commit::closed;

/// A database in a file.
#[derive(Debug)]
pub(crate) struct LoggedFile {
    pub(crate) path: PathBuf,
    /// The engine has the sink, which has this.
    pub(crate) shared: Weak<Shared>,
}

impl LoggedDatabase for LoggedFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn replace_pages(&self, fill: &mut FillPages<'_>) -> Result<()> {
        let shared = self.shared.upgrade().ok_or_else(closed)?;
        shared.with_open_executor(|executor| executor.replace_pages(fill))
    }
}

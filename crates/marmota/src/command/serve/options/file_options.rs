//! The options of `serve` for the storage of file fields.

use clap::Args;
use marmota_files::{FileOptions, FileStorage};
use marmota_model::Result;

use crate::command::serve::option_values::{hours, minutes, positive};

/// The storage of files. It needs a URL.
#[derive(Args)]
#[command(next_help_heading = "Files")]
pub(crate) struct FileStorageOptions {
    /// Keeps the bytes of file fields in this folder, or in a bucket: FOLDER, file:///FOLDER or
    /// s3://BUCKET/PREFIX; see the guide, 43-files.md
    #[arg(long, value_name = "URL", env = "MARMOTA_FILES")]
    files: Option<String>,
    /// The age from which bytes that no row refers to are removed
    #[arg(long, value_name = "MINUTES", default_value_t = 60, value_parser = positive::<u64>)]
    files_grace_minutes: u64,
    /// The time between two searches for such bytes
    #[arg(long, value_name = "MINUTES", default_value_t = 60, value_parser = positive::<u64>)]
    files_sweep_interval_minutes: u64,
    /// The number of unfinished resumable uploads
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = positive::<usize>)]
    uploads_max: usize,
    /// The total size of unfinished resumable uploads, as their clients announce it
    #[arg(long, value_name = "BYTES", default_value_t = 10_000_000_000,
          value_parser = positive::<u64>)]
    uploads_bytes_max: u64,
    /// The age from which an unfinished resumable upload is removed
    #[arg(long, value_name = "HOURS", default_value_t = 24, value_parser = positive::<u64>)]
    upload_age_max_hours: u64,
}

impl FileStorageOptions {
    /// Returns true if files are stored.
    pub(crate) const fn is_on(&self) -> bool {
        self.files.is_some()
    }

    /// Opens the storage; `None` without a URL.
    ///
    /// # Errors
    /// Those of the folder or the bucket.
    pub(crate) fn open(&self) -> Result<Option<FileStorage>> {
        let options = FileOptions::default()
            .grace(minutes(self.files_grace_minutes))
            .sweep_interval(minutes(self.files_sweep_interval_minutes))
            .uploads_max(self.uploads_max)
            .uploads_bytes_max(self.uploads_bytes_max)
            .upload_age_max(hours(self.upload_age_max_hours));
        self.files.as_deref().map(|url| FileStorage::open_with(url, options)).transpose()
    }
}

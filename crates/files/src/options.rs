//! The settings of a storage of files.

use std::time::Duration;

/// The settings of a storage: limits and times.
///
/// ```
/// use std::time::Duration;
/// use marmota_files::FileOptions;
/// let options = FileOptions::default().grace(Duration::from_secs(7_200)).uploads_max(100);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct FileOptions {
    pub(crate) grace: Duration,
    pub(crate) sweep_interval: Duration,
    pub(crate) uploads_max: usize,
    pub(crate) uploads_bytes_max: u64,
    pub(crate) upload_age_max: Duration,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(60 * 60),
            sweep_interval: Duration::from_secs(60 * 60),
            uploads_max: 1_000,
            uploads_bytes_max: 10_000_000_000,
            upload_age_max: Duration::from_secs(24 * 60 * 60),
        }
    }
}

impl FileOptions {
    /// Sets the age from which a sweep removes bytes that no row has, at least one minute. A file
    /// has to be written to its row within half of this time after its upload. Default: one hour.
    pub fn grace(mut self, age: Duration) -> Self {
        self.grace = age.max(Duration::from_secs(60));
        self
    }

    /// Sets the time between two sweeps. Default: one hour.
    pub const fn sweep_interval(mut self, interval: Duration) -> Self {
        self.sweep_interval = interval;
        self
    }

    /// Sets the maximum number of unfinished resumable uploads. Default: 1,000.
    pub const fn uploads_max(mut self, uploads: usize) -> Self {
        self.uploads_max = uploads;
        self
    }

    /// Sets the maximum total of the announced sizes of unfinished resumable uploads, in bytes.
    /// Default: 10 GB.
    pub const fn uploads_bytes_max(mut self, bytes: u64) -> Self {
        self.uploads_bytes_max = bytes;
        self
    }

    /// Sets the age from which an unfinished resumable upload is removed. Default: 24 hours.
    pub const fn upload_age_max(mut self, age: Duration) -> Self {
        self.upload_age_max = age;
        self
    }
}

//! The files of a database that is restored: its pages, or its file and the logs after it.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;
use std::path::Path;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::log_copy::{LogKind, log_path};
use marmota_store::private_file;

use crate::objects::envelope::damaged;
use crate::objects::segment::{self, LogRange, SegmentBody, SegmentHead};

/// A database that gets the commits after its snapshot.
pub(crate) struct Restoring<'r> {
    kind: LogKind,
    path: &'r Path,
    file: &'r File,
    /// The log of records that is written, with its number and its length.
    log: Option<(File, u64, u64)>,
}

impl<'r> Restoring<'r> {
    /// Creates the database of a file that has the snapshot.
    pub(crate) const fn new(kind: LogKind, path: &'r Path, file: &'r File) -> Self {
        Self { kind, path, file, log: None }
    }

    /// Applies the first commits of a segment.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`] if it does not follow the one before it, with its name;
    /// [`ErrorKind::Io`] if a file cannot be written.
    pub(crate) fn apply(
        &mut self,
        head: &SegmentHead,
        body: &SegmentBody,
        commits: usize,
    ) -> Result<()> {
        if self.kind == LogKind::Pages {
            return apply_pages(self.file, head, body, commits).map_err(|error| self.io(error));
        }
        let Some(last) = commits.checked_sub(1).and_then(|at| body.commits.get(at)) else {
            return Ok(());
        };
        let mut begin = 0;
        for range in body.ranges.iter().take(last.end as usize) {
            let end = begin + range.length as usize;
            let bytes = body.bytes.get(begin..end).unwrap_or_default();
            let is_next = self.append(range, bytes).map_err(|error| self.io(error))?;
            if !is_next {
                let name = segment::object_name(head.index);
                let why = format!("it continues log {} at byte {}", range.log, range.begin);
                return Err(damaged(&name, &why));
            }
            begin = end;
        }
        Ok(())
    }

    /// Writes a piece of a log. Returns false if it does not continue what was written.
    fn append(&mut self, range: &LogRange, bytes: &[u8]) -> io::Result<bool> {
        if range.begin == 0 {
            self.sync()?;
            let file = private_file::create(&log_path(self.path, range.log))?;
            self.log = Some((file, range.log, 0));
        }
        match &mut self.log {
            Some((file, log, length)) if *log == range.log && *length == range.begin => {
                file.write_all(bytes)?;
                *length += bytes.len() as u64;
                Ok(true)
            }
            Some(_) => Ok(false),
            // The end of a log whose content is in the snapshot.
            None => Ok(true),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.log.as_ref().map_or(Ok(()), |(file, ..)| file.sync_all())
    }

    /// Waits until the files are on the disk.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub(crate) fn finish(self) -> Result<()> {
        self.sync().and_then(|()| self.file.sync_all()).map_err(|error| self.io(error))
    }

    fn io(&self, error: io::Error) -> Error {
        let message = format!("{} cannot be written: {error}", self.path.display());
        Error::new(ErrorKind::Io, message).with_source(error)
    }
}

/// Writes the pages of the first commits of a segment to a database's file.
///
/// # Errors
/// Those of the system.
pub(crate) fn apply_pages(
    file: &File,
    head: &SegmentHead,
    body: &SegmentBody,
    commits: usize,
) -> io::Result<()> {
    let Some(last) = commits.checked_sub(1).and_then(|at| body.commits.get(at)) else {
        return Ok(());
    };
    let page_bytes = head.page_bytes as usize;
    let pages = body.bytes.chunks_exact(page_bytes).zip(&body.numbers);
    for (page, &number) in pages.take(last.end as usize) {
        file.write_all_at(page, u64::from(number - 1) * page_bytes as u64)?;
    }
    file.set_len(u64::from(last.database_pages) * page_bytes as u64)
}

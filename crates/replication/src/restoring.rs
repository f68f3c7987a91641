//! The files of a database that is restored: its pages, or its file and the logs after it.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;
use std::path::Path;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::log_copy::{LogEnd, LogKind, LogPiece, log_path};
use marmota_store::private_file;

use crate::objects::envelope::damaged;
use crate::objects::log_position::LogPlace;
use crate::objects::segment::{self, SegmentBody, SegmentHead};
use crate::objects::segment_reader::SegmentReader;
use crate::objects::target::Target;
use crate::state_file::StateFile;

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

    /// Returns a replica, which gets the segments after those that it has.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub(crate) fn of_replica(kind: LogKind, path: &'r Path, file: &'r File) -> Result<Self> {
        let mut replica = Self::new(kind, path, file);
        if kind == LogKind::Records {
            replica.log = last_log(path).map_err(|error| replica.io(error))?;
        }
        Ok(replica)
    }

    /// Returns the end of the log of records.
    pub(crate) fn log_end(&self) -> LogEnd {
        let (log, length) = self.log.as_ref().map_or((0, 0), |(_, log, length)| (*log, *length));
        LogEnd { log, length }
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
        for piece in body.pieces(last.end as usize) {
            let is_next = self.append(piece).map_err(|error| self.io(error))?;
            if !is_next {
                let name = segment::object_name(head.index);
                let why = format!("it continues log {} at byte {}", piece.log, piece.begin);
                return Err(damaged(&name, &why));
            }
        }
        Ok(())
    }

    /// Writes what is new of a piece of a log. Returns false if it does not continue what is there.
    fn append(&mut self, piece: LogPiece<'_>) -> io::Result<bool> {
        let current = self.log.as_ref().map(|(_, log, _)| *log);
        if piece.begin == 0 && current.is_none_or(|log| log < piece.log) {
            self.sync()?;
            let file = private_file::create(&log_path(self.path, piece.log))?;
            self.log = Some((file, piece.log, 0));
        }
        match &mut self.log {
            Some((file, log, length)) if *log == piece.log && piece.begin <= *length => {
                let known = usize::try_from(*length - piece.begin).unwrap_or(usize::MAX);
                let (known, new) = piece.bytes.split_at(known.min(piece.bytes.len()));
                let mut own = vec![0; known.len()];
                if !known.is_empty() {
                    file.read_exact_at(&mut own, piece.begin)?;
                }
                file.write_all(new)?;
                *length += new.len() as u64;
                Ok(own == known)
            }
            // An older log is complete.
            Some((_, log, _)) => Ok(piece.log < *log),
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
    pub(crate) fn finish(&self) -> Result<()> {
        self.sync().and_then(|()| self.file.sync_all()).map_err(|error| self.io(error))
    }

    fn io(&self, error: io::Error) -> Error {
        let message = format!("{} cannot be written: {error}", self.path.display());
        Error::new(ErrorKind::Io, message).with_source(error)
    }
}

/// Opens the last log of a file, with its number and its length.
fn last_log(path: &Path) -> io::Result<Option<(File, u64, u64)>> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let begin = format!("{}.log.", name.display());
    let mut last = None;
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(&*begin)?.parse::<u64>().ok());
        last = last.max(number);
    }
    let Some(log) = last else { return Ok(None) };
    let file = File::options().read(true).append(true).open(log_path(path, log))?;
    let length = file.metadata()?.len();
    Ok(Some((file, log, length)))
}

/// Goes back to the last segment of which the log of a replica has everything: what is incomplete at its
/// end is cut off when it is opened.
///
/// # Errors
/// Those of the target; [`ErrorKind::Engine`] for a damaged segment, with its name.
pub(crate) fn go_back(
    target: &Target,
    segments: &mut SegmentReader,
    end: LogEnd,
    state: &mut StateFile,
) -> Result<()> {
    let mut index = state.index;
    while index >= state.chain.max(1) {
        let Some(found) = segments.find(target, index)? else {
            // The next segment is missing as well then, so a snapshot is fetched.
            state.index = index - 1;
            return Ok(());
        };
        match found.head.log {
            Some(LogPlace::Records(at)) if (at.log, at.length) <= (end.log, end.length) => break,
            Some(_) => {
                index -= 1;
                state.index = index;
            }
            // It has nothing.
            None => index -= 1,
        }
    }
    Ok(())
}

/// Writes the pages of the first commits of a segment to a database's file.
fn apply_pages(
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

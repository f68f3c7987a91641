//! Reads the committed pages of a write-ahead log while SQLite writes it.
//!
//! A page counts once the checksum up to it is right and a commit follows, as when SQLite recovers
//! the log. Checksums cover the pages as they are in the file, encrypted if the database is.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::objects::log_position::{
    FRAME_HEAD_BYTES, FrameHead, LOG_HEAD_BYTES, LogHead, LogPosition, checksum,
};

/// The number of bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// A reader of one log.
#[derive(Debug)]
pub(crate) struct LogReader {
    path: PathBuf,
    file: Option<File>,
    head: Option<LogHead>,
    frames: u32,
    checksum: [u32; 2],
    chunk: Vec<u8>,
}

/// The log that the reader finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// No log, or an empty one.
    Missing,
    /// The one that it reads.
    Same,
    /// Another one, which was begun after `salts`.
    New { salts: [u32; 2] },
}

/// What becomes of a commit that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Took {
    /// It was taken, and the next one is wanted.
    More,
    /// It was taken, and no more are wanted.
    Enough,
    /// It stays in the log.
    Nothing,
}

/// The pages of one commit.
#[derive(Debug)]
pub(crate) struct LoggedPages<'r> {
    pub(crate) numbers: &'r [u32],
    pub(crate) pages: &'r [u8],
    pub(crate) database_pages: u32,
    /// The number of pages of the log up to the end of the commit.
    pub(crate) frames: u32,
}

impl LogReader {
    /// Creates a reader that is before the first log.
    pub(crate) fn new(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        Self {
            path: path.into(),
            file: None,
            head: None,
            frames: 0,
            checksum: [0, 0],
            chunk: Vec::new(),
        }
    }

    /// Goes to the place before the first log.
    pub(crate) fn leave(&mut self) {
        (self.head, self.frames, self.checksum) = (None, 0, [0, 0]);
    }

    /// Returns the position.
    pub(crate) fn position(&self) -> Option<LogPosition> {
        let head = self.head?;
        Some(LogPosition { salts: head.salts, frames: self.frames, checksum: self.checksum })
    }

    /// Returns the size of a page.
    pub(crate) fn page_bytes(&self) -> u32 {
        self.head.map_or(0, |head| head.page_bytes)
    }

    /// Returns the number of pages that were read from this log.
    pub(crate) const fn frames(&self) -> u32 {
        self.frames
    }

    /// Returns the salts of the current log.
    pub(crate) fn salts_now(&mut self) -> io::Result<Option<[u32; 2]>> {
        Ok(self.read_head()?.map(|head| head.salts))
    }

    /// Returns the length of the log file.
    pub(crate) fn log_bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// Looks which log there is.
    pub(crate) fn look(&mut self) -> io::Result<Log> {
        Ok(match self.read_head()? {
            None => Log::Missing,
            Some(head) if self.head.is_some_and(|known| known.salts == head.salts) => Log::Same,
            Some(head) => Log::New { salts: head.salts },
        })
    }

    /// Goes to the beginning of the current log. Returns false if the log is missing.
    pub(crate) fn begin(&mut self) -> io::Result<bool> {
        let head = self.read_head()?;
        self.head = head;
        self.frames = 0;
        self.checksum = head.map_or([0, 0], |head| head.checksum);
        Ok(head.is_some())
    }

    /// Goes to a position. Returns false if the log does not have it.
    pub(crate) fn resume(&mut self, position: &LogPosition) -> io::Result<bool> {
        let Some(head) = self.read_head()?.filter(|head| head.salts == position.salts) else {
            return Ok(false);
        };
        if position.frames > 0 {
            let Some(file) = &self.file else { return Ok(false) };
            let mut bytes = [0; FRAME_HEAD_BYTES];
            let at = offset(head.page_bytes, position.frames - 1);
            if !read_fully(file, &mut bytes, at)? {
                return Ok(false);
            }
            let frame = FrameHead::parse(&bytes);
            if frame.salts != head.salts || frame.checksum != position.checksum {
                return Ok(false);
            }
        }
        (self.head, self.frames, self.checksum) = (Some(head), position.frames, position.checksum);
        Ok(true)
    }

    fn read_head(&mut self) -> io::Result<Option<LogHead>> {
        if self.file.is_none() {
            // Closing it drops no locks: SQLite has none on its log.
            match File::open(&self.path) {
                Ok(file) => self.file = Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let mut bytes = [0; LOG_HEAD_BYTES];
        match &self.file {
            Some(file) if read_fully(file, &mut bytes, 0)? => Ok(LogHead::parse(&bytes)),
            _ => Ok(None),
        }
    }

    /// Reads the commits after the position, as long as `take` wants more. Returns true if it has
    /// read all.
    pub(crate) fn read(
        &mut self,
        mut take: impl FnMut(LoggedPages<'_>) -> Took,
    ) -> io::Result<bool> {
        let (Some(head), Some(file)) = (self.head, &self.file) else { return Ok(true) };
        let frame_bytes = FRAME_HEAD_BYTES + head.page_bytes as usize;
        let (mut numbers, mut pages): (Vec<u32>, Vec<u8>) = (Vec::new(), Vec::new());
        let (mut at, mut sum) = (self.frames, self.checksum);
        let frames_a_chunk = (CHUNK_BYTES / frame_bytes).max(1);
        let mut wanted = frames_a_chunk.min(8);
        loop {
            self.chunk.resize(wanted * frame_bytes, 0);
            let read = read_some(file, &mut self.chunk, offset(head.page_bytes, at))?;
            let complete = read / frame_bytes;
            for frame in self.chunk[..complete * frame_bytes].chunks_exact(frame_bytes) {
                let (of_frame, page) = frame.split_at(FRAME_HEAD_BYTES);
                let parsed = FrameHead::parse(of_frame);
                if parsed.salts != head.salts || parsed.page == 0 {
                    return Ok(true);
                }
                sum = checksum(head.is_big_endian, sum, &of_frame[..8]);
                sum = checksum(head.is_big_endian, sum, page);
                if sum != parsed.checksum {
                    return Ok(true);
                }
                at += 1;
                numbers.push(parsed.page);
                pages.extend_from_slice(page);
                if parsed.database_pages > 0 {
                    let took = take(LoggedPages {
                        numbers: &numbers,
                        pages: &pages,
                        database_pages: parsed.database_pages,
                        frames: at,
                    });
                    if took != Took::Nothing {
                        (self.frames, self.checksum) = (at, sum);
                    }
                    if took != Took::More {
                        return Ok(false);
                    }
                    numbers.clear();
                    pages.clear();
                }
            }
            if complete < wanted {
                return Ok(true);
            }
            wanted = (wanted * 4).min(frames_a_chunk);
        }
    }
}

fn offset(page_bytes: u32, frame: u32) -> u64 {
    LOG_HEAD_BYTES as u64 + u64::from(frame) * (FRAME_HEAD_BYTES as u64 + u64::from(page_bytes))
}

/// Returns false if the file is shorter.
fn read_fully(file: &File, bytes: &mut [u8], at: u64) -> io::Result<bool> {
    Ok(read_some(file, bytes, at)? == bytes.len())
}

/// Reads until the buffer is full or the file ends.
fn read_some(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], at + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

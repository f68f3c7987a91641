//! The end of a log of records: its bytes that are not in a segment yet.
//!
//! The engine reports each record, so the bytes up to a report are complete records. They are copied as
//! they are, with the heads of the logs: so a restored log is the same file, and sealed records stay
//! sealed. What a killed process has left in its logs is copied in pieces of any length: the engine
//! cuts an incomplete record off the end of a log.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use marmota_model::Timestamp;
use marmota_store::log_copy::{LogEnd, log_path};
use xxhash_rust::xxh3::Xxh3Default;

use crate::log::log_tail::{
    Checkpoint, LogLength, LogTail, NextSegment, Note, Notes, PENDING_BYTES_MAX, SEGMENT_BYTES,
};
use crate::objects::log_position::{LogPlace, RecordPosition};
use crate::objects::segment::{CommitEntry, LogRange, SegmentHead};

/// The number of bytes that are read at once.
const CHUNK_BYTES: u64 = 4 << 20;
/// The number of logs whose beginnings are known.
const BEGINNINGS: usize = 64;

/// The end of the logs of a database.
#[derive(Debug)]
pub(crate) struct RecordTail {
    database: PathBuf,
    next: NextSegment,
    /// The log that is read; `None` before the first one of a chain.
    at: Option<ReadLog>,
    /// The last logs, each with the segment before the one in which it begins.
    begun: Vec<(u64, u64)>,
    /// The end of the log when the database was opened.
    opened_at: LogEnd,
    /// The newest log that was reported.
    newest: u64,
    log_bytes_max: u64,
}

/// A log that is read.
struct ReadLog {
    file: File,
    end: LogEnd,
    /// The checksum of everything up to the end.
    checksum: Xxh3Default,
}

impl fmt::Debug for ReadLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadLog").field("end", &self.end).finish_non_exhaustive()
    }
}

impl ReadLog {
    fn open(database: &Path, log: u64) -> io::Result<Self> {
        let file = File::open(log_path(database, log))?;
        Ok(Self { file, end: LogEnd { log, length: 0 }, checksum: Xxh3Default::new() })
    }

    /// Reads up to this length, and appends the bytes.
    fn read(&mut self, length: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
        let begin = bytes.len();
        bytes.resize(begin + usize::try_from(length - self.end.length).unwrap_or(0), 0);
        self.file.read_exact_at(&mut bytes[begin..], self.end.length)?;
        self.checksum.update(&bytes[begin..]);
        self.end.length = length;
        Ok(())
    }
}

impl RecordTail {
    /// Creates a tail that reads nothing until it is started, before the first commit to the database
    /// that was opened. `opened_at` is the end of its log.
    pub(crate) fn new(
        database: &Path,
        opened_at: LogEnd,
        log_bytes_max: u64,
        notes: &Notes,
    ) -> Self {
        // What is there already is read like a commit.
        let time_us = Timestamp::now().micros();
        notes.lock().push_back(Note { end: opened_at, number: None, time_us });
        Self {
            database: database.to_owned(),
            next: NextSegment::default(),
            at: None,
            begun: Vec::new(),
            opened_at,
            newest: opened_at.log,
            log_bytes_max,
        }
    }

    /// Begins to read a log.
    fn begin(&mut self, log: u64) -> io::Result<()> {
        self.at = Some(ReadLog::open(&self.database, log)?);
        if self.begun.len() == BEGINNINGS {
            self.begun.remove(0);
        }
        self.begun.push((log, self.next.index - 1));
        Ok(())
    }

    /// Goes to a position. Returns false if the log does not have exactly the bytes before it.
    fn seek(&mut self, at: &RecordPosition) -> io::Result<bool> {
        let mut log = match ReadLog::open(&self.database, at.log) {
            Ok(log) => log,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if log.file.metadata()?.len() < at.length {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        while log.end.length < at.length {
            bytes.clear();
            log.read(at.length.min(log.end.length + CHUNK_BYTES), &mut bytes)?;
        }
        let is_same = log.checksum.digest() == at.checksum;
        self.at = Some(log);
        Ok(is_same)
    }

    fn capture_up_to(&mut self, notes: &Notes, bytes_max: usize) -> io::Result<bool> {
        if self.next.is_broken || !self.next.is_started {
            return Ok(true);
        }
        let all = loop {
            if self.next.body.bytes.len() >= bytes_max {
                break false;
            }
            let Some(note) = notes.lock().front().copied() else { break true };
            self.newest = self.newest.max(note.end.log);
            let Some(at) = &self.at else {
                self.begin(note.end.log)?;
                continue;
            };
            if at.end.log < note.end.log {
                // The log is complete.
                let length = at.file.metadata()?.len();
                if at.end.length < length {
                    self.read_piece(length, Note { number: None, ..note })?;
                } else {
                    self.begin(at.end.log + 1)?;
                }
            } else if at.end.log == note.end.log && at.end.length < note.end.length {
                self.read_commits(notes, note)?;
            } else {
                notes.lock().pop_front();
            }
        };
        if let Some(at) = self.at.as_ref().filter(|_| !self.next.body.commits.is_empty()) {
            self.next.log = Some(LogPlace::Records(RecordPosition {
                log: at.end.log,
                length: at.end.length,
                checksum: at.checksum.digest(),
                began_after: self.began_after(at.end.log),
            }));
        }
        Ok(all)
    }

    /// Reads the next commits at once, or a piece of a long one.
    fn read_commits(&mut self, notes: &Notes, first: Note) -> io::Result<()> {
        let Some(at) = &mut self.at else { return Ok(()) };
        let limit = at.end.length + CHUNK_BYTES;
        let is_next = |note: &Note| note.end.log == first.end.log && note.end.length <= limit;
        let mut commits = Vec::new();
        {
            let mut notes = notes.lock();
            while let Some(note) = notes.front().copied().filter(is_next) {
                notes.pop_front();
                commits.push(note);
            }
        }
        let Some(last) = commits.last() else { return self.read_piece(first.end.length, first) };
        let mut begin = at.end.length;
        at.read(last.end.length, &mut self.next.body.bytes)?;
        for commit in commits {
            self.add(begin, commit);
            begin = commit.end.length.max(begin);
        }
        Ok(())
    }

    /// Reads a piece of a log up to this length, as a part of a commit.
    fn read_piece(&mut self, length: u64, commit: Note) -> io::Result<()> {
        let Some(at) = &mut self.at else { return Ok(()) };
        let begin = at.end;
        at.read(length.min(begin.length + CHUNK_BYTES), &mut self.next.body.bytes)?;
        let end = at.end;
        self.add(begin.length, Note { end, ..commit });
        Ok(())
    }

    /// Adds a commit whose bytes were read.
    fn add(&mut self, begin: u64, commit: Note) {
        let body = &mut self.next.body;
        let length = u32::try_from(commit.end.length.saturating_sub(begin)).unwrap_or(u32::MAX);
        body.ranges.push(LogRange { log: commit.end.log, begin, length });
        let number = commit.number.map_or(0, std::num::NonZeroU64::get);
        self.next.number = self.next.number.max(number);
        body.commits.push(CommitEntry {
            time_us: commit.time_us,
            number,
            end: u32::try_from(body.ranges.len()).unwrap_or(u32::MAX),
            database_pages: 0,
        });
    }

    /// Returns the segment before the one in which a log begins.
    fn began_after(&self, log: u64) -> u64 {
        let known = self.begun.iter().rfind(|(known, _)| *known == log);
        known.map_or(self.next.chain.saturating_sub(1), |(_, after)| *after)
    }

    /// Returns the length of the logs that are not in the target as a whole.
    fn kept_bytes(&self) -> u64 {
        let first = self.at.as_ref().map_or(self.opened_at.log, |at| at.end.log);
        let length = |log| std::fs::metadata(log_path(&self.database, log)).map_or(0, |f| f.len());
        (first..=self.newest).map(length).sum()
    }
}

impl LogTail for RecordTail {
    fn next(&self) -> &NextSegment {
        &self.next
    }

    fn next_mut(&mut self) -> &mut NextSegment {
        &mut self.next
    }

    fn resume(&mut self, after: &SegmentHead, _: u64, is_closed: bool) -> io::Result<bool> {
        let Some(LogPlace::Records(at)) = &after.log else { return Ok(false) };
        if self.next.is_broken {
            return Ok(false);
        }
        let log = if is_closed { at.log + 1 } else { at.log };
        if is_closed && self.opened_at.log != log || !is_closed && !self.seek(at)? {
            return Ok(false);
        }
        self.next.set(after.index, after.chain, after.number);
        match is_closed {
            true => self.begin(log)?,
            false => self.begun.push((log, at.began_after)),
        }
        Ok(true)
    }

    fn begin_chain(&mut self, index: u64) -> io::Result<()> {
        self.next.set(index, index + 1, self.next.number);
        self.at = None;
        self.begun.clear();
        Ok(())
    }

    fn capture(&mut self, notes: &Notes) -> io::Result<bool> {
        self.capture_up_to(notes, SEGMENT_BYTES)
    }

    fn captured(&self) -> u64 {
        self.at.as_ref().map_or(0, |at| at.end.length)
    }

    fn has_captured(&self, end: LogEnd) -> bool {
        self.at.as_ref().is_some_and(|at| (at.end.log, at.end.length) >= (end.log, end.length))
    }

    fn before_checkpoint(&mut self, notes: &Notes, in_target: u64) -> Checkpoint {
        if self.next.is_broken {
            return Checkpoint::Allowed;
        }
        if let Err(error) = self.capture_up_to(notes, PENDING_BYTES_MAX) {
            self.give_up(notes, &error.to_string());
            return Checkpoint::Allowed;
        }
        self.newest = notes.lock().back().map_or(self.newest, |note| note.end.log);
        // The first bytes of a log are in a segment after all of the logs before it.
        let begun = self.begun.iter().rfind(|(log, _)| *log == self.newest);
        if self.next.is_started && begun.is_some_and(|(_, after)| *after < in_target) {
            return Checkpoint::Allowed;
        }
        if self.kept_bytes() < self.log_bytes_max {
            return Checkpoint::Refused { length: LogLength::TooLong };
        }
        self.give_up(notes, "the target has not accepted the log for too long");
        Checkpoint::Allowed
    }

    fn before_close(&mut self, notes: &Notes, in_target: u64) -> bool {
        let is_read = self.capture_up_to(notes, PENDING_BYTES_MAX).unwrap_or(false);
        let next = &self.next;
        is_read
            && next.is_started
            && !next.is_broken
            && next.body.commits.is_empty()
            && next.index == in_target + 1
    }

    fn copy_begins_after(&self, log: u64) -> u64 {
        match &self.at {
            Some(at) if at.end.log >= log => self.began_after(log),
            // It is not read yet.
            _ => self.next.index.saturating_sub(1),
        }
    }
}

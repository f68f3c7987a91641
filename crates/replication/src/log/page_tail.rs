//! The end of SQLite's log: its pages that are not in a segment yet.
//!
//! The log is overwritten only after all of it is in the target, so that a primary that was killed
//! continues where it was.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::{Duration, Instant};

use marmota_model::Timestamp;
use marmota_store::log_copy::LogEnd;

use crate::log::log_tail::{
    Checkpoint, LogLength, LogTail, NextSegment, Note, Notes, PENDING_BYTES_MAX, SEGMENT_BYTES,
};
use crate::log::reader::{Log, LogReader, Took};
use crate::objects::log_position::{LogPlace, LogPosition};
use crate::objects::segment::{CommitEntry, SegmentHead};

/// The number of pages in the log after which the engine waits a moment for the target: some 64 MB,
/// the length to which SQLite truncates the log as well.
const FRAMES_TO_WAIT: u32 = 16_000;
/// The number of pages after which the target is given the rest at once, so that the wait is short.
const FRAMES_TO_HURRY: u32 = 14_000;
/// The time after which a commit counts as one that is not reported, such as one of another program.
const REPORT_TIMEOUT: Duration = Duration::from_millis(200);

/// The end of a log of pages.
#[derive(Debug)]
pub(crate) struct PageTail {
    reader: LogReader,
    next: NextSegment,
    /// The last segment without a page of the current log. A copy of the file and the segments
    /// after this one give the database.
    log_began_after: u64,
    /// True if the next log continues what was read, although no log was.
    is_at_start: bool,
    /// The number of pages of the log when its content was last moved to the file.
    checkpointed: Option<u32>,
    log_bytes_max: u64,
    /// The number of pages of the log when the engine last waited for the target.
    waited_at: u32,
    /// The end of a commit that was read, but not reported yet, and since when.
    unreported: Option<(u32, Instant)>,
    /// The end of the log when the database was opened: the commits up to there are never reported.
    opened_at: Option<LogPosition>,
}

impl PageTail {
    /// Creates a tail that reads nothing until it is started, before the first commit to the database
    /// that was opened.
    pub(crate) fn new(database: &Path, log_bytes_max: u64) -> io::Result<Self> {
        let mut reader = LogReader::new(database);
        reader.begin()?;
        reader.read(|_| Took::More)?;
        let opened_at = reader.position();
        reader.leave();
        Ok(Self {
            reader,
            opened_at,
            next: NextSegment::default(),
            log_began_after: 0,
            is_at_start: false,
            checkpointed: None,
            log_bytes_max,
            waited_at: 0,
            unreported: None,
        })
    }

    /// Continues after a segment, at a position of the log. Returns false if the log does not have
    /// it, or not all before it: a power cut may have kept a later page, but not an earlier one. A log
    /// that was begun again once since is read from its beginning: a log is begun again only after
    /// all of it was in the target.
    fn resume_at(
        &mut self,
        after: &SegmentHead,
        began_after: u64,
        at: &LogPosition,
    ) -> io::Result<bool> {
        let (index, chain, number) = (after.index, after.chain, after.number);
        if self.reader.resume(at)? {
            let end = self.opened_at.filter(|end| end.salts == at.salts);
            if end.is_some_and(|end| end.frames < at.frames) {
                return Ok(false);
            }
            self.set(index, chain, number);
            self.log_began_after = began_after;
            return Ok(true);
        }
        let follows =
            self.reader.salts_now()?.map(|salts| salts[0]) == Some(at.salts[0].wrapping_add(1));
        if follows {
            self.set(index, chain, number);
            self.reader.begin()?;
        }
        Ok(follows)
    }

    /// Continues after a segment, if the database has no log.
    fn resume_without_log(&mut self, index: u64, chain: u64, number: u64) -> io::Result<bool> {
        if self.reader.look()? != Log::Missing {
            return Ok(false);
        }
        self.set(index, chain, number);
        self.is_at_start = true;
        Ok(true)
    }

    fn set(&mut self, index: u64, chain: u64, number: u64) {
        self.next.set(index, chain, number);
        self.log_began_after = index;
        self.is_at_start = false;
        self.checkpointed = None;
        self.waited_at = 0;
    }

    /// Reads the commits that are new in the log, up to this size. Returns true if it has read all.
    ///
    /// A commit that was not reported yet waits a moment for that: it is in the log before. `is_writer`
    /// is true if no commit is possible meanwhile.
    fn capture_up_to(
        &mut self,
        notes: &Notes,
        bytes_max: usize,
        is_writer: bool,
    ) -> io::Result<bool> {
        if self.next.is_broken || !self.next.is_started {
            return Ok(true);
        }
        match self.reader.look()? {
            Log::Missing => return Ok(true),
            Log::Same => {}
            Log::New { salts } => {
                let continues = match self.reader.position() {
                    None => self.is_at_start,
                    Some(last) => {
                        salts[0] == last.salts[0].wrapping_add(1)
                            && self.checkpointed == Some(last.frames)
                    }
                };
                if !continues {
                    self.give_up(notes, "the log was overwritten by another program");
                    return Ok(true);
                }
                self.reader.begin()?;
                self.log_began_after = self.next.index - 1;
                (self.is_at_start, self.checkpointed, self.waited_at) = (false, None, 0);
            }
        }
        if self.next.body.bytes.len() >= bytes_max {
            return Ok(false);
        }
        let (pending, number) = (&mut self.next.body, &mut self.next.number);
        let now = Timestamp::now().micros();
        let salt = self.reader.position().map_or(0, |at| at.salts[0]);
        let unreported = &mut self.unreported;
        let never_reported =
            self.opened_at.filter(|end| end.salts[0] == salt).map(|end| end.frames);
        let all = self.reader.read(|commit| {
            let end = LogEnd { log: salt.into(), length: commit.frames.into() };
            let note = note_of(&mut notes.lock(), end);
            let may_be_reported = never_reported.is_none_or(|end| commit.frames > end);
            if note.is_none() && !is_writer && may_be_reported {
                let since = match unreported {
                    Some((frames, since)) if *frames == commit.frames => *since,
                    _ => unreported.insert((commit.frames, Instant::now())).1,
                };
                if since.elapsed() < REPORT_TIMEOUT {
                    return Took::Nothing;
                }
            }
            let of_feed = note.and_then(|note| note.number).map_or(0, NonZeroU64::get);
            *number = of_feed.max(*number);
            pending.numbers.extend_from_slice(commit.numbers);
            pending.bytes.extend_from_slice(commit.pages);
            pending.commits.push(CommitEntry {
                time_us: note.map_or(now, |note| note.time_us),
                number: of_feed,
                end: u32::try_from(pending.numbers.len()).unwrap_or(u32::MAX),
                database_pages: commit.database_pages,
            });
            match pending.bytes.len() < bytes_max {
                true => Took::More,
                false => Took::Enough,
            }
        })?;
        self.next.log = self.reader.position().map(LogPlace::Pages);
        self.next.page_bytes = self.reader.page_bytes();
        Ok(all)
    }
}

impl LogTail for PageTail {
    fn next(&self) -> &NextSegment {
        &self.next
    }

    fn next_mut(&mut self) -> &mut NextSegment {
        &mut self.next
    }

    fn resume(
        &mut self,
        after: &SegmentHead,
        began_after: u64,
        is_closed: bool,
    ) -> io::Result<bool> {
        match &after.log {
            _ if self.next.is_broken => Ok(false),
            _ if is_closed => self.resume_without_log(after.index, after.chain, after.number),
            Some(LogPlace::Pages(at)) => self.resume_at(after, began_after, at),
            _ => Ok(false),
        }
    }

    fn begin_chain(&mut self, index: u64) -> io::Result<()> {
        self.set(index, index + 1, self.next.number);
        self.is_at_start = !self.reader.begin()?;
        Ok(())
    }

    fn capture(&mut self, notes: &Notes) -> io::Result<bool> {
        self.capture_up_to(notes, SEGMENT_BYTES, false)
    }

    fn captured(&self) -> u64 {
        self.reader.frames().into()
    }

    fn has_captured(&self, _: LogEnd) -> bool {
        // What is in the file was in a log before, of which all was read.
        true
    }

    fn before_checkpoint(&mut self, notes: &Notes, in_target: u64) -> Checkpoint {
        if self.next.is_broken {
            return Checkpoint::Allowed;
        }
        if !self.next.is_started {
            // It is not known yet what the target has.
            if self.reader.log_bytes() < self.log_bytes_max {
                return Checkpoint::Refused { length: LogLength::Short };
            }
            self.give_up(notes, "the target could not be reached since the start");
            return Checkpoint::Allowed;
        }
        match self.capture_up_to(notes, PENDING_BYTES_MAX, true) {
            Ok(true) if self.next.body.commits.is_empty() && self.next.index == in_target + 1 => {
                self.checkpointed = Some(self.reader.frames());
                Checkpoint::Allowed
            }
            Ok(_) if self.reader.log_bytes() < self.log_bytes_max => {
                let frames = self.reader.frames().saturating_sub(self.waited_at);
                let length = if frames > FRAMES_TO_WAIT {
                    LogLength::TooLong
                } else if frames > FRAMES_TO_HURRY {
                    LogLength::Long
                } else {
                    LogLength::Short
                };
                Checkpoint::Refused { length }
            }
            Ok(_) => {
                self.give_up(notes, "the target has not accepted the log for too long");
                Checkpoint::Allowed
            }
            Err(error) => {
                self.give_up(notes, &error.to_string());
                Checkpoint::Allowed
            }
        }
    }

    fn note_waited(&mut self) {
        self.waited_at = self.reader.frames();
    }

    fn copy_begins_after(&self, _: u64) -> u64 {
        self.log_began_after
    }
}

/// Returns the note of the commit that ends here, and removes it and those before it.
fn note_of(notes: &mut VecDeque<Note>, end: LogEnd) -> Option<Note> {
    let at = notes.iter().position(|note| note.end == end)?;
    notes.drain(..at);
    notes.pop_front()
}

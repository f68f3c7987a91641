//! The end of a database's log: the pages that were read from it and are not in a segment yet.
//!
//! The log is overwritten only after all of it is in the target, so that a primary that was killed
//! continues where it was. The engine's own thread looks for that, so this is shared by that thread
//! and the replicator's.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use marmota_model::Timestamp;
use parking_lot::Mutex;

use crate::log::reader::{Log, LogReader, Took};
use crate::objects::log_position::LogPosition;
use crate::objects::segment::{CommitEntry, SegmentBody};

/// The bytes of pages after which a segment is complete.
const SEGMENT_BYTES: usize = 16 << 20;
/// The bytes of pages that are kept in memory while the target cannot be reached. Beyond that the
/// log itself keeps them.
const PENDING_BYTES_MAX: usize = 64 << 20;

/// The number of pages in the log after which the engine waits a moment for the target: some 64 MB,
/// the length to which SQLite truncates the log as well.
const FRAMES_TO_WAIT: u32 = 16_000;
/// The number of pages after which the target is given the rest at once, so that the wait is short.
const FRAMES_TO_HURRY: u32 = 14_000;
/// The time after which a commit counts as one that is not reported, such as one of another program.
const REPORT_TIMEOUT: Duration = Duration::from_millis(200);

/// A commit that the engine has reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    /// The first salt of the log.
    pub(crate) salt: u32,
    /// The number of pages of the log after it.
    pub(crate) frames: u32,
    pub(crate) number: Option<NonZeroU64>,
    pub(crate) time_us: i64,
}

impl Note {
    /// Returns true if both end at the same place of a log: the later commit wrote nothing.
    pub(crate) const fn is_of_same_commit(&self, other: &Self) -> bool {
        self.salt == other.salt && self.frames == other.frames
    }
}

/// The reported commits that were not read yet.
pub(crate) type Notes = Mutex<VecDeque<Note>>;

/// Whether the content of the log may be moved to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checkpoint {
    /// It may: all of it is in the target, or a new chain begins.
    Allowed,
    /// Not yet.
    Refused { length: LogLength },
}

/// The length of a log that is not in the target yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogLength {
    Short,
    /// The target should have it soon.
    Long,
    /// It is better to wait for the target.
    TooLong,
}

/// The end of a log.
#[derive(Debug)]
pub(crate) struct Tail {
    reader: LogReader,
    pending: SegmentBody,
    /// The end of the pending pages in the log.
    log: Option<LogPosition>,
    /// The number of the segment that the pending pages become.
    next_index: u64,
    /// The number of the first segment of the chain.
    chain: u64,
    /// The last segment without a page of the current log. A copy of the file and the segments
    /// after this one give the database.
    log_began_after: u64,
    /// True if the next log continues what was read, although no log was.
    is_at_start: bool,
    /// The number of pages of the log when its content was last moved to the file.
    checkpointed: Option<u32>,
    /// True once it reads the log after a segment.
    is_started: bool,
    /// True if pages are missing, so that a new chain has to begin.
    is_broken: bool,
    /// The number of the last commit in the change feed.
    number: u64,
    log_bytes_max: u64,
    /// The number of pages of the log when the engine last waited for the target.
    waited_at: u32,
    /// The end of a commit that was read, but not reported yet, and since when.
    unreported: Option<(u32, Instant)>,
    /// The end of the log when the database was opened: the commits up to there are never reported.
    opened_at: Option<LogPosition>,
}

/// The content of the next segment.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) index: u64,
    pub(crate) chain: u64,
    pub(crate) body: SegmentBody,
    pub(crate) log: Option<LogPosition>,
    pub(crate) page_bytes: u32,
    pub(crate) number: u64,
}

impl Tail {
    /// Creates a tail that reads nothing until it is started, before the first commit to the database
    /// that was opened.
    pub(crate) fn new(mut reader: LogReader, log_bytes_max: u64) -> io::Result<Self> {
        reader.begin()?;
        reader.read(|_| Took::More)?;
        let opened_at = reader.position();
        reader.leave();
        Ok(Self {
            reader,
            opened_at,
            pending: SegmentBody::default(),
            log: None,
            next_index: 0,
            chain: 0,
            log_began_after: 0,
            is_at_start: false,
            checkpointed: None,
            is_started: false,
            is_broken: false,
            number: 0,
            log_bytes_max,
            waited_at: 0,
            unreported: None,
        })
    }

    /// Continues after a segment, at a position of the log. Returns false if the log does not have
    /// it, or not all before it: a power cut may have kept a later page, but not an earlier one. A log that was begun again once since is read from its beginning: a log is begun again
    /// only after all of it was in the target.
    pub(crate) fn resume(
        &mut self,
        index: u64,
        chain: u64,
        number: u64,
        at: &LogPosition,
    ) -> io::Result<bool> {
        if self.is_broken {
            return Ok(false);
        }
        if self.reader.resume(at)? {
            let end = self.opened_at.filter(|end| end.salts == at.salts);
            if end.is_some_and(|end| end.frames < at.frames) {
                return Ok(false);
            }
            self.set(index, chain, number);
            // The log may have begun in any earlier segment of the chain.
            self.log_began_after = chain.saturating_sub(1);
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
    pub(crate) fn resume_without_log(
        &mut self,
        index: u64,
        chain: u64,
        number: u64,
    ) -> io::Result<bool> {
        if self.is_broken || self.reader.look()? != Log::Missing {
            return Ok(false);
        }
        self.set(index, chain, number);
        self.is_at_start = true;
        Ok(true)
    }

    /// Begins a new chain after a segment, at the beginning of the current log.
    pub(crate) fn begin_chain(&mut self, index: u64) -> io::Result<()> {
        self.set(index, index + 1, self.number);
        self.is_at_start = !self.reader.begin()?;
        Ok(())
    }

    fn set(&mut self, index: u64, chain: u64, number: u64) {
        self.pending = SegmentBody::default();
        self.log = None;
        (self.next_index, self.chain, self.number) = (index + 1, chain, number);
        self.log_began_after = index;
        self.is_at_start = false;
        self.checkpointed = None;
        self.waited_at = 0;
        (self.is_started, self.is_broken) = (true, false);
    }

    /// Returns true if pages are missing.
    pub(crate) const fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Returns the number of the first segment of the chain.
    pub(crate) const fn chain(&self) -> u64 {
        self.chain
    }

    /// Returns the number of pages that were read from the current log.
    pub(crate) const fn frames(&self) -> u32 {
        self.reader.frames()
    }

    /// Returns the segment after which a copy of the file begins that is made from now on.
    pub(crate) const fn copy_begins_after(&self) -> u64 {
        self.log_began_after
    }

    /// Returns the segment with which a copy of the file is complete that was made until now.
    pub(crate) fn copy_ends_with(&self) -> u64 {
        if self.pending.commits.is_empty() { self.next_index - 1 } else { self.next_index }
    }

    /// Reads the commits that are new in the log, up to the size of a segment. Returns true if it
    /// has read all.
    ///
    /// A commit that was not reported yet waits a moment for that: it is in the log before.
    pub(crate) fn capture(&mut self, notes: &Notes) -> io::Result<bool> {
        self.capture_up_to(notes, SEGMENT_BYTES, false)
    }

    fn capture_up_to(
        &mut self,
        notes: &Notes,
        bytes_max: usize,
        is_writer: bool,
    ) -> io::Result<bool> {
        if self.is_broken || !self.is_started {
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
                self.log_began_after = self.next_index - 1;
                (self.is_at_start, self.checkpointed, self.waited_at) = (false, None, 0);
            }
        }
        if self.pending.pages.len() >= bytes_max {
            return Ok(false);
        }
        let (pending, number) = (&mut self.pending, &mut self.number);
        let now = Timestamp::now().micros();
        let salt = self.reader.position().map_or(0, |at| at.salts[0]);
        let unreported = &mut self.unreported;
        let never_reported =
            self.opened_at.filter(|end| end.salts[0] == salt).map(|end| end.frames);
        let all = self.reader.read(|commit| {
            let note = note_of(&mut notes.lock(), salt, commit.frames);
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
            pending.pages.extend_from_slice(commit.pages);
            pending.commits.push(CommitEntry {
                time_us: note.map_or(now, |note| note.time_us),
                number: of_feed,
                pages_end: u32::try_from(pending.numbers.len()).unwrap_or(u32::MAX),
                database_pages: commit.database_pages,
            });
            match pending.pages.len() < bytes_max {
                true => Took::More,
                false => Took::Enough,
            }
        })?;
        self.log = self.reader.position();
        Ok(all)
    }

    /// Looks whether the content of the log may be moved to the file, after which it may be
    /// overwritten. `in_target` is the number of the last segment that is in the target.
    pub(crate) fn before_checkpoint(&mut self, notes: &Notes, in_target: u64) -> Checkpoint {
        if self.is_broken {
            return Checkpoint::Allowed;
        }
        if !self.is_started {
            // It is not known yet what the target has.
            if self.reader.log_bytes() < self.log_bytes_max {
                return Checkpoint::Refused { length: LogLength::Short };
            }
            self.give_up(notes, "the target could not be reached since the start");
            return Checkpoint::Allowed;
        }
        match self.capture_up_to(notes, PENDING_BYTES_MAX, true) {
            Ok(true) if self.pending.commits.is_empty() && self.next_index == in_target + 1 => {
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

    /// Records that the engine waited for the target because of the length of the log.
    pub(crate) fn note_waited(&mut self) {
        self.waited_at = self.reader.frames();
    }

    /// Takes what was read, for the next segment.
    pub(crate) fn take(&mut self) -> Option<Taken> {
        if self.pending.commits.is_empty() {
            return None;
        }
        let index = self.next_index;
        self.next_index += 1;
        Some(Taken {
            index,
            chain: self.chain,
            body: mem::take(&mut self.pending),
            log: self.log,
            page_bytes: self.reader.page_bytes(),
            number: self.number,
        })
    }

    /// Drops what was read: a new chain has to begin, with a snapshot.
    #[cold]
    pub(crate) fn give_up(&mut self, notes: &Notes, why: &str) {
        log::warn!("replication: {why}: a new snapshot follows");
        self.is_broken = true;
        self.pending = SegmentBody::default();
        notes.lock().clear();
    }
}

/// Returns the note of the commit that ends here, and removes it and those before it.
fn note_of(notes: &mut VecDeque<Note>, salt: u32, frames: u32) -> Option<Note> {
    let at = notes.iter().position(|note| note.salt == salt && note.frames == frames)?;
    notes.drain(..at);
    notes.pop_front()
}

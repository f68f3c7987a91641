//! The end of a database's log: what was read from it and is not in a segment yet.
//!
//! The engine's own thread looks for that as well, when it decides whether a log may be overwritten or
//! deleted, so this is shared by that thread and the replicator's.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::mem;
use std::num::NonZeroU64;

use marmota_store::log_copy::LogEnd;
use parking_lot::Mutex;

use crate::objects::log_position::LogPlace;
use crate::objects::segment::{SegmentBody, SegmentHead};

/// The bytes after which a segment is complete.
pub(crate) const SEGMENT_BYTES: usize = 16 << 20;
/// The bytes that are kept in memory while the target cannot be reached. Beyond that the log itself
/// keeps them.
pub(crate) const PENDING_BYTES_MAX: usize = 64 << 20;

/// A commit that the engine has reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    /// Its end in the log.
    pub(crate) end: LogEnd,
    pub(crate) number: Option<NonZeroU64>,
    pub(crate) time_us: i64,
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

/// The segment that is made next.
#[derive(Debug, Default)]
pub(crate) struct NextSegment {
    pub(crate) body: SegmentBody,
    /// The end of the body in the log.
    pub(crate) log: Option<LogPlace>,
    pub(crate) page_bytes: u32,
    pub(crate) index: u64,
    /// The number of the first segment of the chain.
    pub(crate) chain: u64,
    /// The number of the last commit in the change feed.
    pub(crate) number: u64,
    /// True once the log is read after a segment.
    pub(crate) is_started: bool,
    /// True if a part of the log is missing, so that a new chain has to begin.
    pub(crate) is_broken: bool,
}

impl NextSegment {
    /// Continues after a segment.
    pub(crate) fn set(&mut self, index: u64, chain: u64, number: u64) {
        let page_bytes = self.page_bytes;
        let index = index + 1;
        *self = Self { index, chain, number, is_started: true, page_bytes, ..Self::default() };
    }

    /// Drops what was read: a new chain has to begin, with a snapshot.
    #[cold]
    pub(crate) fn give_up(&mut self, notes: &Notes, why: &str) {
        log::warn!("replication: {why}: a new snapshot follows");
        self.is_broken = true;
        self.body = SegmentBody::default();
        notes.lock().clear();
    }
}

/// The content of the next segment.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) index: u64,
    pub(crate) chain: u64,
    pub(crate) body: SegmentBody,
    pub(crate) log: Option<LogPlace>,
    pub(crate) page_bytes: u32,
    pub(crate) number: u64,
}

/// The end of a log of one kind.
pub(crate) trait LogTail: Debug + Send {
    /// Returns the segment that is made next.
    fn next(&self) -> &NextSegment;

    /// As [`LogTail::next`].
    fn next_mut(&mut self) -> &mut NextSegment;

    /// Continues after a segment. Returns false if the database does not have exactly the log that
    /// is in the target. The log did not begin before the segment that follows `began_after`.
    /// `is_closed` is true if the database's file has all commits up to the segment.
    fn resume(
        &mut self,
        after: &SegmentHead,
        began_after: u64,
        is_closed: bool,
    ) -> io::Result<bool>;

    /// Begins a new chain after a segment.
    fn begin_chain(&mut self, index: u64) -> io::Result<()>;

    /// Reads the commits that are new in the log, up to the size of a segment. Returns true if it
    /// has read all.
    fn capture(&mut self, notes: &Notes) -> io::Result<bool>;

    /// Returns the length of the current log that was read.
    fn captured(&self) -> u64;

    /// Returns true if the log was read up to here.
    fn has_captured(&self, end: LogEnd) -> bool;

    /// Looks whether the engine may overwrite or delete what it has in its file. `in_target` is the
    /// number of the last segment that is in the target.
    fn before_checkpoint(&mut self, notes: &Notes, in_target: u64) -> Checkpoint;

    /// Returns true if all of the log is in the target, so that the engine may remove it at its end.
    fn before_close(&mut self, notes: &Notes, in_target: u64) -> bool {
        // No commit is possible meanwhile: nothing may be new.
        self.before_checkpoint(notes, in_target) == Checkpoint::Allowed && !self.next().is_broken
    }

    /// Records that the engine waited for the target because of the length of the log.
    fn note_waited(&mut self) {}

    /// Returns the segment after which a copy of the file begins that is made from now on, with this
    /// log after it.
    fn copy_begins_after(&self, log: u64) -> u64;

    /// Returns the segment with which a copy of the file is complete that was made until now.
    fn copy_ends_with(&self) -> u64 {
        let next = self.next();
        if next.body.commits.is_empty() { next.index - 1 } else { next.index }
    }

    /// Drops what was read: a new chain has to begin, with a snapshot.
    fn give_up(&mut self, notes: &Notes, why: &str) {
        self.next_mut().give_up(notes, why);
    }

    /// Takes what was read, for the next segment.
    fn take(&mut self) -> Option<Taken> {
        let next = self.next_mut();
        if next.body.commits.is_empty() {
            return None;
        }
        let index = next.index;
        next.index += 1;
        Some(Taken {
            index,
            chain: next.chain,
            body: mem::take(&mut next.body),
            log: next.log,
            page_bytes: next.page_bytes,
            number: next.number,
        })
    }
}

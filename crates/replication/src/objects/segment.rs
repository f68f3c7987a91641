//! A segment: consecutive commits of a database, as the pages or the records that they have written.
//!
//! The segments of a target are numbered from 1 without gaps. Each is created only if its number is
//! free, so the target itself decides which of two primaries continues: the other one finds its
//! number taken.
//!
//! The body has an entry for each commit (time, number in the change feed, end of its pages, size of
//! the database), the number of each page, and the pages ([`page_versions`]). For a log of records, it
//! has the place of each record instead of a page's number, and the bytes of the log.

use marmota_model::Result;
use marmota_store::log_copy::{LogKind, LogPiece};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3Default;

use crate::objects::envelope::{self, Encoding, damaged};
use crate::objects::log_position::LogPlace;
use crate::objects::page_versions::{self, KnownPages};

/// The format of segments that this program writes.
pub(crate) const FORMAT: u32 = 2;
/// The folder of segments.
pub(crate) const SEGMENTS: &str = "segments";

/// Returns the name of a segment in its folder. Names are ordered like the numbers.
pub(crate) fn file_name(index: u64) -> String {
    format!("{index:020}")
}

/// Returns the name of a segment in the target.
pub(crate) fn object_name(index: u64) -> String {
    format!("{SEGMENTS}/{index:020}")
}

/// [`LogKind`] in the heads of objects.
#[derive(Serialize, Deserialize)]
#[serde(remote = "LogKind", rename_all = "lowercase")]
pub(crate) enum LogKindText {
    Pages,
    Records,
}

/// The head of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentHead {
    pub(crate) format: u32,
    /// What the body has.
    #[serde(default, with = "LogKindText")]
    pub(crate) kind: LogKind,
    /// The identity of the database, a random number in hexadecimal.
    pub(crate) database: String,
    /// The number of primaries that the database has had.
    pub(crate) epoch: u64,
    /// The run of the primary that wrote the segment: a random number in hexadecimal.
    pub(crate) writer: String,
    /// The name of the writer's machine and its process, for messages.
    pub(crate) host: String,
    pub(crate) index: u64,
    /// The number of the segment that began its chain. Commits before a chain may be missing: it
    /// follows only a snapshot.
    pub(crate) chain: u64,
    /// True if the segment begins an epoch, and has no pages.
    pub(crate) begins_epoch: bool,
    /// The time of the last commit, in microseconds since 1970; that of the segment if it has none.
    pub(crate) time_us: i64,
    /// The number of the last commit in the change feed so far; 0 if unknown.
    pub(crate) number: u64,
    /// The size of a page.
    pub(crate) page_bytes: u32,
    pub(crate) commits: u32,
    /// The number of pages, or of the pieces of a log of records.
    pub(crate) pages: u32,
    /// The end of the last commit in the log of the primary.
    pub(crate) log: Option<LogPlace>,
    pub(crate) encoding: Encoding,
    /// The length of the body before compression.
    pub(crate) body_bytes: u64,
}

/// A commit in a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommitEntry {
    /// The time, in microseconds since 1970.
    pub(crate) time_us: i64,
    /// The number in the change feed; 0 if it has none.
    pub(crate) number: u64,
    /// The number of pages, or of pieces of the log, of the segment up to the end of the commit.
    pub(crate) end: u32,
    /// The number of pages of the database after the commit.
    pub(crate) database_pages: u32,
}

const ENTRY_BYTES: usize = 24;

impl CommitEntry {
    fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.time_us.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.end.to_le_bytes());
        bytes[20..].copy_from_slice(&self.database_pages.to_le_bytes());
        bytes
    }
}

/// A piece of a log of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogRange {
    /// The number of the log.
    pub(crate) log: u64,
    /// The position in the log at which it begins.
    pub(crate) begin: u64,
    pub(crate) length: u32,
}

const RANGE_BYTES: usize = 20;

impl LogRange {
    fn to_bytes(self) -> [u8; RANGE_BYTES] {
        let mut bytes = [0; RANGE_BYTES];
        bytes[..8].copy_from_slice(&self.log.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.begin.to_le_bytes());
        bytes[16..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        Self {
            log: u64::from_le_bytes(field(bytes, 0)),
            begin: u64::from_le_bytes(field(bytes, 8)),
            length: u32::from_le_bytes(field(bytes, 16)),
        }
    }
}

/// The commits of a segment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentBody {
    pub(crate) commits: Vec<CommitEntry>,
    /// The numbers of the pages; empty for a log of records.
    pub(crate) numbers: Vec<u32>,
    /// The pieces of a log of records; empty for a log of pages.
    pub(crate) ranges: Vec<LogRange>,
    /// The pages in the order of `numbers`, or the pieces in the order of `ranges`.
    pub(crate) bytes: Vec<u8>,
}

impl SegmentBody {
    /// Returns the first pieces of a log of records.
    pub(crate) fn pieces(&self, count: usize) -> impl Iterator<Item = LogPiece<'_>> {
        let mut rest = &*self.bytes;
        self.ranges.iter().take(count).map(move |range| {
            let bytes;
            (bytes, rest) = rest.split_at((range.length as usize).min(rest.len()));
            LogPiece { log: range.log, begin: range.begin, bytes }
        })
    }

    /// Returns a checksum of the commits and the pages.
    pub(crate) fn checksum(&self) -> u64 {
        let mut hasher = Xxh3Default::new();
        for commit in &self.commits {
            hasher.update(&commit.to_bytes());
        }
        for number in &self.numbers {
            hasher.update(&number.to_le_bytes());
        }
        for range in &self.ranges {
            hasher.update(&range.to_bytes());
        }
        hasher.update(&self.bytes);
        hasher.digest()
    }

    /// Encodes the body. `known` has the pages of the segments before it in the same object.
    pub(crate) fn encode(&self, page_bytes: u32, known: &KnownPages) -> Vec<u8> {
        let (entries, numbers) = (self.commits.len() * ENTRY_BYTES, self.numbers.len() * 4);
        let mut bytes = Vec::with_capacity(entries + numbers + self.bytes.len() / 4);
        for commit in &self.commits {
            bytes.extend_from_slice(&commit.to_bytes());
        }
        for number in &self.numbers {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        if !self.ranges.is_empty() {
            for range in &self.ranges {
                bytes.extend_from_slice(&range.to_bytes());
            }
            bytes.extend_from_slice(&self.bytes);
            return bytes;
        }
        let page_bytes = page_bytes as usize;
        page_versions::encode(known, &self.numbers, &self.bytes, page_bytes, &mut bytes);
        bytes
    }

    /// Decodes a body. `name` is that of the object, for errors.
    pub(crate) fn decode(
        name: &str,
        head: &SegmentHead,
        known: &KnownPages,
        bytes: &[u8],
    ) -> Result<Self> {
        let (commits, pages) = (head.commits as usize, head.pages as usize);
        let ends = commits * ENTRY_BYTES;
        let place_bytes = if head.kind == LogKind::Records { RANGE_BYTES } else { 4 };
        let begins = ends + pages * place_bytes;
        if bytes.len() < begins {
            return Err(damaged(name, "its parts do not fit its head"));
        }
        let mut body = Self::default();
        for entry in bytes[..ends].chunks_exact(ENTRY_BYTES) {
            let (long, short) =
                (|at: usize| field::<8>(entry, at), |at: usize| field::<4>(entry, at));
            body.commits.push(CommitEntry {
                time_us: i64::from_le_bytes(long(0)),
                number: u64::from_le_bytes(long(8)),
                end: u32::from_le_bytes(short(16)),
                database_pages: u32::from_le_bytes(short(20)),
            });
        }
        let places = bytes[ends..begins].chunks_exact(place_bytes);
        if head.kind == LogKind::Records {
            body.ranges.extend(places.map(LogRange::from_bytes));
            body.bytes.extend_from_slice(&bytes[begins..]);
            let length: u64 = body.ranges.iter().map(|range| u64::from(range.length)).sum();
            if length != body.bytes.len() as u64 {
                return Err(damaged(name, "its records do not fit its head"));
            }
        } else {
            body.numbers.extend(places.map(|number| u32::from_le_bytes(field(number, 0))));
            let page_bytes = head.page_bytes as usize;
            body.bytes = page_versions::decode(known, &body.numbers, &bytes[begins..], page_bytes)
                .ok_or_else(|| damaged(name, "its pages do not fit its head"))?;
        }
        let mut end = 0;
        for commit in &body.commits {
            if commit.end < end || commit.end > head.pages {
                return Err(damaged(name, "its commits do not fit its pages"));
            }
            end = commit.end;
        }
        if body.numbers.contains(&0) {
            return Err(damaged(name, "a page has the number 0"));
        }
        Ok(body)
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

/// Encodes a segment. The counts, the encoding and the length of the head are set here.
pub(crate) fn encode(mut head: SegmentHead, body: &SegmentBody) -> Result<Vec<u8>> {
    let bytes = body.encode(head.page_bytes, &KnownPages::default());
    let pages = body.numbers.len() + body.ranges.len();
    (head.commits, head.pages) = (body.commits.len() as u32, pages as u32);
    head.body_bytes = bytes.len() as u64;
    let (encoding, packed) = envelope::pack(&bytes)?;
    head.encoding = encoding;
    envelope::seal(&head, &packed)
}

/// Decodes a segment.
///
/// # Errors
/// [`ErrorKind::Engine`](marmota_model::ErrorKind::Engine) for a damaged one, with its name.
pub(crate) fn decode(index: u64, object: &[u8]) -> Result<(SegmentHead, SegmentBody)> {
    let name = object_name(index);
    let (head, packed) = open(index, object)?;
    let bytes = envelope::unpack(&name, head.encoding, packed, head.body_bytes)?;
    let body = SegmentBody::decode(&name, &head, &KnownPages::default(), &bytes)?;
    Ok((head, body))
}

/// Decodes the head of a segment, and verifies the checksum of all of it.
pub(crate) fn decode_head(index: u64, object: &[u8]) -> Result<SegmentHead> {
    open(index, object).map(|(head, _)| head)
}

fn open(index: u64, object: &[u8]) -> Result<(SegmentHead, Vec<u8>)> {
    let name = object_name(index);
    let (head, packed): (SegmentHead, _) = envelope::open(&name, object)?;
    if head.format != FORMAT {
        let why = format!("it has format {}, this program reads {FORMAT}", head.format);
        return Err(damaged(&name, &why));
    }
    if head.index != index {
        return Err(damaged(&name, &format!("it is segment {}", head.index)));
    }
    Ok((head, packed))
}

/// Returns a segment of two commits, for tests.
#[cfg(test)]
pub(crate) fn sample(index: u64, writer: &str) -> (SegmentHead, SegmentBody) {
    let page_bytes = 512;
    let page = |version: u64| {
        let mut page = vec![7; page_bytes];
        page[100..108].copy_from_slice(&version.to_le_bytes());
        page[page_bytes - 1] = version as u8;
        page
    };
    let commit = |at: u32| CommitEntry {
        time_us: index as i64 * 1_000 + i64::from(at),
        number: index * 2 + u64::from(at),
        end: at,
        database_pages: 9,
    };
    let body = SegmentBody {
        commits: vec![commit(1), commit(2)],
        numbers: vec![1, 2 + index as u32 % 3],
        bytes: [page(index), page(index + 1)].concat(),
        ..SegmentBody::default()
    };
    let head = SegmentHead {
        format: FORMAT,
        kind: LogKind::Pages,
        database: "a database".to_owned(),
        epoch: 1,
        writer: writer.to_owned(),
        host: "a host".to_owned(),
        index,
        chain: 1,
        begins_epoch: index == 1,
        time_us: index as i64 * 1_000 + 2,
        number: index * 2 + 2,
        page_bytes: page_bytes as u32,
        commits: 2,
        pages: 2,
        log: None,
        encoding: Encoding::None,
        body_bytes: 0,
    };
    (head, body)
}

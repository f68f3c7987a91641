//! Merged segments: one object in the place of many small ones, without losing a commit.
//!
//! The object `merged/FIRST-LAST` has these segments in order, each with its head and its commits. A
//! page is written as its differences from its last version in the object, so most of what the
//! segments share is written once. All of its segments are of one run of a primary.
//!
//! The body has for each segment: the length of its head (`u32`), the head in JSON, a checksum of the
//! decoded commits and pages (`u64`), and the commits. The checksum shows that merging changed
//! nothing, not only that the object is the one that was written.

use marmota_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::objects::envelope::{self, Encoding, damaged};
use crate::objects::page_versions::KnownPages;
use crate::objects::segment::{FORMAT, SegmentBody, SegmentHead};
use crate::objects::target::Target;

/// The folder of merged segments.
pub(crate) const MERGED: &str = "merged";
/// The bytes of a body after which no segment is added, before compression.
const BODY_BYTES: usize = 16 << 20;
/// The bytes of different pages after which no segment is added: a reader keeps as many.
const KNOWN_BYTES: usize = 16 << 20;

/// The segments of a merged object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MergedRange {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl MergedRange {
    /// Returns the name of the object in the target.
    pub(crate) fn object_name(self) -> String {
        format!("{MERGED}/{:020}-{:020}", self.first, self.last)
    }

    /// Returns true if the object has this segment.
    pub(crate) const fn has(self, index: u64) -> bool {
        self.first <= index && index <= self.last
    }

    fn parse(name: &str) -> Option<Self> {
        let (first, last) = name.split_once('-')?;
        Some(Self { first: first.parse().ok()?, last: last.parse().ok()? })
    }
}

/// Returns the merged objects of a target, in order.
///
/// # Errors
/// Those of the target.
pub(crate) fn ranges(target: &Target) -> Result<Vec<MergedRange>> {
    let listed = target.list(MERGED, None)?;
    Ok(listed.iter().filter_map(|object| MergedRange::parse(&object.name)).collect())
}

/// The head of a merged object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MergedHead {
    format: u32,
    /// The identity of the database.
    database: String,
    first: u64,
    last: u64,
    /// The run of the primary that wrote the segments.
    pub(crate) writer: String,
    encoding: Encoding,
    body_bytes: u64,
}

/// A merged object that is being made.
#[derive(Debug)]
pub(crate) struct MergedWriter {
    head: MergedHead,
    page_bytes: u32,
    known: KnownPages,
    body: Vec<u8>,
    segments: u64,
}

impl MergedWriter {
    /// Creates an object that begins with this segment.
    pub(crate) fn new(head: &SegmentHead) -> Self {
        Self {
            head: MergedHead {
                format: FORMAT,
                database: head.database.clone(),
                first: head.index,
                last: head.index,
                writer: head.writer.clone(),
                encoding: Encoding::None,
                body_bytes: 0,
            },
            page_bytes: head.page_bytes,
            known: KnownPages::default(),
            body: Vec::new(),
            segments: 0,
        }
    }

    /// Returns true if this segment can be added.
    pub(crate) fn accepts(&self, head: &SegmentHead) -> bool {
        self.segments == 0
            || head.index == self.head.last + 1
                && head.writer == self.head.writer
                && head.database == self.head.database
                && head.page_bytes == self.page_bytes
                && self.body.len() < BODY_BYTES
                && self.known.len() * (self.page_bytes as usize) < KNOWN_BYTES
    }

    /// Adds a segment that it [accepts](Self::accepts).
    ///
    /// # Errors
    /// [`ErrorKind::Bug`] if the head has no JSON.
    pub(crate) fn add(&mut self, mut head: SegmentHead, body: &SegmentBody) -> Result<()> {
        let bytes = body.encode(self.page_bytes, &self.known);
        (head.encoding, head.body_bytes) = (Encoding::None, bytes.len() as u64);
        let text = serde_json::to_vec(&head).map_err(|error| {
            Error::new(ErrorKind::Bug, format!("a head cannot be written: {error}"))
        })?;
        self.body.extend_from_slice(&(text.len() as u32).to_le_bytes());
        self.body.extend_from_slice(&text);
        self.body.extend_from_slice(&body.checksum().to_le_bytes());
        self.body.extend_from_slice(&bytes);
        self.known.add(&body.numbers, &body.bytes, self.page_bytes as usize);
        self.head.last = head.index;
        self.segments += 1;
        Ok(())
    }

    /// Returns the number of segments.
    pub(crate) const fn segments(&self) -> u64 {
        self.segments
    }

    /// Returns the segments and the object.
    pub(crate) fn seal(mut self) -> Result<(MergedRange, Vec<u8>)> {
        self.head.body_bytes = self.body.len() as u64;
        let (encoding, packed) = envelope::pack(&self.body)?;
        self.head.encoding = encoding;
        let range = MergedRange { first: self.head.first, last: self.head.last };
        Ok((range, envelope::seal(&self.head, &packed)?))
    }
}

/// The segments of a merged object, which are read one after the other.
#[derive(Debug)]
pub(crate) struct MergedReader {
    name: String,
    head: MergedHead,
    body: Vec<u8>,
    at: usize,
    next: u64,
    known: KnownPages,
}

impl MergedReader {
    /// Opens an object, after its checksum was verified.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`] for a damaged one, with its name.
    pub(crate) fn open(range: MergedRange, object: &[u8]) -> Result<Self> {
        let name = range.object_name();
        let (head, packed): (MergedHead, _) = envelope::open(&name, object)?;
        if head.format != FORMAT {
            let why = format!("it has format {}, this program reads {FORMAT}", head.format);
            return Err(damaged(&name, &why));
        }
        if (head.first, head.last) != (range.first, range.last) {
            return Err(damaged(&name, "it has other segments than its name"));
        }
        let body = envelope::unpack(&name, head.encoding, packed, head.body_bytes)?;
        Ok(Self { name, next: head.first, head, body, at: 0, known: KnownPages::default() })
    }

    /// Returns true if it has this segment, which was not read yet.
    pub(crate) const fn has(&self, index: u64) -> bool {
        self.next <= index && index <= self.head.last
    }

    /// Reads up to this segment, which the object must still have, and returns it.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`] for a damaged one, with the name of the object.
    pub(crate) fn read(&mut self, index: u64) -> Result<(SegmentHead, SegmentBody)> {
        loop {
            let (head, body) = self.read_next()?;
            if head.index >= index {
                return Ok((head, body));
            }
        }
    }

    /// Reads all segments that are left.
    ///
    /// # Errors
    /// [`ErrorKind::Engine`] for a damaged one, with the name of the object.
    pub(crate) fn verify(mut self) -> Result<()> {
        while self.next <= self.head.last {
            self.read_next()?;
        }
        match self.at == self.body.len() {
            true => Ok(()),
            false => Err(damaged(&self.name, "it has bytes after its last segment")),
        }
    }

    fn read_next(&mut self) -> Result<(SegmentHead, SegmentBody)> {
        let damaged = |why: &str| damaged(&self.name, why);
        let short = || damaged("its segments do not fit its body");
        let mut rest = self.body.get(self.at..).ok_or_else(short)?;
        let left = rest.len();
        let length = rest.split_off(..4).and_then(<[u8]>::first_chunk).ok_or_else(short)?;
        let text = rest.split_off(..u32::from_le_bytes(*length) as usize).ok_or_else(short)?;
        let head: SegmentHead =
            serde_json::from_slice(text).map_err(|error| damaged(&error.to_string()))?;
        if head.index != self.next || head.database != self.head.database {
            return Err(damaged(&format!("it has segment {} as {}", head.index, self.next)));
        }
        let checksum = rest.split_off(..8).and_then(<[u8]>::first_chunk).ok_or_else(short)?;
        let bytes = usize::try_from(head.body_bytes).ok().and_then(|end| rest.split_off(..end));
        let body = SegmentBody::decode(&self.name, &head, &self.known, bytes.ok_or_else(short)?)?;
        if body.checksum().to_le_bytes() != *checksum {
            return Err(damaged(&format!("its segment {} has another checksum", head.index)));
        }
        self.at += left - rest.len();
        self.next += 1;
        self.known.add(&body.numbers, &body.bytes, head.page_bytes as usize);
        Ok((head, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::segment::sample;

    #[test]
    fn a_segment_that_merging_has_changed_is_found() {
        let (head, body) = sample(5, "run");
        let mut object = MergedWriter::new(&head);
        object.add(head, &body).unwrap();
        let (head, body) = sample(6, "run");
        assert!(object.accepts(&head));
        object.add(head, &body).unwrap();
        // The last byte of the last page.
        *object.body.last_mut().unwrap() ^= 1;
        let (range, bytes) = object.seal().unwrap();
        let mut reader = MergedReader::open(range, &bytes).unwrap();
        assert_eq!(reader.read(5).unwrap().1, sample(5, "run").1);
        let error = reader.read(6).unwrap_err();
        assert!(error.message().contains(&range.object_name()), "{error}");
        assert!(error.message().contains("segment 6"), "{error}");
    }

    #[test]
    fn segments_of_other_runs_and_page_sizes_are_not_accepted() {
        let (head, body) = sample(5, "run");
        let mut object = MergedWriter::new(&head);
        object.add(head, &body).unwrap();
        assert!(object.accepts(&sample(6, "run").0));
        assert!(!object.accepts(&sample(7, "run").0));
        assert!(!object.accepts(&sample(6, "another run").0));
        let (mut head, _) = sample(6, "run");
        head.page_bytes *= 2;
        assert!(!object.accepts(&head));
    }
}

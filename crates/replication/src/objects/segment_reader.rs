//! Reads segments in order, from their own objects or from merged ones.
//!
//! A primary deletes segments after the merged object is there. So a segment that is in neither of
//! the two was never written, or deleted by the retention: a reader looks for the segment first, and
//! lists the merged objects after that.

use marmota_model::Result;

use crate::objects::envelope::damaged;
use crate::objects::merged::{self, MergedRange, MergedReader};
use crate::objects::segment::{self, SegmentBody, SegmentHead};
use crate::objects::target::Target;

/// A reader of a target's segments.
#[derive(Debug, Default)]
pub(crate) struct SegmentReader {
    /// The merged objects when they were last listed.
    ranges: Vec<MergedRange>,
    merged: Option<MergedReader>,
}

/// A segment that was read.
#[derive(Debug)]
pub(crate) struct FoundSegment {
    pub(crate) head: SegmentHead,
    pub(crate) body: SegmentBody,
    /// The number of bytes that were read from the target for it.
    pub(crate) bytes: usize,
}

impl SegmentReader {
    /// Reads a segment. `None` if it is not there; merged objects that are newer than the last
    /// [`SegmentReader::find`] are not seen.
    ///
    /// # Errors
    /// Those of the target; [`ErrorKind::Engine`](marmota_model::ErrorKind::Engine) for a damaged
    /// object, with its name.
    pub(crate) fn read(&mut self, target: &Target, index: u64) -> Result<Option<FoundSegment>> {
        if let Some(merged) = self.merged.as_mut().filter(|merged| merged.has(index)) {
            let (head, body) = merged.read(index)?;
            return Ok(Some(FoundSegment { head, body, bytes: 0 }));
        }
        self.merged = None;
        if let Some(object) = target.get(&segment::object_name(index))? {
            let (head, body) = segment::decode(index, &object)?;
            return Ok(Some(FoundSegment { head, body, bytes: object.len() }));
        }
        let range = self.ranges.iter().filter(|range| range.has(index)).max_by_key(|r| r.last);
        let Some(&range) = range else { return Ok(None) };
        let Some(object) = target.get(&range.object_name())? else { return Ok(None) };
        let mut merged = MergedReader::open(range, &object)?;
        let (head, body) = merged.read(index)?;
        self.merged = Some(merged);
        Ok(Some(FoundSegment { head, body, bytes: object.len() }))
    }

    /// Reads a segment, and lists the merged objects if it is not found without.
    ///
    /// # Errors
    /// As for [`SegmentReader::read`].
    pub(crate) fn find(&mut self, target: &Target, index: u64) -> Result<Option<FoundSegment>> {
        if let Some(found) = self.read(target, index)? {
            return Ok(Some(found));
        }
        self.ranges = merged::ranges(target)?;
        self.read(target, index)
    }

    /// Reads a segment that must be there.
    ///
    /// # Errors
    /// As for [`SegmentReader::read`];
    /// [`ErrorKind::Engine`](marmota_model::ErrorKind::Engine) if it is missing, with its name.
    pub(crate) fn require(&mut self, target: &Target, index: u64) -> Result<FoundSegment> {
        let missing = || {
            let why = format!("it is missing, and no object in `{}/` has it", merged::MERGED);
            damaged(&segment::object_name(index), &why)
        };
        self.find(target, index)?.ok_or_else(missing)
    }
}

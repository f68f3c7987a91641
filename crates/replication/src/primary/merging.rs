//! Merges the small segments of a target that are older than a limit into larger objects.
//!
//! The order of requests makes a kill at any moment harmless: the merged object is written, read back
//! and decoded before the first of its segments is deleted. What a killed run has left is deleted by
//! the next one. Two primaries that merge at the same time are harmless as well: they write the same
//! segments, perhaps divided differently.
//!
//! The number of a deleted segment is free again, so an old primary must not be able to use it. It
//! would continue with the first segment of the run after its own. Those stay, as does the last one.

use marmota_model::{Error, ErrorKind, Result};

use crate::objects::claim;
use crate::objects::envelope;
use crate::objects::merged::{self, MergedHead, MergedRange, MergedReader, MergedWriter};
use crate::objects::segment::{self, SEGMENTS, SegmentBody, SegmentHead};
use crate::objects::target::Target;

/// Objects of more bytes are not read: merging them gains little.
const SMALL_BYTES: u64 = 1 << 20;
/// Segments with more bytes of pages or records are not merged, which bounds the memory.
const PAGES_BYTES_MAX: u64 = 32 << 20;

/// Merges the segments whose last commit is before a time, in microseconds since 1970. Returns the
/// number of segments that were merged.
///
/// `may_continue` is called before each request that changes the target or reads a segment; the
/// merging ends when it returns false.
///
/// # Errors
/// Those of the target; [`ErrorKind::Engine`] if a merged object is not what was written.
pub(crate) fn merge_old(
    target: &Target,
    epoch: u64,
    before_us: i64,
    may_continue: &mut dyn FnMut() -> bool,
) -> Result<u64> {
    let mut merging = Merging { target, may_continue, segments: 0 };
    match merging.merge(epoch, before_us) {
        Ok(()) => Ok(merging.segments),
        Err(error) if error.kind() == ErrorKind::Closed => Ok(merging.segments),
        Err(error) => Err(error),
    }
}

struct Merging<'m> {
    target: &'m Target,
    may_continue: &'m mut dyn FnMut() -> bool,
    segments: u64,
}

impl Merging<'_> {
    fn merge(&mut self, epoch: u64, before_us: i64) -> Result<()> {
        let ranges = merged::ranges(self.target)?;
        let listed = self.target.list(SEGMENTS, None)?;
        let mut segments: Vec<(u64, u64)> =
            listed.iter().filter_map(|one| Some((one.name.parse().ok()?, one.bytes))).collect();
        let Some((last, _)) = segments.pop() else { return Ok(()) };
        if segments.is_empty() || claim::head_of(self.target, last)?.epoch != epoch {
            return Ok(());
        }
        for range in &ranges {
            self.finish(*range, &segments)?;
        }
        segments.retain(|(index, bytes)| {
            *bytes <= SMALL_BYTES && !ranges.iter().any(|range| range.has(*index))
        });
        for run in segments.chunk_by(|(one, _), (next, _)| one + 1 == *next) {
            if run.len() > 1 && !self.merge_run(run, &ranges, before_us)? {
                break;
            }
        }
        Ok(())
    }

    /// Deletes the segments that a merged object has, which a killed run has left.
    fn finish(&mut self, range: MergedRange, segments: &[(u64, u64)]) -> Result<()> {
        let left = segments.iter().map(|(index, _)| *index).filter(|index| range.has(*index));
        let left: Vec<u64> = left.collect();
        if left.is_empty() {
            return Ok(());
        }
        match self.verify(range) {
            Ok(()) => self.delete(left),
            Err(error) if error.kind() == ErrorKind::Engine => {
                log::error!("{error}: the segments that it was made of stay");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Merges segments without a gap between them. Returns false if one of them is too new.
    fn merge_run(
        &mut self,
        run: &[(u64, u64)],
        ranges: &[MergedRange],
        before_us: i64,
    ) -> Result<bool> {
        let mut writer_before = self.writer_of(run[0].0 - 1, ranges)?;
        let mut object: Option<MergedWriter> = None;
        let mut is_old = true;
        for &(index, _) in run {
            self.check()?;
            let decoded = match self.target.get(&segment::object_name(index))? {
                // Deleted by the retention.
                None => None,
                Some(object) => decode(index, &object)
                    .inspect_err(|error| log::error!("{error}: it is not merged"))
                    .unwrap_or_default(),
            };
            let Some((head, body)) = decoded else {
                writer_before = None;
                self.write(object.take())?;
                continue;
            };
            is_old = head.time_us < before_us;
            if !is_old {
                break;
            }
            let is_first = writer_before.as_ref() != Some(&head.writer) || head.begins_epoch;
            writer_before = Some(head.writer.clone());
            if is_first {
                self.write(object.take())?;
                continue;
            }
            if object.as_ref().is_some_and(|object| !object.accepts(&head)) {
                self.write(object.take())?;
            }
            object.get_or_insert_with(|| MergedWriter::new(&head)).add(head, &body)?;
        }
        self.write(object)?;
        Ok(is_old)
    }

    /// Returns the run that wrote a segment; `None` if it is not there.
    fn writer_of(&self, index: u64, ranges: &[MergedRange]) -> Result<Option<String>> {
        if let Some(object) = self.target.get(&segment::object_name(index))? {
            return Ok(segment::decode_head(index, &object).ok().map(|head| head.writer));
        }
        let Some(range) = ranges.iter().find(|range| range.has(index)) else { return Ok(None) };
        let name = range.object_name();
        let object = self.target.get(&name)?;
        let head = object.and_then(|object| envelope::open::<MergedHead>(&name, &object).ok());
        Ok(head.map(|(head, _)| head.writer))
    }

    /// Writes a merged object, verifies it, and deletes its segments.
    fn write(&mut self, object: Option<MergedWriter>) -> Result<()> {
        let Some(object) = object.filter(|object| object.segments() > 1) else { return Ok(()) };
        let segments = object.segments();
        let (range, bytes) = object.seal()?;
        self.check()?;
        self.target.put(&range.object_name(), bytes)?;
        self.verify(range)?;
        self.segments += segments;
        self.delete(range.first..=range.last)
    }

    fn verify(&mut self, range: MergedRange) -> Result<()> {
        self.check()?;
        let name = range.object_name();
        let object = self.target.get(&name)?;
        let object = object.ok_or_else(|| envelope::damaged(&name, "it is missing"))?;
        MergedReader::open(range, &object)?.verify()
    }

    fn delete(&mut self, segments: impl IntoIterator<Item = u64>) -> Result<()> {
        for index in segments {
            self.check()?;
            self.target.delete(&segment::object_name(index))?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<()> {
        match (self.may_continue)() {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Closed, "the merging was ended")),
        }
    }
}

/// Decodes a segment; `None` if it has too much to be merged.
fn decode(index: u64, object: &[u8]) -> Result<Option<(SegmentHead, SegmentBody)>> {
    let head = segment::decode_head(index, object)?;
    let bytes = u64::from(head.pages) * u64::from(head.page_bytes);
    match bytes.max(head.body_bytes) <= PAGES_BYTES_MAX {
        true => segment::decode(index, object).map(Some),
        false => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::segment::sample;
    use crate::objects::segment_reader::SegmentReader;

    const LAST: u64 = 20;

    /// Returns the run that writes a segment. The second one begins with segment 12.
    fn writer(index: u64) -> &'static str {
        if index < 12 { "first run" } else { "second run" }
    }

    fn open(folder: &tempfile::TempDir) -> Target {
        Target::open(&format!("file://{}", folder.path().display()), true).unwrap()
    }

    fn filled(folder: &tempfile::TempDir) -> Target {
        let target = open(folder);
        for index in 1..=LAST {
            let (head, body) = sample(index, writer(index));
            let object = segment::encode(head, &body).unwrap();
            assert!(target.put_new(&segment::object_name(index), object).unwrap());
        }
        target
    }

    /// Returns a copy of a folder whose content is not synced to the disk.
    fn copy(of: &tempfile::TempDir) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        std::fs::create_dir(copy.path().join(SEGMENTS)).unwrap();
        for file in std::fs::read_dir(of.path().join(SEGMENTS)).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), copy.path().join(SEGMENTS).join(file.file_name())).unwrap();
        }
        copy
    }

    fn check(target: &Target, segments: &mut SegmentReader, index: u64) {
        let found = segments.require(target, index).unwrap();
        let (head, body) = sample(index, writer(index));
        assert_eq!(found.body, body, "segment {index}");
        assert_eq!((found.head.index, found.head.number), (index, head.number));
    }

    /// Returns the segments that have an object of their own.
    fn left(target: &Target) -> Vec<u64> {
        target.list(SEGMENTS, None).unwrap().iter().map(|one| one.name.parse().unwrap()).collect()
    }

    #[test]
    fn a_kill_before_any_request_loses_nothing() {
        let (mut requests, mut is_complete) = (0, false);
        let original = tempfile::tempdir().unwrap();
        filled(&original);
        while !is_complete {
            let folder = copy(&original);
            let target = open(&folder);
            let mut done = 0;
            is_complete = true;
            merge_old(&target, 1, i64::MAX, &mut || {
                done += 1;
                is_complete = done <= requests;
                is_complete
            })
            .unwrap();
            let mut segments = SegmentReader::default();
            (1..=LAST).for_each(|index| check(&target, &mut segments, index));
            // The next run completes what this one has begun.
            merge_old(&target, 1, i64::MAX, &mut || true).unwrap();
            let mut segments = SegmentReader::default();
            (1..=LAST).for_each(|index| check(&target, &mut segments, index));
            // Those that begin the epoch or a run, and the last one.
            assert_eq!(left(&target), [1, 12, LAST], "killed before request {requests}");
            requests += 1;
        }
        assert!(requests > 40, "{requests}");
    }

    #[test]
    fn a_reader_finds_each_segment_while_they_are_merged() {
        for begin in [1, 5, 11] {
            let folder = tempfile::tempdir().unwrap();
            let target = filled(&folder);
            let (mut segments, mut next) = (SegmentReader::default(), begin);
            let merged = merge_old(&target, 1, i64::MAX, &mut || {
                if next <= LAST {
                    check(&target, &mut segments, next);
                    next += 1;
                }
                true
            });
            assert_eq!(merged.unwrap(), LAST - 3);
            assert_eq!(next, LAST + 1);
        }
    }

    #[test]
    fn new_segments_and_those_of_another_epoch_stay() {
        let folder = tempfile::tempdir().unwrap();
        let target = filled(&folder);
        assert_eq!(merge_old(&target, 2, i64::MAX, &mut || true).unwrap(), 0);
        assert_eq!(left(&target).len() as u64, LAST);
        // Segment 9 has a commit at 9,002.
        assert_eq!(merge_old(&target, 1, 9_002, &mut || true).unwrap(), 7);
        assert_eq!(left(&target), [&[1][..], &(9..=LAST).collect::<Vec<_>>()].concat());
        assert_eq!(merge_old(&target, 1, i64::MAX, &mut || true).unwrap(), 3 + 7);
        let mut segments = SegmentReader::default();
        (1..=LAST).for_each(|index| check(&target, &mut segments, index));
    }

    #[test]
    fn segments_of_a_damaged_merged_object_stay() {
        let folder = tempfile::tempdir().unwrap();
        let target = filled(&folder);
        let mut requests = 0;
        // Ends before the merged object is verified.
        merge_old(&target, 1, i64::MAX, &mut || {
            requests += 1;
            merged::ranges(&target).unwrap().is_empty()
        })
        .unwrap();
        let range = merged::ranges(&target).unwrap()[0];
        let mut object = target.get(&range.object_name()).unwrap().unwrap();
        let middle = object.len() / 2;
        object[middle] ^= 1;
        target.put(&range.object_name(), object).unwrap();
        merge_old(&target, 1, i64::MAX, &mut || true).unwrap();
        let mut segments = SegmentReader::default();
        (1..=LAST).for_each(|index| check(&target, &mut segments, index));
        assert!((range.first..=range.last).all(|index| left(&target).contains(&index)));
    }
}

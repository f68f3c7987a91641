//! Pages of a segment, of which a later version of a page is written as its differences from the
//! version before it in the same segment, or in the segments before it in the same object.
//!
//! A small transaction changes some hundred bytes of a page, and the log has the whole page. The
//! differences are found at the speed of memory, and leave little to compress.
//!
//! Each page is a length (`u32`) and as many bytes: the page itself, if the length is that of a page,
//! or runs, each of them an offset (`u16`), a length (`u16`) and the bytes. Numbers are little-endian.

use std::collections::HashMap;
use std::ops::Range;

/// Differences are found in units of this many bytes.
const UNIT: usize = 8;
/// Equal units between two differences that do not end a run: the head of another run is as long.
const GAP_UNITS_MAX: usize = 1;
const RUN_HEAD_BYTES: usize = 4;
const LENGTH_BYTES: usize = 4;

/// The last version of each page in the segments before, of an object with several.
#[derive(Debug, Default)]
pub(crate) struct KnownPages(HashMap<u32, Box<[u8]>>);

impl KnownPages {
    /// Adds the pages of a segment, of which the last version counts.
    pub(crate) fn add(&mut self, numbers: &[u32], pages: &[u8], page_bytes: usize) {
        for (number, page) in numbers.iter().zip(pages.chunks_exact(page_bytes.max(1))) {
            match self.0.get_mut(number) {
                Some(known) => known.copy_from_slice(page),
                None => drop(self.0.insert(*number, page.into())),
            }
        }
    }

    /// Returns the number of pages.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, number: u32) -> Option<&[u8]> {
        self.0.get(&number).map(|page| &**page)
    }
}

/// Appends the pages to `bytes`. `numbers` has the number of each page.
pub(crate) fn encode(
    known: &KnownPages,
    numbers: &[u32],
    pages: &[u8],
    page_bytes: usize,
    bytes: &mut Vec<u8>,
) {
    let mut last: HashMap<u32, &[u8]> = HashMap::new();
    for (number, page) in numbers.iter().zip(pages.chunks_exact(page_bytes.max(1))) {
        let begin = bytes.len();
        bytes.extend_from_slice(&[0; LENGTH_BYTES]);
        let is_short = match last.insert(*number, page).or_else(|| known.get(*number)) {
            Some(before) => append_runs(before, page, bytes),
            None => false,
        };
        if !is_short {
            bytes.truncate(begin + LENGTH_BYTES);
            bytes.extend_from_slice(page);
        }
        let length = (bytes.len() - begin - LENGTH_BYTES) as u32;
        bytes[begin..begin + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    }
}

/// Appends the runs that differ. Returns false if they are not shorter than the page.
fn append_runs(before: &[u8], page: &[u8], bytes: &mut Vec<u8>) -> bool {
    let end = bytes.len() + page.len();
    let mut from = 0;
    while let Some(run) = next_run(before, page, from) {
        from = run.end;
        let (Ok(offset), Ok(length)) = (u16::try_from(run.start), u16::try_from(run.len())) else {
            return false;
        };
        bytes.extend_from_slice(&offset.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&page[run]);
        if bytes.len() >= end {
            return false;
        }
    }
    true
}

/// Returns the next bytes that differ, at `from` or later.
fn next_run(before: &[u8], page: &[u8], from: usize) -> Option<Range<usize>> {
    let unit = |at: usize| at..(at + UNIT).min(page.len());
    let differs = |at: usize| before[unit(at)] != page[unit(at)];
    let start = (from..page.len()).step_by(UNIT).find(|at| differs(*at))?;
    let (mut end, mut equal) = (unit(start).end, 0);
    for at in (end..page.len()).step_by(UNIT) {
        if differs(at) {
            (end, equal) = (unit(at).end, 0);
        } else {
            equal += 1;
            if equal > GAP_UNITS_MAX {
                break;
            }
        }
    }
    Some(start..end)
}

/// Decodes the pages; `None` if the bytes are not those of pages with these numbers.
pub(crate) fn decode(
    known: &KnownPages,
    numbers: &[u32],
    mut bytes: &[u8],
    page_bytes: usize,
) -> Option<Vec<u8>> {
    let mut pages: Vec<u8> = Vec::new();
    let mut last: HashMap<u32, usize> = HashMap::new();
    for number in numbers {
        let length = u32::from_le_bytes(*bytes.split_off(..LENGTH_BYTES)?.first_chunk()?);
        let encoded = bytes.split_off(..length as usize)?;
        let begin = pages.len();
        let before = last.insert(*number, begin);
        if encoded.len() == page_bytes {
            pages.extend_from_slice(encoded);
            continue;
        }
        match before {
            Some(before) => pages.extend_from_within(before..before + page_bytes),
            None => {
                pages.extend_from_slice(known.get(*number).filter(|p| p.len() == page_bytes)?);
            }
        }
        apply_runs(encoded, &mut pages[begin..])?;
    }
    bytes.is_empty().then_some(pages)
}

fn apply_runs(mut runs: &[u8], page: &mut [u8]) -> Option<()> {
    while !runs.is_empty() {
        let head = runs.split_off(..RUN_HEAD_BYTES)?;
        let offset = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let length = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let run = runs.split_off(..length)?;
        page.get_mut(offset..offset + length)?.copy_from_slice(run);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 64;

    fn encoded(numbers: &[u32], pages: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(&KnownPages::default(), numbers, pages, PAGE, &mut bytes);
        assert_eq!(decode(&KnownPages::default(), numbers, &bytes, PAGE).as_deref(), Some(pages));
        bytes
    }

    #[test]
    fn a_later_version_is_written_as_its_differences() {
        let first: Vec<u8> = (0..PAGE as u8).collect();
        let mut second = first.clone();
        second[3] = 255;
        second[40..48].fill(255);
        second[PAGE - 1] = 255;
        let pages = [&first[..], &second, &first, &second].concat();
        let bytes = encoded(&[1, 1, 2, 1], &pages);
        // The second run has two differences and the equal unit between them.
        let runs = RUN_HEAD_BYTES + UNIT + RUN_HEAD_BYTES + 3 * UNIT;
        assert_eq!(bytes.len(), 4 * LENGTH_BYTES + 2 * PAGE + runs);
    }

    #[test]
    fn random_pages_are_decoded() {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize
        };
        for _ in 0..500 {
            let (mut numbers, mut pages) = (Vec::new(), Vec::new());
            let mut page = vec![0_u8; PAGE];
            for _ in 0..random() % 8 {
                numbers.push(random() as u32 % 3 + 1);
                for _ in 0..random() % 20 {
                    page[random() % PAGE] = random() as u8;
                }
                pages.extend_from_slice(&page);
            }
            encoded(&numbers, &pages);
        }
    }

    #[test]
    fn a_version_is_written_as_its_differences_from_an_earlier_segment() {
        let first: Vec<u8> = (0..PAGE as u8).collect();
        let mut second = first.clone();
        second[9] = 255;
        let mut known = KnownPages::default();
        known.add(&[7, 7], &[&second[..], &first].concat(), PAGE);
        assert_eq!(known.len(), 1);
        let mut bytes = Vec::new();
        encode(&known, &[7], &second, PAGE, &mut bytes);
        assert_eq!(bytes.len(), LENGTH_BYTES + RUN_HEAD_BYTES + UNIT);
        assert_eq!(decode(&known, &[7], &bytes, PAGE), Some(second));
        assert_eq!(decode(&KnownPages::default(), &[7], &bytes, PAGE), None);
    }

    #[test]
    fn damaged_bytes_are_refused_without_a_panic() {
        let decode =
            |numbers: &[u32], bytes: &[u8], _| decode(&KnownPages::default(), numbers, bytes, PAGE);
        let pages = [[1; PAGE], [2; PAGE]].concat();
        let bytes = encoded(&[1, 1], &pages);
        assert_eq!(decode(&[1], &bytes, PAGE), None);
        assert_eq!(decode(&[1, 2, 3], &bytes, PAGE), None);
        assert_eq!(decode(&[2, 1], &[&[4, 0, 0, 0, 0, 0, 4, 0][..], &bytes].concat(), PAGE), None);
        for end in 0..bytes.len() {
            assert_eq!(decode(&[1, 1], &bytes[..end], PAGE), None, "{end}");
        }
        // A run that ends after the page.
        let mut short = bytes[..LENGTH_BYTES + PAGE].to_vec();
        short.extend_from_slice(&[5, 0, 0, 0, PAGE as u8, 0, 1, 0, 9]);
        assert_eq!(decode(&[1, 1], &short, PAGE), None);
    }
}

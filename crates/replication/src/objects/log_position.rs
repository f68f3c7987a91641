//! Positions in logs: in the write-ahead log of SQLite, with the log's checksums, and in files of
//! records.
//!
//! The format of SQLite's log is that of <https://sqlite.org/fileformat2.html#the_write_ahead_log>.

use serde::{Deserialize, Serialize};

/// The length of the head of a log.
pub(crate) const LOG_HEAD_BYTES: usize = 32;
/// The length of the head of a page in the log.
pub(crate) const FRAME_HEAD_BYTES: usize = 24;

/// A position in a log, as the head of a segment has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum LogPlace {
    Pages(LogPosition),
    Records(RecordPosition),
}

/// A position in a file of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordPosition {
    /// The number of the log.
    pub(crate) log: u64,
    /// The number of bytes up to here.
    pub(crate) length: u64,
    /// XXH3-64 of the bytes up to here.
    pub(crate) checksum: u64,
    /// The segment before the one in which the log begins.
    pub(crate) began_after: u64,
}

/// A position in SQLite's log: the end of a page of one log. A log that is begun again has other salts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogPosition {
    pub(crate) salts: [u32; 2],
    /// The number of pages up to here.
    pub(crate) frames: u32,
    /// The checksum up to here.
    pub(crate) checksum: [u32; 2],
}

/// The head of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogHead {
    pub(crate) page_bytes: u32,
    pub(crate) salts: [u32; 2],
    pub(crate) checksum: [u32; 2],
    /// True if checksums read words of big-endian order.
    pub(crate) is_big_endian: bool,
}

/// The head of a page in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameHead {
    pub(crate) page: u32,
    /// The number of pages of the database after the commit that this page ends, or 0.
    pub(crate) database_pages: u32,
    pub(crate) salts: [u32; 2],
    pub(crate) checksum: [u32; 2],
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl LogHead {
    /// Parses the head; `None` if it is not a complete one.
    pub(crate) fn parse(bytes: &[u8; LOG_HEAD_BYTES]) -> Option<Self> {
        let magic = word(bytes, 0);
        if magic & !1 != 0x377f_0682 {
            return None;
        }
        let is_big_endian = magic & 1 == 1;
        let checksum = checksum(is_big_endian, [0, 0], &bytes[..24]);
        let head = Self {
            page_bytes: word(bytes, 8),
            salts: [word(bytes, 16), word(bytes, 20)],
            checksum,
            is_big_endian,
        };
        let is_page = head.page_bytes.is_power_of_two() && (512..=65536).contains(&head.page_bytes);
        (is_page && checksum == [word(bytes, 24), word(bytes, 28)]).then_some(head)
    }
}

impl FrameHead {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        Self {
            page: word(bytes, 0),
            database_pages: word(bytes, 4),
            salts: [word(bytes, 8), word(bytes, 12)],
            checksum: [word(bytes, 16), word(bytes, 20)],
        }
    }
}

/// Continues a checksum over bytes, whose number is a multiple of 8.
pub(crate) fn checksum(is_big_endian: bool, from: [u32; 2], bytes: &[u8]) -> [u32; 2] {
    let [mut first, mut second] = from;
    let read = |bytes: &[u8], at: usize| {
        let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if is_big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    };
    for pair in bytes.chunks_exact(8) {
        first = first.wrapping_add(read(pair, 0)).wrapping_add(second);
        second = second.wrapping_add(read(pair, 4)).wrapping_add(first);
    }
    [first, second]
}

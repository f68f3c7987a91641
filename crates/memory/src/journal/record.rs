//! The format of a log file: a head, then one record for each commit.
//!
//! ```text
//! head    magic (8 bytes), version u32, lineage (16 bytes), generation u64, crc32 u32
//! record  mark u32, length u32, crc32 u32, settled u64, payload
//! ```
//! The head of an encrypted log has another magic, and a seal before its checksum
//! (`file_encryption.rs`); the payloads of its records are sealed (`log_file.rs`).
//!
//! All integers are little-endian. A record's checksum covers its length, its payload, its position
//! and the identity of its log. So bytes that only look like a record (of an older log, or of a log
//! stored in a blob) are not accepted as one.
//!
//! `settled` is the position up to which the file was known to be on the disk when the record was
//! made. It distinguishes damage from a power loss. Bytes that were not synced yet may be missing
//! in the middle, because a disk writes in any order; they are cut off with everything after them.
//! If a later record shows that the damaged position had been on the disk, nothing may be cut: that
//! would lose acknowledged commits.

use std::ops::Range;

use marmota_model::Uuid;

use crate::encryption::seal::SEAL_BYTES;

const MAGIC: &[u8; 8] = b"MARMLOG\0";
/// It differs from the other in so many bits that damage cannot convert one to the other.
const MAGIC_SEALED: &[u8; 8] = b"\x9ESEALEDL";
const VERSION: u32 = 1;
/// The part of a head that identifies the log.
const START_BYTES: usize = 36;
pub(super) const HEAD_BYTES: usize = START_BYTES + 4;
/// The length of the head of an encrypted log.
pub(super) const SEALED_HEAD_BYTES: usize = HEAD_BYTES + SEAL_BYTES;
const MARK: [u8; 4] = [0xA7, b'm', b'r', 0x1C];
/// The length of a record without its payload, which follows.
pub(super) const RECORD_BYTES: usize = 20;
/// The maximum length of a payload.
pub(super) const PAYLOAD_BYTES_MAX: usize = 1 << 30;

/// The identity of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) lineage: Uuid,
    pub(super) generation: u64,
}

/// Makes the head of a log.
pub(super) fn head(identity: Identity) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..START_BYTES].copy_from_slice(&start(MAGIC, identity));
    let sum = crc32fast::hash(&head[..START_BYTES]);
    head[START_BYTES..].copy_from_slice(&sum.to_le_bytes());
    head
}

/// Makes the head of an encrypted log, with the seal that `seal` returns.
pub(super) fn sealed_head(
    identity: Identity,
    seal: impl FnOnce(&[u8]) -> [u8; SEAL_BYTES],
) -> Vec<u8> {
    let mut head = start(MAGIC_SEALED, identity).to_vec();
    head.extend_from_slice(&seal(&head));
    head.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
    head
}

fn start(magic: &[u8; 8], identity: Identity) -> [u8; START_BYTES] {
    let mut start = [0; START_BYTES];
    start[..8].copy_from_slice(magic);
    start[8..12].copy_from_slice(&VERSION.to_le_bytes());
    start[12..28].copy_from_slice(identity.lineage.as_bytes());
    start[28..].copy_from_slice(&identity.generation.to_le_bytes());
    start
}

/// The content of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) identity: Identity,
    pub(super) is_sealed: bool,
    /// The position of the first record.
    pub(super) bytes: usize,
}

impl Head {
    /// Returns the length of the sealed bytes together with the seal.
    pub(super) const fn sealed_bytes(&self) -> usize {
        self.bytes - 4
    }
}

/// The defect of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadFault {
    /// It was never written completely, so nothing was written after it.
    Torn,
    /// It is not a head of this format, or damaged.
    Foreign,
    /// It was written by a newer program.
    Version(u32),
}

/// Reads the head of a log.
pub(super) fn read_head(file: &[u8]) -> Result<Head, HeadFault> {
    let is_sealed = file.starts_with(MAGIC_SEALED);
    let bytes = if is_sealed { SEALED_HEAD_BYTES } else { HEAD_BYTES };
    let Some(head) = file.get(..bytes) else { return Err(HeadFault::Torn) };
    let u32_at =
        |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if crc32fast::hash(&head[..bytes - 4]) != u32_at(bytes - 4) {
        let is_torn = file.len() == bytes;
        return Err(if is_torn { HeadFault::Torn } else { HeadFault::Foreign });
    }
    if !is_sealed && &head[..8] != MAGIC {
        return Err(HeadFault::Foreign);
    }
    if u32_at(8) != VERSION {
        return Err(HeadFault::Version(u32_at(8)));
    }
    let mut generation = [0; 8];
    generation.copy_from_slice(&head[28..36]);
    let lineage = Uuid::from_slice(&head[12..28]).map_err(|_| HeadFault::Foreign)?;
    let identity = Identity { lineage, generation: u64::from_le_bytes(generation) };
    Ok(Head { identity, is_sealed, bytes })
}

/// Starts the checksum of a record, without its payload.
fn sum_of(identity: Identity, at: u64, length: u32, settled: u64) -> crc32fast::Hasher {
    let mut sum = crc32fast::Hasher::new();
    sum.update(identity.lineage.as_bytes());
    sum.update(&identity.generation.to_le_bytes());
    sum.update(&at.to_le_bytes());
    sum.update(&length.to_le_bytes());
    sum.update(&settled.to_le_bytes());
    sum
}

/// Fills in the fields before a record's payload; `payload` is the payload's checksum.
pub(super) fn seal(
    record: &mut [u8],
    payload: &crc32fast::Hasher,
    identity: Identity,
    at: u64,
    settled: u64,
) {
    let length = (record.len() - RECORD_BYTES) as u32;
    let mut sum = sum_of(identity, at, length, settled);
    sum.combine(payload);
    record[..4].copy_from_slice(&MARK);
    record[4..8].copy_from_slice(&length.to_le_bytes());
    record[8..12].copy_from_slice(&sum.finalize().to_le_bytes());
    record[12..20].copy_from_slice(&settled.to_le_bytes());
}

/// Returns the position up to which the file was settled, from the fields before a payload.
pub(super) fn settled_of(record: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(*record.get(12..)?.first_chunk()?))
}

/// A complete record.
struct Found {
    payload: Range<usize>,
    settled: u64,
}

/// The bytes of a log from a position on.
#[derive(Clone, Copy)]
pub(super) struct LogBytes<'b> {
    pub(super) bytes: &'b [u8],
    /// The position of the first byte in the log.
    pub(super) begin: u64,
}

/// Returns the place of the payload by the head of a record; `None` without the mark of a record.
fn payload_at(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let head: &[u8; RECORD_BYTES] = bytes.get(at..)?.first_chunk()?;
    let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    let start = at + RECORD_BYTES;
    (head[..4] == MARK).then_some(start..start.checked_add(length)?)
}

fn record_at(log: LogBytes<'_>, at: usize, identity: Identity) -> Option<Found> {
    let payload = payload_at(log.bytes, at)?;
    let head = &log.bytes[at..payload.start];
    let sum = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
    let settled = settled_of(head)?;
    let mut found = sum_of(identity, log.begin + at as u64, payload.len() as u32, settled);
    found.update(log.bytes.get(payload.clone())?);
    (found.finalize() == sum).then_some(Found { payload, settled })
}

/// Reads the complete records at the beginning of bytes that were received: their payloads, and the
/// end of the last one. `None` if the bytes after that are not the beginning of a record.
pub(super) fn received(
    log: LogBytes<'_>,
    identity: Identity,
) -> Option<(Vec<Range<usize>>, usize)> {
    /// The difference in length between a sealed payload and a plain one is less than this.
    const SEALED_MAX: usize = 64;
    let (mut payloads, mut end) = (Vec::new(), 0);
    while let Some(found) = record_at(log, end, identity) {
        end = found.payload.end;
        payloads.push(found.payload);
    }
    let rest = log.bytes.len() - end;
    let is_incomplete = rest < RECORD_BYTES
        || payload_at(log.bytes, end).is_some_and(|payload| {
            payload.len() <= PAYLOAD_BYTES_MAX + SEALED_MAX && payload.end > log.bytes.len()
        });
    is_incomplete.then_some((payloads, end))
}

/// The content of a log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scan {
    /// The payloads, in order.
    pub(super) payloads: Vec<Range<usize>>,
    /// The end of the last payload.
    pub(super) end: usize,
    /// The state of the bytes after it.
    pub(super) rest: Rest,
}

/// The state of the bytes after the last valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Nothing,
    /// They were never completely written to the disk, and not acknowledged as durable.
    Torn,
    /// They are damaged: a record at this position shows that they had been complete.
    Damaged(usize),
}

/// Reads a log after its head.
pub(super) fn scan(file: &[u8], head: Head) -> Scan {
    let identity = head.identity;
    let log = LogBytes { bytes: file, begin: 0 };
    let (mut payloads, mut end) = (Vec::new(), head.bytes);
    while let Some(found) = record_at(log, end, identity) {
        end = found.payload.end;
        payloads.push(found.payload);
    }
    let rest = match file.len() > end {
        false => Rest::Nothing,
        true => witness(file, end, identity).map_or(Rest::Torn, Rest::Damaged),
    };
    Scan { payloads, end, rest }
}

/// Returns the first record after `end` which shows that there was a complete record at `end`.
fn witness(file: &[u8], end: usize, identity: Identity) -> Option<usize> {
    let mut at = end + 1;
    loop {
        at += file.get(at..)?.windows(MARK.len()).position(|bytes| bytes == MARK)?;
        match record_at(LogBytes { bytes: file, begin: 0 }, at, identity) {
            Some(found) if found.settled > end as u64 => return Some(at),
            Some(found) => at = found.payload.end,
            None => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity = Identity { lineage: Uuid::from_u128(7), generation: 3 };
    const HEAD: Head = Head { identity: IDENTITY, is_sealed: false, bytes: HEAD_BYTES };

    /// Makes a log with these payloads, each with `settled` of its position.
    fn log(payloads: &[&[u8]], settled: impl Fn(u64) -> u64) -> Vec<u8> {
        let mut file = head(IDENTITY).to_vec();
        for payload in payloads {
            let mut record = vec![0; RECORD_BYTES];
            record.extend_from_slice(payload);
            let mut sum = crc32fast::Hasher::new();
            sum.update(payload);
            let at = file.len() as u64;
            seal(&mut record, &sum, IDENTITY, at, settled(at));
            file.extend_from_slice(&record);
        }
        file
    }

    fn payloads<'f>(file: &'f [u8], scan: &Scan) -> Vec<&'f [u8]> {
        scan.payloads.iter().map(|range| &file[range.clone()]).collect()
    }

    #[test]
    fn records_come_back() {
        let file = log(&[b"one", b"", &[0xA7; 5000]], |at| at);
        assert_eq!(read_head(&file), Ok(HEAD));
        let scan = scan(&file, HEAD);
        assert_eq!(payloads(&file, &scan), [&b"one"[..], b"", &[0xA7; 5000]]);
        assert_eq!((scan.end, scan.rest), (file.len(), Rest::Nothing));
    }

    #[test]
    fn a_cut_anywhere_leaves_the_records_before_it() {
        let whole = log(&[b"one", b"two", b"three"], |at| at);
        let ends: Vec<usize> = scan(&whole, HEAD).payloads.iter().map(|all| all.end).collect();
        for length in HEAD_BYTES..whole.len() {
            let scan = scan(&whole[..length], HEAD);
            assert_eq!(scan.payloads.len(), ends.iter().filter(|&&end| end <= length).count());
            let rest = if scan.end == length { Rest::Nothing } else { Rest::Torn };
            assert_eq!(scan.rest, rest, "{length}");
        }
    }

    #[test]
    fn damage_before_what_was_settled_is_told_from_a_torn_end() {
        let whole = log(&[b"one", b"two", b"three"], |at| at);
        let starts: Vec<usize> =
            scan(&whole, HEAD).payloads.iter().map(|all| all.start - RECORD_BYTES).collect();
        for at in HEAD_BYTES..whole.len() {
            let mut file = whole.clone();
            file[at] ^= 1 << (at % 8);
            let hit = starts.iter().rposition(|&start| start <= at).unwrap();
            let rest = match starts.get(hit + 1) {
                Some(&next) => Rest::Damaged(next),
                None => Rest::Torn,
            };
            let scan = scan(&file, HEAD);
            assert_eq!((scan.payloads.len(), scan.end, scan.rest), (hit, starts[hit], rest));
        }
        // Nothing had been synced: the disk may have written the later records first.
        let mut file = log(&[b"one", b"two", b"three"], |_| HEAD_BYTES as u64);
        file[starts[1] + 3] ^= 1;
        let scan = scan(&file, HEAD);
        assert_eq!((scan.payloads.len(), scan.rest), (1, Rest::Torn));
    }

    #[test]
    fn records_of_other_logs_and_places_are_none() {
        let file = log(&[b"one", b"two"], |at| at);
        let other = Head { identity: Identity { generation: 4, ..IDENTITY }, ..HEAD };
        assert_eq!(scan(&file, other).payloads.len(), 0);
        let other = Head { identity: Identity { lineage: Uuid::from_u128(8), ..IDENTITY }, ..HEAD };
        assert_eq!(scan(&file, other).payloads.len(), 0);
        let mut moved = file.clone();
        let record = file[HEAD_BYTES..].to_vec();
        moved.extend_from_slice(&record);
        assert_eq!(scan(&moved, HEAD).payloads.len(), 2);
        // This is a log that is stored as a value in a log.
        let nested = log(&[&file, b"x"], |at| at);
        let mut torn = nested.clone();
        torn[HEAD_BYTES] ^= 1;
        assert!(matches!(scan(&torn, HEAD).rest, Rest::Damaged(at) if at > file.len()));
    }

    #[test]
    fn sealed_heads_are_told_from_others() {
        let whole = sealed_head(IDENTITY, |_| [9; SEAL_BYTES]);
        let head = Head { identity: IDENTITY, is_sealed: true, bytes: SEALED_HEAD_BYTES };
        assert_eq!(read_head(&whole), Ok(head));
        for length in 0..SEALED_HEAD_BYTES {
            let torn = read_head(&whole[..length]).unwrap_err();
            assert_eq!(torn, HeadFault::Torn);
        }
        for (at, flip) in (0..SEALED_HEAD_BYTES).flat_map(|at| [(at, 1), (at, 0x80)]) {
            let mut file = [&whole[..], b"behind"].concat();
            file[at] ^= flip;
            assert_eq!(read_head(&file), Err(HeadFault::Foreign));
        }
    }

    #[test]
    fn heads_are_checked() {
        let whole = head(IDENTITY);
        for length in 0..HEAD_BYTES {
            assert_eq!(read_head(&whole[..length]), Err(HeadFault::Torn));
        }
        for at in 0..HEAD_BYTES {
            let mut file = [&whole[..], b"behind"].concat();
            file[at] ^= 1;
            assert_eq!(read_head(&file), Err(HeadFault::Foreign));
        }
        let mut newer = whole;
        newer[8] = 2;
        let sum = crc32fast::hash(&newer[..36]);
        newer[36..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(read_head(&newer), Err(HeadFault::Version(2)));
    }
}

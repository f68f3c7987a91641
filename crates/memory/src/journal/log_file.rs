//! A log that is written to: its file, its length, and the cipher that seals its records if there
//! is a key.
//!
//! The payload of a sealed record is its number, the ciphertext and the tag, bound to the record's
//! position and to the position up to which the file was settled. The rest of the record, including
//! its checksum, is the same as in a log without a key. So a torn end is distinguished from damage
//! in the same way, before any key is tried.
//!
//! Numbers are never used twice, not even for a record whose write failed. Only the process that
//! began a sealed log writes to it: another process begins another log, with a separate key.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result};
use marmota_store::private_file;

use super::record::{self, Identity, RECORD_BYTES};
use crate::data_file::replace::failed;
use crate::encryption::file_encryption::{Cipher, FileEncryption};
use crate::encryption::seal::{TAG_BYTES, Use};

const NUMBER_BYTES: usize = 8;
/// The difference in length between a sealed payload and a plain one.
const SEALED_BYTES: usize = NUMBER_BYTES + TAG_BYTES;
/// A larger buffer is freed.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

pub(super) struct LogFile {
    pub(super) file: Arc<File>,
    pub(super) identity: Identity,
    pub(super) bytes: u64,
    sealing: Option<Sealing>,
}

struct Sealing {
    cipher: Cipher,
    /// The number of sealed records, including those whose write failed.
    count: u64,
    buffer: Vec<u8>,
}

impl LogFile {
    /// Begins a log; its name and its head are then on the disk.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Io`], or the error of the key's source.
    pub(super) fn begin(
        path: &Path,
        identity: Identity,
        encryption: &FileEncryption,
    ) -> Result<Self> {
        let cipher = encryption.begin(Use::Log)?;
        let head = match &cipher {
            None => record::head(identity).to_vec(),
            Some(cipher) => record::sealed_head(identity, |start| cipher.seal_head(start)),
        };
        let file = create(path, &head).map_err(fault)?;
        let sealing = cipher.map(|cipher| Sealing { cipher, count: 0, buffer: Vec::new() });
        Ok(Self { file: Arc::new(file), identity, bytes: head.len() as u64, sealing })
    }

    /// Continues a log that is not sealed, or that gets only bytes of another database's log.
    pub(super) fn go_on(file: File, identity: Identity, bytes: u64) -> Self {
        Self { file: Arc::new(file), identity, bytes, sealing: None }
    }

    /// Begins a log that gets the bytes of another database's log. Its name is then on the disk.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Io`].
    pub(super) fn begin_copy(path: &Path, identity: Identity) -> Result<Self> {
        let file = create(path, &[]).map_err(fault)?;
        Ok(Self::go_on(file, identity, 0))
    }

    /// Appends bytes of another database's log.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Io`]; then nothing is appended.
    pub(super) fn copy(&mut self, bytes: &[u8]) -> Result<()> {
        (&*self.file).write_all(bytes).or_else(|error| {
            self.file.set_len(self.bytes).map_err(fault)?;
            Err(fault(error))
        })?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Returns the length of a log that has one record with a payload of this length.
    pub(super) const fn bytes_with(&self, payload_bytes: usize) -> u64 {
        let (head, seal) = match self.sealing {
            None => (record::HEAD_BYTES, 0),
            Some(_) => (record::SEALED_HEAD_BYTES, SEALED_BYTES),
        };
        (head + RECORD_BYTES + seal + payload_bytes) as u64
    }

    /// Writes a record whose payload has this checksum; returns its length.
    ///
    /// # Errors
    /// Those of the disk; then the record may be written in part.
    pub(super) fn write(
        &mut self,
        plain: &mut [u8],
        payload: &crc32fast::Hasher,
        settled: u64,
    ) -> io::Result<u64> {
        let (identity, at) = (self.identity, self.bytes);
        let record = match &mut self.sealing {
            None => {
                record::seal(plain, payload, identity, at, settled);
                &*plain
            }
            Some(sealing) => sealing.seal(&plain[RECORD_BYTES..], identity, at, settled),
        };
        let bytes = record.len() as u64;
        (&*self.file).write_all(record)?;
        self.bytes += bytes;
        Ok(bytes)
    }
}

impl Sealing {
    /// Makes a sealed record from a payload.
    fn seal(&mut self, payload: &[u8], identity: Identity, at: u64, settled: u64) -> &[u8] {
        self.count += 1;
        let record = &mut self.buffer;
        record.clear();
        record.shrink_to(BUFFER_BYTES_KEPT);
        record.extend_from_slice(&[0; RECORD_BYTES]);
        record.extend_from_slice(&self.count.to_le_bytes());
        record.extend_from_slice(payload);
        let message = &mut record[RECORD_BYTES + NUMBER_BYTES..];
        let tag = self.cipher.seal(self.count, &bound(at, settled), message);
        record.extend_from_slice(&tag);
        let mut sum = crc32fast::Hasher::new();
        sum.update(&record[RECORD_BYTES..]);
        record::seal(record, &sum, identity, at, settled);
        record
    }
}

/// Returns the bytes that a record is bound to. (Its log has a separate key.)
fn bound(at: u64, settled: u64) -> [u8; 16] {
    let mut bound = [0; 16];
    bound[..8].copy_from_slice(&at.to_le_bytes());
    bound[8..].copy_from_slice(&settled.to_le_bytes());
    bound
}

/// Decrypts the payload of a record in place; `None` if any of it was changed. `begin` is the position
/// of the first byte in the log.
pub(super) fn unseal(
    log: &mut [u8],
    begin: u64,
    payload: &Range<usize>,
    cipher: &Cipher,
) -> Option<Range<usize>> {
    let at = payload.start - RECORD_BYTES;
    let settled = record::settled_of(log.get(at..payload.start)?)?;
    let (number, sealed) = log.get_mut(payload.clone())?.split_first_chunk_mut::<NUMBER_BYTES>()?;
    let number = u64::from_le_bytes(*number);
    let bytes = cipher.unseal(number, &bound(begin + at as u64, settled), sealed)?;
    let start = payload.start + NUMBER_BYTES;
    Some(start..start + bytes)
}

/// Creates a log with this head; its name is then on the disk.
fn create(path: &Path, head: &[u8]) -> io::Result<File> {
    let file = private_file::options().append(true).create(true).open(path)?;
    file.set_len(0)?;
    (&file).write_all(head)?;
    file.sync_all()?;
    private_file::sync_folder_of(path)?;
    Ok(file)
}

/// Returns true if a log has these bytes at a position.
///
/// # Errors
/// [`marmota_model::ErrorKind::Io`].
pub(super) fn has_bytes(path: &Path, position: u64, bytes: &[u8]) -> Result<bool> {
    if bytes.is_empty() {
        return Ok(true);
    }
    let mut own = vec![0; bytes.len()];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut own, position));
    read.map_err(|error| failed("read", path, error))?;
    Ok(own == bytes)
}

/// The error for a failed write to the disk; nothing was written.
#[cold]
pub(super) fn fault(error: io::Error) -> Error {
    use io::ErrorKind::{
        FileTooLarge, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    let message = match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => {
            "the disk is full, nothing was written: make room and try again".to_owned()
        }
        PermissionDenied | ReadOnlyFilesystem => {
            "the log is read-only, nothing was written: give the program the right to write to the \
             file and its folder"
                .to_owned()
        }
        _ => format!("the disk failed, nothing was written: {error}; check the disk"),
    };
    Error::new(ErrorKind::Io, message).with_source(error)
}

#[cfg(test)]
#[cfg(feature = "encryption")]
mod tests {
    use marmota_model::Uuid;

    use super::*;
    use marmota_store::key::{EncryptionKey, KeySource};

    const IDENTITY: Identity = Identity { lineage: Uuid::from_u128(7), generation: 3 };

    fn encryption() -> FileEncryption {
        FileEncryption::from(Some(KeySource::of(&EncryptionKey::raw([1; 32])))).unwrap()
    }

    fn write(log: &mut LogFile, payload: &[u8]) {
        let mut record = [&[0; RECORD_BYTES][..], payload].concat();
        let mut sum = crc32fast::Hasher::new();
        sum.update(payload);
        let settled = log.bytes;
        log.write(&mut record, &sum, settled).unwrap();
    }

    /// Makes a log, and the cipher to read it with.
    fn log(payloads: &[&[u8]]) -> (Vec<u8>, Cipher) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = LogFile::begin(&path, IDENTITY, &encryption()).unwrap();
        payloads.iter().for_each(|payload| write(&mut log, payload));
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len() as u64, log.bytes);
        let head = &bytes[..record::SEALED_HEAD_BYTES - 4];
        let cipher = encryption().open(&path, Use::Log, head).unwrap();
        (bytes, cipher)
    }

    fn payloads(log: &[u8], cipher: &Cipher) -> Vec<Option<Vec<u8>>> {
        let mut log = log.to_vec();
        let scan = record::scan(&log, record::read_head(&log).unwrap());
        let mut opened =
            |payload| unseal(&mut log, 0, payload, cipher).map(|range| log[range].to_vec());
        scan.payloads.iter().map(&mut opened).collect()
    }

    /// Makes records that an attacker could write without the key, but with knowledge of the
    /// format.
    fn forged(log: &[u8], records: &[Range<usize>]) -> Vec<u8> {
        let mut file = log[..record::SEALED_HEAD_BYTES].to_vec();
        for payload in records {
            let mut record = log[payload.start - RECORD_BYTES..payload.end].to_vec();
            let settled = record::settled_of(&record).unwrap();
            let mut sum = crc32fast::Hasher::new();
            sum.update(&record[RECORD_BYTES..]);
            record::seal(&mut record, &sum, IDENTITY, file.len() as u64, settled);
            file.extend_from_slice(&record);
        }
        file
    }

    #[test]
    fn records_come_back_and_none_is_in_the_clear() {
        let (file, cipher) = log(&[b"one", b"", &[0xA7; 5000]]);
        let wanted = [b"one".to_vec(), Vec::new(), vec![0xA7; 5000]].map(Some);
        assert_eq!(payloads(&file, &cipher), wanted);
        assert!(!file.windows(3).any(|bytes| bytes == b"one" || bytes == [0xA7; 3]));
    }

    #[test]
    fn records_with_right_checksums_that_were_changed_are_found() {
        let (file, cipher) = log(&[b"one", b"two", b"six"]);
        let found = record::scan(&file, record::read_head(&file).unwrap()).payloads;
        for order in [&[1, 0, 2][..], &[0, 2], &[0, 0, 1], &[1], &[0, 1, 2, 2]] {
            let order: Vec<Range<usize>> = order.iter().map(|&at| found[at].clone()).collect();
            let opened = payloads(&forged(&file, &order), &cipher);
            assert_eq!(opened.len(), order.len());
            assert!(opened.contains(&None), "{order:?}");
        }
        for at in found[1].clone() {
            let mut flipped = file.clone();
            flipped[at] ^= 4;
            let opened = payloads(&forged(&flipped, &found), &cipher);
            assert!(opened[0].is_some() && opened[1].is_none() && opened[2].is_some(), "{at}");
        }
        assert_eq!(payloads(&forged(&file, &found), &cipher).iter().flatten().count(), 3);
    }

    #[test]
    fn no_number_is_used_twice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = LogFile::begin(&path, IDENTITY, &encryption()).unwrap();
        write(&mut log, b"one");
        let end = log.bytes;
        write(&mut log, b"two");
        let first = std::fs::read(&path).unwrap();
        // This is the state after a failed write.
        log.file.set_len(end).unwrap();
        log.bytes = end;
        write(&mut log, b"two");
        let second = std::fs::read(&path).unwrap();
        assert_eq!(first.len(), second.len());
        let at = end as usize + RECORD_BYTES;
        assert_ne!(first[at..at + NUMBER_BYTES], second[at..at + NUMBER_BYTES]);
        assert_ne!(first[at + NUMBER_BYTES..], second[at + NUMBER_BYTES..]);
        // Nor do two logs share a key.
        let other = LogFile::begin(&folder.path().join("other"), IDENTITY, &encryption());
        drop(other.unwrap());
        let other = std::fs::read(folder.path().join("other")).unwrap();
        assert_ne!(other[52..84], second[52..84]);
    }
}

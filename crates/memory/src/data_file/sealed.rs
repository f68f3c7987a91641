//! The sealed file of a memory engine: an encrypted binary file.
//!
//! ```text
//! file    magic (8 bytes), version u32, seal (see `file_encryption.rs`), { chunk }
//! chunk   65,536 bytes (the last one: fewer, or as many) sealed, tag (16 bytes)
//! ```
//! Chunks are numbered from 1, and each is marked if it is the last. So a chunk that is moved, left
//! out, repeated or cut off is detected.

use std::io::{self, Write};
use std::path::Path;

use marmota_model::{Error, ErrorKind, Result};

use crate::encryption::file_encryption::{Cipher, FileEncryption};
use crate::encryption::seal::{SEAL_BYTES, TAG_BYTES, Use};

/// It differs from the others in so many bits that damage cannot convert one to the other.
const MAGIC: &[u8; 8] = b"\x9ESEALEDM";
const VERSION: u32 = 1;
const START_BYTES: usize = 12;
const HEAD_BYTES: usize = START_BYTES + SEAL_BYTES;
const CHUNK_BYTES: usize = 1 << 16;

/// A writer that encrypts its input.
pub(crate) struct Writer<W> {
    out: W,
    cipher: Cipher,
    chunk: Vec<u8>,
    /// The number of chunks written.
    count: u64,
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(mut out: W, cipher: Cipher) -> io::Result<Self> {
        let start = start();
        out.write_all(&start)?;
        out.write_all(&cipher.seal_head(&start))?;
        Ok(Self { out, cipher, chunk: Vec::with_capacity(CHUNK_BYTES + TAG_BYTES), count: 0 })
    }

    /// Writes the last chunk.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.write_chunk(true)
    }

    fn write_chunk(&mut self, is_last: bool) -> io::Result<()> {
        self.count += 1;
        let tag = self.cipher.seal(self.count, &[u8::from(is_last)], &mut self.chunk);
        self.chunk.extend_from_slice(&tag);
        self.out.write_all(&self.chunk)?;
        self.chunk.clear();
        Ok(())
    }
}

impl<W: Write> Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Only now it is known that the chunk is not the last one.
        if self.chunk.len() == CHUNK_BYTES && !bytes.is_empty() {
            self.write_chunk(false)?;
        }
        let taken = bytes.len().min(CHUNK_BYTES - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn start() -> [u8; START_BYTES] {
    let mut start = [0; START_BYTES];
    start[..8].copy_from_slice(MAGIC);
    start[8..].copy_from_slice(&VERSION.to_le_bytes());
    start
}

/// Returns true for a file that [`Writer`] has written.
pub(crate) fn is_sealed(file: &[u8]) -> bool {
    file.starts_with(MAGIC)
}

/// Decrypts a file.
///
/// # Errors
/// [`ErrorKind::Denied`] without its key, [`ErrorKind::Invalid`] if it is damaged; both messages
/// have its path.
pub(crate) fn open(mut file: Vec<u8>, path: &Path, encryption: &FileEncryption) -> Result<Vec<u8>> {
    let refuse = |what: &str| {
        Error::new(ErrorKind::Invalid, format!("{} {what}: restore a copy", path.display()))
    };
    let Some(head) = file.get(..HEAD_BYTES) else { return Err(refuse("is truncated")) };
    if head[8..START_BYTES] != VERSION.to_le_bytes() {
        return Err(refuse(
            "is encrypted in another version than this program reads, or is damaged",
        ));
    }
    let cipher = encryption.open(path, Use::Snapshot, head)?;
    let (mut at, mut end, mut number) = (HEAD_BYTES, 0, 0);
    loop {
        number += 1;
        let behind = file.len().min(at + CHUNK_BYTES + TAG_BYTES);
        let is_last = behind == file.len();
        let opened = cipher.unseal(number, &[u8::from(is_last)], &mut file[at..behind]);
        let bytes = opened.ok_or_else(|| {
            refuse(&format!("is damaged or truncated in the 64 KiB from byte {at} on"))
        })?;
        file.copy_within(at..at + bytes, end);
        (at, end) = (behind, end + bytes);
        if is_last {
            file.truncate(end);
            return Ok(file);
        }
    }
}

#[cfg(test)]
#[cfg(feature = "encryption")]
mod tests {
    use super::*;
    use marmota_store::key::{EncryptionKey, KeySource};

    fn encryption(key: u8) -> FileEncryption {
        FileEncryption::from(Some(KeySource::of(&EncryptionKey::raw([key; 32])))).unwrap()
    }

    fn sealed(content: &[u8], encryption: &FileEncryption) -> Vec<u8> {
        let mut file = Vec::new();
        let cipher = encryption.begin(Use::Snapshot).unwrap().unwrap();
        let mut writer = Writer::new(&mut file, cipher).unwrap();
        writer.write_all(content).unwrap();
        writer.finish().unwrap();
        file
    }

    #[test]
    fn content_of_any_length_comes_back() {
        let (encryption, path) = (encryption(1), Path::new("x"));
        for length in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES] {
            let content: Vec<u8> = (0..length).map(|at| (at * 31 % 251) as u8).collect();
            let file = sealed(&content, &encryption);
            assert!(
                is_sealed(&file) && open(file, path, &encryption).unwrap() == content,
                "{length}"
            );
        }
    }

    #[test]
    fn what_was_moved_cut_or_repeated_is_refused() {
        let (encryption, path) = (encryption(1), Path::new("x"));
        let file = sealed(&vec![5; 3 * CHUNK_BYTES + 10], &encryption);
        let whole = CHUNK_BYTES + TAG_BYTES;
        let (head, chunks) = file.split_at(HEAD_BYTES);
        let chunks: Vec<&[u8]> = chunks.chunks(whole).collect();
        for order in [&[1, 0, 2, 3][..], &[0, 2, 3], &[0, 1, 2], &[0, 1, 1, 2, 3], &[0, 1, 2, 3, 3]]
        {
            let mut other = head.to_vec();
            order.iter().for_each(|&chunk| other.extend_from_slice(chunks[chunk]));
            let error = open(other, path, &encryption).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{order:?}: {error}");
        }
        assert_eq!(open(file, path, &self::encryption(2)).unwrap_err().kind(), ErrorKind::Denied);
    }

    #[test]
    fn no_two_files_are_sealed_alike() {
        let encryption = encryption(1);
        assert_ne!(
            sealed(b"content", &encryption)[START_BYTES..],
            sealed(b"content", &encryption)[START_BYTES..]
        );
    }
}

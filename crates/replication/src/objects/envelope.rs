//! The envelope of every object in a target: a head in JSON, a body, and a checksum of both.
//!
//! ```text
//! 8 bytes  "MRMTREP1"
//! 4 bytes  the length of the head
//!          the head, as JSON
//!          the body
//! 8 bytes  XXH3-64 of everything before
//! ```
//! Numbers are little-endian. The head names the encoding of the body: `zstd` or `none`.

use marmota_model::{Error, ErrorKind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"MRMTREP1";
const CHECKSUM_BYTES: usize = 8;
/// Level 1: pages of one second have much in common, which this level finds as well.
const LEVEL: i32 = 1;
/// The largest body that is decompressed at once.
const BODY_BYTES_MAX: u64 = 8 << 30;

/// The encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Encoding {
    None,
    Zstd,
}

/// Compresses a body, unless that makes it no smaller, as for encrypted pages.
pub(crate) fn pack(body: &[u8]) -> Result<(Encoding, Vec<u8>)> {
    // A sample decides: compressing what does not shrink costs as much as what does.
    let sample = &body[..body.len().min(64 << 10)];
    let compress = |bytes: &[u8]| {
        zstd::bulk::compress(bytes, LEVEL).map_err(|error| {
            Error::new(ErrorKind::Io, format!("pages cannot be compressed: {error}"))
        })
    };
    if compress(sample)?.len() * 10 >= sample.len() * 9 {
        return Ok((Encoding::None, body.to_vec()));
    }
    Ok((Encoding::Zstd, compress(body)?))
}

/// Makes an object.
pub(crate) fn seal(head: &impl Serialize, body: &[u8]) -> Result<Vec<u8>> {
    let head = serde_json::to_vec(head).map_err(|error| {
        Error::new(ErrorKind::Bug, format!("a head cannot be written: {error}"))
    })?;
    let mut object = Vec::with_capacity(MAGIC.len() + 4 + head.len() + body.len() + CHECKSUM_BYTES);
    object.extend_from_slice(MAGIC);
    object.extend_from_slice(&(head.len() as u32).to_le_bytes());
    object.extend_from_slice(&head);
    object.extend_from_slice(body);
    let checksum = xxh3_64(&object);
    object.extend_from_slice(&checksum.to_le_bytes());
    Ok(object)
}

/// Opens an object, after its checksum was verified. `name` is for errors.
///
/// # Errors
/// [`ErrorKind::Engine`] for a damaged object, with its name.
pub(crate) fn open<H: DeserializeOwned>(name: &str, object: &[u8]) -> Result<(H, Vec<u8>)> {
    let damaged = |why: &str| damaged(name, why);
    let end = object.len().checked_sub(CHECKSUM_BYTES).ok_or_else(|| damaged("it is truncated"))?;
    let (content, checksum) = object.split_at(end);
    if !content.starts_with(MAGIC) {
        return Err(damaged("it does not begin like an object of a replica"));
    }
    if xxh3_64(content).to_le_bytes() != checksum {
        return Err(damaged("its checksum is wrong, or it is truncated"));
    }
    let rest = &content[MAGIC.len()..];
    let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(|| damaged("it is truncated"))?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > rest.len() {
        return Err(damaged("it is truncated"));
    }
    let (head, body) = rest.split_at(length);
    let head = serde_json::from_slice(head).map_err(|error| damaged(&error.to_string()))?;
    Ok((head, body.to_vec()))
}

/// Decompresses a body of this many bytes.
pub(crate) fn unpack(name: &str, encoding: Encoding, body: Vec<u8>, bytes: u64) -> Result<Vec<u8>> {
    let unpacked = match encoding {
        Encoding::None => body,
        Encoding::Zstd => {
            if bytes > BODY_BYTES_MAX {
                return Err(damaged(name, "its body is too large"));
            }
            zstd::bulk::decompress(&body, usize::try_from(bytes).unwrap_or(usize::MAX))
                .map_err(|error| damaged(name, &error.to_string()))?
        }
    };
    match unpacked.len() as u64 == bytes {
        true => Ok(unpacked),
        false => Err(damaged(name, "its body does not have the length in its head")),
    }
}

/// Returns the error for a damaged object.
#[cold]
pub(crate) fn damaged(name: &str, why: &str) -> Error {
    let message = format!("the replica is damaged: `{name}`: {why}");
    Error::new(ErrorKind::Engine, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_byte_and_every_truncation_is_detected() {
        let object = seal(&"head", b"some pages").unwrap();
        let (head, body): (String, _) = open("a", &object).unwrap();
        assert_eq!((&*head, &*body), ("head", &b"some pages"[..]));
        for at in 0..object.len() {
            let mut changed = object.clone();
            changed[at] ^= 1;
            let error = open::<String>("segments/7", &changed).unwrap_err();
            assert!(error.message().contains("`segments/7`"), "{error}");
            assert!(open::<String>("segments/7", &object[..at]).is_err());
        }
    }
}

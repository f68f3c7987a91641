//! Packets: their length and number (4 bytes each, little-endian) and a body.
//!
//! ```
//! use marmota_rpc::packet;
//! let mut out = Vec::new();
//! packet::put(&mut out, b"hello");
//! assert_eq!(out, b"\x05\0\0\0\0\0\0\0hello");
//! let packet = packet::first(&out, 100)?.unwrap();
//! assert_eq!((packet.number, packet.body), (0, &b"hello"[..]));
//! # Ok::<(), marmota_model::Error>(())
//! ```

use std::ops::Deref;

use marmota_model::{Error, ErrorKind, Result};

/// The size of the header of a packet.
pub const HEAD_BYTES: usize = 8;

/// A packet at the start of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'b> {
    /// The number that its sender gave it.
    pub number: u32,
    /// The bytes after the header.
    pub body: &'b [u8],
}

impl Packet<'_> {
    /// Returns the size of the packet with its header.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        HEAD_BYTES + self.body.len()
    }
}

/// The body of a packet, with its buffer.
#[derive(Debug)]
pub struct PacketBody {
    bytes: Vec<u8>,
    start: usize,
}

impl PacketBody {
    /// Creates a body of the bytes from `start` to the end of a buffer.
    pub(crate) const fn new(bytes: Vec<u8>, start: usize) -> Self {
        Self { bytes, start }
    }

    /// Copies a small body.
    #[must_use]
    pub fn copy(body: &[u8]) -> Self {
        Self::new(body.to_vec(), 0)
    }
}

impl Deref for PacketBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// Starts a packet; returns its offset, for [`end`].
pub fn begin(out: &mut Vec<u8>, number: u32) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&number.to_le_bytes());
    start
}

/// Finishes the packet that starts at an offset.
pub fn end(out: &mut [u8], start: usize) {
    // Both sides limit bodies to far less than 4 GiB.
    let length = (out.len() - start - HEAD_BYTES) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Appends a packet with the number 0.
pub fn put(out: &mut Vec<u8>, body: &[u8]) {
    let start = begin(out, 0);
    out.extend_from_slice(body);
    end(out, start);
}

/// Returns the first packet; `None` if it is not complete.
///
/// # Errors
/// [`ErrorKind::Protocol`] if its body is larger than allowed.
#[inline]
pub fn first(bytes: &[u8], bytes_max: usize) -> Result<Option<Packet<'_>>> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
    let [a, b, c, d, e, f, g, h] = *head;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > bytes_max {
        return Err(too_large(length, bytes_max));
    }
    let number = u32::from_le_bytes([e, f, g, h]);
    Ok(rest.get(..length).map(|body| Packet { number, body }))
}

#[cold]
fn too_large(length: usize, bytes_max: usize) -> Error {
    let message = format!("a packet has {length} bytes; at most {bytes_max} are allowed");
    Error::new(ErrorKind::Protocol, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_found_one_by_one() {
        let mut out = Vec::new();
        for number in 0..3 {
            let start = begin(&mut out, number);
            out.extend(std::iter::repeat_n(7, number as usize));
            end(&mut out, start);
        }
        let mut rest = &out[..];
        for number in 0..3 {
            assert!(first(&rest[..HEAD_BYTES - 1], 9).unwrap().is_none());
            let packet = first(rest, 9).unwrap().unwrap();
            assert_eq!((packet.number, packet.body.len()), (number, number as usize));
            rest = &rest[packet.bytes()..];
        }
        assert!(rest.is_empty());
        assert!(first(&[255; 8], 9).is_err());
    }
}

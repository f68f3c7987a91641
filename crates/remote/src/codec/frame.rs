//! Framing of consecutive packets.

use marmota_model::{Error, ErrorKind, Result};

/// The size of the header of a packet.
pub(crate) const HEAD_BYTES: usize = 8;

/// Starts a packet; returns its offset, for [`end`].
pub(crate) fn begin(out: &mut Vec<u8>, number: u32) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&number.to_le_bytes());
    start
}

/// Finishes the packet that starts at an offset.
pub(crate) fn end(out: &mut [u8], start: usize) {
    // Both sides limit bodies to far less than 4 GiB.
    let length = (out.len() - start - HEAD_BYTES) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// A packet at the start of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'b> {
    pub(crate) number: u32,
    pub(crate) body: &'b [u8],
}

impl<'b> Frame<'b> {
    /// Returns the first packet, if it is complete.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] if it is larger than allowed.
    pub(crate) fn first(bytes: &'b [u8], bytes_max: usize) -> Result<Option<Self>> {
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let [a, b, c, d, e, f, g, h] = *head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > bytes_max {
            let message = format!("a packet of {length} bytes, {bytes_max} are the most");
            return Err(Error::new(ErrorKind::Protocol, message));
        }
        let number = u32::from_le_bytes([e, f, g, h]);
        Ok(rest.get(..length).map(|body| Frame { number, body }))
    }

    /// Returns the size of the packet with its header.
    pub(crate) const fn bytes(&self) -> usize {
        HEAD_BYTES + self.body.len()
    }
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
            assert!(Frame::first(&rest[..HEAD_BYTES - 1], 9).unwrap().is_none());
            let frame = Frame::first(rest, 9).unwrap().unwrap();
            assert_eq!((frame.number, frame.body.len()), (number, number as usize));
            rest = &rest[frame.bytes()..];
        }
        assert!(rest.is_empty());
        assert!(Frame::first(&[255; 8], 9).is_err());
    }
}

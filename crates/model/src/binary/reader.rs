//! Reads and writes numbers and runs of bytes. Reading does not trust lengths.

use crate::{Error, ErrorKind, Result};

/// Appends an unsigned integer of variable length: seven bits in each byte, the lowest first
/// (LEB128).
#[inline]
pub fn put_unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed integer of variable length. The sign is stored in the lowest bit.
#[inline]
pub fn put_int(out: &mut Vec<u8>, value: i64) {
    put_unsigned(out, (value << 1 ^ value >> 63) as u64);
}

/// Appends a run of bytes after its length.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_unsigned(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends an integer that may be missing.
#[inline]
pub fn put_option(out: &mut Vec<u8>, value: Option<i64>) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put_int(out, value);
    }
}

/// Returns the error for data that is not in this format.
#[cold]
pub(super) fn broken(what: &str) -> Error {
    Error::new(ErrorKind::Protocol, format!("the encoded data {what}"))
}

/// Reads encoded data from the front. All errors have the kind [`ErrorKind::Protocol`].
///
/// ```
/// use marmota_model::binary::{BinaryReader, put_bytes, put_int};
///
/// let mut out = Vec::new();
/// put_int(&mut out, -5);
/// put_bytes(&mut out, b"Bourges");
/// let mut reader = BinaryReader::new(&out);
/// assert_eq!((reader.int()?, reader.text()?), (-5, "Bourges"));
/// assert!(reader.u8().is_err());
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BinaryReader<'b> {
    rest: &'b [u8],
}

impl<'b> BinaryReader<'b> {
    /// Starts at the first byte.
    #[inline]
    pub const fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the bytes that were not read.
    #[inline]
    pub const fn rest(&self) -> &'b [u8] {
        self.rest
    }

    /// Reads this number of bytes.
    ///
    /// # Errors
    /// If there are fewer.
    #[inline]
    pub fn take(&mut self, length: usize) -> Result<&'b [u8]> {
        match self.rest.split_at_checked(length) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(broken("is truncated")),
        }
    }

    /// Reads an array of bytes.
    ///
    /// # Errors
    /// If there are fewer.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// At the end.
    #[inline]
    pub fn u8(&mut self) -> Result<u8> {
        match self.rest.split_first() {
            Some((&first, rest)) => {
                self.rest = rest;
                Ok(first)
            }
            None => Err(broken("is truncated")),
        }
    }

    /// Reads a boolean.
    ///
    /// # Errors
    /// For a byte other than 0 and 1, or at the end.
    #[inline]
    pub fn bool(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(broken("has an invalid boolean")),
        }
    }

    /// Reads what [`put_unsigned`] has written.
    ///
    /// # Errors
    /// For more than 64 bits, or at the end.
    #[inline]
    pub fn unsigned(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let part = u64::from(byte & 0x7F);
            if shift == 63 && part > 1 {
                break;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(broken("has a number of more than 64 bits"))
    }

    /// Reads what [`put_int`] has written.
    ///
    /// # Errors
    /// Those of [`Self::unsigned`].
    #[inline]
    pub fn int(&mut self) -> Result<i64> {
        let value = self.unsigned()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads a size.
    ///
    /// # Errors
    /// Those of [`Self::unsigned`].
    #[inline]
    pub fn size(&mut self) -> Result<usize> {
        usize::try_from(self.unsigned()?)
            .map_err(|_| broken("has a size that is too large for memory"))
    }

    /// Reads a number of items, each of which has at least one byte.
    ///
    /// # Errors
    /// If the rest is shorter than that.
    #[inline]
    pub fn count(&mut self) -> Result<usize> {
        let count = self.size()?;
        if count > self.rest.len() {
            return Err(broken("is shorter than its declared length"));
        }
        Ok(count)
    }

    /// Reads what [`put_bytes`] has written.
    ///
    /// # Errors
    /// If the length exceeds the rest.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'b [u8]> {
        let length = self.size()?;
        self.take(length)
    }

    /// Reads what [`put_bytes`] has written, as a text.
    ///
    /// # Errors
    /// If the length exceeds the rest, or it is not UTF-8.
    #[inline]
    pub fn text(&mut self) -> Result<&'b str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| broken("has a text that is not UTF-8"))
    }

    /// Reads what [`put_option`] has written.
    ///
    /// # Errors
    /// Those of [`Self::bool`] and [`Self::int`].
    #[inline]
    pub fn option(&mut self) -> Result<Option<i64>> {
        Ok(if self.bool()? { Some(self.int()?) } else { None })
    }

    /// Checks that all bytes were read.
    ///
    /// # Errors
    /// If bytes remain.
    #[inline]
    pub fn end(&self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(broken("has bytes after its end")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(unsigned: u64, int: i64, bytes: Vec<u8>, option: Option<i64>) {
            let mut out = Vec::new();
            put_unsigned(&mut out, unsigned);
            put_int(&mut out, int);
            put_bytes(&mut out, &bytes);
            put_option(&mut out, option);
            let mut read = BinaryReader::new(&out);
            prop_assert_eq!(read.unsigned().unwrap(), unsigned);
            prop_assert_eq!(read.int().unwrap(), int);
            prop_assert_eq!(read.bytes().unwrap(), &bytes[..]);
            prop_assert_eq!(read.option().unwrap(), option);
            read.end().unwrap();
            for end in 0..out.len() {
                let mut short = BinaryReader::new(&out[..end]);
                let all = short.unsigned().and(short.int()).and(short.bytes()).and(short.option());
                prop_assert!(all.is_err());
            }
        }
    }
}

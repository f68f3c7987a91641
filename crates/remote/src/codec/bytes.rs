//! Encoding of numbers and byte strings: variable-length integers, strings and bytes with their
//! length first. Reading does not trust lengths.

use marmota_model::{Error, ErrorKind, Result};

pub(crate) fn put_unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The sign is stored in the lowest bit.
pub(crate) fn put_int(out: &mut Vec<u8>, value: i64) {
    put_unsigned(out, (value << 1 ^ value >> 63) as u64);
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_unsigned(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(crate) fn put_option(out: &mut Vec<u8>, value: Option<i64>) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put_int(out, value);
    }
}

/// Returns the error for an invalid packet of the peer.
#[cold]
pub(crate) fn broken(what: &str) -> Error {
    Error::new(ErrorKind::Protocol, format!("the packet {what}"))
}

/// Bytes that are read from the front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'b> {
    rest: &'b [u8],
}

impl<'b> Bytes<'b> {
    pub(crate) const fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn rest(&self) -> &'b [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> Result<&'b [u8]> {
        match self.rest.split_at_checked(length) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(broken("is truncated")),
        }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8> {
        match self.rest.split_first() {
            Some((&first, rest)) => {
                self.rest = rest;
                Ok(first)
            }
            None => Err(broken("is truncated")),
        }
    }

    pub(crate) fn bool(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(broken("has an invalid boolean")),
        }
    }

    #[inline]
    pub(crate) fn unsigned(&mut self) -> Result<u64> {
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

    #[inline]
    pub(crate) fn int(&mut self) -> Result<i64> {
        let value = self.unsigned()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(crate) fn size(&mut self) -> Result<usize> {
        usize::try_from(self.unsigned()?).map_err(|_| {
            broken(
                "has a size that is too large for \
                                                              memory",
            )
        })
    }

    /// Reads a number of items, each of which has at least one byte.
    pub(crate) fn count(&mut self) -> Result<usize> {
        let count = self.size()?;
        if count > self.rest.len() {
            return Err(broken("is shorter than its declared length"));
        }
        Ok(count)
    }

    #[inline]
    pub(crate) fn bytes(&mut self) -> Result<&'b [u8]> {
        let length = self.size()?;
        self.take(length)
    }

    #[inline]
    pub(crate) fn text(&mut self) -> Result<&'b str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| broken("has a text that is not UTF-8"))
    }

    pub(crate) fn option(&mut self) -> Result<Option<i64>> {
        Ok(if self.bool()? { Some(self.int()?) } else { None })
    }

    /// Returns an error if bytes remain.
    pub(crate) fn end(&self) -> Result<()> {
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
            let mut read = Bytes::new(&out);
            prop_assert_eq!(read.unsigned().unwrap(), unsigned);
            prop_assert_eq!(read.int().unwrap(), int);
            prop_assert_eq!(read.bytes().unwrap(), &bytes[..]);
            prop_assert_eq!(read.option().unwrap(), option);
            read.end().unwrap();
            for end in 0..out.len() {
                let mut short = Bytes::new(&out[..end]);
                let all = short.unsigned().and(short.int()).and(short.bytes()).and(short.option());
                prop_assert!(all.is_err());
            }
        }
    }
}

//! The body of a packet, which is read from the front.

use std::ops::{Deref, DerefMut};

use marmota_model::binary::BinaryReader;
use marmota_model::{Error, ErrorKind};

pub(crate) use marmota_model::binary::{put_bytes, put_int, put_option, put_unsigned};

/// Returns the error for an invalid packet of the peer.
#[cold]
pub(crate) fn broken(what: &str) -> Error {
    Error::new(ErrorKind::Protocol, format!("the packet {what}"))
}

/// A reader of a packet. Numbers and values are read by [`BinaryReader`]; the other files of this
/// folder add what consists of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'b>(BinaryReader<'b>);

impl<'b> Bytes<'b> {
    pub(crate) const fn new(bytes: &'b [u8]) -> Self {
        Self(BinaryReader::new(bytes))
    }
}

impl<'b> Deref for Bytes<'b> {
    type Target = BinaryReader<'b>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Bytes<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

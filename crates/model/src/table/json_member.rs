//! The text before a field's value in a row's JSON.

use crate::{Field, Kind};

/// The text before a field's value in a row's JSON: `,"name":`.
#[derive(Clone, Debug)]
pub(crate) struct JsonMember {
    /// Padded with zeros if it is short.
    bytes: Box<[u8]>,
    length: usize,
    has_names: bool,
}

impl JsonMember {
    /// The number of bytes that are copied at once.
    pub(crate) const SHORT: usize = 32;

    pub(super) fn of(field: &Field) -> Self {
        let mut bytes = vec![b','];
        bytes.extend_from_slice(&serde_json::to_vec(&field.name).unwrap_or_default());
        bytes.push(b':');
        let length = bytes.len();
        bytes.resize(length.max(Self::SHORT), 0);
        let has_names = matches!(field.kind, Kind::Enum { .. });
        Self { bytes: bytes.into(), length, has_names }
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.bytes[1..self.length]
    }

    /// Returns the number of its bytes, without the padding.
    #[inline(always)]
    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    /// Returns it padded with zeros, if it is short.
    #[inline(always)]
    pub(crate) fn short(&self) -> Option<&[u8; Self::SHORT]> {
        self.bytes.first_chunk().filter(|_| self.length <= Self::SHORT)
    }

    /// Returns true if integers of the field may represent names.
    #[inline(always)]
    pub(crate) const fn has_names(&self) -> bool {
        self.has_names
    }
}

//! A field of bytes that are read on request.

use crate::{FieldValue, Kind, Scratch, ValueRef};

/// Bytes that are read only on request. Lists and gets leave blobs out unless the caller names
/// them, and a write of a row whose blob was not read keeps the stored one.
///
/// ```
/// use marmota_model::{Blob, FieldValue, Scratch, ValueRef};
/// let scratch = Scratch::new();
/// assert_eq!(Blob::from(vec![1, 2]).to_row(&scratch), ValueRef::Blob(&[1, 2]));
/// assert_eq!(Blob::NotRead.to_row(&scratch), ValueRef::Absent);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Blob {
    /// Left out by the read that returned the row.
    #[default]
    NotRead,
    /// The bytes.
    Bytes(Vec<u8>),
}

impl Blob {
    /// Returns the bytes, unless they were not read.
    ///
    /// ```
    /// use marmota_model::Blob;
    /// assert_eq!(Blob::from(vec![1, 2]).bytes(), Some(&[1, 2][..]));
    /// assert_eq!(Blob::default().bytes(), None);
    /// ```
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::NotRead => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }
}

impl From<Vec<u8>> for Blob {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl FieldValue for Blob {
    const KIND: Kind = Kind::Blob;

    fn to_row<'a>(&'a self, _: &'a Scratch) -> ValueRef<'a> {
        self.bytes().map_or(ValueRef::Absent, ValueRef::Blob)
    }

    fn from_row(value: ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Blob(bytes) => Some(Self::Bytes(bytes.to_owned())),
            ValueRef::Absent => Some(Self::NotRead),
            _ => None,
        }
    }
}

//! A field for a file: its description is in the row, its bytes are in a storage of files.

use std::borrow::Cow;

use crate::{FieldValue, File, Kind, Scratch, ValueRef};

impl FieldValue for File {
    const KIND: Kind = Kind::File { bytes_max: Self::BYTES_MAX, types: Cow::Borrowed(&[]) };

    fn to_row<'a>(&'a self, scratch: &'a Scratch) -> ValueRef<'a> {
        ValueRef::Json(scratch.text(&self.to_json()))
    }

    fn from_row(value: ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Json(text) => Self::parse(text),
            _ => None,
        }
    }
}

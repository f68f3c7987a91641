//! A field with any serde value, stored as JSON.

use std::ops::{Deref, DerefMut};

use crate::{FieldValue, Kind, Scratch, ValueRef};

/// Any serde value, stored as JSON text. It dereferences to the value.
///
/// A stored text that does not fit the type is an error of the read. A value that serde cannot
/// write as JSON, such as a map whose keys are not texts, is refused by the write as missing.
///
/// ```
/// use marmota_model::Json;
/// let tags = Json(vec!["a".to_owned()]);
/// assert_eq!(tags.len(), 1);
///
/// use marmota_model::{FieldValue, Scratch, ValueRef};
/// let scratch = Scratch::new();
/// assert_eq!(tags.to_row(&scratch), ValueRef::Json(r#"["a"]"#));
/// assert_eq!(Json::from_row(ValueRef::Json("[1, 2]")), Some(Json(vec![1, 2])));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Json<T>(pub T);

impl<T> Deref for Json<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Json<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: serde::Serialize + serde::de::DeserializeOwned> FieldValue for Json<T> {
    const KIND: Kind = Kind::Json;

    fn to_row<'a>(&'a self, scratch: &'a Scratch) -> ValueRef<'a> {
        // A value that serde cannot write (a map whose keys are not strings) is left out, and
        // refused as a missing value.
        match serde_json::to_string(&self.0) {
            Ok(text) => ValueRef::Json(scratch.text(&text)),
            Err(_) => ValueRef::Null,
        }
    }

    fn from_row(value: ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Json(text) => serde_json::from_str(text).ok().map(Self),
            _ => None,
        }
    }
}

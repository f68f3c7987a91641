//! An item that a list refused, returned to the caller.

use std::fmt;

use marmota_model::{Error, ErrorKind};

/// A refused item, and the reason.
#[derive(Clone, PartialEq, Eq)]
pub struct Refused<T> {
    /// The item, as it was given.
    pub item: T,
    /// The place of the item with the same key; `None` if the list is full: a hashed list holds at
    /// most 2³² items.
    pub place: Option<usize>,
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some(place) => write!(
                f,
                "the item at place {place} has the same key, but the keys of this list are unique; \
                 update or remove that item"
            ),
            None => f.write_str("the list is full: a hashed list can have 2^32 items"),
        }
    }
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("place", &self.place).finish_non_exhaustive()
    }
}

impl<T> std::error::Error for Refused<T> {}

impl<T> From<Refused<T>> for Error {
    fn from(refused: Refused<T>) -> Self {
        let kind = match refused.place {
            Some(_) => ErrorKind::Conflict,
            None => ErrorKind::Unsupported,
        };
        Self::new(kind, refused.to_string())
    }
}

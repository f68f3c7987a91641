//! The keys of cached rows: a table with a row's key, found by a borrowed key without an
//! allocation.
//!
//! The owned and the borrowed form have the same hash and are compared with each other, as the map
//! requires of [`Equivalent`] keys.

use equivalent::Equivalent;
use marmota_model::{Uuid, ValueRef};

/// A row's table, by its number, and its key.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct RowKey {
    pub(super) table: u32,
    key: OwnedKey,
}

/// A key that owns its text.
#[derive(Debug, PartialEq, Eq)]
enum OwnedKey {
    Int(i64),
    Uuid(Uuid),
    Text(Box<str>),
}

/// A borrowed [`RowKey`].
#[derive(Clone, Copy)]
pub(super) struct RowKeyRef<'a> {
    pub(super) table: u32,
    key: BorrowedKey<'a>,
}

/// A key that borrows its text from an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BorrowedKey<'a> {
    Int(i64),
    Uuid(Uuid),
    Text(&'a str),
}

impl RowKey {
    /// The size of its text in bytes.
    pub(super) fn text_bytes(&self) -> usize {
        match &self.key {
            OwnedKey::Text(text) => text.len(),
            _ => 0,
        }
    }
}

impl OwnedKey {
    /// Returns the borrowed form, by which keys are hashed and compared.
    #[inline]
    fn borrow(&self) -> BorrowedKey<'_> {
        match self {
            Self::Int(key) => BorrowedKey::Int(*key),
            Self::Uuid(key) => BorrowedKey::Uuid(*key),
            Self::Text(key) => BorrowedKey::Text(key),
        }
    }
}

// The two have the same hash, since both hash the borrowed form.
impl std::hash::Hash for OwnedKey {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.borrow().hash(state);
    }
}

impl std::hash::Hash for BorrowedKey<'_> {
    #[inline]
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        match self {
            Self::Int(key) => key.hash(state),
            Self::Uuid(key) => key.hash(state),
            Self::Text(key) => key.hash(state),
        }
    }
}

impl std::hash::Hash for RowKeyRef<'_> {
    #[inline]
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.table.hash(state);
        self.key.hash(state);
    }
}

impl Equivalent<RowKey> for RowKeyRef<'_> {
    #[inline]
    fn equivalent(&self, other: &RowKey) -> bool {
        self.table == other.table && self.key == other.key.borrow()
    }
}

impl<'a> RowKeyRef<'a> {
    /// Returns the key of a row; `None` for a value that is not the key of a table.
    pub(super) fn new(table: u32, key: ValueRef<'a>) -> Option<Self> {
        let key = match key {
            ValueRef::Int(key) => BorrowedKey::Int(key),
            ValueRef::Uuid(key) => BorrowedKey::Uuid(key),
            ValueRef::Text(key) => BorrowedKey::Text(key),
            _ => return None,
        };
        Some(Self { table, key })
    }

    /// Returns the key in owned form, for a row that is cached.
    pub(super) fn to_owned(self) -> RowKey {
        let key = match self.key {
            BorrowedKey::Int(key) => OwnedKey::Int(key),
            BorrowedKey::Uuid(key) => OwnedKey::Uuid(key),
            BorrowedKey::Text(key) => OwnedKey::Text(key.into()),
        };
        RowKey { table: self.table, key }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, RandomState};

    use super::*;

    #[test]
    fn a_borrowed_key_finds_the_owned_one() {
        let hasher = RandomState::new();
        let keys = [ValueRef::Int(7), ValueRef::Text("ann"), ValueRef::Uuid(Uuid::max())];
        for (number, key) in keys.into_iter().enumerate() {
            let borrowed = RowKeyRef::new(3, key).unwrap();
            let owned = borrowed.to_owned();
            assert_eq!(hasher.hash_one(borrowed), hasher.hash_one(&owned));
            assert!(borrowed.equivalent(&owned));
            assert!(!RowKeyRef::new(4, key).unwrap().equivalent(&owned));
            let other = keys[(number + 1) % keys.len()];
            assert!(!RowKeyRef::new(3, other).unwrap().equivalent(&owned));
        }
        assert!(RowKeyRef::new(3, ValueRef::Bool(true)).is_none());
    }
}

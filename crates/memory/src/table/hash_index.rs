//! A hash index: row numbers by the hash of some of their fields, none of which is NULL. Keys and
//! unique indexes use it for lookups in O(1).
//!
//! The hash is stored with the row number. So growing the index reads no rows, and a row that is
//! read is nearly always the right one.

use hashbrown::{DefaultHashBuilder, HashTable};
use marmota_model::ValueRef;

use crate::table::pages::Pages;
use crate::table::sort_prefix as compare;

/// A hash index of rows by some of their fields.
pub(crate) struct HashIndex {
    fields: Box<[usize]>,
    rows: HashTable<(u32, u32)>,
    hasher: DefaultHashBuilder,
}

/// Spreads a hash of 32 bits over 64: the table takes its buckets from the low bits and its tags
/// from the high ones.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl HashIndex {
    pub(crate) fn new(fields: &[usize]) -> Self {
        Self {
            fields: fields.into(),
            rows: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Returns the fields, in order.
    pub(crate) fn fields(&self) -> &[usize] {
        &self.fields
    }

    /// Returns the hash of a row's values; `None` if one of them is NULL.
    fn hash<'v>(&self, pages: &Pages, value: impl Fn(usize) -> ValueRef<'v>) -> Option<u32> {
        if self.fields.iter().any(|&field| value(field).is_null()) {
            return None;
        }
        let columns = &pages.layout.columns;
        let values = self.fields.iter().map(|&field| (columns[field].collation, value(field)));
        Some(compare::hash(&self.hasher, values))
    }

    /// Returns the row that has these values.
    pub(crate) fn find<'v>(
        &self,
        pages: &Pages,
        value: impl Fn(usize) -> ValueRef<'v>,
    ) -> Option<u32> {
        let hash = self.hash(pages, &value)?;
        let same = |row: u32| {
            self.fields.iter().all(|&field| {
                let collation = pages.layout.columns[field].collation;
                collation.order(pages.value(row, field), value(field)).is_eq()
            })
        };
        self.rows
            .find(spread(hash), |&(other, row)| other == hash && same(row))
            .map(|&(_, row)| row)
    }

    /// Adds a row whose values no other row has.
    pub(crate) fn insert(&mut self, pages: &Pages, row: u32) {
        if let Some(hash) = self.hash(pages, |field| pages.value(row, field)) {
            self.rows.insert_unique(spread(hash), (hash, row), |&(hash, _)| spread(hash));
        }
    }

    /// Removes a row whose values still exist.
    pub(crate) fn remove(&mut self, pages: &Pages, row: u32) {
        if let Some(hash) = self.hash(pages, |field| pages.value(row, field))
            && let Ok(entry) = self.rows.find_entry(spread(hash), |&(_, other)| other == row)
        {
            entry.remove();
        }
    }
}

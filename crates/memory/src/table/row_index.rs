//! One index of a table: the rows ordered by its fields and then the key, and a hash index if it is
//! unique.

use std::cmp::Ordering;

use marmota_model::ValueRef;

use crate::table::hash_index::HashIndex;
use crate::table::ordered_index::{Entry, OrderedIndex};
use crate::table::pages::Pages;
use crate::table::sort_prefix as compare;

/// An index.
pub(crate) struct RowIndex {
    /// Its fields, in order.
    pub(crate) fields: Box<[usize]>,
    /// The hash index, if the index is unique.
    pub(crate) unique: Option<HashIndex>,
    /// The rows in order.
    pub(crate) ordered: OrderedIndex,
    key: usize,
}

impl RowIndex {
    pub(crate) fn new(index: &marmota_model::Index, key: usize) -> Self {
        Self {
            fields: index.fields.to_vec().into(),
            unique: index.unique.then(|| HashIndex::new(&index.fields)),
            ordered: OrderedIndex::default(),
            key,
        }
    }

    /// Returns the prefix of a value of the first field.
    pub(crate) fn prefix(&self, pages: &Pages, value: ValueRef<'_>) -> u64 {
        compare::prefix(pages.layout.columns[self.fields[0]].collation, value)
    }

    fn entry(&self, pages: &Pages, row: u32) -> Entry {
        (self.prefix(pages, pages.value(row, self.fields[0])), row)
    }

    /// Compares `entry` to `target`.
    fn compare(&self, pages: &Pages, entry: Entry, target: Entry) -> Ordering {
        entry.0.cmp(&target.0).then_with(|| {
            let (a, b) = (pages.row(entry.1), pages.row(target.1));
            let fields = self.fields.iter().chain(std::iter::once(&self.key));
            fields
                .map(|&field| {
                    let column = &pages.layout.columns[field];
                    column.collation.order(a.value(column), b.value(column))
                })
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        })
    }

    /// Adds a row that does not conflict with another one.
    pub(crate) fn insert(&mut self, pages: &Pages, row: u32) {
        if let Some(unique) = &mut self.unique {
            unique.insert(pages, row);
        }
        let new = self.entry(pages, row);
        let mut ordered = std::mem::take(&mut self.ordered);
        ordered.insert(new, |entry| self.compare(pages, entry, new));
        self.ordered = ordered;
    }

    /// Removes a row whose values still exist.
    pub(crate) fn remove(&mut self, pages: &Pages, row: u32) {
        if let Some(unique) = &mut self.unique {
            unique.remove(pages, row);
        }
        let old = self.entry(pages, row);
        let mut ordered = std::mem::take(&mut self.ordered);
        ordered.remove(|entry| self.compare(pages, entry, old));
        self.ordered = ordered;
    }
}

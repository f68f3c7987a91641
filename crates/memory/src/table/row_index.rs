//! One index of a table: the rows ordered by its fields and then the key, and a hash index if it is
//! unique.

use std::cmp::Ordering;
use std::sync::Arc;

use marmota_model::{FieldSet, FilterExpr, Table, ValueRef};
use marmota_store::predicate::{FieldColumn, FilteredRow, Predicate, ordinal};

use crate::table::hash_index::HashIndex;
use crate::table::layout::Column;
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
    /// The filter of a partial index, which has only the rows that it selects.
    partial: Option<PartialIndex>,
}

struct PartialIndex {
    filter: FilterExpr,
    fields: FieldSet,
    table: Arc<Table>,
}

/// A row whose values are returned by a function.
struct ByField<'r, F>(&'r F);

impl<F> Clone for ByField<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for ByField<'_, F> {}

impl<'a, F: Fn(usize) -> ValueRef<'a>> FilteredRow<'a, Column> for ByField<'_, F> {
    fn is_null(self, column: &Column) -> bool {
        (self.0)(column.field()).is_null()
    }

    fn ordinal(self, column: &Column) -> i64 {
        ordinal((self.0)(column.field())).unwrap_or_default()
    }

    fn value(self, column: &Column) -> ValueRef<'a> {
        (self.0)(column.field())
    }
}

impl RowIndex {
    pub(crate) fn new(index: &marmota_model::Index, table: &Arc<Table>) -> Self {
        let partial = table.index_filter(index).map(|filter| PartialIndex {
            fields: filter.fields(table),
            filter,
            table: Arc::clone(table),
        });
        Self {
            fields: index.fields.to_vec().into(),
            unique: index.unique.then(|| HashIndex::new(&index.fields)),
            ordered: OrderedIndex::default(),
            key: table.key(),
            partial,
        }
    }

    /// Returns true if it has all rows.
    pub(crate) const fn is_whole(&self) -> bool {
        self.partial.is_none()
    }

    /// Returns true if it has all rows that a filter selects.
    pub(crate) fn has_rows_of(&self, filter: Option<&FilterExpr>) -> bool {
        self.partial
            .as_ref()
            .is_none_or(|partial| filter.is_some_and(|filter| filter.implies(&partial.filter)))
    }

    /// Returns true if a change of these fields changes the index.
    pub(crate) fn is_touched_by(&self, changed: FieldSet) -> bool {
        self.fields.iter().any(|&field| changed.contains(field))
            || self
                .partial
                .as_ref()
                .is_some_and(|partial| partial.fields.iter().any(|field| changed.contains(field)))
    }

    /// Returns true if it has a row with these values.
    pub(crate) fn selects<'v>(&self, pages: &Pages, value: impl Fn(usize) -> ValueRef<'v>) -> bool {
        self.partial.as_ref().is_none_or(|partial| {
            let columns = &pages.layout.columns;
            // It fails only for fields that the table does not have.
            Predicate::new(&partial.filter, &partial.table, columns)
                .is_ok_and(|predicate| predicate.selects(ByField(&value)))
        })
    }

    fn has(&self, pages: &Pages, row: u32) -> bool {
        self.partial.is_none() || self.selects(pages, |field| pages.value(row, field))
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

    /// Adds a row that does not conflict with another one, if the index has it.
    pub(crate) fn insert(&mut self, pages: &Pages, row: u32) {
        if !self.has(pages, row) {
            return;
        }
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
        if !self.has(pages, row) {
            return;
        }
        if let Some(unique) = &mut self.unique {
            unique.remove(pages, row);
        }
        let old = self.entry(pages, row);
        let mut ordered = std::mem::take(&mut self.ordered);
        ordered.remove(|entry| self.compare(pages, entry, old));
        self.ordered = ordered;
    }
}

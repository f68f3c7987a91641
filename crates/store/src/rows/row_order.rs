//! The order of the rows of a list, for rows that are slices of values.

use std::cmp::Ordering;

use marmota_model::{Collation, FieldSet, RowQuery, Table, Value};

/// The order of a query, with the key as its last member, so that no two rows have one place.
///
/// It is the order of every engine: NULL is first if ascending and last if descending, and texts
/// compare by the collation of their field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RowOrder(Box<[OrderMember]>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct OrderMember {
    field: usize,
    descending: bool,
    collation: Collation,
}

impl OrderMember {
    fn compare(&self, a: &Value, b: &Value) -> Ordering {
        let order = self.collation.order(a.as_ref(), b.as_ref());
        if self.descending { order.reverse() } else { order }
    }
}

impl RowOrder {
    /// Returns the order of a query.
    pub(crate) fn new(table: &Table, query: &RowQuery) -> Self {
        let order = query.order_with_key(table).into_iter().map(|by| OrderMember {
            field: by.field,
            descending: by.descending,
            collation: table.fields()[by.field].kind.collation(),
        });
        Self(order.collect())
    }

    /// Returns the fields that it compares.
    pub(crate) fn fields(&self) -> FieldSet {
        self.0.iter().map(|by| by.field).collect()
    }

    /// Compares the places of two rows.
    pub(crate) fn compare(&self, a: &[Value], b: &[Value]) -> Ordering {
        let by_field = self.0.iter().map(|by| by.compare(&a[by.field], &b[by.field]));
        by_field.fold(Ordering::Equal, Ordering::then)
    }

    /// Returns true if two rows have the same values in the fields of the order.
    pub(crate) fn has_same_values(&self, a: &[Value], b: &[Value]) -> bool {
        self.0.iter().all(|by| a[by.field] == b[by.field])
    }

    /// Compares the place of a row with that of the values of a cursor ([`RowQuery::after`]).
    pub(crate) fn compare_with_cursor(&self, row: &[Value], cursor: &[Value]) -> Ordering {
        let by_field =
            self.0.iter().zip(cursor).map(|(by, value)| by.compare(&row[by.field], value));
        by_field.fold(Ordering::Equal, Ordering::then)
    }
}

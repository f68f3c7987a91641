//! A filter made ready to be asked of rows where they lie, in SQL's logic of
//! three values.

use std::cell::RefCell;

use marmota_model::json::JsonCondition;
use marmota_model::{
    Comparison, Error, ErrorKind, FilterExpr, Place, Result, Search, Table, Value, ValueRef, Words,
};
use smallvec::SmallVec;

use super::compare;
use super::layout::{Column, Layout, ordinal};
use super::page::Stored;

/// A row that can be asked: one that is stored, or one that is not yet.
pub(super) trait Asked<'a>: Copy {
    /// True if the field is NULL.
    fn is_null(self, column: &Column) -> bool;

    /// The integer of an ordinal field that is not NULL.
    fn ordinal(self, column: &Column) -> i64;

    /// The field's value.
    fn value(self, column: &Column) -> ValueRef<'a>;
}

impl<'a> Asked<'a> for Stored<'a> {
    #[inline]
    fn is_null(self, column: &Column) -> bool {
        Stored::is_null(&self, column)
    }

    #[inline]
    fn ordinal(self, column: &Column) -> i64 {
        Stored::ordinal(&self, column)
    }

    #[inline]
    fn value(self, column: &Column) -> ValueRef<'a> {
        Stored::value(&self, column)
    }
}

/// Values in the order of fields; what is absent is as unknown as NULL.
impl<'a> Asked<'a> for &[ValueRef<'a>] {
    fn is_null(self, column: &Column) -> bool {
        Asked::value(self, column).is_null()
    }

    fn ordinal(self, column: &Column) -> i64 {
        ordinal(Asked::value(self, column)).unwrap_or_default()
    }

    fn value(self, column: &Column) -> ValueRef<'a> {
        match self.get(usize::from(column.field)) {
            None | Some(ValueRef::Absent) => ValueRef::Null,
            Some(value) => *value,
        }
    }
}

/// A condition on the rows of one table.
pub(super) enum Predicate<'f> {
    /// A field kept as an integer, against one.
    Ordinal {
        column: Column,
        comparison: Comparison,
        value: i64,
    },
    /// Any other field against a value.
    Compare {
        column: Column,
        comparison: Comparison,
        value: ValueRef<'f>,
    },
    /// One of the values, which are sorted.
    In {
        column: Column,
        values: Vec<ValueRef<'f>>,
    },
    Match {
        column: Column,
        place: Place,
        text: &'f str,
    },
    IsNull {
        column: Column,
    },
    Inside {
        column: Column,
        condition: &'f JsonCondition,
    },
    Search {
        columns: SmallVec<[Column; 4]>,
        search: &'f Search,
        /// The words of the row that was asked last, kept for their memory.
        words: RefCell<Vec<Words>>,
    },
    Not(Box<Predicate<'f>>),
    And(Vec<Predicate<'f>>),
    Or(Vec<Predicate<'f>>),
}

impl<'f> Predicate<'f> {
    /// The filter, for rows of this layout.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a field that the table has not.
    pub(super) fn new(filter: &'f FilterExpr, table: &Table, layout: &Layout) -> Result<Self> {
        let column = |field: usize| {
            layout.columns.get(field).copied().ok_or_else(|| {
                let message = format!("a filter names field {field} of `{}`", table.name());
                Error::new(ErrorKind::Invalid, message)
            })
        };
        let all = |filters: &'f [FilterExpr]| {
            filters.iter().map(|filter| Self::new(filter, table, layout)).collect::<Result<_>>()
        };
        Ok(match filter {
            FilterExpr::Compare { field, comparison, value } => {
                let (column, comparison, value) = (column(*field)?, *comparison, value.as_ref());
                match ordinal(value) {
                    Some(value) if column.is_ordinal() => {
                        Self::Ordinal { column, comparison, value }
                    }
                    _ => Self::Compare { column, comparison, value },
                }
            }
            FilterExpr::In { field, values } => {
                let column = column(*field)?;
                let mut values: Vec<_> = values.iter().map(Value::as_ref).collect();
                values.sort_by(|a, b| compare::order(column.collation, *a, *b));
                Self::In { column, values }
            }
            FilterExpr::Match { field, place, text } => {
                Self::Match { column: column(*field)?, place: *place, text }
            }
            FilterExpr::IsNull { field } => Self::IsNull { column: column(*field)? },
            FilterExpr::Inside { field, condition } => {
                Self::Inside { column: column(*field)?, condition }
            }
            FilterExpr::Search { field, search } => {
                let columns: SmallVec<[Column; 4]> = match field {
                    Some(field) => std::iter::once(column(*field)).collect::<Result<_>>()?,
                    None => table.search_fields().map(column).collect::<Result<_>>()?,
                };
                let words = columns.iter().map(|_| Words::default()).collect();
                Self::Search { columns, search, words: RefCell::new(words) }
            }
            FilterExpr::Not(inner) => Self::Not(Box::new(Self::new(inner, table, layout)?)),
            FilterExpr::And(filters) => Self::And(all(filters)?),
            FilterExpr::Or(filters) => Self::Or(all(filters)?),
        })
    }

    /// True if the row is selected: what is unknown does not select.
    #[inline]
    pub(super) fn selects<'a>(&self, row: impl Asked<'a>) -> bool {
        self.ask(row) == Some(true)
    }

    /// True, false, or neither.
    fn ask<'a>(&self, row: impl Asked<'a>) -> Option<bool> {
        match self {
            Self::Ordinal { column, comparison, value } => {
                (!row.is_null(column)).then(|| comparison.holds(row.ordinal(column).cmp(value)))
            }
            Self::Compare { column, comparison, value } => {
                if value.is_null() || value.is_absent() {
                    return None;
                }
                let stored = known(row, column)?;
                Some(comparison.holds(compare::order(column.collation, stored, *value)))
            }
            // SQL says false, not unknown, where there is nothing to be in.
            Self::In { values, .. } if values.is_empty() => Some(false),
            Self::In { column, values } => {
                let stored = known(row, column)?;
                let order = |value: &ValueRef<'_>| compare::order(column.collation, *value, stored);
                Some(values.binary_search_by(order).is_ok())
            }
            Self::Match { column, place, text } => match known(row, column)? {
                ValueRef::Text(stored) | ValueRef::Json(stored) => Some(place.finds(stored, text)),
                _ => Some(false),
            },
            Self::IsNull { column } => Some(row.is_null(column)),
            Self::Inside { column, condition } => condition.ask(match row.value(column) {
                ValueRef::Json(json) => Some(json),
                _ => None,
            }),
            Self::Search { columns, search, words } => {
                let mut words = words.borrow_mut();
                for (column, words) in columns.iter().zip(&mut *words) {
                    words.take(row.value(column).as_text().unwrap_or_default());
                }
                Some(search.finds(&words))
            }
            Self::Not(inner) => inner.ask(row).map(|answer| !answer),
            Self::And(all) => until(all, row, false),
            Self::Or(any) => until(any, row, true),
        }
    }
}

/// The answer `decisive` if one gives it; otherwise unknown if one is, and
/// the opposite if none.
fn until<'a>(predicates: &[Predicate<'_>], row: impl Asked<'a>, decisive: bool) -> Option<bool> {
    let mut answer = Some(!decisive);
    for predicate in predicates {
        match predicate.ask(row) {
            Some(one) if one == decisive => return Some(decisive),
            Some(_) => {}
            None => answer = None,
        }
    }
    answer
}

fn known<'a>(row: impl Asked<'a>, column: &Column) -> Option<ValueRef<'a>> {
    Some(row.value(column)).filter(|value| !value.is_null())
}

//! Evaluates filters on rows, in SQL's logic of three values.
//!
//! Rights, and engines that cannot hand a filter to a database, use the same
//! evaluation, so that they cannot disagree. A [`Condition`] is evaluated on
//! slices of values; a [`Predicate`] on rows as an engine keeps them, of which
//! it reads only the fields that it needs.

use std::cell::RefCell;

use marmota_model::json::JsonCondition;
use marmota_model::{
    Collation, Comparison, Error, ErrorKind, FilterExpr, Form, Place, Result, Search, Table, Value,
    ValueRef, Words,
};
use smallvec::SmallVec;

/// A field as an engine keeps it, with what it needs to find the field's value
/// in a row.
pub trait FieldColumn: Copy {
    /// The field's place among the fields of its table.
    fn field(&self) -> usize;

    /// The form of the field's values.
    fn form(&self) -> Form;

    /// How the field's texts compare.
    fn collation(&self) -> Collation;
}

/// A row that a [`Predicate`] is evaluated on, with columns of type `C`.
pub trait FilteredRow<'a, C>: Copy {
    /// True if the field is NULL.
    fn is_null(self, column: &C) -> bool;

    /// The integer of a field that is not NULL and for whose values
    /// [`ordinal`] gives one.
    fn ordinal(self, column: &C) -> i64;

    /// The field's value.
    fn value(self, column: &C) -> ValueRef<'a>;
}

/// Values in the order of fields; what is absent is as unknown as NULL.
impl<'a, C: FieldColumn> FilteredRow<'a, C> for &[ValueRef<'a>] {
    fn is_null(self, column: &C) -> bool {
        FilteredRow::value(self, column).is_null()
    }

    fn ordinal(self, column: &C) -> i64 {
        ordinal(FilteredRow::value(self, column)).unwrap_or_default()
    }

    fn value(self, column: &C) -> ValueRef<'a> {
        match self.get(column.field()) {
            None | Some(ValueRef::Absent) => ValueRef::Null,
            Some(value) => *value,
        }
    }
}

/// The integer whose order is that of a value: of an integer, an amount, a
/// date or a time. `None` for other values.
#[must_use]
pub const fn ordinal(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Int(value) => Some(value),
        ValueRef::Currency(value) => Some(value.scaled()),
        ValueRef::Date(value) => Some(value.days() as i64),
        ValueRef::Time(value) => Some(value.micros()),
        ValueRef::Timestamp(value) => Some(value.micros()),
        _ => None,
    }
}

/// True if [`ordinal`] gives an integer for each value of this form.
const fn is_ordinal(form: Form) -> bool {
    matches!(form, Form::Int | Form::Currency | Form::Date | Form::Time | Form::Timestamp)
}

/// A field of a row that is a slice of values.
#[derive(Clone, Copy, Debug)]
struct ValueColumn {
    field: usize,
    form: Form,
    collation: Collation,
}

impl FieldColumn for ValueColumn {
    fn field(&self) -> usize {
        self.field
    }

    fn form(&self) -> Form {
        self.form
    }

    fn collation(&self) -> Collation {
        self.collation
    }
}

/// A filter on the rows of one table, which are slices of values.
///
/// ```
/// use marmota_model::{Comparison, Field, FilterExpr, Kind, Role, Schema, Table, Value, ValueRef};
/// use marmota_store::predicate::Condition;
/// let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("name", Kind::TEXT)];
/// let table = Table::new(Schema::new("person", fields))?;
/// let filter = FilterExpr::Compare {
///     field: 1,
///     comparison: Comparison::Equal,
///     value: Value::Text("Ada".to_owned()),
/// };
/// let condition = Condition::new(filter, &table);
/// let ready = condition.asked(&table)?;
/// assert!(ready.selects(&[ValueRef::Int(1), ValueRef::Text("Ada")]));
/// assert!(!ready.selects(&[ValueRef::Int(2), ValueRef::Null]));
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Condition {
    filter: FilterExpr,
    columns: Box<[ValueColumn]>,
}

impl Condition {
    /// Makes a condition of a filter on rows of this table.
    #[must_use]
    pub fn new(filter: FilterExpr, table: &Table) -> Self {
        let columns = table.fields().iter().enumerate().map(|(field, of)| ValueColumn {
            field,
            form: of.kind.form(),
            collation: of.kind.collation(),
        });
        Self { filter, columns: columns.collect() }
    }

    /// The filter.
    #[must_use]
    pub const fn filter(&self) -> &FilterExpr {
        &self.filter
    }

    /// Prepares it to be evaluated on rows.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a field that the table has not.
    pub fn asked(&self, table: &Table) -> Result<Ready<'_>> {
        Predicate::new(&self.filter, table, &self.columns).map(Ready)
    }
}

/// A [`Condition`] that is prepared to be evaluated.
pub struct Ready<'f>(Predicate<'f, ValueColumn>);

impl Ready<'_> {
    /// True if the row is selected; fields that are absent are unknown.
    #[must_use]
    pub fn selects(&self, row: &[ValueRef<'_>]) -> bool {
        self.0.selects(row)
    }
}

impl std::fmt::Debug for Ready<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ready(..)")
    }
}

/// A filter prepared to be evaluated on rows with columns of type `C`.
pub struct Predicate<'f, C>(Node<'f, C>);

enum Node<'f, C> {
    /// A field kept as an integer, against one.
    Ordinal {
        column: C,
        comparison: Comparison,
        value: i64,
    },
    /// Any other field against a value.
    Compare {
        column: C,
        comparison: Comparison,
        value: ValueRef<'f>,
    },
    /// One of the values, which are sorted.
    In {
        column: C,
        values: Vec<ValueRef<'f>>,
    },
    Match {
        column: C,
        place: Place,
        text: &'f str,
    },
    IsNull {
        column: C,
    },
    Inside {
        column: C,
        condition: &'f JsonCondition,
    },
    Search {
        columns: SmallVec<[C; 4]>,
        search: &'f Search,
        /// The words of the row that was asked last, kept for their memory.
        words: RefCell<Vec<Words>>,
    },
    Not(Box<Node<'f, C>>),
    And(Vec<Node<'f, C>>),
    Or(Vec<Node<'f, C>>),
}

impl<'f, C: FieldColumn> Predicate<'f, C> {
    /// Prepares a filter; `columns` has a column for each field of the table.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a field that the table has not.
    pub fn new(filter: &'f FilterExpr, table: &Table, columns: &[C]) -> Result<Self> {
        Node::new(filter, table, columns).map(Self)
    }

    /// True if the row is selected: what is unknown does not select.
    #[inline]
    pub fn selects<'a>(&self, row: impl FilteredRow<'a, C>) -> bool {
        self.0.ask(row) == Some(true)
    }
}

impl<C> std::fmt::Debug for Predicate<'_, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Predicate(..)")
    }
}

impl<'f, C: FieldColumn> Node<'f, C> {
    fn new(filter: &'f FilterExpr, table: &Table, columns: &[C]) -> Result<Self> {
        let column = |field: usize| {
            columns.get(field).copied().ok_or_else(|| {
                let message = format!("a filter names field {field} of `{}`", table.name());
                Error::new(ErrorKind::Invalid, message)
            })
        };
        let all = |filters: &'f [FilterExpr]| {
            filters.iter().map(|filter| Self::new(filter, table, columns)).collect::<Result<_>>()
        };
        Ok(match filter {
            FilterExpr::Compare { field, comparison, value } => {
                let (column, comparison, value) = (column(*field)?, *comparison, value.as_ref());
                match ordinal(value) {
                    Some(value) if is_ordinal(column.form()) => {
                        Self::Ordinal { column, comparison, value }
                    }
                    _ => Self::Compare { column, comparison, value },
                }
            }
            FilterExpr::In { field, values } => {
                let column = column(*field)?;
                let mut values: Vec<_> = values.iter().map(Value::as_ref).collect();
                values.sort_by(|a, b| column.collation().order(*a, *b));
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
                let columns: SmallVec<[C; 4]> = match field {
                    Some(field) => std::iter::once(column(*field)).collect::<Result<_>>()?,
                    None => table.search_fields().map(column).collect::<Result<_>>()?,
                };
                let words = columns.iter().map(|_| Words::default()).collect();
                Self::Search { columns, search, words: RefCell::new(words) }
            }
            FilterExpr::Not(inner) => Self::Not(Box::new(Self::new(inner, table, columns)?)),
            FilterExpr::And(filters) => Self::And(all(filters)?),
            FilterExpr::Or(filters) => Self::Or(all(filters)?),
        })
    }

    /// True, false, or neither.
    fn ask<'a>(&self, row: impl FilteredRow<'a, C>) -> Option<bool> {
        match self {
            Self::Ordinal { column, comparison, value } => {
                (!row.is_null(column)).then(|| comparison.holds(row.ordinal(column).cmp(value)))
            }
            Self::Compare { column, comparison, value } => {
                if value.is_null() || value.is_absent() {
                    return None;
                }
                let stored = known(row, column)?;
                Some(comparison.holds(column.collation().order(stored, *value)))
            }
            // SQL says false, not unknown, where there is nothing to be in.
            Self::In { values, .. } if values.is_empty() => Some(false),
            Self::In { column, values } => {
                let stored = known(row, column)?;
                let order = |value: &ValueRef<'_>| column.collation().order(*value, stored);
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
fn until<'a, C: FieldColumn>(
    nodes: &[Node<'_, C>],
    row: impl FilteredRow<'a, C>,
    decisive: bool,
) -> Option<bool> {
    let mut answer = Some(!decisive);
    for node in nodes {
        match node.ask(row) {
            Some(one) if one == decisive => return Some(decisive),
            Some(_) => {}
            None => answer = None,
        }
    }
    answer
}

fn known<'a, C>(row: impl FilteredRow<'a, C>, column: &C) -> Option<ValueRef<'a>> {
    Some(row.value(column)).filter(|value| !value.is_null())
}

//! Evaluates filters on rows, in SQL's three-valued logic.
//!
//! Rights, and engines that cannot pass a filter to a database, use the same evaluation, so their
//! results agree. A [`Condition`] is evaluated on slices of values. A [`Predicate`] is evaluated on
//! rows in an engine's own form, and reads only the fields that it needs.
//!
//! A comparison with NULL or with an absent value is unknown; `not` of unknown is unknown; `and`
//! and `or` follow Kleene's logic, as in SQL. A row is selected only if the result is
//! true.

use std::cell::RefCell;

use marmota_model::json::JsonCondition;
use marmota_model::{
    Collation, Comparison, Error, ErrorKind, FilterExpr, GeoCircle, Place, Result, Search, Table,
    Value, ValueForm, ValueRef, Words,
};
use smallvec::SmallVec;

/// A field in an engine's own form, with the data that locates the field's value in a row.
///
/// An engine implements it for its description of a column, and [`FilteredRow`] for its rows.
/// Engines whose rows are slices of [`ValueRef`] use [`Condition`] instead.
pub trait FieldColumn: Copy {
    /// Returns the index of the field in its table.
    fn field(&self) -> usize;

    /// Returns the form of the field's values.
    fn form(&self) -> ValueForm;

    /// Returns the collation of the field's texts.
    fn collation(&self) -> Collation;
}

/// A row that a [`Predicate`] is evaluated on, with columns of type `C`.
///
/// `'a` is the lifetime of the row's data. The value of an absent field is NULL.
pub trait FilteredRow<'a, C>: Copy {
    /// Returns true if the field is NULL.
    fn is_null(self, column: &C) -> bool;

    /// Returns the integer of a field that is not NULL and whose values have an [`ordinal`].
    fn ordinal(self, column: &C) -> i64;

    /// Returns the field's value.
    fn value(self, column: &C) -> ValueRef<'a>;
}

/// Values in the order of fields; an absent value is unknown, like NULL.
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

/// Returns an integer with the same order as the value: for an integer, an amount, a date or a
/// time. `None` for other values.
///
/// An amount in its smallest unit (a ten-thousandth), a date in days, a time and a timestamp in
/// microseconds.
///
/// ```
/// use marmota_model::{Currency, ValueRef};
/// use marmota_store::predicate::ordinal;
/// assert_eq!(ordinal(ValueRef::Int(7)), Some(7));
/// assert_eq!(ordinal(ValueRef::Currency(Currency::from_scaled(25_000))), Some(25_000));
/// assert_eq!(ordinal(ValueRef::Text("7")), None);
/// ```
#[must_use]
pub const fn ordinal(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Int(value) => Some(value),
        ValueRef::Currency(value) => Some(value.scaled()),
        ValueRef::Date(value) => Some(value.days() as i64),
        ValueRef::Time(value) => Some(value.micros()),
        ValueRef::Timestamp(value) => Some(value.micros()),
        ValueRef::Absent
        | ValueRef::Null
        | ValueRef::Bool(_)
        | ValueRef::Float(_)
        | ValueRef::Text(_)
        | ValueRef::Blob(_)
        | ValueRef::Json(_)
        | ValueRef::Uuid(_) => None,
    }
}

/// Returns true if [`ordinal`] has an integer for each value of this form.
const fn is_ordinal(form: ValueForm) -> bool {
    match form {
        ValueForm::Int
        | ValueForm::Currency
        | ValueForm::Date
        | ValueForm::Time
        | ValueForm::Timestamp => true,
        ValueForm::Bool
        | ValueForm::Float
        | ValueForm::Text
        | ValueForm::Blob
        | ValueForm::Json
        | ValueForm::Uuid => false,
    }
}

/// A field of a row that is a slice of values.
#[derive(Clone, Copy, Debug)]
struct ValueColumn {
    field: usize,
    form: ValueForm,
    collation: Collation,
}

impl FieldColumn for ValueColumn {
    fn field(&self) -> usize {
        self.field
    }

    fn form(&self) -> ValueForm {
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
///
/// It owns the filter, and can be kept. [`Condition::asked`] prepares it for a number of rows: the
/// sorting of lists and the choice of comparisons happen once.
#[derive(Clone, Debug)]
pub struct Condition {
    filter: FilterExpr,
    columns: Box<[ValueColumn]>,
}

impl Condition {
    /// Creates a condition from a filter on rows of this table.
    #[must_use]
    pub fn new(filter: FilterExpr, table: &Table) -> Self {
        let columns = table.fields().iter().enumerate().map(|(field, of)| ValueColumn {
            field,
            form: of.kind.form(),
            collation: of.kind.collation(),
        });
        Self { filter, columns: columns.collect() }
    }

    /// Returns the filter.
    #[must_use]
    pub const fn filter(&self) -> &FilterExpr {
        &self.filter
    }

    /// Prepares the condition to be evaluated on rows.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a field that the table does not have.
    pub fn asked(&self, table: &Table) -> Result<Ready<'_>> {
        Predicate::new(&self.filter, table, &self.columns).map(Ready)
    }
}

/// A [`Condition`] that is prepared to be evaluated.
///
/// It has buffers for full-text search, so it is used by one thread at a time.
pub struct Ready<'f>(Predicate<'f, ValueColumn>);

impl Ready<'_> {
    /// Returns true if the row is selected; absent fields are unknown.
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
///
/// `C` is the engine's description of a column ([`FieldColumn`]). It borrows the values of the
/// filter.
///
/// ```
/// use marmota_model::{Collation, Comparison, Field, FilterExpr, Kind, Role, Schema, Table};
/// use marmota_model::{Value, ValueForm, ValueRef};
/// use marmota_store::predicate::{FieldColumn, FilteredRow, Predicate};
///
/// /// A column of rows that are arrays of integers.
/// #[derive(Clone, Copy)]
/// struct IntColumn(usize);
///
/// impl FieldColumn for IntColumn {
///     fn field(&self) -> usize {
///         self.0
///     }
///     fn form(&self) -> ValueForm {
///         ValueForm::Int
///     }
///     fn collation(&self) -> Collation {
///         Kind::I64.collation()
///     }
/// }
///
/// #[derive(Clone, Copy)]
/// struct IntRow<'a>(&'a [i64; 2]);
///
/// impl<'a> FilteredRow<'a, IntColumn> for IntRow<'a> {
///     fn is_null(self, _: &IntColumn) -> bool {
///         false
///     }
///     fn ordinal(self, column: &IntColumn) -> i64 {
///         self.0[column.0]
///     }
///     fn value(self, column: &IntColumn) -> ValueRef<'a> {
///         ValueRef::Int(self.0[column.0])
///     }
/// }
///
/// let fields = vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("age", Kind::I64)];
/// let table = Table::new(Schema::new("person", fields))?;
/// let filter =
///     FilterExpr::Compare { field: 1, comparison: Comparison::Greater, value: Value::Int(30) };
/// let predicate = Predicate::new(&filter, &table, &[IntColumn(0), IntColumn(1)])?;
/// assert!(predicate.selects(IntRow(&[1, 36])));
/// assert!(!predicate.selects(IntRow(&[2, 12])));
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub struct Predicate<'f, C>(Node<'f, C>);

/// A part of a filter, with the columns that it reads. The variants are those of [`FilterExpr`],
/// except that comparisons of integers have a separate one: they need no [`ValueRef`].
enum Node<'f, C> {
    /// A field with integer values, compared to an integer.
    Ordinal {
        column: C,
        comparison: Comparison,
        value: i64,
    },
    /// Any other field, compared to a value.
    Compare {
        column: C,
        comparison: Comparison,
        value: ValueRef<'f>,
    },
    /// A field that equals one of the values, which are sorted.
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
    Near {
        latitude: C,
        longitude: C,
        circle: &'f GeoCircle,
    },
    Search {
        columns: SmallVec<[C; 4]>,
        search: &'f Search,
        /// The words of the last row, kept to reuse their memory.
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
    /// [`ErrorKind::Invalid`] for a field that the table does not have.
    pub fn new(filter: &'f FilterExpr, table: &Table, columns: &[C]) -> Result<Self> {
        Node::new(filter, table, columns).map(Self)
    }

    /// Returns true if the row is selected; an unknown result does not select it.
    #[inline]
    pub fn selects<'a>(&self, row: impl FilteredRow<'a, C>) -> bool {
        self.0.evaluate(row) == Some(true)
    }
}

impl<C> std::fmt::Debug for Predicate<'_, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Predicate(..)")
    }
}

impl<'f, C: FieldColumn> Node<'f, C> {
    /// Prepares a part of a filter, and the parts in it.
    fn new(filter: &'f FilterExpr, table: &Table, columns: &[C]) -> Result<Self> {
        let column = |field: usize| {
            columns.get(field).copied().ok_or_else(|| {
                let message = format!(
                    "a filter uses field number {field}, which `{}` does not have",
                    table.name()
                );
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
            FilterExpr::Near { latitude, longitude, circle } => {
                let (latitude, longitude) = (column(*latitude)?, column(*longitude)?);
                Self::Near { latitude, longitude, circle }
            }
            FilterExpr::Search { field, search } => {
                let columns: SmallVec<[C; 4]> = match field {
                    Some(field) => std::iter::once(column(*field)).collect::<Result<_>>()?,
                    None => table.search_fields().map(column).collect::<Result<_>>()?,
                };
                let language = table.schema().search_language;
                let words = columns.iter().map(|_| Words::in_language(language)).collect();
                Self::Search { columns, search, words: RefCell::new(words) }
            }
            FilterExpr::Related(related) => {
                let message = format!(
                    "this engine does not support conditions on related rows, here of `{}` in a \
                     filter on `{}`: read those rows first, and filter by their keys",
                    related.step.table,
                    table.name()
                );
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            FilterExpr::Not(inner) => Self::Not(Box::new(Self::new(inner, table, columns)?)),
            FilterExpr::And(filters) => Self::And(all(filters)?),
            FilterExpr::Or(filters) => Self::Or(all(filters)?),
        })
    }

    /// Returns true, false, or `None` for unknown.
    fn evaluate<'a>(&self, row: impl FilteredRow<'a, C>) -> Option<bool> {
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
            // In SQL, `IN` with an empty list is false, not unknown.
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
            Self::Inside { column, condition } => condition.evaluate(match row.value(column) {
                ValueRef::Json(json) => Some(json),
                _ => None,
            }),
            Self::Near { latitude, longitude, circle } => {
                match (known(row, latitude)?, known(row, longitude)?) {
                    (ValueRef::Float(latitude), ValueRef::Float(longitude)) => {
                        Some(circle.contains(latitude, longitude))
                    }
                    _ => Some(false),
                }
            }
            Self::Search { columns, search, words } => {
                let mut words = words.borrow_mut();
                for (column, words) in columns.iter().zip(&mut *words) {
                    words.take(row.value(column).as_text().unwrap_or_default());
                }
                Some(search.finds(&words))
            }
            Self::Not(inner) => inner.evaluate(row).map(|answer| !answer),
            Self::And(all) => until(all, row, false),
            Self::Or(any) => until(any, row, true),
        }
    }
}

/// Returns `decisive` if one node has this result; otherwise unknown if one node is unknown, and
/// the opposite of `decisive` if none is.
fn until<'a, C: FieldColumn>(
    nodes: &[Node<'_, C>],
    row: impl FilteredRow<'a, C>,
    decisive: bool,
) -> Option<bool> {
    let mut answer = Some(!decisive);
    for node in nodes {
        match node.evaluate(row) {
            Some(one) if one == decisive => return Some(decisive),
            Some(_) => {}
            None => answer = None,
        }
    }
    answer
}

/// Returns the value of a field; `None` for NULL, whose comparison is unknown.
fn known<'a, C>(row: impl FilteredRow<'a, C>, column: &C) -> Option<ValueRef<'a>> {
    Some(row.value(column)).filter(|value| !value.is_null())
}

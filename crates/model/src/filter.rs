//! The selection of rows: condition, order and start. Every engine translates this tree (to SQL, a
//! predicate in memory, a MongoDB match).
//!
//! The logic is SQL's three-valued logic: a comparison with NULL is neither true nor false, nor is
//! its negation, and only rows for which the filter is true are selected. On all engines,
//! `contains` and `starts_with` ignore the case of A to Z.

use crate::json::JsonCondition;
use crate::{
    Comparison, Error, ErrorKind, FieldSet, Place, Result, Search, Table, Value, ValueRef,
};

/// A condition on a row in the form for engines: fields are named by their position in the table of
/// the operation. Programs use [`Filter`](crate::Filter), which knows its model or table.
#[derive(Clone, Debug, PartialEq)]
pub enum FilterExpr {
    /// Compares a field with a value, which is not NULL.
    Compare {
        /// The field.
        field: usize,
        /// The comparison.
        comparison: Comparison,
        /// The value.
        value: Value,
    },
    /// A field is one of the values, none of which is NULL.
    In {
        /// The field.
        field: usize,
        /// The values.
        values: Vec<Value>,
    },
    /// A text field contains this text, or starts with it.
    Match {
        /// The field.
        field: usize,
        /// The position of the text in the field.
        place: Place,
        /// The text.
        text: String,
    },
    /// A field is NULL.
    IsNull {
        /// The field.
        field: usize,
    },
    /// The value at a path inside a JSON field satisfies a condition.
    Inside {
        /// The field.
        field: usize,
        /// The path and the test.
        condition: Box<JsonCondition>,
    },
    /// A searchable field, or all of them taken together, matches a search. NULL has no words: the
    /// result is always true or false.
    Search {
        /// The field; `None` for all searchable fields.
        field: Option<usize>,
        /// The search.
        search: Box<Search>,
    },
    /// The filter is false.
    Not(Box<FilterExpr>),
    /// All filters are true. True for an empty list.
    And(Vec<FilterExpr>),
    /// At least one filter is true. False for an empty list.
    Or(Vec<FilterExpr>),
}

/// A field to sort by, in the form for engines. Programs use [`Order`](crate::Order), which knows
/// its model or table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SortKey {
    /// The field.
    pub field: usize,
    /// True for descending order, in which NULL comes last; otherwise NULL comes first.
    pub descending: bool,
}

impl SortKey {
    /// Checks that the table has the field.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the position.
    pub fn check(self, table: &Table) -> Result<()> {
        check_field(table, self.field)
    }
}

/// The maximum depth of a filter, which protects the stacks of all engines.
pub const FILTER_DEPTH_MAX: usize = 32;
/// The maximum number of comparisons in one filter; each value of a list counts as one.
pub const FILTER_TERMS_MAX: usize = 500;
/// The maximum number of bytes of texts and blobs in one filter: 64 KiB.
pub const FILTER_BYTES_MAX: usize = 64 << 10;

/// The selection of a list or count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// The condition; `None` for all rows.
    pub filter: Option<FilterExpr>,
    /// The fields to sort by. The key is always added as the last one.
    pub order: Vec<SortKey>,
    /// The maximum number of rows to return.
    pub limit: Option<u64>,
    /// Starts after the row with these values, one for each field of [`Query::order_with_key`].
    pub after: Option<Vec<Value>>,
    /// The fields to read; `None` for [`Table::read_by_default`].
    pub fields: Option<FieldSet>,
}

impl FilterExpr {
    /// Rows whose searchable fields, taken together, match a search: `marmot -dog "alpine mead*"`
    /// ([`Search`]).
    #[must_use]
    pub fn search(text: &str) -> Self {
        Self::Search { field: None, search: Box::new(Search::new(text)) }
    }

    /// Returns a filter that is true if both filters are.
    ///
    /// ```
    /// use marmota_model::FilterExpr;
    /// let old = FilterExpr::IsNull { field: 4 };
    /// assert_eq!(old.clone().and(old.clone()), FilterExpr::And(vec![old.clone(), old]));
    /// ```
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match self {
            Self::And(mut all) => {
                all.push(other);
                Self::And(all)
            }
            one => Self::And(vec![one, other]),
        }
    }

    /// Returns a filter that is true if either filter is.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match self {
            Self::Or(mut any) => {
                any.push(other);
                Self::Or(any)
            }
            one => Self::Or(vec![one, other]),
        }
    }

    /// Returns the first field that the filter names, for messages.
    pub(crate) fn first_field(&self) -> Option<usize> {
        match self {
            Self::Compare { field, .. }
            | Self::In { field, .. }
            | Self::Match { field, .. }
            | Self::IsNull { field }
            | Self::Inside { field, .. } => Some(*field),
            Self::Search { field, .. } => *field,
            Self::Not(inner) => inner.first_field(),
            Self::And(all) | Self::Or(all) => all.iter().find_map(Self::first_field),
        }
    }

    /// Returns the fields that the filter uses.
    #[must_use]
    pub fn fields(&self, table: &Table) -> FieldSet {
        match self {
            Self::Compare { field, .. }
            | Self::In { field, .. }
            | Self::Match { field, .. }
            | Self::IsNull { field }
            | Self::Inside { field, .. }
            | Self::Search { field: Some(field), .. } => FieldSet::EMPTY.with(*field),
            Self::Search { field: None, .. } => {
                table.search_fields().fold(FieldSet::EMPTY, FieldSet::with)
            }
            Self::Not(inner) => inner.fields(table),
            Self::And(all) | Self::Or(all) => {
                all.iter().fold(FieldSet::EMPTY, |fields, one| fields.union(one.fields(table)))
            }
        }
    }

    /// Checks that a filter fits a table: its fields exist, its values are of the field's kind, and
    /// its size is within the limits.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the field and the value.
    pub fn check(&self, table: &Table) -> Result<()> {
        self.check_node(table, 0, &mut Size::default())
    }

    fn check_node(&self, table: &Table, depth: usize, size: &mut Size) -> Result<()> {
        let of_all = |values: &[Value]| values.iter().map(bytes_of).sum();
        let (terms, bytes) = match self {
            Self::In { values, .. } => (1 + values.len(), of_all(values)),
            Self::Inside { condition, .. } => {
                (1 + condition.values().len(), of_all(condition.values()))
            }
            Self::Search { search, .. } => {
                (1 + search.terms().map_or(0, <[_]>::len), search.text().len())
            }
            Self::Compare { value, .. } => (1, bytes_of(value)),
            Self::Match { text, .. } => (1, text.len()),
            _ => (1, 0),
        };
        size.terms += terms;
        size.bytes += bytes;
        if depth > FILTER_DEPTH_MAX
            || size.terms > FILTER_TERMS_MAX
            || size.bytes > FILTER_BYTES_MAX
        {
            return Err(too_large(depth, size));
        }
        match self {
            Self::Compare { field, value, .. } => check_value(table, *field, value.as_ref()),
            Self::In { field, values } => {
                values.iter().try_for_each(|value| check_value(table, *field, value.as_ref()))
            }
            Self::Match { field, text, .. } => check_value(table, *field, ValueRef::Text(text)),
            Self::IsNull { field } => check_field(table, *field),
            Self::Inside { field, condition } => check_inside(table, *field, condition),
            Self::Search { field, search } => check_search(table, *field, search),
            Self::Not(inner) => inner.check_node(table, depth + 1, size),
            Self::And(all) | Self::Or(all) => {
                all.iter().try_for_each(|one| one.check_node(table, depth + 1, size))
            }
        }
    }
}

/// The size of the part of a filter that was checked so far.
#[derive(Default)]
struct Size {
    terms: usize,
    bytes: usize,
}

fn bytes_of(value: &Value) -> usize {
    match value {
        Value::Text(text) | Value::Json(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
        _ => 0,
    }
}

#[cold]
fn too_large(depth: usize, size: &Size) -> Error {
    let message = if depth > FILTER_DEPTH_MAX {
        format!("the filter nests deeper than {FILTER_DEPTH_MAX} levels: write it flatter")
    } else if size.terms > FILTER_TERMS_MAX {
        format!(
            "the filter has more than {FILTER_TERMS_MAX} terms, values of lists included: split it \
             into several reads"
        )
    } else {
        format!(
            "the filter has more than {FILTER_BYTES_MAX} bytes of texts: compare with shorter ones, \
             or split it into several reads"
        )
    };
    Error::new(ErrorKind::Invalid, message)
}

fn check_field(table: &Table, field: usize) -> Result<()> {
    if field < table.fields().len() {
        return Ok(());
    }
    let message = format!("a filter or order names field {field} of `{}`", table.name());
    Err(Error::new(ErrorKind::Invalid, message))
}

fn check_value(table: &Table, position: usize, value: ValueRef<'_>) -> Result<()> {
    check_field(table, position)?;
    let field = &table.fields()[position];
    let (rule, message) = match crate::schema::check_kind(field, value) {
        _ if value.is_null() || value.is_absent() => {
            ("type", "compare with null by `= null` or is_null".to_owned())
        }
        // NaN is neither less nor greater than a number, and engines differ on equality.
        _ if matches!(value, ValueRef::Float(number) if number.is_nan()) => {
            ("type", "compare with a number; NaN is none".to_owned())
        }
        // A filter may compare with a value that the field cannot contain: it selects no rows.
        Err((rule, message)) if rule == "type" => (rule, message),
        _ => return Ok(()),
    };
    Err(Error::invalid(vec![crate::rule::violation(field, value, rule, message)]))
}

fn check_search(table: &Table, field: Option<usize>, search: &Search) -> Result<()> {
    if let Some(position) = field {
        check_field(table, position)?;
        let what = &table.fields()[position];
        if !what.search {
            let message = "cannot be searched; give it #[model(search)]".to_owned();
            let text = ValueRef::Text(search.text());
            return Err(Error::invalid(vec![crate::rule::violation(
                what, text, "search", message,
            )]));
        }
    } else if table.search_fields().next().is_none() {
        let message = format!(
            "`{}` has no field that can be searched; give one #[model(search)]",
            table.name()
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    search.terms().map(|_| ()).map_err(|why| {
        let text = crate::text::excerpt(search.text());
        Error::new(ErrorKind::Invalid, format!("the search {text:?} {why}"))
    })
}

fn check_inside(table: &Table, position: usize, condition: &JsonCondition) -> Result<()> {
    check_field(table, position)?;
    let field = &table.fields()[position];
    let refused = |rule, message: String| {
        let mut violation = crate::rule::violation(field, ValueRef::Null, rule, message);
        violation.value = crate::text::excerpt(&condition.path.to_string());
        Err(Error::invalid(vec![violation]))
    };
    if field.kind != crate::Kind::Json {
        return refused("path", format!("a {} field has no paths", field.kind.name()));
    }
    if let Err(why) = condition.path.steps() {
        return refused("path", format!("the path {why}"));
    }
    let fits = |value: &Value| match value {
        Value::Bool(_) | Value::Int(_) | Value::Text(_) => true,
        Value::Float(number) => !number.is_nan(),
        _ => false,
    };
    match condition.values().iter().find(|value| !fits(value)) {
        Some(value) => {
            let value = crate::text::excerpt_of(value.as_ref());
            let message =
                format!("a path is compared with a number, text, true or false, not {value}");
            refused("type", message)
        }
        None => Ok(()),
    }
}

impl Query {
    /// Selects all rows, in the order of their keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the order with the key appended, so that it is total and a page can start after any
    /// row.
    #[must_use]
    pub fn order_with_key(&self, table: &Table) -> Vec<SortKey> {
        let mut order = self.order.clone();
        match order.iter().position(|by| by.field == table.key()) {
            // Keys are unique: later fields have no effect.
            Some(last) => order.truncate(last + 1),
            None => {
                let descending = order.last().is_some_and(|by| by.descending);
                order.push(SortKey { field: table.key(), descending });
            }
        }
        order
    }

    /// Returns the condition combined with the start of the page.
    #[must_use]
    pub fn filter_with_after(&self, table: &Table) -> Option<FilterExpr> {
        let after = self.after.as_ref().map(|after| behind(&self.order_with_key(table), after));
        match (self.filter.clone(), after) {
            (Some(filter), Some(after)) => Some(filter.and(after)),
            (filter, after) => filter.or(after),
        }
    }

    /// Checks that the query fits a table.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the field and the value.
    pub fn check(&self, table: &Table) -> Result<()> {
        if let Some(filter) = &self.filter {
            filter.check(table)?;
        }
        self.order.iter().try_for_each(|by| by.check(table))?;
        if let Some(after) = &self.after {
            let order = self.order_with_key(table);
            if after.len() != order.len() {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    "`after` has not one value for each field of the order; \
                     take it from the page before",
                ));
            }
            for (by, value) in order.iter().zip(after) {
                if !matches!(value, Value::Null) {
                    check_value(table, by.field, value.as_ref())?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the filter for the rows that follow the one with the values `after` in `order`.
fn behind(order: &[SortKey], after: &[Value]) -> FilterExpr {
    let mut any = Vec::with_capacity(order.len());
    for (depth, (by, value)) in order.iter().zip(after).enumerate() {
        let mut all: Vec<FilterExpr> = order[..depth]
            .iter()
            .zip(after)
            .map(|(by, value)| equal_or_null(by.field, value))
            .collect();
        match strictly_behind(*by, value) {
            Some(filter) => all.push(filter),
            None => continue,
        }
        any.push(if all.len() == 1 { all.remove(0) } else { FilterExpr::And(all) });
    }
    if any.len() == 1 { any.remove(0) } else { FilterExpr::Or(any) }
}

fn equal_or_null(field: usize, value: &Value) -> FilterExpr {
    match value {
        Value::Null => FilterExpr::IsNull { field },
        value => FilterExpr::Compare { field, comparison: Comparison::Equal, value: value.clone() },
    }
}

fn strictly_behind(by: SortKey, value: &Value) -> Option<FilterExpr> {
    let SortKey { field, descending } = by;
    let null = FilterExpr::IsNull { field };
    match (value, descending) {
        (Value::Null, false) => Some(FilterExpr::Not(Box::new(null))),
        (Value::Null, true) => None,
        (value, false) => Some(FilterExpr::Compare {
            field,
            comparison: Comparison::Greater,
            value: value.clone(),
        }),
        (value, true) => {
            let less =
                FilterExpr::Compare { field, comparison: Comparison::Less, value: value.clone() };
            Some(less.or(null))
        }
    }
}

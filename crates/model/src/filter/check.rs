//! Checks that a filter or order fits a table, and its limits.

use crate::json::JsonCondition;
use crate::schema::{check_kind, violation};
use crate::value::excerpt::{excerpt, excerpt_of};
use crate::{
    Error, ErrorKind, FilterExpr, Kind, RELATION_STEPS_MAX, RelationStep, Result, Search, SortKey,
    Table, Value, ValueRef,
};

/// The maximum depth of a filter, which protects the stacks of all engines.
pub const FILTER_DEPTH_MAX: usize = 32;
/// The maximum number of comparisons in one filter; each value of a list counts as one.
pub const FILTER_TERMS_MAX: usize = 500;
/// The maximum number of bytes of texts and blobs in one filter: 64 KiB.
pub const FILTER_BYTES_MAX: usize = 64 << 10;

impl SortKey {
    /// Checks that the table has the field.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the position.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT).search(true),
    /// #     Field::new("died", Kind::I64).nullable(true)]))?;
    /// use marmota_model::SortKey;
    /// assert!(SortKey { field: 2, descending: true }.check(&table).is_ok());
    /// assert!(SortKey { field: 3, descending: true }.check(&table).is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn check(self, table: &Table) -> Result<()> {
        check_field(table, self.field)
    }
}

impl FilterExpr {
    /// Checks that a filter fits a table: its fields exist, its values are of the field's kind, and
    /// its size is within the limits.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the field and the value.
    ///
    /// ```
    /// # use marmota_model::{Field, Kind, Role, Schema, Table};
    /// # let table = Table::new(Schema::new("person", vec![
    /// #     Field::new("id", Kind::I64).role(Role::Key),
    /// #     Field::new("name", Kind::TEXT).search(true),
    /// #     Field::new("died", Kind::I64).nullable(true)]))?;
    /// use marmota_model::{Comparison, FilterExpr, Value};
    /// let filter = FilterExpr::Compare {
    ///     field: 2,
    ///     comparison: Comparison::Less,
    ///     value: Value::from("1930"),
    /// };
    /// assert!(filter.check(&table).unwrap_err().to_string().contains("must be of type integer"));
    /// assert!(FilterExpr::IsNull { field: 3 }.check(&table).is_err());
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn check(&self, table: &Table) -> Result<()> {
        self.check_node(table, 0, 0, &mut Size::default())
    }

    fn check_node(&self, table: &Table, depth: usize, steps: usize, size: &mut Size) -> Result<()> {
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
            Self::Near { latitude, longitude, .. } => {
                check_coordinate(table, *latitude)?;
                check_coordinate(table, *longitude)
            }
            Self::Search { field, search } => check_search(table, *field, search),
            Self::Related(related) => {
                if steps == RELATION_STEPS_MAX {
                    return Err(too_far(table, &related.step));
                }
                let target = table.step_target(&related.step)?;
                related.filter.check_node(&target, depth + 1, steps + 1, size)
            }
            Self::Not(inner) => inner.check_node(table, depth + 1, steps, size),
            Self::And(all) | Self::Or(all) => {
                all.iter().try_for_each(|one| one.check_node(table, depth + 1, steps, size))
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
        format!("the filter nests deeper than {FILTER_DEPTH_MAX} levels: simplify the filter")
    } else if size.terms > FILTER_TERMS_MAX {
        format!(
            "the filter has more than {FILTER_TERMS_MAX} terms, including values in lists: split \
             the filter into several reads"
        )
    } else {
        format!(
            "the filter has more than {FILTER_BYTES_MAX} bytes of text: compare with shorter \
             texts, or split the filter into several reads"
        )
    };
    Error::new(ErrorKind::Invalid, message)
}

#[cold]
fn too_far(table: &Table, step: &RelationStep) -> Error {
    let message = format!(
        "the filter has more than {RELATION_STEPS_MAX} steps between related tables, at the step \
         from `{}` to `{}`: use fewer steps",
        table.name(),
        step.table
    );
    Error::new(ErrorKind::Invalid, message)
}

pub(super) fn check_field(table: &Table, field: usize) -> Result<()> {
    if field < table.fields().len() {
        return Ok(());
    }
    let message = format!(
        "a filter or order uses field number {field}, which `{}` does not have",
        table.name()
    );
    Err(Error::new(ErrorKind::Invalid, message))
}

pub(super) fn check_value(table: &Table, position: usize, value: ValueRef<'_>) -> Result<()> {
    check_field(table, position)?;
    let field = &table.fields()[position];
    let (rule, message) = match check_kind(field, value) {
        _ if value.is_null() || value.is_absent() => {
            ("type", "cannot be compared with null this way; use `= null` or is_null".to_owned())
        }
        // NaN is neither less nor greater than a number, and engines differ on equality.
        _ if matches!(value, ValueRef::Float(number) if number.is_nan()) => {
            ("type", "cannot be compared with NaN; use a number".to_owned())
        }
        // A filter may compare with a value that the field cannot contain: it selects no rows.
        Err((rule, message)) if rule == "type" => (rule, message),
        _ => return Ok(()),
    };
    Err(Error::invalid(vec![violation(field, value, rule, message)]))
}

/// Checks that a field can have the latitude or longitude of a point.
pub(super) fn check_coordinate(table: &Table, position: usize) -> Result<()> {
    check_field(table, position)?;
    let field = &table.fields()[position];
    if field.kind == Kind::Float {
        return Ok(());
    }
    let message = format!(
        "is not a coordinate, but of type {}: a point has two float fields, its latitude and its \
         longitude",
        field.kind.name()
    );
    Err(Error::invalid(vec![violation(field, ValueRef::Null, "type", message)]))
}

fn check_search(table: &Table, field: Option<usize>, search: &Search) -> Result<()> {
    if let Some(position) = field {
        check_field(table, position)?;
        let what = &table.fields()[position];
        if !what.search {
            let message = "cannot be searched; add #[model(search)] to the field".to_owned();
            let text = ValueRef::Text(search.text());
            return Err(Error::invalid(vec![violation(what, text, "search", message)]));
        }
    } else if table.search_fields().next().is_none() {
        let message = format!(
            "`{}` has no field that can be searched; add #[model(search)] to one",
            table.name()
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    search.terms().map(|_| ()).map_err(|why| {
        let text = excerpt(search.text());
        Error::new(ErrorKind::Invalid, format!("the search {text:?} {why}"))
    })
}

fn check_inside(table: &Table, position: usize, condition: &JsonCondition) -> Result<()> {
    check_field(table, position)?;
    let field = &table.fields()[position];
    let refused = |rule, message: String| {
        let mut violation = violation(field, ValueRef::Null, rule, message);
        violation.value = excerpt(&condition.path.to_string());
        Err(Error::invalid(vec![violation]))
    };
    if !matches!(field.kind, Kind::Json | Kind::File { .. }) {
        return refused(
            "path",
            format!("a {} field has no paths; only JSON fields and files have", field.kind.name()),
        );
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
            let value = excerpt_of(value.as_ref());
            let message = format!(
                "a path can be compared with a number, a text, true or false, not with \
                         {value}"
            );
            refused("type", message)
        }
        None => Ok(()),
    }
}

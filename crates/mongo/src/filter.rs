//! Filters and orders as MongoDB queries, derived from their structure.
//!
//! MongoDB's logic has two values, and a missing member is unequal to everything. So each part is
//! translated separately for true and for false, and requires that the member exists. Conditions
//! that a server cannot evaluate like every engine does (a path in JSON, a search for words, the
//! order of bytes) select too much: then [`Match::exact`] is false, and the rows are filtered again
//! here.

use marmota_model::{Comparison, FilterExpr, Place, RowQuery, SortKey, Table, Value, ValueForm};
use mongodb::bson::{Bson, Document, doc};

use crate::shape::{OrderPart, Shape, bson_of};

/// A condition on documents.
pub(crate) struct Match {
    pub(crate) document: Document,
    /// False if it selects more than the filter does.
    pub(crate) exact: bool,
}

/// Returns the query for the documents for which a filter is true.
pub(crate) fn matching(shape: &Shape, filter: Option<&FilterExpr>) -> Match {
    let mut exact = true;
    let document = match filter {
        Some(filter) => translate(shape, filter, true, &mut exact),
        None => Document::new(),
    };
    Match { document, exact }
}

/// Matches every document.
fn all() -> Document {
    Document::new()
}

/// Matches no document.
fn none() -> Document {
    doc! { "_id": { "$in": [] } }
}

fn joined(operator: &str, mut parts: Vec<Document>) -> Document {
    match (parts.len(), operator) {
        (0, "$and") => all(),
        (0, _) => none(),
        (1, _) => parts.remove(0),
        _ => doc! { operator: parts },
    }
}

/// Returns the query for the documents for which a filter is `wanted`. Documents for which it is
/// unknown match neither `true` nor `false`.
fn translate(shape: &Shape, filter: &FilterExpr, wanted: bool, exact: &mut bool) -> Document {
    match filter {
        FilterExpr::Compare { field, comparison, value } => {
            let comparison = if wanted { *comparison } else { comparison.negated() };
            compare(shape, *field, comparison, value, exact)
        }
        // An empty list is false, not unknown.
        FilterExpr::In { values, .. } if values.is_empty() => {
            if wanted {
                none()
            } else {
                all()
            }
        }
        FilterExpr::In { field, values } => member_of(shape, *field, values, wanted, exact),
        FilterExpr::Match { field, place, text } => {
            let column = &shape.columns[*field];
            if column.form != ValueForm::Text {
                *exact = false;
                return there(shape, *field);
            }
            let pattern = doc! { "$regex": pattern(*place, text) };
            let test = if wanted {
                pattern
            } else {
                doc! { "$not": pattern, "$ne": Bson::Null }
            };
            doc! { column.name.as_str(): test }
        }
        FilterExpr::IsNull { field } => {
            let name = shape.columns[*field].name.as_str();
            if wanted {
                doc! { name: Bson::Null }
            } else {
                there(shape, *field)
            }
        }
        FilterExpr::Not(inner) => translate(shape, inner, !wanted, exact),
        FilterExpr::And(filters) | FilterExpr::Or(filters) => {
            let is_and = matches!(filter, FilterExpr::And(_)) == wanted;
            let mut parts = Vec::with_capacity(filters.len());
            for filter in filters {
                let part = translate(shape, filter, wanted, exact);
                // A part that every document matches adds no condition.
                if !part.is_empty() {
                    parts.push(part);
                } else if !is_and {
                    return all();
                }
            }
            joined(if is_and { "$and" } else { "$or" }, parts)
        }
        // A search, a path in JSON, a circle on the earth, and unknown kinds of filters.
        _ => {
            *exact = false;
            all()
        }
    }
}

/// Returns the query for documents that have a value.
fn there(shape: &Shape, field: usize) -> Document {
    doc! { shape.columns[field].name.as_str(): { "$ne": Bson::Null } }
}

fn operator(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "$eq",
        Comparison::NotEqual => "$ne",
        Comparison::Less => "$lt",
        Comparison::LessOrEqual => "$lte",
        Comparison::Greater => "$gt",
        Comparison::GreaterOrEqual => "$gte",
    }
}

fn compare(
    shape: &Shape,
    field: usize,
    comparison: Comparison,
    value: &Value,
    exact: &mut bool,
) -> Document {
    let (column, value) = (&shape.columns[field], value.as_ref());
    let name = column.name.as_str();
    if value.is_null() || value.is_absent() {
        return none();
    }
    let is_order = !matches!(comparison, Comparison::Equal | Comparison::NotEqual);
    if column.form == ValueForm::Json || column.form == ValueForm::Blob && is_order {
        *exact = false;
        return there(shape, field);
    }
    match column.order_part {
        Some(OrderPart::Folded) => {
            let path = column.order_path();
            let folded = column.order_part(value).unwrap_or(Bson::Null);
            plain(&path, comparison, folded)
        }
        Some(OrderPart::Micros) => {
            let rest = column.order_part(value);
            timestamp(name, &column.order_path(), comparison, &bson_of(value), rest.as_ref())
        }
        Some(OrderPart::Written) | None => plain(name, comparison, column.bson(value)),
    }
}

fn plain(name: &str, comparison: Comparison, value: Bson) -> Document {
    match comparison {
        Comparison::Equal => doc! { name: value },
        Comparison::NotEqual => joined(
            "$and",
            vec![doc! { name: { "$ne": value } }, doc! { name: { "$ne": Bson::Null } }],
        ),
        _ => doc! { name: { operator(comparison): value } },
    }
}

/// A timestamp is before another one if its milliseconds are, or if those are equal and its
/// remainder is smaller. A remainder of 0 is not stored; a missing member sorts first.
fn timestamp(
    name: &str,
    path: &str,
    comparison: Comparison,
    millis: &Bson,
    rest: Option<&Bson>,
) -> Document {
    let same = |test: Document| joined("$and", vec![doc! { name: millis.clone() }, test]);
    let rest_is = doc! { path: rest.cloned().unwrap_or(Bson::Null) };
    let less = match rest {
        None => none(),
        Some(rest) => doc! { "$or": [{ path: Bson::Null }, { path: { "$lt": rest.clone() } }] },
    };
    let more = match rest {
        None => doc! { path: { "$ne": Bson::Null } },
        Some(rest) => doc! { path: { "$gt": rest.clone() } },
    };
    let before = doc! { name: { "$lt": millis.clone() } };
    let behind = doc! { name: { "$gt": millis.clone() } };
    let parts = match comparison {
        Comparison::Equal => vec![same(rest_is)],
        Comparison::NotEqual => vec![before, behind, same(less), same(more)],
        Comparison::Less => vec![before, same(less)],
        Comparison::LessOrEqual => vec![before, same(less), same(rest_is)],
        Comparison::Greater => vec![behind, same(more)],
        Comparison::GreaterOrEqual => vec![behind, same(more), same(rest_is)],
    };
    joined("$or", parts)
}

fn member_of(
    shape: &Shape,
    field: usize,
    values: &[Value],
    wanted: bool,
    exact: &mut bool,
) -> Document {
    let column = &shape.columns[field];
    let values = || values.iter().map(Value::as_ref).filter(|value| !value.is_null());
    let (path, list): (String, Vec<Bson>) = match (column.form, column.order_part) {
        (ValueForm::Json, _) => {
            *exact = false;
            return there(shape, field);
        }
        (_, Some(OrderPart::Micros)) => {
            let comparison = if wanted { Comparison::Equal } else { Comparison::NotEqual };
            let parts = values()
                .map(|value| compare(shape, field, comparison, &value.to_value(), &mut true));
            return joined(if wanted { "$or" } else { "$and" }, parts.collect());
        }
        (_, Some(OrderPart::Folded)) => {
            (column.order_path(), values().filter_map(|value| column.order_part(value)).collect())
        }
        (_, Some(OrderPart::Written) | None) => {
            (column.name.to_string(), values().map(|value| column.bson(value)).collect())
        }
    };
    match wanted {
        true => doc! { path: { "$in": list } },
        false => doc! { path: { "$nin": list, "$ne": Bson::Null } },
    }
}

/// Returns the regular expression for a text in a place. Only A to Z are case-insensitive; the
/// option of regular expressions would apply to all letters.
fn pattern(place: Place, text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() * 2 + 1);
    if place == Place::Start {
        pattern.push('^');
    }
    for letter in text.chars() {
        if letter.is_ascii_alphabetic() {
            pattern.push('[');
            pattern.push(letter.to_ascii_lowercase());
            pattern.push(letter.to_ascii_uppercase());
            pattern.push(']');
        } else {
            if letter.is_ascii_punctuation() {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
    }
    pattern
}

/// Returns the regular expression for a whole text in any case.
pub(crate) fn whole(text: &str) -> String {
    pattern(Place::Start, text) + "\\z"
}

/// Returns the sort of a query, or `None` if the server cannot sort because documents do not
/// contain what a field sorts by.
pub(crate) fn sort(shape: &Shape, query: &RowQuery) -> Option<Document> {
    let mut members = Document::new();
    for SortKey { field, descending } in query.order_with_key(&shape.table) {
        let column = &shape.columns[field];
        if matches!(column.form, ValueForm::Json | ValueForm::Blob) {
            return None;
        }
        for path in column.sort_paths() {
            members.insert(path, if descending { -1 } else { 1 });
        }
    }
    Some(members)
}

/// Compares two rows by an order.
pub(crate) fn order_rows(
    table: &Table,
    order: &[SortKey],
    a: &[Value],
    b: &[Value],
) -> std::cmp::Ordering {
    for by in order {
        let (a, b) = (&a[by.field], &b[by.field]);
        let collation = table.fields()[by.field].kind.collation();
        let order = collation.order(a.as_ref(), b.as_ref());
        if order.is_ne() {
            return if by.descending { order.reverse() } else { order };
        }
    }
    std::cmp::Ordering::Equal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_two_cases_for_letters_a_to_z() {
        assert_eq!(pattern(Place::Start, "a%É."), "^[aA]\\%É\\.");
        assert_eq!(pattern(Place::Anywhere, ""), "");
    }
}

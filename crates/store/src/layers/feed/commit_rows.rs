//! Queries for rows of the table of commits, and their values.

use marmota_model::{
    Comparison, FieldSet, FilterExpr, RowQuery, SortKey, Timestamp, Value, ValueRef,
};

use super::schema::commit;

/// Makes the query for the commits after a number and up to another, in order.
pub(crate) fn commits_between(after: u64, to: u64, fields: FieldSet, limit: u64) -> RowQuery {
    let compare = |comparison, number: u64| FilterExpr::Compare {
        field: commit::NUMBER,
        comparison,
        value: Value::Int(i64::try_from(number).unwrap_or(i64::MAX)),
    };
    RowQuery {
        filter: Some(FilterExpr::And(vec![
            compare(Comparison::Greater, after),
            compare(Comparison::LessOrEqual, to),
        ])),
        order: vec![SortKey { field: commit::NUMBER, descending: false }],
        fields: Some(fields),
        limit: Some(limit),
        ..RowQuery::new()
    }
}

/// Makes the query for the number of the last commit.
pub(crate) fn last_commit() -> RowQuery {
    RowQuery {
        order: vec![SortKey { field: commit::NUMBER, descending: true }],
        fields: Some(FieldSet::EMPTY.with(commit::NUMBER)),
        limit: Some(1),
        ..RowQuery::new()
    }
}

/// Returns an integer of an internal table as an unsigned number.
pub(crate) fn integer(value: ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Int(number) => number as u64,
        _ => 0,
    }
}

/// Returns a time of an internal table.
pub(crate) const fn timestamp(value: ValueRef<'_>) -> Option<Timestamp> {
    match value {
        ValueRef::Timestamp(at) => Some(at),
        _ => None,
    }
}

//! The reason of a refusal: the fields at fault, or the rows that still refer to a row. The server
//! reports one index or reference at most, so the rest is looked up.

use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_model::rule::violation;
use marmota_model::{
    Comparison, Error, ErrorKind, FieldSet, FilterExpr, Index, Kind, Result, RowQuery, Table,
    Value, ValueRef, Violation,
};
use marmota_store::prepare::no_target;
use marmota_store::refusal;

use super::SqlExecutor;
use crate::dialect::Dialect;
use crate::failure::{self, FailureCause, SqlFailure};

impl SqlExecutor<'_> {
    /// Returns the error of a refused row; `updated` is the key of an existing one.
    #[cold]
    pub(super) fn refused(
        &mut self,
        failure: &SqlFailure,
        table: &Table,
        row: &[ValueRef<'_>],
        updated: Option<ValueRef<'_>>,
    ) -> Error {
        if failure.cause == FailureCause::TooLong {
            let violations = too_long(self.dialect(), table, row);
            return match violations.is_empty() {
                true => failure.error(),
                false => Error::invalid(violations),
            };
        }
        if !failure.is_taken() && failure.cause != FailureCause::Reference {
            return failure.error();
        }
        let explained = self.explain(failure, table, row, updated);
        explained.unwrap_or_else(|error| error)
    }

    fn explain(
        &mut self,
        failure: &SqlFailure,
        table: &Table,
        row: &[ValueRef<'_>],
        updated: Option<ValueRef<'_>>,
    ) -> Result<Error> {
        let whole = match updated {
            Some(key) => self.whole(table, key, row)?,
            None => row.iter().map(ValueRef::to_value).collect(),
        };
        let whole = super::borrowed(&whole);
        // Uniqueness is checked before references.
        for fields in ways(table, &whole) {
            if self.conflicting(table, &whole, &fields, updated)?.is_some() {
                let message = "must be unique, but another row has this value";
                let blamed =
                    |&at: &usize| violation(&table.fields()[at], whole[at], "unique", message);
                let violations = fields.iter().map(blamed).collect();
                return Ok(refusal::with_violations(ErrorKind::Conflict, violations));
            }
        }
        if failure.is_taken() {
            if let Some(fields) = taken_generated(failure, table) {
                let message =
                    "must be unique, but another row has the value that the database computes";
                let blamed = |&at: &usize| {
                    let value = if whole[at].is_absent() { ValueRef::Null } else { whole[at] };
                    violation(&table.fields()[at], value, "unique", message)
                };
                let violations = fields.iter().map(blamed).collect();
                return Ok(refusal::with_violations(ErrorKind::Conflict, violations));
            }
            if updated.is_none()
                && row.get(table.key()).is_some_and(ValueRef::is_absent)
                && self.highest_key(table)? == Some(i64::MAX)
            {
                return Ok(failure::no_key_left());
            }
            // The other row is gone: it was undone meanwhile.
            return Ok(failure::lost_race());
        }
        let mut violations = Vec::new();
        for (field, value) in table.fields().iter().zip(row) {
            let Kind::Reference { table: to, .. } = &field.kind else { continue };
            let to_itself = to == table.name() && row.get(table.key()) == Some(value);
            if value.is_null() || value.is_absent() || to_itself {
                continue;
            }
            self.tables.learn();
            let Some(target) = self.tables.named(to).cloned() else { continue };
            if !self.exists(&target, *value)? {
                violations.push(no_target(field, *value, to));
            }
        }
        Ok(match violations.is_empty() {
            true => Error::new(ErrorKind::Invalid, "a reference has no target"),
            false => Error::invalid(violations),
        })
    }

    fn highest_key(&mut self, table: &Table) -> Result<Option<i64>> {
        let key = table.key();
        let query = RowQuery {
            fields: Some(FieldSet::EMPTY.with(key)),
            order: vec![marmota_model::SortKey { field: key, descending: true }],
            limit: Some(1),
            ..RowQuery::new()
        };
        let mut highest = None;
        let mut take = |row: &[ValueRef<'_>]| {
            highest = row[key].as_int();
            ControlFlow::Break(())
        };
        self.list(table, &query, &mut take)?;
        Ok(highest)
    }

    /// Returns an existing row as it would be with the present values of `row`.
    fn whole(
        &mut self,
        table: &Table,
        key: ValueRef<'_>,
        row: &[ValueRef<'_>],
    ) -> Result<Vec<Value>> {
        let unique = table.indexes().into_iter().filter(|index| index.unique);
        let fields: FieldSet = unique.flat_map(|index| index.fields.to_vec()).collect();
        let mut whole = vec![Value::Absent; table.fields().len()];
        let mut take = |stored: &[ValueRef<'_>]| {
            whole = stored.iter().map(ValueRef::to_value).collect();
            ControlFlow::Break(())
        };
        self.get(table, key, fields, &mut take)?;
        for (value, new) in whole.iter_mut().zip(row).filter(|(_, new)| !new.is_absent()) {
            *value = new.to_value();
        }
        whole[table.key()] = Value::Absent;
        Ok(whole)
    }

    /// Returns the key of another row with the same values in these fields.
    pub(super) fn conflicting(
        &mut self,
        table: &Table,
        row: &[ValueRef<'_>],
        fields: &[usize],
        own: Option<ValueRef<'_>>,
    ) -> Result<Option<Value>> {
        let compare = |field, comparison, value: ValueRef<'_>| FilterExpr::Compare {
            field,
            comparison,
            value: value.to_value(),
        };
        let mut all: Vec<FilterExpr> =
            fields.iter().map(|&at| compare(at, Comparison::Equal, row[at])).collect();
        all.extend(own.map(|own| compare(table.key(), Comparison::NotEqual, own)));
        let query = RowQuery {
            filter: Some(FilterExpr::And(all)),
            fields: Some(FieldSet::EMPTY.with(table.key())),
            limit: Some(1),
            ..RowQuery::new()
        };
        let mut found = None;
        let mut take = |row: &[ValueRef<'_>]| {
            found = Some(row[table.key()].to_value());
            ControlFlow::Break(())
        };
        self.list(table, &query, &mut take)?;
        Ok(found)
    }

    /// Returns the error of rows that cannot be deleted, after looking up their referrers.
    #[cold]
    pub(super) fn kept(
        &mut self,
        failure: &SqlFailure,
        table: &Table,
        key: Option<ValueRef<'_>>,
    ) -> Error {
        if failure.cause != FailureCause::Reference {
            return failure.error();
        }
        self.tables.learn();
        let all = self.tables.references_to(table.name());
        let mut found: Vec<(Arc<Table>, usize)> = Vec::new();
        for (other, field) in all {
            let refers = key.is_none_or(|key| {
                let value = key.to_value();
                let filter = FilterExpr::Compare { field, comparison: Comparison::Equal, value };
                self.count(&other, Some(&filter)).is_ok_and(|rows| rows > 0)
            });
            if refers {
                found.push((other, field));
            }
        }
        refusal::still_referred_to(table, key, &found)
    }
}

/// Returns the violations of keys, and references to keys, that are longer than their column.
fn too_long(dialect: &Dialect, table: &Table, row: &[ValueRef<'_>]) -> Vec<Violation> {
    let Some(most) = dialect.types.key_chars else { return Vec::new() };
    let is_key =
        |at: usize| at == table.key() || matches!(table.fields()[at].kind, Kind::Reference { .. });
    let is_long = |value: &ValueRef<'_>| match value {
        ValueRef::Text(text) => text.chars().count() > most as usize,
        _ => false,
    };
    let long = (0..row.len()).filter(|&at| is_key(at) && is_long(&row[at]));
    let message =
        format!("must have at most {most} characters, the limit of keys in {}", dialect.name);
    long.map(|at| violation(&table.fields()[at], row[at], "max", message.clone())).collect()
}

/// Returns the fields of the unique index that a failure names, if it has a generated column: its
/// value is not known, so that the other row cannot be looked up.
fn taken_generated(failure: &SqlFailure, table: &Table) -> Option<Vec<usize>> {
    let generated = table.generated_fields();
    let is_it = |index: &Index| {
        let name = marmota_sql::bounded(&marmota_sql::index_name(table, index));
        index.unique
            && index.fields.iter().any(|&field| generated.contains(field))
            && failure.source.contains(&name)
    };
    let index = (!generated.is_empty()).then(|| table.indexes().into_iter().find(is_it))??;
    Some(index.fields.to_vec())
}

/// Returns the sets of fields by which another row may conflict with this one: the key, then each
/// unique index without a NULL.
pub(super) fn ways(table: &Table, row: &[ValueRef<'_>]) -> Vec<Vec<usize>> {
    let indexes = table.indexes();
    let unique = indexes.iter().filter(|index| index.unique).map(|index| index.fields.to_vec());
    let has_value = |&at: &usize| !row[at].is_null() && !row[at].is_absent();
    // The fields of a composite key have an index of their own.
    let key = (!table.has_composite_key()).then(|| vec![table.key()]);
    key.into_iter().chain(unique).filter(|fields| fields.iter().all(has_value)).collect()
}

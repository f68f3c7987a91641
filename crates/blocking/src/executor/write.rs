//! Writes of one row, and deletes by a filter.

use marmota_model::rule::violation;
use marmota_model::{
    Currency, Error, FieldSet, FilterExpr, Kind, Result, RowQuery, Table, Value, ValueForm,
    ValueRef,
};
use marmota_sql::{quoted, where_sql};
use marmota_store::operation::{Keys, Outcome};
use marmota_store::refusal;

use super::exact::SplitFilter;
use super::{SqlExecutor, borrowed};
use crate::dialect::Dialect;
use crate::failure::{FailureCause, SqlFailure};
use crate::statement::column::name;
use crate::statement::sql::Sql;

/// The most keys in one statement.
const KEYS_MAX: usize = 1_000;

impl SqlExecutor<'_> {
    pub(super) fn insert(&mut self, table: &Table, row: &[ValueRef<'_>]) -> Result<Outcome> {
        self.check(table)?;
        match self.insert_row(table, row) {
            Ok(written) => {
                let mut outcome = Outcome::rows(1);
                if row[table.key()].is_absent() {
                    outcome.keys = Keys::One(Value::Int(written.id as i64));
                }
                outcome.version = table.version().and_then(|version| row[version].as_int());
                Ok(outcome)
            }
            Err(failure) => Err(self.refused(&failure, table, row, None)),
        }
    }

    pub(super) fn update(
        &mut self,
        table: &Table,
        key: ValueRef<'_>,
        row: &[ValueRef<'_>],
        version: Option<i64>,
    ) -> Result<Outcome> {
        self.check(table)?;
        let mut sql = Sql::new(self.dialect(), format!("UPDATE {} SET ", quoted(table.name())));
        let mut comma = "";
        for position in written(table, row) {
            sql.add(comma);
            self.assign(&mut sql, table, position, row[position]);
            comma = ",";
        }
        if let Some(at) = table.version() {
            sql.add(comma);
            self.add_one(&mut sql, table, at);
        } else if comma.is_empty() {
            return match self.exists(table, key)? {
                true => Ok(Outcome::rows(1)),
                false => Err(refusal::not_found(table, key)),
            };
        }
        by_key(&mut sql, table, key, version);
        let done = self.written_with_version(sql, table, key);
        match done {
            Ok(done) if done.rows == 0 => Err(self.missing(table, key, version)),
            Ok(done) => {
                let version = table.version().map(|_| done.id as i64);
                Ok(Outcome { version, ..Outcome::rows(1) })
            }
            Err(failure) => Err(self.refused(&failure, table, row, Some(key))),
        }
    }

    pub(super) fn increment(
        &mut self,
        table: &Table,
        key: ValueRef<'_>,
        position: usize,
        by: ValueRef<'_>,
        stamp: ValueRef<'_>,
    ) -> Result<Outcome> {
        self.check(table)?;
        let field = &table.fields()[position];
        let (min, max, number) = match (&field.kind, by) {
            (Kind::Int { min, max }, ValueRef::Int(by)) => (*min, *max, by),
            (Kind::Currency, ValueRef::Currency(by)) => (i64::MIN, i64::MAX, by.scaled()),
            _ => {
                let message = "only integer and currency fields can be incremented, by a value of \
                               the same kind";
                return Err(Error::invalid(vec![violation(field, by, "type", message)]));
            }
        };
        // The sum fits if the old value is between these bounds; this check cannot overflow.
        let bound = |end: i64| i128::from(end) - i128::from(number);
        let low = i64::try_from(bound(min).max(i64::MIN.into()));
        let high = i64::try_from(bound(max).min(i64::MAX.into()));
        let (low, high) = low.ok().zip(high.ok()).unwrap_or((1, 0));
        let of = |number: i64| match field.kind {
            Kind::Currency => ValueRef::Currency(Currency::from_scaled(number)),
            _ => ValueRef::Int(number),
        };
        let value = self.dialect().placeholder(field.kind.form());
        let sum = name(table, position);
        let mut sql = Sql::new(
            self.dialect(),
            format!("UPDATE {} SET {sum}={sum}+{value}", quoted(table.name())),
        );
        sql.bind(of(number));
        if let Some(at) = table.updated_at() {
            sql.add(",");
            self.assign(&mut sql, table, at, stamp);
        }
        if let Some(at) = table.version() {
            sql.add(",");
            self.add_one(&mut sql, table, at);
        }
        by_key(&mut sql, table, key, None);
        sql.add(&format!(" AND {sum} BETWEEN {value} AND {value}")).bind(of(low)).bind(of(high));
        // The row is locked between the two statements.
        self.atomically(|executor| {
            let done = match executor.written_with_version(sql, table, key) {
                Ok(done) if done.rows == 0 => {
                    return Err(executor.not_incremented(table, key, position, number));
                }
                Ok(done) => done,
                Err(failure) => {
                    let mut row = vec![Value::Absent; table.fields().len()];
                    row[position] = executor.sum(table, key, position, number)?;
                    return Err(executor.refused(&failure, table, &borrowed(&row), Some(key)));
                }
            };
            let value = executor.value(table, key, position)?.unwrap_or_default();
            if !field.rules.is_empty() {
                let mut row = vec![ValueRef::Absent; table.fields().len()];
                row[position] = value.as_ref();
                table.validate(&row)?;
            }
            let version = table.version().map(|_| done.id as i64);
            Ok(Outcome { version, value, ..Outcome::rows(1) })
        })
    }

    /// Returns the sum that an increment would have written.
    fn sum(&mut self, table: &Table, key: ValueRef<'_>, position: usize, by: i64) -> Result<Value> {
        Ok(match self.value(table, key, position)? {
            Some(Value::Int(old)) => Value::Int(old.saturating_add(by)),
            Some(Value::Currency(old)) => {
                Value::Currency(Currency::from_scaled(old.scaled().saturating_add(by)))
            }
            _ => Value::Absent,
        })
    }

    /// Returns the reason why an increment found no row.
    #[cold]
    fn not_incremented(
        &mut self,
        table: &Table,
        key: ValueRef<'_>,
        position: usize,
        by: i64,
    ) -> Error {
        let old = match self.value(table, key, position) {
            Ok(Some(old)) => old,
            Ok(None) => return refusal::not_found(table, key),
            Err(error) => return error,
        };
        let field = &table.fields()[position];
        let (rule, message) = match &old {
            Value::Null => {
                ("required", "is null and cannot be incremented; set a value first".to_owned())
            }
            _ => {
                let by = match field.kind {
                    Kind::Currency => Currency::from_scaled(by).to_string(),
                    _ => by.to_string(),
                };
                ("range", format!("would be out of range after an increment by {by}"))
            }
        };
        Error::invalid(vec![violation(field, old.as_ref(), rule, message)])
    }

    pub(super) fn delete(
        &mut self,
        table: &Table,
        key: ValueRef<'_>,
        version: Option<i64>,
    ) -> Result<Outcome> {
        self.check(table)?;
        let mut sql = Sql::new(self.dialect(), format!("DELETE FROM {}", quoted(table.name())));
        by_key(&mut sql, table, key, version);
        match self.written(&sql) {
            Ok(done) if done.rows == 0 => Err(self.missing(table, key, version)),
            Ok(_) => Ok(Outcome::rows(1)),
            Err(failure) if self.refers_only_to_itself(&failure, table, key) => {
                self.delete_circle(table, &[key.to_value()])
            }
            Err(failure) => Err(self.kept(&failure, table, Some(key))),
        }
    }

    pub(super) fn delete_where(
        &mut self,
        table: &Table,
        filter: Option<&FilterExpr>,
    ) -> Result<Outcome> {
        self.check(table)?;
        let split = SplitFilter::of(filter, &mut |rest| self.without_related(table, rest))?;
        let refers_to_itself = references_to_itself(table).next().is_some();
        // A statement cannot read the table that it deletes from, in conditions on related rows.
        if split.rest.is_none() && !refers_to_itself {
            let mut sql = Sql::new(self.dialect(), format!("DELETE FROM {}", quoted(table.name())));
            where_sql(&mut sql, table, split.sql.as_ref());
            return match self.written(&sql) {
                Ok(done) => Ok(Outcome::rows(done.rows)),
                Err(failure) => Err(self.kept(&failure, table, None)),
            };
        }
        self.atomically(|executor| {
            let query = RowQuery {
                filter: filter.cloned(),
                fields: Some(FieldSet::EMPTY.with(table.key())),
                ..RowQuery::new()
            };
            let mut keys = Vec::new();
            let mut take = |row: &[ValueRef<'_>]| {
                keys.push(row[table.key()].to_value());
                std::ops::ControlFlow::Continue(())
            };
            executor.list(table, &query, &mut take)?;
            if refers_to_itself {
                return executor.delete_circle(table, &keys);
            }
            let mut rows = 0;
            for keys in keys.chunks(KEYS_MAX) {
                match executor.written(&delete_keys_sql(executor.dialect(), table, keys)) {
                    Ok(done) => rows += done.rows,
                    Err(failure) => return Err(executor.kept(&failure, table, None)),
                }
            }
            Ok(Outcome::rows(rows))
        })
    }

    /// Deletes rows that may refer to each other: databases check references row by row, so those
    /// among the rows are removed first.
    fn delete_circle(&mut self, table: &Table, keys: &[Value]) -> Result<Outcome> {
        self.atomically(|executor| {
            let mut fields = Vec::new();
            for position in references_to_itself(table) {
                if table.fields()[position].nullable {
                    fields.push(position);
                }
            }
            for field in fields {
                // Rows outside of the list are not referred to by a list in the same statement.
                for chunk in keys.chunks(KEYS_MAX) {
                    let own = name(table, field);
                    let mut sql = Sql::new(
                        executor.dialect(),
                        format!("UPDATE {} SET {own}=NULL WHERE ", quoted(table.name())),
                    );
                    keys_sql(&mut sql, table, chunk);
                    executor.written(&sql).map_err(|failure| failure.error())?;
                }
            }
            let mut rows = 0;
            for chunk in keys.chunks(KEYS_MAX) {
                match executor.written(&delete_keys_sql(executor.dialect(), table, chunk)) {
                    Ok(done) => rows += done.rows,
                    Err(failure) => {
                        let key = if keys.len() == 1 { keys.first() } else { None };
                        return Err(executor.kept(&failure, table, key.map(Value::as_ref)));
                    }
                }
            }
            Ok(Outcome::rows(rows))
        })
    }

    /// Returns true if a row was not deleted because it refers to itself.
    fn refers_only_to_itself(
        &mut self,
        failure: &SqlFailure,
        table: &Table,
        key: ValueRef<'_>,
    ) -> bool {
        failure.cause == FailureCause::Reference
            && references_to_itself(table).any(|field| {
                table.fields()[field].nullable
                    && matches!(self.value(table, key, field), Ok(Some(to)) if to.as_ref() == key)
            })
    }

    pub(super) fn exists(&mut self, table: &Table, key: ValueRef<'_>) -> Result<bool> {
        self.value(table, key, table.key()).map(|found| found.is_some())
    }

    /// Returns the reason why a write found no row.
    #[cold]
    pub(super) fn missing(
        &mut self,
        table: &Table,
        key: ValueRef<'_>,
        expected: Option<i64>,
    ) -> Error {
        let found = match table.version() {
            Some(version) => self.value(table, key, version),
            None => return refusal::not_found(table, key),
        };
        match (found, expected) {
            (Err(error), _) => error,
            (Ok(Some(Value::Int(version))), Some(expected)) => {
                refusal::stale(table, key, version, expected)
            }
            _ => refusal::not_found(table, key),
        }
    }
}

/// Returns the fields that refer to rows of their own table.
pub(super) fn references_to_itself(table: &Table) -> impl Iterator<Item = usize> {
    let own = |kind: &Kind| matches!(kind, Kind::Reference { table: to, .. } if to == table.name());
    (0..table.fields().len()).filter(move |&at| own(&table.fields()[at].kind))
}

/// Returns the fields that an update writes: those present except the key and the version.
pub(super) fn written<'r>(
    table: &'r Table,
    row: &'r [ValueRef<'_>],
) -> impl Iterator<Item = usize> + 'r {
    let present = (0..row.len()).filter(|&at| !row[at].is_absent());
    present.filter(|&at| at != table.key() && Some(at) != table.version())
}

/// Writes ` WHERE` with the key, and the version if one is compared.
fn by_key(sql: &mut Sql, table: &Table, key: ValueRef<'_>, version: Option<i64>) {
    let form = table.fields()[table.key()].kind.form();
    sql.add(" WHERE ").add(&name(table, table.key())).add("=");
    sql.add(sql.dialect.placeholder(form)).bind(key);
    if let (Some(at), Some(version)) = (table.version(), version) {
        sql.add(" AND ").add(&name(table, at)).add("=");
        sql.add(sql.dialect.placeholder(ValueForm::Int)).bind(ValueRef::Int(version));
    }
}

fn keys_sql(sql: &mut Sql, table: &Table, keys: &[Value]) {
    let filter = FilterExpr::In { field: table.key(), values: keys.to_vec() };
    marmota_sql::filter_sql(sql, table, &filter);
}

fn delete_keys_sql(dialect: &'static Dialect, table: &Table, keys: &[Value]) -> Sql {
    let mut sql = Sql::new(dialect, format!("DELETE FROM {} WHERE ", quoted(table.name())));
    keys_sql(&mut sql, table, keys);
    sql
}

impl SqlExecutor<'_> {
    /// Writes all fields of a row that exists.
    pub(super) fn overwrite(&mut self, table: &Table, row: &[ValueRef<'_>]) -> Result<Outcome> {
        let mut sql = Sql::new(self.dialect(), format!("UPDATE {} SET ", quoted(table.name())));
        let key = table.key();
        let mut comma = "";
        for at in (0..row.len()).filter(|&at| at != key && !row[at].is_absent()) {
            sql.add(comma);
            self.assign(&mut sql, table, at, row[at]);
            comma = ",";
        }
        if comma.is_empty() {
            return Ok(Outcome::rows(1));
        }
        by_key(&mut sql, table, row[key], None);
        match self.written(&sql) {
            Ok(_) => Ok(Outcome::rows(1)),
            Err(failure) => Err(self.refused(&failure, table, row, Some(row[key]))),
        }
    }
}

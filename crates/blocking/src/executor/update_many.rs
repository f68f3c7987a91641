//! Updates of many rows of one table by their keys, several with one statement where that has the
//! same effect as one statement for each.

use std::collections::HashSet;

use marmota_model::{FieldSet, Result, Table, Value, ValueForm, ValueRef};
use marmota_sql::quoted;
use marmota_store::operation::Outcome;
use marmota_store::refusal;

use super::write::written;
use super::{SqlExecutor, borrowed};
use crate::failure::SqlFailure;
use crate::statement::column::name;
use crate::statement::sql::Sql;

/// The most rows of a statement. The server compares the key of each row with up to this many.
const STATEMENT_ROWS: usize = 64;

impl SqlExecutor<'_> {
    pub(super) fn update_many(&mut self, table: &Table, rows: &[Vec<Value>]) -> Result<Outcome> {
        self.check(table)?;
        self.atomically(|executor| {
            let mut at = 0;
            while at < rows.len() {
                let count = executor.rows_of_a_case(table, &rows[at..]);
                let some = &rows[at..at + count.max(1)];
                // The reason of a refusal, and the row, are found row by row.
                let is_done = count > 1
                    && match executor.update_by_case(table, some) {
                        Ok(found) => found == count as u64,
                        Err(failure) if failure.error().is_retryable() => {
                            return Err(failure.error());
                        }
                        Err(failure) if failure.breaks_connection => return Err(failure.error()),
                        Err(_) => false,
                    };
                if !is_done {
                    executor.update_each(table, some, at)?;
                }
                at += some.len();
            }
            Ok(Outcome::rows(rows.len() as u64))
        })
    }

    /// Updates rows with one statement each; `first` is the number of the first one.
    fn update_each(&mut self, table: &Table, rows: &[Vec<Value>], first: usize) -> Result<()> {
        for (at, row) in rows.iter().enumerate() {
            let row = borrowed(row);
            let done = match row[table.key()] {
                ValueRef::Absent => Err(refusal::not_found(table, ValueRef::Null)),
                key => self.update(table, key, &row, None),
            };
            done.map_err(|error| match error.is_retryable() {
                true => error,
                false => error.at(format_args!("row {}", first + at)),
            })?;
        }
        Ok(())
    }

    /// Returns the number of rows at the beginning that one statement may update: they have the same
    /// fields, different keys, and no field in a unique index, whose values may be exchanged.
    fn rows_of_a_case(&self, table: &Table, rows: &[Vec<Value>]) -> usize {
        let dialect = self.dialect();
        let form = |at: usize| table.fields()[at].kind.form();
        if !dialect.writes.updates_by_case
            || table.version().is_some()
            || form(table.key()) != ValueForm::Int
        {
            return 0;
        }
        let fields = |row: &[Value]| written(table, &borrowed(row)).collect::<FieldSet>();
        let Some(first) = rows.first().map(|row| fields(row)) else { return 0 };
        let unique = table.indexes().into_iter().filter(|index| index.unique);
        let unique: FieldSet = unique.flat_map(|index| index.fields.to_vec()).collect();
        let is_plain = |at: usize| {
            let forms = [ValueForm::Int, ValueForm::Bool, ValueForm::Float, ValueForm::Text];
            forms.contains(&form(at)) && !unique.contains(at)
        };
        if first.is_empty() || !first.iter().all(is_plain) {
            return 0;
        }
        let (mut keys, mut bytes) = (HashSet::new(), 0);
        let fits = |row: &&Vec<Value>| {
            bytes += row.iter().map(|value| self.connection.bytes_of(value)).sum::<usize>();
            let Value::Int(key) = row[table.key()] else { return false };
            keys.insert(key) && bytes <= dialect.limits.bytes && fields(row) == first
        };
        rows.iter().take(STATEMENT_ROWS).take_while(fits).count()
    }

    /// Updates rows with one statement; returns the number of those that exist.
    fn update_by_case(&mut self, table: &Table, rows: &[Vec<Value>]) -> Result<u64, SqlFailure> {
        let (key, own) = (table.key(), name(table, table.key()));
        let mut sql = Sql::new(self.dialect(), format!("UPDATE {} SET ", quoted(table.name())));
        let first = borrowed(&rows[0]);
        for (number, at) in written(table, &first).enumerate() {
            sql.add(if number == 0 { "" } else { "," });
            sql.add(&name(table, at)).add("=CASE ").add(&own);
            for row in rows {
                sql.add(" WHEN ? THEN ?").bind(row[key].as_ref()).bind(row[at].as_ref());
            }
            sql.add(" END");
        }
        sql.add(" WHERE ").add(&own).add(" IN (?").add(&",?".repeat(rows.len() - 1)).add(")");
        for row in rows {
            sql.bind(row[key].as_ref());
        }
        self.written(&sql).map(|done| done.rows)
    }
}

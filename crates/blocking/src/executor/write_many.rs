//! Inserts of many rows of one table, many with one statement.

use marmota_model::{FieldSet, Result, Table, Value};
use marmota_store::operation::{Keys, OnConflict, Outcome, UpsertEffect};
use marmota_store::refusal::mixed_keys;

use super::insert_sql::{insert_end, insert_head};
use super::{SqlExecutor, borrowed};
use crate::dialect::ReturnedKey;
use crate::failure::{FailureCause, SqlFailure};
use crate::statement::sql::Sql;

/// The numbers of rows of a statement: few different ones, so that few are prepared. Those of usual
/// batches are among them, so that such a batch is one statement.
const STATEMENT_ROWS: [usize; 15] =
    [1_024, 1_000, 512, 500, 256, 250, 128, 100, 64, 50, 32, 16, 8, 4, 2];

impl SqlExecutor<'_> {
    pub(super) fn insert_many(
        &mut self,
        table: &Table,
        rows: &[Vec<Value>],
        on_conflict: OnConflict,
    ) -> Result<Outcome> {
        self.check(table)?;
        let key = table.key();
        if let Some(first) = rows.first() {
            let has_key = first[key] != Value::Absent;
            let mixed = rows.iter().position(|row| (row[key] != Value::Absent) != has_key);
            if let Some(at) = mixed.filter(|_| on_conflict == OnConflict::Refuse) {
                return Err(mixed_keys(at));
            }
        }
        if on_conflict != OnConflict::Refuse {
            return self.atomically(|executor| executor.put_all(table, rows, on_conflict));
        }
        self.atomically(|executor| {
            let mut keys: Vec<i64> = Vec::new();
            let mut at = 0;
            while at < rows.len() {
                let count = executor.statement_rows(key, &rows[at..]);
                match executor.insert_some(table, &rows[at..at + count]) {
                    Ok(made) => keys.extend(made),
                    Err(failure) => {
                        return Err(executor.row_at_fault(&failure, table, rows, at, count));
                    }
                }
                at += count;
            }
            let mut outcome = Outcome::rows(rows.len() as u64);
            let follows = keys.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
            outcome.keys = match keys.first() {
                None => Keys::Known,
                Some(&first) if follows => Keys::Range { first },
                Some(_) => Keys::Each(keys.into_iter().map(Value::Int).collect()),
            };
            Ok(outcome)
        })
    }

    /// Inserts rows with one call of the driver; returns their automatic keys.
    fn insert_some(&mut self, table: &Table, rows: &[Vec<Value>]) -> Result<Vec<i64>, SqlFailure> {
        let Some(first) = rows.first() else { return Ok(Vec::new()) };
        let dialect = self.dialect();
        let present: Vec<usize> =
            (0..first.len()).filter(|&at| first[at] != Value::Absent).collect();
        let is_given = first[table.key()] != Value::Absent;
        let head = insert_head(table, &present);
        let mut sql = Sql::new(dialect, head);
        sql.add(&insert_end(dialect, table, is_given, rows.len(), &present));
        for row in rows {
            for &at in &present {
                sql.bind(row[at].as_ref());
            }
        }
        if is_given {
            self.written(&sql)?;
            self.follow_given_key(table)?;
            return Ok(Vec::new());
        }
        if matches!(dialect.writes.key, ReturnedKey::Returning | ReturnedKey::Output) {
            return Ok(self.integers(&sql)?.into_iter().flatten().collect());
        }
        let written = self.written_with_key(&sql, table, is_given)?;
        // The keys of one statement are consecutive (in MariaDB with innodb_autoinc_lock_mode 0 or 1;
        // with 2 they are for statements whose number of rows is known, too).
        let (first, step) = (written.id as i64, self.connection.key_step());
        Ok((0..rows.len() as i64).map(|at| first + at * step).collect())
    }

    /// Finds the row that made a statement fail, by inserting the rows one by one. The caller undoes
    /// that with the rest.
    #[cold]
    fn row_at_fault(
        &mut self,
        failure: &SqlFailure,
        table: &Table,
        rows: &[Vec<Value>],
        first: usize,
        count: usize,
    ) -> marmota_model::Error {
        let is_of_a_row = failure.is_taken()
            || matches!(
                failure.cause,
                FailureCause::Reference | FailureCause::OutOfRange | FailureCause::TooLong
            );
        if !is_of_a_row {
            return failure.error();
        }
        for (at, row) in rows.iter().enumerate().skip(first).take(count) {
            if let Err(error) = self.insert(table, &borrowed(row)) {
                return match error.is_retryable() {
                    true => error,
                    false => error.at(format_args!("row {at}")),
                };
            }
        }
        failure.error()
    }

    fn put_all(
        &mut self,
        table: &Table,
        rows: &[Vec<Value>],
        on_conflict: OnConflict,
    ) -> Result<Outcome> {
        let mut placed = Vec::with_capacity(rows.len());
        for (at, row) in rows.iter().enumerate() {
            let put = self.put(table, &borrowed(row), on_conflict).map_err(|error| {
                if error.is_retryable() { error } else { error.at(format_args!("row {at}")) }
            })?;
            placed.push(put.0);
        }
        let written = placed.iter().filter(|one| one.effect != UpsertEffect::Ignored).count();
        Ok(Outcome { keys: Keys::Upserted(placed), ..Outcome::rows(written as u64) })
    }
}

impl SqlExecutor<'_> {
    /// Returns the number of rows for the next statement: they have the same fields.
    fn statement_rows(&self, key: usize, rows: &[Vec<Value>]) -> usize {
        let dialect = self.dialect();
        let fields = |row: &[Value]| -> FieldSet {
            (0..row.len()).filter(|&at| row[at] != Value::Absent).collect()
        };
        let Some(first) = rows.first().map(|row| fields(row)) else { return 0 };
        if !dialect.writes.many_rows
            || first.is_empty() && !dialect.writes.without_columns.ends_with(')')
            || !first.contains(key) && matches!(dialect.writes.key, ReturnedKey::Sequence(_))
        {
            return 1;
        }
        let (mut bytes, mut count) = (0, 0);
        for row in rows.iter().take(STATEMENT_ROWS[0]) {
            bytes += row.iter().map(|value| self.connection.bytes_of(value)).sum::<usize>();
            if count > 0 && (bytes > dialect.limits.bytes || fields(row) != first) {
                break;
            }
            count += 1;
        }
        let most_parameters = dialect.limits.parameters;
        let fits = |&&most: &&usize| most <= count && most * first.len().max(1) <= most_parameters;
        STATEMENT_ROWS.iter().find(fits).copied().unwrap_or(1)
    }
}

//! Writes of many rows of one table. Inserts write many rows with one statement.

use marmota_model::{FieldSet, Result, Table, Value};
use marmota_store::operation::{Keys, OnConflict, Outcome, UpsertEffect};
use marmota_store::refusal::{self, mixed_keys};

use super::write::{insert_head, values_of};
use super::{Executor, borrowed};
use crate::connection::bytes_of;
use crate::fault::{Failure, code};
use crate::statement::column::{cell, name};
use crate::statement::sql::Sql;

/// The numbers of rows of a statement: few different ones, so that few are prepared.
const STATEMENT_ROWS: [usize; 5] = [1_024, 256, 64, 16, 4];
/// The most parameters of a statement.
const PARAMETERS_MAX: usize = 60_000;
/// The most bytes of a statement, well below the server's default `max_allowed_packet`.
const BYTES_MAX: usize = 4 << 20;

impl Executor<'_> {
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
                let count = statement_rows(&rows[at..]);
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

    /// Inserts rows with one statement; returns their automatic keys.
    fn insert_some(&mut self, table: &Table, rows: &[Vec<Value>]) -> Result<Vec<i64>, Failure> {
        let Some(first) = rows.first() else { return Ok(Vec::new()) };
        let present: Vec<usize> =
            (0..first.len()).filter(|&at| first[at] != Value::Absent).collect();
        let names: Vec<String> = present.iter().map(|&at| name(table, at)).collect();
        let values = values_of(present.len());
        let mut sql = Sql::new(insert_head(table, &names));
        sql.add(&values).add(&format!(",{values}").repeat(rows.len() - 1));
        for row in rows {
            for &at in &present {
                sql.bind(cell(row[at].as_ref()));
            }
        }
        let written = self.written(sql)?;
        if first[table.key()] != Value::Absent {
            return Ok(Vec::new());
        }
        // The keys of one statement are consecutive (innodb_autoinc_lock_mode 0 or 1; with 2 they are
        // for statements whose number of rows is known, too).
        let (first, step) = (written.id as i64, self.connection.key_step);
        Ok((0..rows.len() as i64).map(|at| first + at * step).collect())
    }

    /// Finds the row that made a statement fail, by inserting the rows one by one. The caller undoes
    /// that with the rest.
    #[cold]
    fn row_at_fault(
        &mut self,
        failure: &Failure,
        table: &Table,
        rows: &[Vec<Value>],
        first: usize,
        count: usize,
    ) -> marmota_model::Error {
        let is_of_a_row = failure.is_taken()
            || matches!(failure.code, code::NO_TARGET | code::OUT_OF_RANGE | code::TOO_LONG);
        if !is_of_a_row {
            return crate::fault::of(failure);
        }
        for (at, row) in rows.iter().enumerate().skip(first).take(count) {
            if let Err(error) = self.insert(table, &borrowed(row)) {
                return match error.is_retryable() {
                    true => error,
                    false => error.at(format_args!("row {at}")),
                };
            }
        }
        crate::fault::of(failure)
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

    pub(super) fn update_many(&mut self, table: &Table, rows: &[Vec<Value>]) -> Result<Outcome> {
        self.check(table)?;
        self.atomically(|executor| {
            for (at, row) in rows.iter().enumerate() {
                let row = borrowed(row);
                let done = match row[table.key()] {
                    marmota_model::ValueRef::Absent => {
                        Err(refusal::not_found(table, marmota_model::ValueRef::Null))
                    }
                    key => executor.update(table, key, &row, None),
                };
                done.map_err(|error| {
                    if error.is_retryable() { error } else { error.at(format_args!("row {at}")) }
                })?;
            }
            Ok(Outcome::rows(rows.len() as u64))
        })
    }
}

/// Returns the number of rows for the next statement: they have the same fields.
fn statement_rows(rows: &[Vec<Value>]) -> usize {
    let fields = |row: &[Value]| -> FieldSet {
        (0..row.len()).filter(|&at| row[at] != Value::Absent).collect()
    };
    let Some(first) = rows.first().map(|row| fields(row)) else { return 0 };
    let (mut bytes, mut count) = (0, 0);
    for row in rows.iter().take(STATEMENT_ROWS[0]) {
        bytes += row.iter().map(|value| bytes_of(&cell(value.as_ref()))).sum::<usize>();
        if count > 0 && (bytes > BYTES_MAX || fields(row) != first) {
            break;
        }
        count += 1;
    }
    let fits = |&&most: &&usize| most <= count && most * first.len().max(1) <= PARAMETERS_MAX;
    STATEMENT_ROWS.iter().find(fits).copied().unwrap_or(1)
}

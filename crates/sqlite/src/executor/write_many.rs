//! Writes of many rows of one table.
//!
//! Inserts write many rows per statement: the overhead of a statement is about the cost of five
//! rows. Rows come one by one from a source that cannot be read twice, so a chunk of them is kept
//! until it is written: to bind them, and to find the failed one.

use marmota_model::{Error, ErrorKind, FieldSet, Result, RowSource, Table, Value, ValueRef};
use marmota_store::operation::{Keys, OnConflict, Outcome, UpsertEffect, UpsertResult};
use marmota_store::refusal::mixed_keys;

use crate::executor::Executor;
use crate::executor::write::{Versioned, bind_written, insert_sql};
use crate::fault;
use crate::ffi::{Failure, code};
use crate::statement::column::bind_present;
use crate::statement::key::bind_key;
use crate::statement::{Head, Verb};

/// The numbers of rows per statement. A chunk that is not a multiple of the first uses some of the
/// others, so that five statements suffice for any number of rows.
const STATEMENT_ROWS: [usize; 5] = [256, 64, 16, 4, 1];
/// The most parameters of a statement: SQLite allows 32,766, and needs about a hundred bytes for
/// each as long as the statement is kept.
const PARAMETERS_MAX: usize = 8_192;

/// Buffered rows, all with the same fields.
struct Chunk<'a> {
    /// Row by row, with a place for each field of the table.
    values: Vec<ValueRef<'a>>,
    width: usize,
    rows: usize,
    /// The number of rows written before these.
    before: usize,
}

impl<'a> Chunk<'a> {
    /// Returns true if the row after the last one has the same fields as the first.
    #[inline]
    fn takes_next(&self) -> bool {
        let next = &self.values[self.rows * self.width..][..self.width];
        let mut pairs = self.values[..self.width].iter().zip(next);
        pairs.all(|(first, next)| first.is_absent() == next.is_absent())
    }

    fn row(&self, row: usize) -> &[ValueRef<'a>] {
        &self.values[row * self.width..][..self.width]
    }
}

impl Executor {
    pub(crate) fn insert_many<'a>(
        &mut self,
        table: &'a Table,
        rows: &mut (dyn RowSource<'a> + 'a),
        on_conflict: OnConflict,
    ) -> Result<Outcome> {
        let width = table.fields().len();
        let rows_max = (PARAMETERS_MAX / width).clamp(1, STATEMENT_ROWS[0]);
        let room = rows.remaining().clamp(1, rows_max);
        let mut chunk =
            Chunk { values: vec![ValueRef::Absent; room * width], width, rows: 0, before: 0 };
        let mut keys = match on_conflict {
            OnConflict::Refuse => InsertedKeys::Same(None),
            _ => InsertedKeys::Upserted(Vec::with_capacity(rows.remaining())),
        };
        loop {
            if chunk.rows == room {
                self.insert_chunk(table, &mut chunk, on_conflict, &mut keys)?;
            }
            let start = chunk.rows * width;
            let row = &mut chunk.values[start..start + width];
            row.fill(ValueRef::Absent);
            if !rows.next(row)? {
                break;
            }
            if chunk.rows > 0 && !chunk.takes_next() {
                self.insert_chunk(table, &mut chunk, on_conflict, &mut keys)?;
                chunk.values.copy_within(start..start + width, 0);
            }
            chunk.rows += 1;
        }
        if chunk.rows > 0 {
            self.insert_chunk(table, &mut chunk, on_conflict, &mut keys)?;
        }
        keys.outcome(chunk.before)
    }

    /// Writes the rows of a chunk and empties it.
    fn insert_chunk(
        &mut self,
        table: &Table,
        chunk: &mut Chunk<'_>,
        on_conflict: OnConflict,
        keys: &mut InsertedKeys,
    ) -> Result<()> {
        let parameters = chunk.row(0).iter().filter(|value| !value.is_absent()).count();
        let has_key = !chunk.row(0)[table.key()].is_absent();
        let mut written = 0;
        while written < chunk.rows {
            let left = chunk.rows - written;
            let fits = |&rows: &usize| rows <= left && rows * parameters <= PARAMETERS_MAX;
            // A statement without fields uses DEFAULT VALUES: one row.
            let rows = match parameters {
                0 => 1,
                _ => STATEMENT_ROWS.into_iter().find(fits).unwrap_or(1),
            };
            let mark = self.changes_so_far();
            match (self.insert_rows(table, chunk, written, rows)?, &mut *keys) {
                (Ok(()), InsertedKeys::Upserted(placed)) if has_key => {
                    let key = |row| chunk.row(row)[table.key()].to_value();
                    placed.extend((written..written + rows).map(key).map(new));
                }
                (Ok(()), _) if has_key => keys.known(chunk.before + written)?,
                (Ok(()), _) => {
                    let last = self.connection.last_insert_rowid();
                    keys.given(chunk.before + written, rows, last)?;
                }
                (Err(failure), InsertedKeys::Upserted(placed)) if fault::is_taken(&failure) => {
                    // One of them conflicts with a row: write them one by one. The statement undid the
                    // rows before it, but their changes are recorded.
                    self.forget_changes(mark.as_ref());
                    for row in written..written + rows {
                        let put = self.put(table, chunk.row(row), on_conflict);
                        let put = put.map_err(|error| {
                            error.at(format_args!("row {}", chunk.before + row))
                        })?;
                        placed.push(put.0);
                    }
                }
                (Err(failure), _) => {
                    return Err(self.row_at_fault(&failure, table, chunk, written, rows));
                }
            }
            written += rows;
        }
        chunk.before += chunk.rows;
        chunk.rows = 0;
        Ok(())
    }

    /// Writes `rows` rows of a chunk in one statement.
    fn insert_rows(
        &mut self,
        table: &Table,
        chunk: &Chunk<'_>,
        first: usize,
        rows: usize,
    ) -> Result<Result<(), Failure>> {
        let number = self.number(table)?;
        let row = chunk.row(first);
        let (fields, variant) = (FieldSet::present(row), rows as u32);
        let head = Head { verb: Verb::InsertMany, table: number, fields, variant };
        let place = self.statement(head, |_| (insert_sql(table, row, rows), Box::default()))?;
        let mut run = self.connection.start(self.statements.at(place).id);
        bind_present(&mut run, table, &chunk.values[first * chunk.width..][..rows * chunk.width]);
        Ok(run.run_out())
    }

    /// Finds the failed row of a statement by writing the rows one by one. The caller undoes that
    /// with the rest.
    #[cold]
    fn row_at_fault(
        &mut self,
        failure: &Failure,
        table: &Table,
        chunk: &Chunk<'_>,
        first: usize,
        rows: usize,
    ) -> Error {
        if failure.code() & 0xff != code::CONSTRAINT {
            return fault::of(failure);
        }
        for row in first..first + rows {
            let failure = match self.insert_rows(table, chunk, row, 1) {
                Ok(Ok(())) => continue,
                Ok(Err(failure)) => failure,
                Err(error) => return error,
            };
            let error = self.not_inserted(&failure, table, chunk.row(row));
            return error.at(format_args!("row {}", chunk.before + row));
        }
        fault::of(failure)
    }

    pub(crate) fn update_many<'a>(
        &mut self,
        table: &'a Table,
        rows: &mut (dyn RowSource<'a> + 'a),
    ) -> Result<Outcome> {
        let mut row = vec![ValueRef::Absent; table.fields().len()];
        let mut updated = 0;
        while rows.next(&mut row)? {
            self.update_row(table, &row)
                .map_err(|error| error.at(format_args!("row {updated}")))?;
            updated += 1;
            row.fill(ValueRef::Absent);
        }
        Ok(Outcome::rows(updated as u64))
    }

    fn update_row(&mut self, table: &Table, row: &[ValueRef<'_>]) -> Result<()> {
        let key = &row[table.key()];
        let Some(place) = self.update_statement(table, row, Versioned::Counted)? else {
            return self.require(table, key);
        };
        let values = table.key_values(*key);
        let mut run = self.connection.start(self.statements.at(place).id);
        bind_written(&mut run, table, row);
        bind_key(&mut run, key, &values);
        match run.finish() {
            Ok(0) => Err(self.missing(table, key, None)),
            Ok(_) => Ok(()),
            Err(failure) => Err(self.refused(&failure, table, row)),
        }
    }
}

/// The known keys of inserted rows.
#[derive(Debug)]
enum InsertedKeys {
    /// All rows had keys, or all received consecutive ones that start here.
    Same(Option<i64>),
    /// One by one, since rows may have existed already.
    Upserted(Vec<UpsertResult<Value>>),
}

fn new(key: Value) -> UpsertResult<Value> {
    UpsertResult { key, effect: UpsertEffect::Inserted }
}

impl InsertedKeys {
    /// Records that the rows from this one on had keys.
    fn known(&self, row: usize) -> Result<()> {
        match self {
            Self::Same(Some(_)) => Err(mixed_keys(row)),
            _ => Ok(()),
        }
    }

    /// Records that SQLite generated the keys of these rows, the last of which is `last`.
    fn given(&mut self, row: usize, rows: usize, last: i64) -> Result<()> {
        let first = last.wrapping_sub(rows as i64 - 1);
        match self {
            Self::Upserted(placed) => {
                let keys = (0..rows as i64).map(|offset| Value::Int(first.wrapping_add(offset)));
                placed.extend(keys.map(new));
            }
            Self::Same(start @ None) if row == 0 => *start = Some(first),
            Self::Same(None) => return Err(mixed_keys(row)),
            // SQLite generates the highest key plus one, until that overflows.
            Self::Same(Some(start)) if start.checked_add(row as i64) == Some(first) => {}
            Self::Same(Some(_)) => {
                let message = "no automatic key is left, because the highest key is used: give \
                               keys yourself, or delete that row";
                return Err(Error::new(ErrorKind::Engine, message));
            }
        }
        Ok(())
    }

    fn outcome(self, rows: usize) -> Result<Outcome> {
        let (rows, keys) = match self {
            Self::Same(first) => (rows, first.map_or(Keys::Known, |first| Keys::Range { first })),
            Self::Upserted(placed) => {
                let written =
                    placed.iter().filter(|row| row.effect != UpsertEffect::Ignored).count();
                (written, Keys::Upserted(placed))
            }
        };
        Ok(Outcome { keys, ..Outcome::rows(rows as u64) })
    }
}

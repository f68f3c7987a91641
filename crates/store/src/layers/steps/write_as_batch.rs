//! A write that is executed as a batch, and its result, which is taken from the batch.
//!
//! The batch owns its rows: it has to be the same at each poll, while a source of rows can be read
//! only once. So a write of many rows holds all of them in memory.

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, Result, RowSource, Table, Value, ValueRef};

use super::additional::Steps;
use crate::contract::operation::{
    BatchMode, Keys, Link, OnConflict, Once, Operation, Outcome, UpsertResult, Write,
};
use crate::rows::refusal::at_row;
use crate::rows::registry::Registry;

/// A write that is executed as a batch: of one write, of a write for each row, or of the writes of
/// another batch.
#[derive(Debug)]
pub(super) struct WriteAsBatch {
    writes: Vec<Write>,
    links: Vec<Link>,
    mode: BatchMode,
    results: Vec<Result<Outcome>>,
    /// True if the operation has several rows.
    of_many: bool,
}

impl WriteAsBatch {
    /// Returns the batch that replaces an operation; `None` for one that writes nothing.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for a table that does not belong to the store; those of a source of
    /// rows.
    pub(super) fn of(
        operation: &mut Operation<'_>,
        registry: &Registry,
        steps: &Steps<'_>,
    ) -> Result<Option<Self>> {
        let owned_table = |table: &Table| registry.table(table.name()).cloned();
        let one = |write: Write| Self::new(vec![steps.wrap(write)]);
        let many = |writes: Vec<Write>| Self { of_many: true, ..Self::new(writes) };
        Ok(Some(match operation {
            Operation::Insert { table, row, on_conflict } => {
                let (table, on_conflict) = (owned_table(table)?, *on_conflict);
                one(Write::Insert { table, row: owned(row), on_conflict })
            }
            Operation::Update { table, key, row, version } => {
                let (table, key) = (owned_table(table)?, key.to_value());
                one(Write::Update { table, key, row: owned(row), version: *version })
            }
            Operation::Increment { table, key, field, by, stamp } => one(Write::Increment {
                table: owned_table(table)?,
                key: key.to_value(),
                field: *field,
                by: by.to_value(),
                stamp: stamp.to_value(),
            }),
            Operation::Delete { table, key, version } => {
                let (table, key) = (owned_table(table)?, key.to_value());
                one(Write::Delete { table, key, version: *version })
            }
            Operation::DeleteWhere { table, filter } => {
                one(Write::DeleteWhere { table: owned_table(table)?, filter: filter.cloned() })
            }
            Operation::InsertMany { table, rows, on_conflict } => {
                let (table, on_conflict) = (owned_table(table)?, *on_conflict);
                many(each_row(&table, *rows, |table, row| {
                    steps.wrap(Write::Insert { table, row: owned(row), on_conflict })
                })?)
            }
            Operation::UpdateMany { table, rows } => {
                many(each_row(&owned_table(table)?, *rows, |table, row| {
                    let (mut row, place) = (owned(row), table.key());
                    let key = std::mem::take(&mut row[place]);
                    steps.wrap(Write::Update { table, key, row, version: None })
                })?)
            }
            Operation::Batch { writes, links, mode, .. } => Self {
                links: links.to_vec(),
                mode: *mode,
                ..Self::new(writes.iter().map(|write| steps.wrap_in_batch(write)).collect())
            },
            _ => return Ok(None),
        }))
    }

    /// Creates a batch of these writes, all or none.
    fn new(writes: Vec<Write>) -> Self {
        let mode = BatchMode::AllOrNothing;
        Self { writes, links: Vec::new(), mode, results: Vec::new(), of_many: false }
    }

    /// Calls `run` with the batch that replaces an operation. A batch with an idempotency key keeps
    /// it: the answer is stored and repeated by the replacing batch.
    pub(super) fn with<T>(
        &mut self,
        operation: &mut Operation<'_>,
        run: impl FnOnce(&mut Operation<'_>) -> T,
    ) -> T {
        let Self { writes, links, mode, results, .. } = self;
        let once = match operation {
            Operation::Batch { once, .. } => once.as_mut().map(Once::lend),
            _ => None,
        };
        run(&mut Operation::Batch { writes, links, mode: *mode, once, results })
    }

    /// Returns the result of the operation that the batch replaces, from the results of the batch's
    /// writes. The rows of a refused write of many are named by their index, as a verb does.
    ///
    /// # Errors
    /// That of the failed write.
    pub(super) fn finish(
        mut self,
        called: Result<()>,
        operation: &mut Operation<'_>,
        outcome: &mut Outcome,
    ) -> Result<()> {
        if let Operation::Batch { results, .. } = operation {
            **results = self.results;
            outcome.rows = results.iter().flatten().map(|done| done.rows).sum();
            return called;
        }
        if let Err(error) = called {
            let place = self.results.len().saturating_sub(1);
            return Err(match self.results.pop() {
                Some(Err(failed)) if self.of_many => at_row(place, &failed),
                Some(Err(failed)) => failed,
                _ => error,
            });
        }
        if !self.of_many {
            let lost = || {
                Error::new(
                    ErrorKind::Bug,
                    "the engine did not return a result for a \
                                                      write",
                )
            };
            *outcome = self.results.pop().ok_or_else(lost)??;
            return Ok(());
        }
        let places = matches!(operation, Operation::InsertMany { on_conflict, .. }
            if *on_conflict != OnConflict::Refuse);
        let mut rows = Vec::new();
        for (done, write) in self.results.into_iter().zip(&self.writes) {
            let done = done?;
            outcome.rows += done.rows;
            match done.keys {
                Keys::One(key) => rows.push(UpsertResult { key, effect: done.effect }),
                _ if places => {
                    rows.extend(write.key().map(|key| UpsertResult { key, effect: done.effect }));
                }
                _ => {}
            }
        }
        outcome.keys = match rows.is_empty() {
            true => Keys::Known,
            false if places => Keys::Upserted(rows),
            false => Keys::Each(rows.into_iter().map(|row| row.key).collect()),
        };
        Ok(())
    }
}

/// Returns a row that owns its values.
fn owned(row: &[ValueRef<'_>]) -> Vec<Value> {
    row.iter().map(ValueRef::to_value).collect()
}

/// Makes a write of each row of a source.
fn each_row<'a>(
    table: &Arc<Table>,
    rows: &mut dyn RowSource<'a>,
    write: impl Fn(Arc<Table>, &[ValueRef<'a>]) -> Write,
) -> Result<Vec<Write>> {
    let mut row = vec![ValueRef::Absent; table.fields().len()];
    let mut writes = Vec::new();
    while rows.next(&mut row)? {
        writes.push(write(Arc::clone(table), &row));
    }
    Ok(writes)
}

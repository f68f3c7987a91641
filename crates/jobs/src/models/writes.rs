//! Writes of job rows as data. Each write names the version that the row must have: if another
//! process has taken the job, the version differs and nothing is written.

use std::sync::Arc;

use marmota_model::{FieldValue, NoRows, Result, RowSink, Scratch, Table, Timestamp, Uuid, Value};
use marmota_store::Store;
use marmota_store::action::{Action, Verb};
use marmota_store::operation::{BatchMode, Operation, Outcome, Write};

use super::JobState;
use super::column::{COUNT, FINISHED_AT, HOLDER, RANK, STATE};

/// Returns a value as a row has it.
pub(crate) fn value<T: FieldValue>(of: &T) -> Value {
    of.to_row(&Scratch::new()).to_value()
}

/// Returns the update of some columns of a job.
pub(crate) fn update(
    table: &Arc<Table>,
    id: Uuid,
    version: i64,
    values: impl IntoIterator<Item = (usize, Value)>,
) -> Write {
    let mut row = vec![Value::Absent; COUNT];
    for (column, value) in values {
        row[column] = value;
    }
    Write::Update { table: Arc::clone(table), key: Value::Uuid(id), row, version: Some(version) }
}

/// Returns the delete of a job.
pub(crate) fn delete(table: &Arc<Table>, id: Uuid, version: i64) -> Write {
    Write::Delete { table: Arc::clone(table), key: Value::Uuid(id), version: Some(version) }
}

/// Returns the write that ends a job: a delete if jobs in this state are not kept.
pub(crate) fn end(
    table: &Arc<Table>,
    (id, version): (Uuid, i64),
    state: JobState,
    (now, is_kept): (Timestamp, bool),
    also: impl IntoIterator<Item = (usize, Value)>,
) -> Write {
    if !is_kept {
        return delete(table, id, version);
    }
    let values = [
        (STATE, value(&state)),
        (RANK, Value::Int(now.micros())),
        (HOLDER, Value::Null),
        (FINISHED_AT, Value::Timestamp(now)),
    ];
    update(table, id, version, values.into_iter().chain(also))
}

/// The verb of several writes.
pub(crate) struct WriteAll<'w> {
    writes: &'w [Write],
    mode: BatchMode,
    results: Vec<Result<Outcome>>,
}

impl Verb for WriteAll<'_> {
    type Output = Vec<Result<Outcome>>;

    fn operate(
        &mut self,
        _: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let Self { writes, mode, results } = self;
        let mode = *mode;
        call(&mut Operation::Batch { writes, links: &[], once: None, mode, results }, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Self::Output> {
        Ok(std::mem::take(&mut self.results))
    }
}

/// Returns the action of several writes, all or none.
pub(crate) const fn all<'s, 'w>(store: &'s Store, writes: &'w [Write]) -> Action<'s, WriteAll<'w>> {
    store.action(WriteAll { writes, mode: BatchMode::AllOrNothing, results: Vec::new() })
}

/// Returns the action of several writes, of which each succeeds or fails alone.
pub(crate) const fn each<'s, 'w>(
    store: &'s Store,
    writes: &'w [Write],
) -> Action<'s, WriteAll<'w>> {
    store.action(WriteAll { writes, mode: BatchMode::Each, results: Vec::new() })
}

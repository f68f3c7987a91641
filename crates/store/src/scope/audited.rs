//! What a scope does around an operation when its store has audited models:
//! a write to one becomes a batch of one transaction, and its result is taken
//! from that.

use std::sync::Arc;

use marmota_model::{Error, ErrorKind, NoRows, Result, RowSink, RowSource, Table, Value, ValueRef};

use super::{Progress, Scope};
use crate::audit::{Audit, Ledger};
use crate::durability::Durability;
use crate::operation::{
    BatchMode, Keys, Link, OnConflict, Once, Operation, Outcome, Placed, Write,
};

/// A write that is carried out as a batch.
#[derive(Debug)]
pub(super) struct Job {
    writes: Vec<Write>,
    links: Vec<Link>,
    mode: BatchMode,
    results: Vec<Result<Outcome>>,
    /// True if the operation was of many rows.
    of_many: bool,
}

impl Job {
    fn one(write: Write) -> Self {
        Self::new(vec![write], false)
    }

    fn new(writes: Vec<Write>, of_many: bool) -> Self {
        let (links, mode) = (Vec::new(), BatchMode::AllOrNothing);
        Self { writes, links, mode, results: Vec::new(), of_many }
    }

    /// Calls `run` with the batch that takes the place of an operation.
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

    /// The result of the operation that it stands for.
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
            let lost = || Error::new(ErrorKind::Bug, "the engine gave no result for a write");
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
                Keys::One(key) => rows.push(Placed { key, effect: done.effect }),
                _ if places => {
                    rows.extend(write.key().map(|key| Placed { key, effect: done.effect }));
                }
                _ => {}
            }
        }
        outcome.keys = match rows.is_empty() {
            true => Keys::Known,
            false if places => Keys::Placed(rows),
            false => Keys::Each(rows.into_iter().map(|row| row.key).collect()),
        };
        Ok(())
    }
}

/// The same error, saying which row it is about.
#[cold]
fn at_row(place: usize, error: &Error) -> Error {
    let named = Error::new(error.kind(), format!("row {place}: {}", error.message()));
    error.violations().iter().cloned().fold(named, Error::with_violation)
}

impl Scope {
    /// [`Scope::submit`] for a store that has audited models.
    pub(super) fn submit_audited(
        &self,
        ledger: &Arc<Ledger>,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Progress> {
        let Some(mut job) = self.job(ledger, operation)? else {
            return self.submit_beneath(durability, operation, sink, outcome);
        };
        let submitted = job.with(operation, |batch| {
            self.submit_beneath(durability, batch, &mut NoRows, &mut Outcome::default())
        });
        match submitted {
            Ok(Progress::Pending(mut pending)) => {
                pending.job = Some(Box::new(job));
                Ok(Progress::Pending(pending))
            }
            Ok(Progress::Done) => job.finish(Ok(()), operation, outcome).map(|()| Progress::Done),
            Err(error) => job.finish(Err(error), operation, outcome).map(|()| Progress::Done),
        }
    }

    /// What an operation becomes, if it writes to an audited table.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] for a write to the history itself.
    fn job(&self, ledger: &Arc<Ledger>, operation: &mut Operation<'_>) -> Result<Option<Job>> {
        let (mut is_audited, mut is_history) = (false, false);
        operation.each_table_written(|table| {
            is_audited |= table.schema().audit;
            is_history |= table.name() == ledger.table.name();
        });
        if is_history {
            let message = format!("`{}` is written by the store alone", ledger.table.name());
            return Err(Error::new(ErrorKind::Denied, message));
        }
        if !is_audited {
            return Ok(None);
        }
        let audit =
            Audit { ledger: Arc::clone(ledger), actor: self.actor.clone(), at: self.time() };
        let audited = |write: Write| match write.table().schema().audit {
            true => Write::Audited { write: Box::new(write), audit: audit.clone() },
            false => write,
        };
        let kept = |table: &Table| self.registry().table(table.name()).cloned();
        Ok(Some(match operation {
            Operation::Insert { table, row, on_conflict } => {
                let (table, row, on_conflict) = (kept(table)?, owned(row), *on_conflict);
                Job::one(audited(Write::Insert { table, row, on_conflict }))
            }
            Operation::Update { table, key, row, version } => Job::one(audited(Write::Update {
                table: kept(table)?,
                key: key.to_value(),
                row: owned(row),
                version: *version,
            })),
            Operation::Increment { table, key, field, by, stamp } => {
                Job::one(audited(Write::Increment {
                    table: kept(table)?,
                    key: key.to_value(),
                    field: *field,
                    by: by.to_value(),
                    stamp: stamp.to_value(),
                }))
            }
            Operation::Delete { table, key, version } => {
                let (table, key) = (kept(table)?, key.to_value());
                Job::one(audited(Write::Delete { table, key, version: *version }))
            }
            Operation::DeleteWhere { table, filter } => {
                let (table, filter) = (kept(table)?, filter.cloned());
                Job::one(audited(Write::DeleteWhere { table, filter }))
            }
            Operation::InsertMany { table, rows, on_conflict } => {
                let on_conflict = *on_conflict;
                let write = |table, row: &[ValueRef<'_>]| {
                    audited(Write::Insert { table, row: owned(row), on_conflict })
                };
                Job::new(each_row(&kept(table)?, *rows, write)?, true)
            }
            Operation::UpdateMany { table, rows } => {
                let of_row = |table: Arc<Table>, row: &[ValueRef<'_>]| {
                    let (mut row, place) = (owned(row), table.key());
                    let key = std::mem::take(&mut row[place]);
                    Write::Update { table, key, row, version: None }
                };
                Job::new(
                    each_row(&kept(table)?, *rows, |table, row| audited(of_row(table, row)))?,
                    true,
                )
            }
            Operation::Batch { writes, links, mode, .. } => {
                let writes = writes.iter().cloned().map(audited).collect();
                Job { mode: *mode, links: links.to_vec(), ..Job::new(writes, false) }
            }
            _ => return Ok(None),
        }))
    }
}

fn owned(row: &[ValueRef<'_>]) -> Vec<Value> {
    row.iter().map(ValueRef::to_value).collect()
}

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

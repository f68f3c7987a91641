//! Writes that take additional steps in the same transaction: a history entry, if their table is
//! audited, a check of rows for the caller's rights, or a read of rows whose immutable fields are
//! written. Such a write is executed as a batch, and its result is taken from the batch.

use std::sync::Arc;
use std::task::{Context, Poll};

use marmota_model::{Error, ErrorKind, NoRows, Result, RowSink, RowSource, Table, Value, ValueRef};

use super::{Pending, Progress, Scope};
use crate::audit::Audit;
use crate::before;
use crate::durability::Durability;
use crate::history::HISTORY_TABLE;
use crate::operation::{
    BatchMode, Keys, Link, OnConflict, Once, Operation, Outcome, UpsertResult, Write,
};

/// A write that is executed as a batch.
#[derive(Debug)]
pub(super) struct Job {
    writes: Vec<Write>,
    links: Vec<Link>,
    mode: BatchMode,
    results: Vec<Result<Outcome>>,
    /// True if the operation has several rows.
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

    /// Calls `run` with the batch that replaces an operation.
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

    /// Returns the result of the operation that the batch replaces.
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

/// Returns the same error with the index of the row.
#[cold]
fn at_row(place: usize, error: &Error) -> Error {
    let named = Error::new(error.kind(), format!("row {place}: {}", error.message()));
    error.violations().iter().cloned().fold(named, Error::with_violation)
}

impl Scope {
    /// Submits an operation, as a batch if it has to be one.
    pub(super) fn submit_as_job(
        &self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Progress> {
        let Some(mut job) = self.job(operation)? else {
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

    /// Continues the operation.
    pub(super) fn poll_job(
        &self,
        pending: &mut Pending,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let Some(mut job) = pending.job.take() else {
            return self.poll_session(pending, operation, sink, outcome, context);
        };
        let polled = job.with(operation, |batch| {
            self.poll_session(pending, batch, &mut NoRows, &mut Outcome::default(), context)
        });
        match polled {
            Poll::Ready(called) => Poll::Ready(job.finish(called, operation, outcome)),
            Poll::Pending => {
                pending.job = Some(job);
                Poll::Pending
            }
        }
    }

    /// Returns the batch that replaces an operation, if it writes to an audited table or to
    /// immutable fields, or has to be checked for its caller's rights.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] for a write to the history itself.
    fn job(&self, operation: &mut Operation<'_>) -> Result<Option<Job>> {
        let (mut is_audited, mut is_history) = (false, false);
        let ledger = self.shared.ledger();
        if let Some(ledger) = ledger {
            operation.each_table_written(|table| {
                is_audited |= table.schema().audit;
                is_history |= table.name() == ledger.table.name();
            });
        }
        if is_history {
            let message = format!("`{HISTORY_TABLE}` is written by the store alone");
            return Err(Error::new(ErrorKind::Denied, message));
        }
        let rights = self.rights.as_ref();
        let is_guarded = rights.is_some_and(|rights| match &*operation {
            Operation::Batch { writes, .. } => writes.iter().any(|write| rights.guard(write)),
            operation => rights.guards(operation),
        });
        // A delete by filter has to be narrowed, which was not done yet for the writes of a batch.
        let narrows = rights.is_some()
            && matches!(operation, Operation::Batch { writes, .. }
                if writes.iter().any(|write| matches!(write, Write::DeleteWhere { .. })));
        let is_compared = match &*operation {
            Operation::Batch { writes, .. } => writes.iter().any(before::compares),
            operation => before::operation_compares(operation),
        };
        if !is_audited && !is_guarded && !is_compared && !narrows {
            return Ok(None);
        }
        let audit = ledger.map(|ledger| Audit {
            ledger: Arc::clone(ledger),
            actor: self.actor.clone(),
            at: self.time(),
        });
        let wrapped = |write: Write| {
            let is_guarded = rights.filter(|rights| rights.guard(&write));
            let write = match before::compares(&write) {
                true => Write::Compared { write: Box::new(write) },
                false => write,
            };
            let write = match &audit {
                Some(audit) if write.table().schema().audit => {
                    Write::Audited { write: Box::new(write), audit: audit.clone() }
                }
                _ => write,
            };
            match is_guarded {
                Some(rights) => {
                    Write::Guarded { write: Box::new(write), rights: Arc::clone(rights) }
                }
                None => write,
            }
        };
        let kept = |table: &Table| self.registry().table(table.name()).cloned();
        Ok(Some(match operation {
            Operation::Insert { table, row, on_conflict } => {
                let (table, row, on_conflict) = (kept(table)?, owned(row), *on_conflict);
                Job::one(wrapped(Write::Insert { table, row, on_conflict }))
            }
            Operation::Update { table, key, row, version } => Job::one(wrapped(Write::Update {
                table: kept(table)?,
                key: key.to_value(),
                row: owned(row),
                version: *version,
            })),
            Operation::Increment { table, key, field, by, stamp } => {
                Job::one(wrapped(Write::Increment {
                    table: kept(table)?,
                    key: key.to_value(),
                    field: *field,
                    by: by.to_value(),
                    stamp: stamp.to_value(),
                }))
            }
            Operation::Delete { table, key, version } => {
                let (table, key) = (kept(table)?, key.to_value());
                Job::one(wrapped(Write::Delete { table, key, version: *version }))
            }
            Operation::DeleteWhere { table, filter } => {
                let (table, filter) = (kept(table)?, filter.cloned());
                Job::one(wrapped(Write::DeleteWhere { table, filter }))
            }
            Operation::InsertMany { table, rows, on_conflict } => {
                let on_conflict = *on_conflict;
                let write = |table, row: &[ValueRef<'_>]| {
                    wrapped(Write::Insert { table, row: owned(row), on_conflict })
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
                    each_row(&kept(table)?, *rows, |table, row| wrapped(of_row(table, row)))?,
                    true,
                )
            }
            Operation::Batch { writes, links, mode, .. } => {
                let narrowed = |write: &Write| match (write, rights) {
                    (Write::DeleteWhere { table, filter }, Some(rights)) => Write::DeleteWhere {
                        filter: rights.narrow_delete(table, filter.clone()),
                        table: Arc::clone(table),
                    },
                    (write, _) => write.clone(),
                };
                let writes = writes.iter().map(|write| wrapped(narrowed(write))).collect();
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

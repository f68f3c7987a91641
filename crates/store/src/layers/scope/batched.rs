//! Executes writes that take additional steps in the same transaction: a history entry, if their
//! table is audited, a check of rows for the caller's rights, or a read of rows whose immutable
//! fields are written. Such a write is executed as a batch, and its result is taken from the batch.

use std::sync::Arc;
use std::task::{Context, Poll};

use marmota_model::{Error, ErrorKind, NoRows, Result, RowSink, RowSource, Table, Value, ValueRef};

use super::job::Job;
use super::{Pending, Progress, Scope};
use crate::batch_machine::before;
use crate::contract::audit::Audit;
use crate::contract::durability::Durability;
use crate::contract::operation::{Operation, Outcome, Write};
use crate::rows::history::HISTORY_TABLE;

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
                Job::of_one(wrapped(Write::Insert { table, row, on_conflict }))
            }
            Operation::Update { table, key, row, version } => Job::of_one(wrapped(Write::Update {
                table: kept(table)?,
                key: key.to_value(),
                row: owned(row),
                version: *version,
            })),
            Operation::Increment { table, key, field, by, stamp } => {
                Job::of_one(wrapped(Write::Increment {
                    table: kept(table)?,
                    key: key.to_value(),
                    field: *field,
                    by: by.to_value(),
                    stamp: stamp.to_value(),
                }))
            }
            Operation::Delete { table, key, version } => {
                let (table, key) = (kept(table)?, key.to_value());
                Job::of_one(wrapped(Write::Delete { table, key, version: *version }))
            }
            Operation::DeleteWhere { table, filter } => {
                let (table, filter) = (kept(table)?, filter.cloned());
                Job::of_one(wrapped(Write::DeleteWhere { table, filter }))
            }
            Operation::InsertMany { table, rows, on_conflict } => {
                let on_conflict = *on_conflict;
                let write = |table, row: &[ValueRef<'_>]| {
                    wrapped(Write::Insert { table, row: owned(row), on_conflict })
                };
                Job::of_many(each_row(&kept(table)?, *rows, write)?)
            }
            Operation::UpdateMany { table, rows } => {
                let of_row = |table: Arc<Table>, row: &[ValueRef<'_>]| {
                    let (mut row, place) = (owned(row), table.key());
                    let key = std::mem::take(&mut row[place]);
                    Write::Update { table, key, row, version: None }
                };
                Job::of_many(each_row(&kept(table)?, *rows, |table, row| {
                    wrapped(of_row(table, row))
                })?)
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
                Job::of_batch(writes, links.to_vec(), *mode)
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

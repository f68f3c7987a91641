//! Executes operations of a scope with rights; see [`crate::rights`].
//!
//! The history of a row is visible to callers who may read the row. If a rule determines these
//! rows, the row is checked first, and the entries are read afterwards. (So the entry of a write
//! between the two is visible.)

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use marmota_model::{FilterExpr, NoRows, Result, RowSink, Table};

use super::{Pending, Progress, Scope};
use crate::contract::durability::Durability;
use crate::contract::operation::{Operation, Outcome};
use crate::layers::narrowing::HistoryOf;
use crate::rights::Rights;

/// Returns the check of a row: a count of the row, if the caller may see its history.
fn look<'l>(table: &'l Table, filter: &'l FilterExpr) -> Operation<'l> {
    Operation::Count { table, filter: Some(filter) }
}

impl Scope {
    /// [`Scope::submit`] under rights.
    pub(super) fn submit_guarded(
        &self,
        rights: &Arc<Rights>,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Progress> {
        match rights.history_of(operation)? {
            HistoryOf::Any => rights.narrowed(operation, sink, outcome, |op, sink, outcome| {
                self.submit_as_job(durability, op, sink, outcome)
            })?,
            HistoryOf::Open => self.submit_beneath(durability, operation, sink, outcome),
            HistoryOf::If(table, filter) => {
                let mut seen = Outcome::default();
                let looked =
                    self.submit_beneath(None, &mut look(table, &filter), &mut NoRows, &mut seen)?;
                match looked {
                    Progress::Done if seen.rows == 0 => Ok(Progress::Done),
                    Progress::Done => self.submit_beneath(durability, operation, sink, outcome),
                    Progress::Pending(pending) => {
                        Ok(Progress::Pending(Pending { looks: true, ..pending }))
                    }
                }
            }
        }
    }

    /// [`Scope::poll`] under rights.
    pub(super) fn poll_guarded(
        &self,
        rights: &Arc<Rights>,
        pending: &mut Pending,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        match rights.history_of(operation)? {
            HistoryOf::Any => rights.narrowed(operation, sink, outcome, |op, sink, outcome| {
                self.poll_job(pending, op, sink, outcome, context)
            })?,
            HistoryOf::If(table, filter) if pending.looks => {
                let (look, mut seen) = (&mut look(table, &filter), Outcome::default());
                ready!(self.poll_session(pending, look, &mut NoRows, &mut seen, context))?;
                if seen.rows == 0 {
                    return Poll::Ready(Ok(()));
                }
                match self.submit_beneath(None, operation, sink, outcome)? {
                    Progress::Done => Poll::Ready(Ok(())),
                    Progress::Pending(entries) => {
                        *pending = entries;
                        self.poll_session(pending, operation, sink, outcome, context)
                    }
                }
            }
            HistoryOf::Open | HistoryOf::If(..) => {
                self.poll_session(pending, operation, sink, outcome, context)
            }
        }
    }
}

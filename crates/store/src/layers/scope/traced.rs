//! Executes operations of a scope whose store has spans: each operation of a caller has one span of
//! the crate `tracing`, even if it is executed as several.

use std::task::{Context, Poll};

use marmota_model::{Error, ErrorKind, Result, RowSink};
use tracing::Span;
use tracing::field::Empty;

use super::{Pending, Progress, Scope};
use crate::contract::durability::Durability;
use crate::contract::operation::{Operation, Outcome};
use crate::layers::meter;

impl Scope {
    /// [`Scope::submit`] if operations do not go directly to the session. It is a separate
    /// function, so that the path of a plain store is not longer.
    #[inline(never)]
    pub(super) fn submit_observed(
        &self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Progress> {
        if self.shared.is_traced {
            return self.submit_traced(durability, operation, sink, outcome);
        }
        self.submit_metered(durability, operation, sink, outcome)
    }

    fn submit_traced(
        &self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Progress> {
        let span = self.span_of(operation);
        if span.is_disabled() {
            return self.submit_metered(durability, operation, sink, outcome);
        }
        let submit = || self.submit_metered(durability, operation, sink, outcome);
        let mut progress = span.in_scope(submit);
        match &mut progress {
            Ok(Progress::Pending(pending)) => pending.span = Some(Box::new(span)),
            Ok(Progress::Done) => note(&span, operation, Ok(outcome)),
            Err(error) => note(&span, operation, Err(error)),
        }
        progress
    }

    /// [`Scope::poll`] within the operation's span.
    pub(super) fn poll_traced(
        &self,
        span: Box<Span>,
        pending: &mut Pending,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let poll = || self.poll_metered(pending, operation, sink, outcome, context);
        let polled = span.in_scope(poll);
        match &polled {
            Poll::Pending => pending.span = Some(span),
            Poll::Ready(Ok(())) => note(&span, operation, Ok(outcome)),
            Poll::Ready(Err(error)) => note(&span, operation, Err(error)),
        }
        polled
    }

    fn span_of(&self, operation: &Operation<'_>) -> Span {
        let verb = verb_of(operation);
        let engine = match self.shared.engine.capability().name {
            // This is the name in the conventions of OpenTelemetry.
            "postgres" => "postgresql",
            name => name,
        };
        let span = tracing::info_span!(
            target: "marmota_store",
            "operation",
            otel.name = Empty,
            otel.kind = "client",
            otel.status_code = Empty,
            db.system.name = engine,
            db.operation.name = verb,
            db.operation.batch.size = Empty,
            db.collection.name = Empty,
            marmota.rows = Empty,
            error.r#type = Empty,
        );
        if !span.is_disabled() {
            match operation.table() {
                Some(table) => {
                    span.record("otel.name", format!("{verb} {}", table.name()));
                    span.record("db.collection.name", table.name());
                }
                None => {
                    span.record("otel.name", verb);
                }
            }
            if let Operation::Batch { writes, .. } = operation {
                span.record("db.operation.batch.size", signed(writes.len() as u64));
            }
        }
        span
    }
}

/// Returns the verb; the steps of transactions have separate names.
fn verb_of(operation: &Operation<'_>) -> &'static str {
    match operation {
        Operation::Begin => "begin",
        Operation::Rollback => "rollback",
        Operation::Savepoint(_) => "savepoint",
        Operation::Release(_) => "release",
        Operation::RollbackTo(_) => "rollback_to",
        other => meter::verb_name(other),
    }
}

/// Records the result of an operation in its span.
fn note(span: &Span, operation: &Operation<'_>, ended: Result<&mut Outcome, &Error>) {
    match ended {
        // These rows were only counted, not read.
        Ok(_) if matches!(operation, Operation::Count { .. }) => {}
        Ok(outcome) => {
            span.record("marmota.rows", signed(outcome.rows));
        }
        Err(error) => {
            span.record("error.type", error.kind().name());
            if is_failure(error.kind()) {
                span.record("otel.status_code", "ERROR");
            }
        }
    }
}

/// Converts a number to the type that exporters accept; they convert others to text.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns true for an error of the execution, and false for one that answers the caller's request.
const fn is_failure(kind: ErrorKind) -> bool {
    use ErrorKind::{Conflict, Denied, Invalid, NotFound, Stale, Unauthenticated, Unsupported};
    !matches!(kind, Conflict | Denied | Invalid | NotFound | Stale | Unauthenticated | Unsupported)
}

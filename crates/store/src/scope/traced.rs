//! What a scope does around an operation when its store tells spans of what is done: a span of the
//! crate `tracing` for each operation that a caller asks for, whatever becomes of it beneath.

use std::task::{Context, Poll};

use marmota_model::{Error, ErrorKind, Result, RowSink};
use tracing::Span;
use tracing::field::Empty;

use super::{Pending, Progress, Scope};
use crate::durability::Durability;
use crate::meter;
use crate::operation::{Operation, Outcome};

impl Scope {
    /// [`Scope::submit`] where there is more to it than the session. By itself, so that a plain
    /// store's path is not made any longer.
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

    /// [`Scope::poll`] inside of the operation's span.
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
            // As the conventions have it.
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

/// The verb, with the steps of transactions by themselves.
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

/// Says how an operation ended.
fn note(span: &Span, operation: &Operation<'_>, ended: Result<&mut Outcome, &Error>) {
    match ended {
        // They were counted, not handled.
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

/// As exporters have numbers: others they take for texts.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// True of what is no answer to what was asked, but an operation that did not come to one.
const fn is_failure(kind: ErrorKind) -> bool {
    use ErrorKind::{Conflict, Denied, Invalid, NotFound, Stale, Unauthenticated, Unsupported};
    !matches!(kind, Conflict | Denied | Invalid | NotFound | Stale | Unauthenticated | Unsupported)
}

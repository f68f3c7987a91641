//! The layer of the spans: each operation of a caller has one span of the crate `tracing`, even if
//! the layers below execute it as several.
//!
//! The fields have the names of OpenTelemetry's conventions for database clients (`db.system.name`,
//! `db.operation.name`, …), and two of this crate: `marmota.rows` and the values of `error.type`,
//! which are the kinds of errors. A span has no value of a row or a filter.
//!
//! A span that no subscriber records is not made: its operation is passed on, and has no state
//! here.

use std::task::{Context, Poll};

use marmota_model::{Error, ErrorKind, Result, RowSink};
use tracing::Span;
use tracing::field::Empty;

use crate::contract::durability::Durability;
use crate::contract::operation::{Operation, Outcome};
use crate::layers::handle::HandleContext;
use crate::layers::layer::Layer;
use crate::layers::metrics::meter::verb_name;
use crate::layers::session::pool::Sessions;

/// The layer of the spans.
pub(crate) struct TraceLayer<L> {
    /// The name of the engine in spans; `None` if operations have no spans.
    engine: Option<&'static str>,
    next: L,
}

/// An operation that waits below the spans. Its span is entered at each poll, so that what happens
/// in it is a child of the span, and ends with the operation.
#[derive(Debug, Default)]
pub(crate) struct TraceState<S> {
    /// Its span, unless spans are disabled.
    span: Option<Box<Span>>,
    next: S,
}

impl<L: Layer> TraceLayer<L> {
    /// Creates the layer above `next`. The engine's name is read once, after the engine was
    /// migrated.
    pub(crate) fn new(is_traced: bool, next: L) -> Self {
        let engine = is_traced.then(|| match next.sessions().engine.capability().name {
            // This is the name in the conventions of OpenTelemetry.
            "postgres" => "postgresql",
            name => name,
        });
        Self { engine, next }
    }

    /// Submits an operation in a span.
    #[expect(clippy::too_many_arguments, reason = "those of an operation, and the engine")]
    fn submit_traced(
        &self,
        engine: &'static str,
        handle: &HandleContext,
        state: &mut TraceState<L::State>,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Poll<Result<()>> {
        let TraceState { span: slot, next } = state;
        let span = span_of(engine, operation);
        if span.is_disabled() {
            return self.next.submit(handle, next, durability, operation, sink, outcome);
        }
        let submit = || self.next.submit(handle, next, durability, operation, sink, outcome);
        let submitted = span.in_scope(submit);
        match &submitted {
            Poll::Pending => *slot = Some(Box::new(span)),
            Poll::Ready(done) => note(&span, operation, done.as_ref().map(|()| &*outcome)),
        }
        submitted
    }
}

impl<L: Layer> Layer for TraceLayer<L> {
    /// The part of this layer, with the state of the layer below.
    type State = TraceState<L::State>;

    /// Submits an operation in a new span, if operations have spans. The span is a child of the
    /// caller's current one.
    #[inline(always)]
    fn submit(
        &self,
        handle: &HandleContext,
        state: &mut Self::State,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Poll<Result<()>> {
        match self.engine {
            Some(engine) => {
                self.submit_traced(engine, handle, state, durability, operation, sink, outcome)
            }
            None => self.next.submit(handle, &mut state.next, durability, operation, sink, outcome),
        }
    }

    /// Continues an operation in its span. The span ends when the operation does, and not when the
    /// caller drops its state.
    #[inline]
    fn poll(
        &self,
        handle: &HandleContext,
        state: &mut Self::State,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let TraceState { span, next } = state;
        let Some(entered) = span else {
            return self.next.poll(handle, next, operation, sink, outcome, context);
        };
        let polled =
            entered.in_scope(|| self.next.poll(handle, next, operation, sink, outcome, context));
        if let Poll::Ready(done) = &polled {
            note(entered, operation, done.as_ref().map(|()| &*outcome));
            *span = None;
        }
        polled
    }

    /// Records in the span that its operation was cancelled, and ends it.
    fn cancel(&self, handle: &HandleContext, state: Self::State) {
        if let Some(span) = &state.span {
            span.record("error.type", "given up");
        }
        self.next.cancel(handle, state.next);
    }

    #[inline]
    fn sessions(&self) -> &Sessions {
        self.next.sessions()
    }
}

/// Returns a new span for an operation.
fn span_of(engine: &'static str, operation: &Operation<'_>) -> Span {
    let verb = verb_of(operation);
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

/// Returns the verb; the steps of transactions have separate names.
fn verb_of(operation: &Operation<'_>) -> &'static str {
    match operation {
        Operation::Begin => "begin",
        Operation::Rollback => "rollback",
        Operation::Savepoint(_) => "savepoint",
        Operation::Release(_) => "release",
        Operation::RollbackTo(_) => "rollback_to",
        other => verb_name(other),
    }
}

/// Records the result of an operation in its span: the number of its rows, or the kind of its
/// error. An error that answers the caller's request, such as a missing row, does not mark the span
/// as failed.
fn note(span: &Span, operation: &Operation<'_>, ended: Result<&Outcome, &Error>) {
    match ended {
        // These rows were only counted, not read.
        Ok(_) if matches!(operation, Operation::Count { .. } | Operation::Estimate { .. }) => {}
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

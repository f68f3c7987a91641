//! The layer of the counters: each operation counts with its time, its rows and its result; see
//! [`meter`].
//!
//! - An operation that waits counts when it ends, with the time since its submission.
//! - A cancelled operation counts as failed.
//! - It counts for the session of its handle, if the handle has one
//!   ([`Store::in_session`](crate::Store::in_session)).
//! - Slow operations are logged here too, with the caller.

mod counts;
pub mod meter;
pub(crate) mod session_counts;
mod slow_calls;

use std::sync::Arc;
use std::task::{Context, Poll};

use marmota_model::{Result, RowSink};

use self::meter::{Meter, MeteredOperation};
use self::session_counts::Who;
use crate::contract::durability::Durability;
use crate::contract::operation::{Operation, Outcome};
use crate::layers::handle::HandleContext;
use crate::layers::layer::Layer;
use crate::layers::session::pool::Sessions;
use crate::layers::thread_slot::slot_number;

/// The layer of the counters: each operation of a caller counts once, even if the layers below
/// execute it as several.
pub(crate) struct MetricsLayer<L> {
    /// The counters, if operations are counted.
    meter: Option<Arc<Meter>>,
    next: L,
}

/// An operation that waits below the counters.
#[derive(Debug, Default)]
pub(crate) struct MetricsState<S> {
    /// When it began, if operations are counted.
    begun: Option<MeteredOperation>,
    next: S,
}

impl<L: Layer> MetricsLayer<L> {
    /// Creates the layer above `next`. `None` passes all operations on.
    pub(crate) const fn new(meter: Option<Arc<Meter>>, next: L) -> Self {
        Self { meter, next }
    }

    /// Submits an operation, and counts it if it ends.
    #[expect(clippy::too_many_arguments, reason = "those of an operation, and the counters")]
    fn submit_metered(
        &self,
        meter: &Meter,
        handle: &HandleContext,
        state: &mut MetricsState<L::State>,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Poll<Result<()>> {
        let begun = meter.begin(operation);
        let submitted =
            self.next.submit(handle, &mut state.next, durability, operation, sink, outcome);
        match &submitted {
            Poll::Pending => state.begun = Some(begun),
            Poll::Ready(done) => {
                let ended = done.as_ref().map(|()| &*outcome).map_err(|_| ());
                end(meter, handle, begun, operation, ended);
            }
        }
        submitted
    }
}

/// Counts an operation that has ended.
fn end(
    meter: &Meter,
    handle: &HandleContext,
    begun: MeteredOperation,
    operation: &Operation<'_>,
    ended: Result<&Outcome, ()>,
) {
    meter.end(begun, slot_number(), who(handle), operation, ended);
}

/// Returns the caller of the operations of a handle.
pub(crate) fn who(handle: &HandleContext) -> Who<'_> {
    let rights = handle.rights.as_ref();
    let name = handle.actor.as_deref().or_else(|| rights.map(|rights| rights.caller_name()));
    Who { name, session: handle.session.as_deref() }
}

impl<L: Layer> Layer for MetricsLayer<L> {
    /// The part of this layer, with the state of the layer below.
    type State = MetricsState<L::State>;

    /// Submits an operation. The clock is read before and after the layers below; an operation that
    /// waits keeps the time of its submission.
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
        match &self.meter {
            Some(meter) => {
                self.submit_metered(meter, handle, state, durability, operation, sink, outcome)
            }
            None => self.next.submit(handle, &mut state.next, durability, operation, sink, outcome),
        }
    }

    /// Continues an operation, and counts it if it ends. Its time includes that between polls.
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
        let polled = self.next.poll(handle, &mut state.next, operation, sink, outcome, context);
        if let (Some(meter), Poll::Ready(done)) = (&self.meter, &polled)
            && let Some(begun) = state.begun.take()
        {
            let ended = done.as_ref().map(|()| &*outcome).map_err(|_| ());
            end(meter, handle, begun, operation, ended);
        }
        polled
    }

    /// Counts an operation as failed, with the time until now, and cancels it.
    fn cancel(&self, handle: &HandleContext, state: Self::State) {
        if let (Some(meter), Some(begun)) = (&self.meter, state.begun) {
            meter.give_up(begun, slot_number());
        }
        self.next.cancel(handle, state.next);
    }

    #[inline]
    fn sessions(&self) -> &Sessions {
        self.next.sessions()
    }
}

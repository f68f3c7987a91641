//! The interface of a layer.
//!
//! It is the interface of a [`Session`](crate::engine::Session) with two additions: the context of
//! the caller's handle is passed along, since all handles to a store share its layers, and an
//! operation that waits has a state of the layer's own type instead of a ticket.

use std::task::{Context, Poll};

use marmota_model::{Result, RowSink};

use crate::contract::durability::Durability;
use crate::contract::operation::{Operation, Outcome};
use crate::layers::handle::HandleContext;
use crate::layers::session::pool::Sessions;

/// A layer of the path from a verb to a session. It passes an operation to the layer below it, as
/// it is or changed, or answers it itself.
///
/// Each layer keeps its part of an operation that waits. The states are nested like the layers, so
/// a layer knows only its own part. They are written in place: a state that is returned through the
/// layers is copied by each of them, even if the operation is done.
///
/// A layer that a store does not use costs a test: `submit` is inlined into the layer above it and
/// only decides whether the layer concerns the operation. What the layer does is in another
/// function.
pub(crate) trait Layer: Sync {
    /// The state of an operation in this layer and those below it. It is equal to its default
    /// unless the operation waits, so it can be used for another one afterwards.
    type State: Default + Send;

    /// Begins an operation, and ends it if it need not wait. Its result is written to `outcome`,
    /// which has to be equal to [`Outcome::default`].
    fn submit(
        &self,
        handle: &HandleContext,
        state: &mut Self::State,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Poll<Result<()>>;

    /// Continues an operation that waits. The operation and sink have the same meaning as at
    /// [`Layer::submit`].
    fn poll(
        &self,
        handle: &HandleContext,
        state: &mut Self::State,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>>;

    /// Cancels an operation that waits; it may still be executed. A layer records this as its end.
    fn cancel(&self, handle: &HandleContext, state: Self::State);

    /// Returns the lowest layer, which has the engine.
    fn sessions(&self) -> &Sessions;
}

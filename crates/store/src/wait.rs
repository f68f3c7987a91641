//! Waiting for what another operation has: one queue for all engines.

mod blocking;
mod future;
mod queue;
mod sync;

pub use future::{TurnGuard, TurnLock, Waits};
pub use queue::{QueuePlace, WaitQueue, Wakeable};

//! Wait queues, which all engines share: operations wait for a resource of another operation.

mod blocking;
mod future;
mod queue;
mod sync;

pub use future::{TurnGuard, TurnLock, Waits};
pub use queue::{QueuePlace, WaitQueue, Wakeable};

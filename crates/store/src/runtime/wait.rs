//! Wait queues, which all engines share: operations wait for a resource of another operation.

mod blocking;
mod deadline;
mod future;
mod owned_place;
mod queue;
mod sync;

pub use future::{TurnGuard, TurnLock, Waits};
pub use owned_place::OwnedPlace;
pub use queue::{QueuePlace, WaitQueue, Wakeable};

//! Wait queues, which all engines share: operations wait for a resource of another operation.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicBool, Ordering};
//! use std::time::{Duration, Instant};
//! use marmota_store::wait::WaitQueue;
//!
//! let queue = Arc::new(WaitQueue::default());
//! let taken = Arc::new(AtomicBool::new(true));
//! let (other_queue, other_taken) = (Arc::clone(&queue), Arc::clone(&taken));
//! let holder = std::thread::spawn(move || {
//!     // Release the resource first, then wake.
//!     other_taken.store(false, Ordering::Release);
//!     other_queue.wake_next();
//! });
//! let free = || (!taken.swap(true, Ordering::Acquire)).then_some(());
//! assert_eq!(queue.block_until(Instant::now() + Duration::from_secs(5), free), Some(()));
//! holder.join().unwrap();
//! ```
//!
//! | waiter | method |
//! |---|---|
//! | an operation of an engine, between polls | `WaitQueue::wait`, `wait_until`, or an `OwnedPlace` |
//! | a thread | `WaitQueue::block_until` |
//! | a future | `WaitQueue::until`, `TurnLock` |

mod blocking;
mod deadline;
mod future;
mod owned_place;
mod queue;
mod sync;

pub use future::{TurnGuard, TurnLock, Waits};
pub use owned_place::OwnedPlace;
pub use queue::{QueuePlace, WaitQueue, Wakeable};

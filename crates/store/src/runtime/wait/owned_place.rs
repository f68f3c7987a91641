//! A place in a queue that is given up by itself.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use super::queue::{QueuePlace, WaitQueue};

/// A place in one queue at a time. It is given up when this is dropped, or
/// enters another queue.
///
/// ```
/// use std::sync::Arc;
/// use std::task::Waker;
/// use marmota_store::wait::{OwnedPlace, WaitQueue};
///
/// let queue = Arc::new(WaitQueue::default());
/// let mut place = OwnedPlace::default();
/// place.wait(&queue, Waker::noop());
/// assert_eq!(queue.len(), 1);
/// drop(place);
/// assert!(queue.is_empty());
/// ```
#[derive(Debug, Default)]
pub struct OwnedPlace(Option<(Arc<WaitQueue>, QueuePlace)>);

impl OwnedPlace {
    /// Has `waker` woken in its turn, as [`WaitQueue::wait`].
    pub fn wait(&mut self, queue: &Arc<WaitQueue>, waker: &Waker) {
        queue.wait(self.place_in(queue), waker);
    }

    /// Has `waker` woken in its turn, or at `until`, as [`WaitQueue::wait_until`].
    pub fn wait_until(&mut self, queue: &Arc<WaitQueue>, waker: &Waker, until: Instant) {
        queue.wait_until(self.place_in(queue), waker, until);
    }

    /// Gives the place up, as [`WaitQueue::leave`].
    pub fn leave(&mut self) {
        if let Some((queue, mut place)) = self.0.take() {
            queue.leave(&mut place);
        }
    }

    /// Returns the place in this queue; one in another queue is given up.
    fn place_in(&mut self, queue: &Arc<WaitQueue>) -> &mut QueuePlace {
        if self.0.as_ref().is_some_and(|(known, _)| !Arc::ptr_eq(known, queue)) {
            self.leave();
        }
        &mut self.0.get_or_insert_with(|| (Arc::clone(queue), QueuePlace::default())).1
    }
}

impl Drop for OwnedPlace {
    fn drop(&mut self) {
        self.leave();
    }
}

//! Futures that wait in a queue.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::queue::{QueuePlace, WaitQueue};
use super::sync::{AtomicBool, Ordering};

impl WaitQueue {
    /// Returns a future that calls `attempt` each time that it is woken, until it succeeds.
    ///
    /// It has no deadline; dropping the future ends the wait.
    ///
    /// ```
    /// use marmota_store::wait::WaitQueue;
    /// let queue = WaitQueue::default();
    /// let mut left = 2;
    /// let done = marmota_store::action::block_on(queue.until(|| {
    ///     left -= 1;
    ///     queue.wake_next();
    ///     (left == 0).then_some("done")
    /// }));
    /// assert_eq!(done, "done");
    /// ```
    pub const fn until<T, A>(&self, attempt: A) -> Waits<'_, A>
    where
        A: FnMut() -> Option<T> + Unpin,
    {
        Waits { queue: self, place: QueuePlace::NONE, is_ordered: false, attempt }
    }

    /// The same for a future that tries only while it is the first, so that no later one is faster.
    const fn in_order<T, A>(&self, attempt: A) -> Waits<'_, A>
    where
        A: FnMut() -> Option<T> + Unpin,
    {
        Waits { queue: self, place: QueuePlace::NONE, is_ordered: true, attempt }
    }
}

/// A future that waits in a queue, and leaves it when it is dropped.
#[derive(Debug)]
pub struct Waits<'q, A> {
    queue: &'q WaitQueue,
    place: QueuePlace,
    /// True if it only tries while it is the first.
    is_ordered: bool,
    attempt: A,
}

impl<T, A: FnMut() -> Option<T> + Unpin> Future for Waits<'_, A> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        // It enters the queue before it tries, so that a later release wakes it.
        this.queue.wait(&mut this.place, context.waker());
        if this.is_ordered && !this.queue.is_first(&this.place) {
            return Poll::Pending;
        }
        match (this.attempt)() {
            Some(done) => Poll::Ready(done),
            None => Poll::Pending,
        }
    }
}

impl<A> Drop for Waits<'_, A> {
    fn drop(&mut self) {
        self.queue.leave(&mut self.place);
    }
}

/// A lock that futures take in the order in which they arrived.
///
/// ```
/// use std::sync::Arc;
/// use marmota_store::action::block_on;
/// use marmota_store::wait::TurnLock;
///
/// let lock = Arc::new(TurnLock::default());
/// let guard = block_on(lock.take());
/// drop(guard);
/// block_on(lock.take());
/// ```
#[derive(Debug, Default)]
pub struct TurnLock {
    is_taken: AtomicBool,
    queue: WaitQueue,
}

/// The guard of a [`TurnLock`], which releases it when it is dropped.
///
/// It owns its lock, and may be kept in a struct or move to another thread.
#[derive(Debug)]
pub struct TurnGuard(Arc<TurnLock>);

impl TurnLock {
    /// Waits for the lock.
    pub async fn take(self: &Arc<Self>) -> TurnGuard {
        let attempt = || {
            let taken =
                self.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
            taken.ok()
        };
        self.queue.in_order(attempt).await;
        TurnGuard(Arc::clone(self))
    }
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::Release);
        self.0.queue.wake_next();
    }
}

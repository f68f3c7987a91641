//! The result of a job that another thread executes, as a future.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use marmota_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;

/// The future result of a job of a [`ThreadPool`](super::thread_pool::ThreadPool).
///
/// It fails with [`ErrorKind::Bug`] if the job panics. A job whose result is dropped is executed
/// all the same.
///
/// ```
/// use marmota_store::action::block_on;
/// use marmota_store::thread_pool::ThreadPool;
/// use std::sync::Arc;
///
/// let pool = Arc::new(ThreadPool::new("sums", 1));
/// let sum = pool.result_of(|| 40 + 2).expect("no limit is set");
/// assert_eq!(block_on(sum)?, 42);
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the result is lost unless it is awaited"]
pub struct JobResult<T>(Arc<Mutex<JobState<T>>>);

/// The state that a job and its result share.
#[derive(Debug)]
struct JobState<T> {
    result: Option<T>,
    /// Woken when the job has ended.
    waker: Option<Waker>,
    /// True if the job has ended, with a result or by a panic.
    has_ended: bool,
}

/// Ends a job, also if it panics or is dropped.
struct JobEnd<T>(Arc<Mutex<JobState<T>>>);

impl<T> Drop for JobEnd<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.has_ended = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T: Send + 'static> JobResult<T> {
    /// Returns the job that executes `work`, and its result.
    pub(super) fn new(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> (impl FnOnce() + Send + 'static, Self) {
        let state = Arc::new(Mutex::new(JobState { result: None, waker: None, has_ended: false }));
        let end = JobEnd(Arc::clone(&state));
        let job = move || {
            let result = work();
            end.0.lock().result = Some(result);
            drop(end);
        };
        (job, Self(state))
    }
}

impl<T> Future for JobResult<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let mut state = self.0.lock();
        if let Some(result) = state.result.take() {
            return Poll::Ready(Ok(result));
        }
        if state.has_ended {
            return Poll::Ready(Err(Error::new(ErrorKind::Bug, "the work panicked")));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

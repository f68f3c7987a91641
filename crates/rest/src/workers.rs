//! Threads for slow work (hashing passwords), separate from those that handle requests; a small
//! number, with a bounded queue.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use marmota_model::{Error, ErrorKind, Result};

const THREADS: usize = 2;
const WAITING_MAX: usize = 64;

type Work = Box<dyn FnOnce() + Send>;

/// The threads, started on first use.
#[derive(Debug, Default)]
pub(crate) struct Workers(OnceLock<SyncSender<Work>>);

/// The future result of a job.
pub(crate) struct Done<T>(Arc<Mutex<State<T>>>);

struct State<T> {
    result: Option<T>,
    waker: Option<Waker>,
    /// True if the job has ended.
    ended: bool,
}

/// Ends a job, also if it panics.
struct Ending<T>(Arc<Mutex<State<T>>>);

impl<T> Drop for Ending<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.ended = true;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

impl Workers {
    /// Runs a job on a thread.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if the queue is full.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Done<T>> {
        let state = Arc::new(Mutex::new(State { result: None, waker: None, ended: false }));
        let ending = Ending(Arc::clone(&state));
        let work: Work = Box::new(move || {
            let result = work();
            let mut state = ending.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.result = Some(result);
            drop(state);
            drop(ending);
        });
        match self.0.get_or_init(begin).try_send(work) {
            Ok(()) => Ok(Done(state)),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                Err(Error::new(ErrorKind::Busy, "too many logins wait; try again"))
            }
        }
    }
}

fn begin() -> SyncSender<Work> {
    let (sender, receiver) = sync_channel::<Work>(WAITING_MAX);
    let receiver = Arc::new(Mutex::new(receiver));
    for _ in 0..THREADS {
        let receiver = Arc::clone(&receiver);
        let thread = std::thread::Builder::new().name("marmota-auth".to_owned());
        // Without threads the queue is not processed: it fills, and later jobs are refused.
        if let Err(error) = thread.spawn(move || work_off(&receiver)) {
            log::error!("no thread for logins: {error}");
        }
    }
    sender
}

fn work_off(receiver: &Mutex<Receiver<Work>>) {
    loop {
        let work = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(work) = work else { return };
        // The panic was logged by the panic hook, and is reported to the caller by `Ending`.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    }
}

impl<T> Future for Done<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(result) = state.result.take() {
            return Poll::Ready(Ok(result));
        }
        if state.ended {
            return Poll::Ready(Err(Error::new(ErrorKind::Bug, "the work panicked")));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Condvar;

    use super::*;
    use crate::problem::ApiError;

    #[test]
    fn what_is_one_too_many_is_refused_with_when_to_come_back() {
        let workers = Workers::default();
        let open = Arc::new((Mutex::new(false), Condvar::new()));
        let waiting = || {
            let open = Arc::clone(&open);
            workers.run(move || {
                let (is_open, opened) = &*open;
                let is_open = is_open.lock().unwrap();
                drop(opened.wait_while(is_open, |is_open| !*is_open).unwrap());
            })
        };
        let mut done = Vec::new();
        let refused = loop {
            match waiting() {
                Ok(one) => done.push(one),
                Err(error) => break ApiError::from(error),
            }
        };
        assert!(done.len() <= THREADS + WAITING_MAX, "{}", done.len());
        assert_eq!(refused.status().code(), 503);
        assert_eq!(refused.header(), Some(("Retry-After", "1")));
        *open.0.lock().unwrap() = true;
        open.1.notify_all();
        for one in done {
            marmota_store::action::block_on(one).unwrap();
        }
    }
}

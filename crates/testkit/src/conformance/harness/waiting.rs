//! Waits for conditions with a deadline, instead of for a fixed time.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::mpsc::Receiver;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use marmota_model::{ErrorKind, Result};

/// The time limit for conditions, long enough for a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Calls `polled` after the first poll of a future, which is then done or in progress.
pub(crate) async fn after_first_poll<F: Future>(future: F, polled: impl FnOnce()) -> F::Output {
    let (mut future, mut polled) = (pin!(future), Some(polled));
    poll_fn(|context| {
        let done = future.as_mut().poll(context);
        if let Some(polled) = polled.take() {
            polled();
        }
        done
    })
    .await
}

/// Receives this number of messages.
#[track_caller]
pub(crate) fn receive<T>(receiver: &Receiver<T>, messages: usize) {
    for received in 0..messages {
        let one = receiver.recv_timeout(DEADLINE);
        assert!(one.is_ok(), "{received} of {messages} have come");
    }
}

/// Waits until a condition is true.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < DEADLINE, "{what}: not in time");
        thread::yield_now();
    }
}

/// Returns true if an operation is refused at once because the store is closed.
pub(crate) fn is_closed<T>(operation: impl IntoFuture<Output = Result<T>>) -> bool {
    let mut operation = pin!(operation.into_future());
    let polled = Pin::new(&mut operation).poll(&mut Context::from_waker(Waker::noop()));
    matches!(polled, Poll::Ready(Err(error)) if error.kind() == ErrorKind::Closed)
}

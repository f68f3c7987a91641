//! Executing jobs: slots take claimed jobs one after the other, and supervise their functions.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::task::{Context, Poll};
use std::time::Instant;

use futures_lite::future::yield_now;
use marmota_model::Timestamp;
use marmota_store::action::block_on;
use parking_lot::Mutex;

use super::claim::Claimed;
use super::finish::{End, Ended};
use super::shared::Shared;
use crate::context::{Abort, Attempt, Control, JobContext};
use crate::jobs::{Function, Running};
use crate::options::JobFailure;

/// After this number of jobs without a wait, a slot lets other tasks of its thread run.
const TURN: u32 = 64;

/// How a function has ended.
enum Result {
    Returned(std::result::Result<(), JobFailure>),
    Panicked(String),
    Aborted(Abort),
}

impl Shared {
    /// Adds claimed jobs to a queue, and starts slots for them.
    pub(crate) fn add(self: &Arc<Self>, queue: usize, jobs: Vec<Claimed>) {
        let of = &self.queues[queue];
        let mut state = of.state.lock();
        let count = jobs.len();
        state.jobs.extend(jobs);
        let new = count.min(of.concurrency.saturating_sub(state.slots));
        state.slots += new;
        drop(state);
        for _ in 0..new {
            let shared = Arc::clone(self);
            self.executor.spawn(async move { shared.run_slot(queue).await }).detach();
        }
    }

    /// Executes jobs of a queue until none is ready.
    async fn run_slot(self: Arc<Self>, queue: usize) {
        let mut turn = 0;
        loop {
            let next = self.queues[queue].state.lock().next();
            let Some(job) = next else { break };
            let ended = self.execute(queue, job).await;
            self.end(ended);
            if self.queues[queue].state.lock().count() {
                self.made_room();
            }
            turn += 1;
            if turn % TURN == 0 {
                yield_now().await;
            }
        }
        self.made_room();
    }

    async fn execute(&self, queue: usize, job: Claimed) -> Ended {
        let Some(function) = self.functions.get(&*job.kind) else {
            return Ended { queue, job, attempt: None, end: End::HandedBack };
        };
        let Function { name, options, start } = function;
        let deadline = Instant::now().checked_add(options.timeout);
        let attempt = Arc::new(Attempt {
            host: Arc::clone(&self.host),
            id: job.id,
            queue: Arc::clone(&self.queues[queue].name),
            kind: name,
            number: job.attempt,
            number_max: job.attempts_max,
            holder: job.holder,
            options: *options,
            has_key: job.has_key,
            deadline: deadline
                .unwrap_or_else(|| Instant::now() + std::time::Duration::from_secs(1 << 31)),
            version: AtomicI64::new(job.version),
            control: Mutex::new(Control::default()),
        });
        let context = JobContext(Arc::clone(&attempt));
        let future = catch_unwind(AssertUnwindSafe(|| start(&job.input, context)));
        let result = match future {
            Ok(Ok(future)) if options.is_blocking => self.supervise_thread(&attempt, future).await,
            Ok(Ok(future)) => Supervised { shared: self, attempt: &attempt, future }.await,
            Ok(Err(failure)) => Result::Returned(Err(failure)),
            Err(panic) => Result::Panicked(text_of(&*panic)),
        };
        self.unwatch(&attempt);
        let end = self.end_of(&attempt, result);
        Ended { queue, job, attempt: Some(attempt), end }
    }

    /// Executes a blocking function on a thread of the pool.
    async fn supervise_thread(&self, attempt: &Arc<Attempt>, future: Running) -> Result {
        let work = move || catch_unwind(AssertUnwindSafe(|| block_on(future)));
        let Some(done) = self.pool.result_of(work) else {
            return Result::Returned(Err(JobFailure::new("no thread can be started for it")));
        };
        let future: Running = Box::pin(async move {
            match done.await {
                Ok(Ok(result)) => result,
                Ok(Err(panic)) => Err(JobFailure::new(panicked(&text_of(&*panic)))),
                Err(error) => Err(error.into()),
            }
        });
        Supervised { shared: self, attempt, future }.await
    }

    fn watch(&self, attempt: &Arc<Attempt>) {
        self.watched.lock().insert(attempt.id, Arc::clone(attempt));
        // It may have the first deadline.
        self.host.timers.wake();
    }

    fn unwatch(&self, attempt: &Attempt) {
        if attempt.control.lock().is_watched {
            self.watched.lock().remove(&attempt.id);
        }
    }

    /// Decides what follows from the end of a function.
    fn end_of(&self, attempt: &Attempt, result: Result) -> End {
        let control = attempt.control.lock();
        if control.is_finished {
            return End::InTransaction;
        }
        let error = match result {
            Result::Returned(Ok(())) => return End::Succeeded,
            Result::Aborted(Abort::Lost) => return End::Lost,
            Result::Aborted(Abort::Stop) => return End::HandedBack,
            Result::Returned(Err(failure)) => failure.to_string(),
            Result::Panicked(text) => panicked(&text),
            Result::Aborted(Abort::Timeout) => {
                format!("the attempt took longer than {:?}", attempt.options.timeout)
            }
        };
        if control.is_cancelled {
            return End::Cancelled(error);
        }
        if control.is_final || attempt.number >= attempt.number_max {
            return End::Failed(error);
        }
        let pause = control.retry_in.unwrap_or_else(|| attempt.options.pause_after(attempt.number));
        let micros = i64::try_from(pause.as_micros()).unwrap_or(i64::MAX);
        let at = self.now().micros().saturating_add(micros);
        End::Retry(Timestamp::from_micros(at).unwrap_or_else(|_| self.now()), error)
    }
}

fn panicked(text: &str) -> String {
    format!("the function panicked: {text}")
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// A function that can be ended by its worker.
struct Supervised<'a> {
    shared: &'a Shared,
    attempt: &'a Arc<Attempt>,
    future: Running,
}

impl Future for Supervised<'_> {
    type Output = Result;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result> {
        if let Some(abort) = self.attempt.control.lock().abort {
            return Poll::Ready(Result::Aborted(abort));
        }
        let future = &mut self.future;
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Ready(result)) => return Poll::Ready(Result::Returned(result)),
            Err(panic) => return Poll::Ready(Result::Panicked(text_of(&*panic))),
            Ok(Poll::Pending) => {}
        }
        let mut control = self.attempt.control.lock();
        // It may have been aborted during the poll.
        if let Some(abort) = control.abort {
            return Poll::Ready(Result::Aborted(abort));
        }
        control.waker = Some(context.waker().clone());
        if !std::mem::replace(&mut control.is_watched, true) {
            drop(control);
            self.shared.watch(self.attempt);
        }
        Poll::Pending
    }
}

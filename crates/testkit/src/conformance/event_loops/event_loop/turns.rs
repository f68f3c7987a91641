//! A thread that polls futures as a server's thread does, and measures each poll.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use marmota_model::Result;

/// The time limit for all operations.
const ANSWERED_MAX: Duration = Duration::from_secs(60);

/// A future of the loop.
pub(super) type Task<'t> = Pin<Box<dyn Future<Output = Result<()>> + 't>>;

/// The waker of one future of the loop.
struct Woken {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Default for Woken {
    fn default() -> Self {
        Self { thread: thread::current(), is_woken: AtomicBool::new(true) }
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// Returns for how long this thread was runnable without a processor; zero if the system does not
/// report it.
#[must_use]
pub fn unscheduled() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').nth(1).and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Measures a call on this thread, without the time in which other programs had the processor.
pub(crate) fn timed<T>(call: impl FnOnce() -> T) -> (T, Duration) {
    let (waited, began) = (unscheduled(), Instant::now());
    let done = call();
    let took = began.elapsed();
    (done, took.saturating_sub(unscheduled().saturating_sub(waited)))
}

struct Spawned<'t> {
    name: &'static str,
    /// `None` once it is done.
    task: Option<Task<'t>>,
    woken: Arc<Woken>,
    result: Option<Result<()>>,
}

/// Polls woken futures on one thread, and records the longest poll.
#[derive(Default)]
pub(super) struct EventLoop<'t> {
    tasks: Vec<Spawned<'t>>,
    pub(super) longest: (Duration, &'static str),
}

impl<'t> EventLoop<'t> {
    pub(super) fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<()>> + 't,
    ) -> usize {
        let task: Task<'t> = Box::pin(task);
        self.tasks.push(Spawned { name, task: Some(task), woken: Arc::default(), result: None });
        self.tasks.len() - 1
    }

    pub(super) fn name(&self, task: usize) -> &'static str {
        self.tasks[task].name
    }

    /// Returns the result of a future that is done.
    pub(super) fn result(&self, task: usize) -> Option<&Result<()>> {
        self.tasks[task].result.as_ref()
    }

    fn turn(&mut self) {
        for Spawned { name, task, woken, result } in &mut self.tasks {
            if task.is_none() || !woken.is_woken.swap(false, Ordering::SeqCst) {
                continue;
            }
            let waker = Waker::from(Arc::clone(woken));
            let mut context = Context::from_waker(&waker);
            let (polled, took) = timed(|| {
                let polled = task.as_mut().map(|future| future.as_mut().poll(&mut context));
                if matches!(polled, Some(Poll::Ready(_))) {
                    // Dropping a future is measured as well.
                    *task = None;
                }
                polled
            });
            self.longest = self.longest.max((took, name));
            if let Some(Poll::Ready(done)) = polled {
                *result = Some(done);
            }
        }
    }

    /// Polls until all of these are done.
    pub(super) fn finish(&mut self, tasks: &[usize]) {
        let began = Instant::now();
        loop {
            self.turn();
            let is_open = |task: &&usize| self.tasks[**task].result.is_none();
            let names: Vec<_> = tasks.iter().filter(is_open).map(|task| self.name(*task)).collect();
            if names.is_empty() {
                return;
            }
            if began.elapsed() >= ANSWERED_MAX {
                self.unanswered(tasks);
            }
            if !self.tasks.iter().any(|one| one.woken.is_woken.load(Ordering::SeqCst)) {
                // Finds a lost wake-up after a second.
                thread::park_timeout(Duration::from_secs(1));
            }
        }
    }

    /// Panics with the futures that are not done, and those that are only done after another poll.
    fn unanswered(&mut self, tasks: &[usize]) -> ! {
        let names = |event_loop: &Self| -> Vec<_> {
            let is_open = |task: &&usize| event_loop.tasks[**task].result.is_none();
            tasks.iter().filter(is_open).map(|task| event_loop.name(*task)).collect()
        };
        let before = names(self);
        self.tasks.iter().for_each(|one| one.woken.is_woken.store(true, Ordering::SeqCst));
        self.turn();
        panic!("these were not answered: {before:?}; polled once more: {:?}", names(self));
    }

    /// Polls a future until it is done.
    pub(super) fn run<T: 't>(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<T>> + 't,
    ) -> T {
        let done: Arc<Mutex<Option<T>>> = Arc::default();
        let slot = Arc::clone(&done);
        let task = self.spawn(name, async move {
            *slot.lock().unwrap() = Some(task.await?);
            Ok(())
        });
        self.finish(&[task]);
        if let Some(Err(error)) = self.result(task) {
            panic!("{name}: {error}");
        }
        done.lock().unwrap().take().unwrap()
    }
}

struct OnThread<T> {
    result: Option<T>,
    waker: Option<Waker>,
}

/// Runs blocking work on a separate thread, as a server does.
pub(super) async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let slot = Arc::new(Mutex::new(OnThread { result: None, waker: None }));
    let filled = Arc::clone(&slot);
    thread::spawn(move || {
        let result = work();
        let mut slot = filled.lock().unwrap();
        slot.result = Some(result);
        slot.waker.take().into_iter().for_each(Waker::wake);
    });
    std::future::poll_fn(|context| {
        let mut slot = slot.lock().unwrap();
        slot.waker = Some(context.waker().clone());
        slot.result.take().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

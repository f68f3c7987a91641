//! A single-threaded executor that runs the futures of many clients in an order that depends only
//! on a seed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use crate::stress::sample::Dice;

/// A client.
pub(super) type Task<'t> = Pin<Box<dyn Future<Output = ()> + 't>>;

/// The waker of a client: whether the client is ready, and the thread to unpark.
struct TaskWaker {
    is_woken: AtomicBool,
    thread: Thread,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Runs all tasks to their end. The random numbers choose which of the ready tasks is polled next.
pub(super) fn run(tasks: Vec<Task<'_>>, dice: &mut Dice) {
    let waker =
        || Arc::new(TaskWaker { is_woken: AtomicBool::new(true), thread: thread::current() });
    let mut tasks: Vec<(Task<'_>, Arc<TaskWaker>)> =
        tasks.into_iter().map(|task| (task, waker())).collect();
    while !tasks.is_empty() {
        let ready_place = |(place, (_, waker)): (usize, &(_, Arc<TaskWaker>))| {
            waker.is_woken.load(Ordering::Acquire).then_some(place)
        };
        let ready: Vec<usize> = tasks.iter().enumerate().filter_map(ready_place).collect();
        let Some(count) = u64::try_from(ready.len()).ok().filter(|count| *count > 0) else {
            thread::park();
            continue;
        };
        let place = ready[usize::try_from(dice.roll() % count).unwrap_or_default()];
        let (task, waker) = &mut tasks[place];
        waker.is_woken.store(false, Ordering::Release);
        let waker = Waker::from(Arc::clone(waker));
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            drop(tasks.remove(place));
        }
    }
}

/// Yields, so that the random numbers choose the next task.
pub(super) async fn yield_now() {
    let mut has_yielded = false;
    std::future::poll_fn(|context| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Polls a future at most `steps` times. Returns `None` if it is dropped before its end, like the
/// request of a client that disconnects.
pub(super) async fn for_steps<F: Future>(steps: Option<u64>, future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    let mut taken = 0;
    std::future::poll_fn(|context| {
        let polled = future.as_mut().poll(context).map(Some);
        taken += 1;
        match polled {
            Poll::Pending if steps.is_some_and(|steps| taken >= steps) => Poll::Ready(None),
            polled => polled,
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn order(seed: u64) -> Vec<usize> {
        let order = RefCell::new(Vec::new());
        let task = |number: usize| -> Task<'_> {
            let order = &order;
            Box::pin(async move {
                for _ in 0..5 {
                    order.borrow_mut().push(number);
                    yield_now().await;
                }
            })
        };
        run((0..4).map(task).collect(), &mut Dice(seed));
        order.into_inner()
    }

    #[test]
    fn a_seed_gives_one_order_and_another_seed_another() {
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let mut all = order(3);
        all.sort_unstable();
        assert_eq!(all, (0..4).flat_map(|number| [number; 5]).collect::<Vec<_>>());
    }

    #[test]
    fn a_task_woken_by_another_thread_continues() {
        let receive = async {
            let (sender, receiver) = std::sync::mpsc::channel::<Waker>();
            thread::spawn(move || receiver.recv().map(Waker::wake));
            let mut sent = false;
            std::future::poll_fn(|context| {
                if sent {
                    return Poll::Ready(());
                }
                sent = sender.send(context.waker().clone()).is_ok();
                Poll::Pending
            })
            .await;
        };
        run(vec![Box::pin(receive)], &mut Dice(1));
    }

    #[test]
    fn a_future_is_dropped_after_its_steps() {
        let outcome = RefCell::new(Vec::new());
        let task: Task<'_> = Box::pin(async {
            for steps in [Some(1), Some(2), None] {
                let done = for_steps(steps, async { yield_now().await }).await;
                outcome.borrow_mut().push(done.is_some());
            }
        });
        run(vec![task], &mut Dice(1));
        assert_eq!(outcome.into_inner(), [false, true, true]);
    }
}

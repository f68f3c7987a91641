//! The wait queue in all its interleavings (by loom, which also tries what weak
//! memory allows): `src/runtime/wait/queue.rs` as it is, with loom's locks.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(dead_code, unreachable_pub, reason = "the file is included for a part of what it does")]

#[path = "../../src/runtime/wait/queue.rs"]
mod queue;
mod sync;

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use queue::{QueuePlace, WaitQueue};

/// A thread that sleeps until it is woken; loom reports if that never happens.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.changed.wait(rung).unwrap();
        }
        *rung = false;
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

/// A lock that operations wait for.
#[derive(Default)]
struct Lock {
    is_taken: AtomicBool,
    queue: WaitQueue,
}

impl Lock {
    fn try_take(&self) -> bool {
        let taken =
            self.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok()
    }

    fn release(&self) {
        self.is_taken.store(false, Ordering::Release);
        self.queue.wake_next();
    }

    fn take(&self, place: &mut QueuePlace) {
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(Arc::clone(&bell));
        loop {
            self.queue.wait(place, &waker);
            if self.try_take() {
                return;
            }
            bell.wait();
        }
    }

    /// Takes the lock as an operation does that leaves the queue afterwards.
    fn use_once(&self) {
        let mut place = QueuePlace::default();
        self.take(&mut place);
        // Without this the model never finds the lock taken.
        thread::yield_now();
        self.release();
        self.queue.leave(&mut place);
    }
}

fn check(threads: usize, part: fn(&Lock, usize)) {
    check_with(threads, part, |lock| {
        assert!(lock.queue.is_empty() && lock.queue.sleeping() == 0, "nothing is left behind");
        assert!(lock.try_take(), "the lock is free");
    });
}

fn check_with(threads: usize, part: fn(&Lock, usize), at_end: fn(&Lock)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let lock = Arc::new(Lock::default());
        let others: Vec<_> = (1..threads)
            .map(|number| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || part(&lock, number))
            })
            .collect();
        part(&lock, 0);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        at_end(&lock);
    });
}

#[test]
fn operations_get_the_lock_one_after_the_other() {
    check(2, |lock, _| lock.use_once());
    check(3, |lock, _| lock.use_once());
}

/// One that enters the queue, fails and leaves it, woken or not.
fn give_up(lock: &Lock) {
    let (mut place, bell) = (QueuePlace::default(), Arc::new(Bell::default()));
    lock.queue.wait(&mut place, &Waker::from(bell));
    if lock.try_take() {
        lock.release();
    }
    lock.queue.leave(&mut place);
}

#[test]
fn one_that_gives_up_passes_its_turn_on() {
    check(3, |lock, number| match number {
        0 => give_up(lock),
        _ => lock.use_once(),
    });
}

#[test]
fn wakers_of_all_are_woken_at_a_release() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Arc::new((AtomicBool::new(false), WaitQueue::<Waker>::default()));
        let others: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (mut place, bell) = (QueuePlace::default(), Arc::new(Bell::default()));
                    let waker = Waker::from(Arc::clone(&bell));
                    loop {
                        shared.1.wait(&mut place, &waker);
                        if shared.0.load(Ordering::Relaxed) {
                            return shared.1.leave(&mut place);
                        }
                        bell.wait();
                    }
                })
            })
            .collect();
        shared.0.store(true, Ordering::Relaxed);
        shared.1.wake_all();
        others.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(shared.1.is_empty());
    });
}

/// Enters the queue with a deadline, and sets off the alarm if that is left to it.
fn wait_for_alarm(queue: &WaitQueue, until: Instant) {
    let (mut place, bell) = (QueuePlace::default(), Arc::new(Bell::default()));
    if let Some(at) = queue.enter_until(&mut place, Waker::from(Arc::clone(&bell)), until) {
        queue.ring(at);
    }
    bell.wait();
    queue.leave(&mut place);
}

#[test]
fn one_alarm_wakes_all_whose_deadline_has_come() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    let until = Instant::now();
    model.check(move || {
        let queue = Arc::new(WaitQueue::<Waker>::default());
        let others: Vec<_> = (0..2)
            .map(|_| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || wait_for_alarm(&queue, until))
            })
            .collect();
        wait_for_alarm(&queue, until);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(queue.is_empty() && queue.sleeping() == 0, "nothing is left behind");
    });
}

#[test]
fn one_whose_deadline_has_come_passes_its_turn_on() {
    check(2, |lock, number| match number {
        0 => {
            let (mut place, bell) = (QueuePlace::default(), Arc::new(Bell::default()));
            let until = Instant::now();
            let alarm = lock.queue.enter_until(&mut place, Waker::from(bell), until);
            assert_eq!(alarm, Some(until));
            assert_eq!(lock.queue.ring(until), None);
            if lock.try_take() {
                lock.release();
            }
            lock.queue.leave(&mut place);
        }
        _ => lock.use_once(),
    });
}

#[test]
fn an_alarm_is_set_for_the_first_deadline_and_then_for_the_next() {
    loom::model(|| {
        let queue = WaitQueue::<Waker>::default();
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let mut places: [QueuePlace; 3] = Default::default();
        let enter = |place: &mut QueuePlace, seconds| {
            let waker = Waker::from(Arc::new(Bell::default()));
            queue.enter_until(place, waker, at(seconds))
        };
        assert_eq!(enter(&mut places[0], 2), Some(at(2)));
        assert_eq!(enter(&mut places[1], 3), None, "the alarm is set for an earlier one");
        assert_eq!(enter(&mut places[2], 1), Some(at(1)));
        assert_eq!((queue.ring(at(0)), queue.sleeping()), (None, 3), "too early");
        assert_eq!((queue.ring(at(1)), queue.sleeping()), (Some(at(2)), 2));
        queue.leave(&mut places[0]);
        assert_eq!((queue.ring(at(2)), queue.sleeping()), (Some(at(3)), 1));
        assert_eq!((queue.ring(at(3)), queue.sleeping()), (None, 0));
        assert_eq!(enter(&mut places[1], 9), Some(at(9)), "an alarm that rang is set again");
    });
}

/// The model sees a lost wake-up: one that was woken, does not try again and
/// does not leave stops all others.
#[test]
#[should_panic(expected = "deadlock")]
fn one_that_does_not_leave_is_found() {
    let part = |lock: &Lock, number| match number {
        0 => {
            let (mut place, bell) = (QueuePlace::default(), Arc::new(Bell::default()));
            lock.queue.wait(&mut place, &Waker::from(bell));
            if lock.try_take() {
                lock.release();
            }
        }
        _ => lock.use_once(),
    };
    check_with(3, part, |_| {});
}

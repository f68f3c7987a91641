//! The wait queue in all its interleavings (by loom, which also tries what weak
//! memory allows): `src/wait/queue.rs` as it is, with loom's locks.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(dead_code, unreachable_pub, reason = "the file is included for a part of what it does")]

#[path = "../../src/wait/queue.rs"]
mod queue;
mod sync;

use std::sync::Arc;
use std::task::{Wake, Waker};

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

//! The writer's lock and the groups in all their interleavings (by loom, which
//! also tries what weak memory allows), without SQLite: `group_commit.rs`, `write_lock.rs`
//! and the store's wait queue as they are, with loom's locks and a list of
//! numbers in SQLite's place.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(dead_code, unreachable_pub, reason = "the files are included for a part of what they do")]

#[path = "../../src/commit/group_commit.rs"]
mod group_commit;
#[path = "../../../store/src/runtime/wait/queue.rs"]
mod queue;
mod sync;
#[path = "../../src/commit/write_lock.rs"]
mod write_lock;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use group_commit::{Member, Work};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use marmota_model::{Error, ErrorKind, Result, Value};
use marmota_store::Durability;
use marmota_store::operation::Outcome;
use queue::QueuePlace;
use write_lock::WriteLock;

/// A transaction on a list of numbers. The number 13 fails; 99 ends the
/// transaction.
#[derive(Debug, Default)]
struct Numbers {
    open: Option<Vec<i64>>,
    committed: Arc<std::sync::Mutex<Vec<i64>>>,
    fails_to_commit: bool,
    /// How often another process has the lock.
    refusals: u32,
}

impl Numbers {
    fn write(&mut self, number: i64) -> Result<Outcome> {
        let open = self.open.as_mut().expect("a write is in a transaction");
        match number {
            13 => return Err(Error::new(ErrorKind::Conflict, "13")),
            99 => {
                self.open = None;
                return Err(Error::new(ErrorKind::Io, "99"));
            }
            number => open.push(number),
        }
        Ok(Outcome { value: Value::Int(number), ..Outcome::default() })
    }
}

impl Work for Numbers {
    type Job = i64;

    fn begin(&mut self) -> Result<bool> {
        if self.refusals > 0 {
            self.refusals -= 1;
            return Ok(false);
        }
        assert!(self.open.replace(Vec::new()).is_none(), "a transaction in another");
        Ok(true)
    }

    fn refused(&self) -> Error {
        Error::new(ErrorKind::Busy, "another process has the lock")
    }

    fn is_open(&self) -> bool {
        self.open.is_some()
    }

    fn run(&mut self, job: &i64) -> Result<Outcome> {
        self.write(*job)
    }

    fn commit(&mut self, _: Durability, _: usize) -> Result<Option<NonZeroU64>> {
        let written = self.open.take().expect("a group is committed once");
        if self.fails_to_commit {
            return Err(Error::new(ErrorKind::Io, "the disk failed"));
        }
        self.committed.lock().unwrap().extend(written);
        Ok(None)
    }

    fn roll_back(&mut self) {
        self.open = None;
    }
}

/// A thread that sleeps until it is woken; loom tells if that never happens.
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

type Shared = Arc<WriteLock<Numbers>>;

/// A number, and what its writer was told.
type Told = (i64, Result<Outcome>);

/// Joins or leaves a write, as a session's `submit` does.
fn submit(writer: &Shared, number: i64) -> Result<Arc<Member<i64>>> {
    if let Some(mut guard) = writer.try_lock_now() {
        if let Some(member) = guard.join(Durability::Full, |numbers| numbers.write(number))? {
            return Ok(member);
        }
        guard.refused();
    }
    writer.enqueue(number, Durability::Full, far())
}

/// A time that does not come.
fn far() -> Instant {
    Instant::now() + Duration::from_secs(3_600)
}

/// Drives a member to its end, as a session's `poll` does.
fn drive(writer: &Shared, member: &Arc<Member<i64>>) -> Result<Outcome> {
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    loop {
        if let Some(result) = member.poll(&waker) {
            return result;
        }
        if !writer.lead(member) {
            bell.wait();
        }
    }
}

fn write(writer: &Shared, number: i64) -> Result<Outcome> {
    drive(writer, &submit(writer, number)?)
}

fn check(threads: &'static [&'static [i64]], fails_to_commit: bool, seen: fn(&[Told], &[i64])) {
    check_refused(threads, fails_to_commit, 0, seen);
}

fn check_refused(
    threads: &'static [&'static [i64]],
    fails_to_commit: bool,
    refusals: u32,
    seen: fn(&[Told], &[i64]),
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let committed = Arc::default();
        let committed_too = Arc::clone(&committed);
        let numbers = Numbers { open: None, committed: committed_too, fails_to_commit, refusals };
        let writer: Shared = WriteLock::new(numbers, 8);
        let others: Vec<_> = threads[1..]
            .iter()
            .map(|own| {
                let writer = Arc::clone(&writer);
                thread::spawn(move || told(&writer, own))
            })
            .collect();
        let mut told = told(&writer, threads[0]);
        told.extend(others.into_iter().flat_map(|thread| thread.join().unwrap()));
        seen(&told, &committed.lock().unwrap());
        assert_eq!(writer.pending(), 0, "nothing is left behind");
    });
}

fn told(writer: &Shared, numbers: &[i64]) -> Vec<Told> {
    numbers.iter().map(|number| (*number, write(writer, *number))).collect()
}

fn each_hears_its_own(told: &[Told], committed: &[i64]) {
    for (number, result) in told {
        match result {
            Ok(outcome) => {
                assert_eq!(outcome.value, Value::Int(*number));
                assert!(committed.contains(number));
            }
            Err(error) => assert_eq!((*number, error.kind()), (13, ErrorKind::Conflict)),
        }
    }
    assert_eq!(committed.len() + 1, told.len());
}

// Three at once, and one that comes again, each by itself: together they have
// too many interleavings to wait for.

#[test]
fn each_of_three_hears_its_own_result_once_it_is_committed() {
    check(&[&[1], &[3], &[13]], false, each_hears_its_own);
}

#[test]
fn one_that_comes_again_hears_its_own_result_once_it_is_committed() {
    check(&[&[1, 2], &[13, 3]], false, each_hears_its_own);
}

#[test]
fn a_commit_that_fails_is_everybodys_error() {
    check(&[&[1], &[2], &[13]], true, |told, committed| {
        assert!(committed.is_empty());
        assert!(told.iter().all(|(_, result)| result.is_err()));
    });
}

#[test]
fn whoever_was_told_of_an_end_of_the_transaction_wrote_nothing() {
    check(&[&[1], &[99], &[2]], false, |told, committed| {
        for (number, result) in told {
            assert_eq!(result.is_ok(), committed.contains(number), "{number}");
        }
    });
}

#[test]
fn an_operation_that_wants_the_lock_gets_it_beside_groups() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let writer: Shared = WriteLock::new(Numbers::default(), 8);
        let other = Arc::clone(&writer);
        let member = thread::spawn(move || write(&other, 1).unwrap());
        begin(&writer);
        member.join().unwrap();
    });
}

/// Begins a transaction and ends it, as soon as it gets the lock.
fn begin(writer: &Shared) {
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let mut place = QueuePlace::default();
    loop {
        writer.wait(&mut place, &waker, far());
        if let Some(mut guard) = writer.try_lock_now() {
            guard.settle();
            let numbers = guard.executor().unwrap();
            assert!(numbers.open.is_none());
            if numbers.begin().unwrap() {
                numbers.roll_back();
                drop(guard);
                return writer.forget(&mut place);
            }
            guard.refused();
        }
        bell.wait();
    }
}

#[test]
fn writes_are_committed_once_another_process_releases_the_lock() {
    check_refused(&[&[1], &[2]], false, 1, |told, committed| {
        assert!(told.iter().all(|(number, result)| result.is_ok() && committed.contains(number)));
    });
}

#[test]
fn an_operation_and_a_write_wait_for_another_process() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let numbers = Numbers { refusals: 1, ..Numbers::default() };
        let writer: Shared = WriteLock::new(numbers, 8);
        let other = Arc::clone(&writer);
        let member = thread::spawn(move || write(&other, 1).unwrap());
        begin(&writer);
        member.join().unwrap();
        assert_eq!(writer.pending(), 0);
    });
}

/// An operation that takes the lock as soon as it gets it, as a session's does.
fn operate(writer: &Shared) {
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let mut place = QueuePlace::default();
    loop {
        writer.wait(&mut place, &waker, far());
        if let Some(guard) = writer.try_lock_now() {
            // Without this the model lets nobody find the lock taken.
            thread::yield_now();
            drop(guard);
            return writer.forget(&mut place);
        }
        bell.wait();
    }
}

#[test]
fn operations_that_want_the_lock_get_it_one_after_the_other() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let writer: Shared = WriteLock::new(Numbers::default(), 8);
        let other = Arc::clone(&writer);
        let other = thread::spawn(move || operate(&other));
        operate(&writer);
        other.join().unwrap();
    });
}

#[test]
fn one_that_is_left_does_not_keep_the_others_waiting() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let writer: Shared = WriteLock::new(Numbers::default(), 8);
        let other = Arc::clone(&writer);
        let member = thread::spawn(move || write(&other, 1).unwrap());
        // Polled once, then dropped, as a future may be; what a session does then.
        let left = submit(&writer, 2).unwrap();
        let bell = Arc::new(Bell::default());
        if left.poll(&Waker::from(bell)).is_none() && !writer.lead(&left) {
            left.leave();
            writer.pass_on();
            if !left.is_done() {
                // Where the lock is taken, its holder commits the group.
                let _ = writer.lead_within(Duration::ZERO);
            }
        }
        member.join().unwrap();
        assert_eq!(writer.pending(), 0);
    });
}

#[test]
fn a_full_queue_is_busy() {
    loom::model(|| {
        let writer: Shared = WriteLock::new(Numbers::default(), 1);
        let guard = writer.try_lock_now().unwrap();
        writer.enqueue(1, Durability::Full, far()).unwrap();
        assert_eq!(writer.enqueue(2, Durability::Full, far()).unwrap_err().kind(), ErrorKind::Busy);
        drop(guard);
    });
}

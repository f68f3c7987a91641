//! Schedules, with a simulated clock: one process enqueues each job, missed times are one job, and
//! a clock that is set back repeats nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use marmota_jobs::{CronPattern, JobRow, Jobs, ScheduleRow, Worker, WorkerOptions, job};
use marmota_model::{Result, Timestamp};
use marmota_store::Store;

use crate::harness::{each_store, memory, until};

#[job(queue = "cron")]
async fn tick(name: String) -> Result<()> {
    drop(name);
    Ok(())
}

/// A clock that tests set.
#[derive(Clone)]
struct Clock(Arc<AtomicI64>);

impl Clock {
    fn new() -> Self {
        let start: Timestamp = "2026-03-01T12:00:30Z".parse().unwrap();
        Self(Arc::new(AtomicI64::new(start.micros())))
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst)).unwrap()
    }

    fn add(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }
}

fn start(store: &Store, clock: &Clock, pattern: &str) -> Worker {
    let jobs = Jobs::new(store).register::<Tick>().unwrap();
    let jobs = jobs.schedule("tick", pattern.parse().unwrap(), Tick { name: "t".into() }).unwrap();
    let clock = clock.clone();
    let options = WorkerOptions::new().poll_max(Duration::from_millis(5));
    // A lease that no step of the clock ends.
    let options = options.lease(Duration::from_secs(86_400 * 365));
    jobs.start(options.clock(move || clock.now())).unwrap()
}

fn jobs(store: &Store) -> u64 {
    store.count::<JobRow>().run().unwrap()
}

fn next_at(store: &Store) -> Option<Timestamp> {
    store.get::<ScheduleRow>("tick").optional().run().unwrap().map(|row| row.next_at)
}

#[track_caller]
fn until_next(store: &Store, next: &str) {
    let next: Timestamp = next.parse().unwrap();
    until("the schedule advances", || next_at(store) == Some(next));
}

#[test]
fn each_time_is_one_job_of_one_process() {
    each_store(|store| {
        let clock = Clock::new();
        let workers: Vec<Worker> = (0..3).map(|_| start(store, &clock, "* * * * *")).collect();
        until_next(store, "2026-03-01T12:01:00Z");
        assert_eq!(jobs(store), 0);
        for minute in 1..=5 {
            clock.add(60);
            until_next(store, &format!("2026-03-01T12:0{}:00Z", minute + 1));
            assert_eq!(jobs(store), minute);
        }
        // The others continue when one ends.
        let mut workers = workers.into_iter();
        workers.next().unwrap().stop().unwrap();
        clock.add(60);
        until_next(store, "2026-03-01T12:07:00Z");
        assert_eq!(jobs(store), 6);
        workers.for_each(|worker| worker.stop().unwrap());
    });
}

#[test]
fn missed_times_are_one_job() {
    each_store(|store| {
        let clock = Clock::new();
        let worker = start(store, &clock, "@hourly");
        until_next(store, "2026-03-01T13:00:00Z");
        worker.stop().unwrap();
        assert_eq!(jobs(store), 0);
        // Three hours without a process.
        clock.add(3 * 3_600);
        let worker = start(store, &clock, "@hourly");
        until_next(store, "2026-03-01T16:00:00Z");
        assert_eq!(jobs(store), 1);
        worker.stop().unwrap();
        // A restart repeats nothing.
        let worker = start(store, &clock, "@hourly");
        clock.add(3_600);
        until_next(store, "2026-03-01T17:00:00Z");
        assert_eq!(jobs(store), 2);
        worker.stop().unwrap();
    });
}

#[test]
fn jumps_of_the_clock_neither_repeat_nor_lose_jobs() {
    let store = memory();
    let clock = Clock::new();
    let worker = start(&store, &clock, "0 * * * *");
    until_next(&store, "2026-03-01T13:00:00Z");
    clock.add(3_600);
    until_next(&store, "2026-03-01T14:00:00Z");
    // Back by half an hour, and through 13:00 again.
    clock.add(-1_800);
    clock.add(1_900);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!((jobs(&store), next_at(&store)), (1, "2026-03-01T14:00:00Z".parse().ok()));
    // Forward by a day: one job.
    clock.add(86_400);
    until_next(&store, "2026-03-02T14:00:00Z");
    assert_eq!(jobs(&store), 2);
    worker.stop().unwrap();
}

#[test]
fn a_changed_pattern_applies_from_the_start() {
    let store = memory();
    let clock = Clock::new();
    start(&store, &clock, "@daily").stop().unwrap();
    let worker = start(&store, &clock, "*/5 * * * *");
    until_next(&store, "2026-03-01T12:05:00Z");
    worker.stop().unwrap();
    assert_eq!(jobs(&store), 0);
}

#[test]
fn a_pattern_that_is_wrong_names_its_position() {
    for (pattern, part) in [
        ("61 3 * * *", "position 1: the minute cannot be `61`"),
        ("0 25 * * *", "position 3: the hour cannot be `25`"),
        ("0  3 * foo *", "position 8: the month cannot be `foo`"),
        ("0 3 * * mon-xyz", "position 9: the day of week cannot be `mon-xyz`"),
        ("99 0 3 * * *", "position 1: the second cannot be `99`"),
        ("0 3 * *", "has 4 fields"),
        ("", "has 0 fields"),
        ("@sometimes", "use one of @yearly"),
    ] {
        let error = pattern.parse::<CronPattern>().unwrap_err();
        assert!(error.message().contains(part), "{pattern}: {error}");
    }
    let error = CronPattern::in_zone("0 3 * * *", "Europe/Bourges").unwrap_err();
    assert!(error.message().contains("Europe/Bourges"), "{error}");
}

#[test]
fn a_time_zone_has_its_summer() {
    let pattern = CronPattern::in_zone("30 2 * * *", "Europe/Paris").unwrap();
    let next = |after: &str| pattern.next_after(after.parse().unwrap()).unwrap().to_string();
    assert_eq!(next("2026-03-27T12:00:00Z"), "2026-03-28T01:30:00Z");
    // 02:30 does not exist on the 29th: it is run after the gap, at 03:00.
    assert_eq!(next("2026-03-28T12:00:00Z"), "2026-03-29T01:00:00Z");
    // 02:30 exists twice on the 25th of October.
    assert_eq!(next("2026-10-24T12:00:00Z"), "2026-10-25T00:30:00Z");
    assert_eq!(next("2026-10-25T00:30:00Z"), "2026-10-26T01:30:00Z");
    let never: CronPattern = "0 0 30 2 *".parse().unwrap();
    assert!(never.next_after("2026-01-01T00:00:00Z".parse().unwrap()).is_err());
}

//! Durable jobs: what they promise on every engine, also on one without transactions.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use marmota_derive::Model;
use marmota_jobs::{
    Cancellation, EnqueueJobs as _, JobAdmin, JobContext, JobId, JobState, Jobs, Worker,
    WorkerOptions, job,
};
use marmota_model::{Error, ErrorKind, Result, Timestamp};
use marmota_store::{Store, StoreBuilder};

use crate::conformance::harness::subject::{Stand, Subject};
use crate::conformance::harness::waiting::DEADLINE;

register!($ jobs_promises jobs:
    jobs_run_by_priority_and_then_in_order,
    a_failed_attempt_is_repeated,
    a_delayed_job_waits,
    equal_keys_are_one_job,
    jobs_are_cancelled_in_each_state,
    jobs_of_an_ended_worker_are_taken,
    finished_jobs_are_deleted_after_their_time,
    two_workers_share_a_queue,
    ; by transactions:
    an_effect_in_the_transaction_is_there_once,
    a_transaction_enqueues_with_its_writes,
    a_schedule_enqueues_each_job_once,
);

/// What a job has done.
#[derive(Clone, Debug, Model)]
struct Trace {
    id: i64,
    #[model(index)]
    number: i64,
    attempt: i64,
}

#[job(retries = 3, backoff = "20ms")]
async fn leave_trace(number: i64, failures: u32, context: JobContext) -> Result<()> {
    let attempt = i64::from(context.attempt());
    context.store().insert(&Trace { id: 0, number, attempt }).await?;
    if context.attempt() <= failures {
        return Err(Error::new(ErrorKind::Io, "not yet"));
    }
    Ok(())
}

#[job]
async fn leave_trace_once(number: i64, context: JobContext) -> Result<()> {
    let transaction = context.store().begin().await?;
    let attempt = i64::from(context.attempt());
    transaction.insert(&Trace { id: 0, number, attempt }).await?;
    context.finish_in(&transaction).await?;
    transaction.commit().await
}

#[job(unique(number))]
async fn wait_for_cancellation(number: i64, context: JobContext) -> Result<()> {
    let _ = number;
    context.cancelled().await;
    Err(Error::new(ErrorKind::Closed, "cancelled"))
}

#[job]
async fn hold_first_attempt(context: JobContext) -> Result<()> {
    if context.attempt() == 1 {
        context.sleep(Duration::from_secs(3_600)).await;
    }
    Ok(())
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    marmota_jobs::models(builder).model::<Trace>()
}

/// The store of the subject. `None` for the client of a remote store, whose server does not serve
/// internal tables: it refuses to open with them.
fn open(subject: &Subject) -> Option<Stand<'_>> {
    if subject.capability().guarded_writes {
        return Some(Stand::open(subject, models));
    }
    let refused = subject.builder_with(models).open().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    assert!(refused.message().contains("marmota_job"), "{refused}");
    None
}

fn options() -> WorkerOptions {
    WorkerOptions::new().poll_max(Duration::from_millis(20)).stop_limit(Duration::from_millis(50))
}

fn start(store: &Store, options: WorkerOptions) -> Worker {
    let jobs = Jobs::new(store).register::<LeaveTrace>().unwrap();
    let jobs = jobs.register::<LeaveTraceOnce>().unwrap();
    let jobs = jobs.register::<WaitForCancellation>().unwrap();
    jobs.register::<HoldFirstAttempt>().unwrap().start(options).unwrap()
}

fn state(store: &Store, id: JobId) -> JobState {
    JobAdmin::new(store).get(id).run().unwrap().state
}

#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < DEADLINE, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[track_caller]
fn until_state(store: &Store, id: JobId, wanted: JobState) {
    until(wanted.name(), || state(store, id) == wanted);
}

fn numbers(store: &Store) -> Vec<i64> {
    let list = store.list::<Trace>().order(Trace::ID.ascending());
    list.column(Trace::NUMBER).run().unwrap()
}

fn trace(number: i64) -> LeaveTrace {
    LeaveTrace { number, failures: 0 }
}

/// Jobs with a higher priority run first, and equal ones in the order in which they were enqueued.
pub fn jobs_run_by_priority_and_then_in_order(subject: &Subject) {
    let Some(store) = open(subject) else { return };
    let mut ids = Vec::new();
    for (number, priority) in [(4, 0), (5, 0), (1, 9), (6, 0), (7, -3), (2, 9), (3, 1)] {
        ids.push(store.enqueue(&trace(number)).priority(priority).run().unwrap().id);
    }
    let worker = start(&store, options().queue("default", 1));
    ids.into_iter().for_each(|id| until_state(&store, id, JobState::Succeeded));
    assert_eq!(numbers(&store), [1, 2, 3, 4, 5, 6, 7]);
    worker.stop().unwrap();
}

/// A failed attempt is repeated after a pause, and the last failure is final.
pub fn a_failed_attempt_is_repeated(subject: &Subject) {
    let Some(store) = open(subject) else { return };
    let worker = start(&store, options());
    let repaired = store.enqueue(&LeaveTrace { number: 1, failures: 2 }).run().unwrap().id;
    let hopeless = store.enqueue(&LeaveTrace { number: 2, failures: 9 }).run().unwrap().id;
    until_state(&store, repaired, JobState::Succeeded);
    until_state(&store, hopeless, JobState::Failed);
    let admin = JobAdmin::new(&store);
    assert_eq!(admin.get(repaired).run().unwrap().attempts, 3);
    let failed = admin.get(hopeless).run().unwrap();
    assert_eq!(failed.attempts, 4);
    assert!(failed.error.unwrap().contains("not yet"));
    worker.stop().unwrap();
}

/// A delayed job runs at its time, and does not block others.
pub fn a_delayed_job_waits(subject: &Subject) {
    let Some(store) = open(subject) else { return };
    let late = store.enqueue(&trace(2)).delay(Duration::from_millis(300)).run().unwrap().id;
    assert_eq!(state(&store, late), JobState::Scheduled);
    let worker = start(&store, options());
    let first = store.enqueue(&trace(1)).run().unwrap().id;
    until_state(&store, first, JobState::Succeeded);
    until_state(&store, late, JobState::Succeeded);
    let row = JobAdmin::new(&store).get(late).run().unwrap();
    assert!(row.started_at.unwrap() >= row.run_at);
    worker.stop().unwrap();
}

/// Of many threads that enqueue a job with one key at once, one does.
pub fn equal_keys_are_one_job(subject: &Subject) {
    const THREADS: usize = 8;
    let Some(store) = open(subject) else { return };
    let barrier = Barrier::new(THREADS);
    let enqueued: Vec<_> = std::thread::scope(|scope| {
        let enqueue = || {
            barrier.wait();
            store.enqueue(&WaitForCancellation { number: 7 }).run().unwrap()
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(enqueue)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(enqueued.iter().filter(|one| one.is_new).count(), 1);
    assert!(enqueued.iter().all(|one| one.id == enqueued[0].id));
    assert_eq!(store.count::<marmota_jobs::JobRow>().run().unwrap(), 1);
    JobAdmin::new(&store).cancel(enqueued[0].id).run().unwrap();
    assert!(store.enqueue(&WaitForCancellation { number: 7 }).run().unwrap().is_new);
}

/// A waiting job is cancelled at once, a running one ends itself, and an ended one stays.
pub fn jobs_are_cancelled_in_each_state(subject: &Subject) {
    let Some(store) = open(subject) else { return };
    let admin = JobAdmin::new(&store);
    let pending = store.enqueue(&trace(1)).run().unwrap().id;
    let later = store.enqueue(&trace(2)).delay(Duration::from_secs(60)).run().unwrap().id;
    for id in [pending, later] {
        assert_eq!(admin.cancel(id).run().unwrap(), Cancellation::Cancelled);
        assert_eq!(state(&store, id), JobState::Cancelled);
    }
    let worker = start(&store, options());
    let running = store.enqueue(&WaitForCancellation { number: 1 }).run().unwrap().id;
    until_state(&store, running, JobState::Running);
    assert_eq!(admin.cancel(running).run().unwrap(), Cancellation::Requested);
    until_state(&store, running, JobState::Cancelled);
    let ended = admin.cancel(running).run().unwrap();
    assert_eq!(ended, Cancellation::TooLate(JobState::Cancelled));
    assert!(numbers(&store).is_empty());
    // An operator repeats it.
    admin.retry(pending).run().unwrap();
    until_state(&store, pending, JobState::Succeeded);
    worker.stop().unwrap();
}

/// Jobs of a worker whose lease has ended are executed by another one, and the first cannot end
/// them.
pub fn jobs_of_an_ended_worker_are_taken(subject: &Subject) {
    let Some(store) = open(subject) else { return };
    let lease = options().lease(Duration::from_secs(3_600));
    let first = start(&store, lease.clone());
    let id = store.enqueue(&HoldFirstAttempt {}).run().unwrap().id;
    until_state(&store, id, JobState::Running);
    let ahead = || Timestamp::from_micros(Timestamp::now().micros() + 7_200_000_000).unwrap();
    let second = start(&store, lease.clock(ahead));
    until_state(&store, id, JobState::Succeeded);
    let before = JobAdmin::new(&store).get(id).run().unwrap();
    assert_eq!(before.attempts, 2);
    // It tries to hand back a job that it has lost.
    first.stop().unwrap();
    let after = JobAdmin::new(&store).get(id).run().unwrap();
    assert_eq!((after.state, after.version), (JobState::Succeeded, before.version));
    second.stop().unwrap();
}

/// A finished job is deleted after its time.
pub fn finished_jobs_are_deleted_after_their_time(subject: &Subject) {
    let Some(store) = open(subject) else { return };
    let id = store.enqueue(&trace(1)).run().unwrap().id;
    let at_once = start(&store, options().keep(Duration::ZERO, Duration::ZERO));
    until("the job is deleted", || JobAdmin::new(&store).get(id).run().is_err());
    at_once.stop().unwrap();
    let kept = store.enqueue(&trace(2)).run().unwrap().id;
    let worker = start(&store, options());
    until_state(&store, kept, JobState::Succeeded);
    worker.stop().unwrap();
    let brief = options().keep(Duration::from_millis(1), Duration::from_millis(1));
    let worker = start(&store, brief);
    until("the job is deleted", || JobAdmin::new(&store).get(kept).run().is_err());
    assert_eq!(numbers(&store), [1, 2]);
    worker.stop().unwrap();
}

/// Each of many jobs is executed by one of two workers.
pub fn two_workers_share_a_queue(subject: &Subject) {
    const JOBS: i64 = 100;
    let Some(store) = open(subject) else { return };
    let workers = [start(&store, options()), start(&store, options())];
    let inputs: Vec<LeaveTrace> = (0..JOBS / 2).map(trace).collect();
    let mut ids = store.enqueue_many(&inputs).run().unwrap();
    ids.extend((JOBS / 2..JOBS).map(|number| store.enqueue(&trace(number)).run().unwrap().id));
    ids.iter().for_each(|&id| until_state(&store, id, JobState::Succeeded));
    let mut numbers = numbers(&store);
    numbers.sort_unstable();
    assert_eq!(numbers, (0..JOBS).collect::<Vec<_>>());
    workers.into_iter().for_each(|worker| worker.stop().unwrap());
}

/// The effect of a job that ends in a transaction is there once, with two workers and one that is
/// stopped in between.
pub fn an_effect_in_the_transaction_is_there_once(subject: &Subject) {
    const JOBS: i64 = 60;
    let Some(store) = open(subject) else { return };
    let workers = [start(&store, options()), start(&store, options())];
    let once = |number| LeaveTraceOnce { number };
    let mut ids = Vec::new();
    for number in 0..JOBS {
        ids.push(store.enqueue(&once(number)).run().unwrap().id);
        if number == JOBS / 2 {
            start(&store, options().stop_limit(Duration::ZERO)).stop().unwrap();
        }
    }
    ids.iter().for_each(|&id| until_state(&store, id, JobState::Succeeded));
    let mut numbers = numbers(&store);
    numbers.sort_unstable();
    assert_eq!(numbers, (0..JOBS).collect::<Vec<_>>());
    workers.into_iter().for_each(|worker| worker.stop().unwrap());
}

/// A job that is enqueued in a transaction exists if the transaction is committed.
pub fn a_transaction_enqueues_with_its_writes(subject: &Subject) {
    let Some(store) = open(subject) else { return };
    let worker = start(&store, options());
    let transaction = store.begin_run().unwrap();
    let lost = transaction.enqueue(&trace(1)).run().unwrap().id;
    transaction.rollback().run().unwrap();
    drop(transaction);
    let kept = store.transaction(|transaction| transaction.enqueue(&trace(2)).run()).unwrap().id;
    until_state(&store, kept, JobState::Succeeded);
    assert_eq!(numbers(&store), [2]);
    let missing = JobAdmin::new(&store).get(lost).run().unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    worker.stop().unwrap();
}

/// One of several workers enqueues the job of a schedule.
pub fn a_schedule_enqueues_each_job_once(subject: &Subject) {
    let Some(store) = open(subject) else { return };
    let start = || {
        let jobs = Jobs::new(&store).register::<LeaveTrace>().unwrap();
        let pattern = "* * * * * *".parse().unwrap();
        jobs.schedule("each second", pattern, trace(0)).unwrap().start(options()).unwrap()
    };
    let workers = [start(), start(), start()];
    until("three jobs have run", || numbers(&store).len() >= 3);
    workers.into_iter().for_each(|worker| worker.stop().unwrap());
    let mut rows = store.list::<marmota_jobs::JobRow>().run().unwrap();
    rows.sort_by_key(|row| row.created_at);
    for pair in rows.windows(2) {
        let second = |row: &marmota_jobs::JobRow| row.created_at.micros() / 1_000_000;
        assert!(second(&pair[0]) < second(&pair[1]), "two jobs in one second");
    }
}

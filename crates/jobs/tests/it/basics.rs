//! Enqueueing and executing: order, delays, retries, timeouts, panics, progress.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use marmota_jobs::{
    EnqueueInBatch as _, EnqueueJobs as _, INPUT_BYTES_MAX, Job as _, JobAdmin, JobContext,
    JobState, Jobs, WorkerOptions, job,
};
use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Store;

use crate::harness::{DEADLINE, each_store, memory, row, state, until, until_state};

/// Receivers of the results of jobs, by the number of the test.
static SENDERS: LazyLock<Mutex<Vec<Sender<String>>>> = LazyLock::new(Mutex::default);

fn sender(sender: Sender<String>) -> usize {
    let mut senders = SENDERS.lock().unwrap();
    senders.push(sender);
    senders.len() - 1
}

fn send(to: usize, text: impl Into<String>) {
    let _ = SENDERS.lock().unwrap()[to].send(text.into());
}

#[job]
async fn report(to: usize, text: String) -> Result<()> {
    send(to, text);
    Ok(())
}

#[job(retries = 2, backoff = "10ms")]
async fn fail_at_first(to: usize, failures: u32, context: JobContext) -> Result<()> {
    send(to, format!("attempt {}", context.attempt()));
    if context.attempt() <= failures {
        return Err(Error::new(ErrorKind::Io, "no connection"));
    }
    Ok(())
}

#[job(retries = 0)]
async fn panic_now() -> Result<()> {
    panic!("what a day")
}

#[job(retries = 0, timeout = "50ms")]
async fn sleep_long(context: JobContext) -> Result<()> {
    context.sleep(DEADLINE * 10).await;
    Ok(())
}

#[job(queue = "threads")]
fn block(to: usize, context: JobContext) -> Result<()> {
    std::thread::sleep(Duration::from_millis(1));
    send(to, format!("{} in {}", context.attempt(), context.queue()));
    Ok(())
}

fn jobs(store: &Store) -> Jobs {
    let jobs = Jobs::new(store).register::<Report>().unwrap();
    let jobs = jobs.register::<FailAtFirst>().unwrap().register::<PanicNow>().unwrap();
    jobs.register::<SleepLong>().unwrap().register::<Block>().unwrap()
}

#[test]
fn jobs_are_executed_in_order_and_kept() {
    each_store(|store| {
        let (to, texts) = channel();
        let to = sender(to);
        let numbers = 0..50;
        let inputs: Vec<_> =
            numbers.clone().map(|number: u32| Report { to, text: number.to_string() }).collect();
        let ids = store.enqueue_many(&inputs).run().unwrap();
        let options = WorkerOptions::new().queue("default", 1);
        let worker = jobs(store).start(options).unwrap();
        let got: Vec<String> = (0..50).map(|_| texts.recv_timeout(DEADLINE).unwrap()).collect();
        assert_eq!(got, numbers.map(|number| number.to_string()).collect::<Vec<_>>());
        // One that is enqueued while the worker waits.
        let last = store.enqueue(&Report { to, text: "last".into() }).run().unwrap();
        assert!(last.is_new);
        assert_eq!(texts.recv_timeout(DEADLINE).unwrap(), "last");
        worker.stop().unwrap();
        for id in ids.into_iter().chain([last.id]) {
            let row = row(store, id);
            assert_eq!((row.state, row.attempts), (JobState::Succeeded, 1));
            assert!(row.finished_at >= row.started_at && row.holder.is_none());
        }
    });
}

#[test]
fn a_transaction_enqueues_with_its_writes_or_not_at_all() {
    each_store(|store| {
        let (to, texts) = channel();
        let to = sender(to);
        let worker = jobs(store).start(WorkerOptions::new()).unwrap();
        let transaction = store.begin_run().unwrap();
        transaction.enqueue(&Report { to, text: "rolled back".into() }).run().unwrap();
        transaction.rollback().run().unwrap();
        drop(transaction);
        store
            .transaction(|transaction| {
                transaction.enqueue(&Report { to, text: "committed".into() }).run()
            })
            .unwrap();
        assert_eq!(texts.recv_timeout(DEADLINE).unwrap(), "committed");
        let mut batch = store.batch();
        batch.enqueue(&Report { to, text: "of a batch".into() }).unwrap();
        batch.all_or_nothing().run().unwrap();
        assert_eq!(texts.recv_timeout(DEADLINE).unwrap(), "of a batch");
        worker.stop().unwrap();
        assert!(texts.try_recv().is_err());
    });
}

#[test]
fn failures_are_repeated_and_then_final() {
    each_store(|store| {
        let (to, texts) = channel();
        let to = sender(to);
        let worker = jobs(store).start(WorkerOptions::new()).unwrap();
        let repaired = store.enqueue(&FailAtFirst { to, failures: 2 }).run().unwrap().id;
        until_state(store, repaired, JobState::Succeeded);
        let hopeless = store.enqueue(&FailAtFirst { to, failures: 9 }).run().unwrap().id;
        until_state(store, hopeless, JobState::Failed);
        let failed = row(store, hopeless);
        assert_eq!(failed.attempts, 3);
        assert!(failed.error.unwrap().contains("no connection"));
        assert_eq!(row(store, repaired).error, None);
        let numbers: Vec<String> = texts.try_iter().collect();
        assert_eq!(numbers.len(), 6);
        // An operator gives it one more attempt.
        JobAdmin::new(store).retry(hopeless).run().unwrap();
        assert_eq!(texts.recv_timeout(DEADLINE).unwrap(), "attempt 4");
        until_state(store, hopeless, JobState::Failed);
        worker.stop().unwrap();
    });
}

#[test]
fn a_panic_and_a_timeout_are_failures() {
    each_store(|store| {
        let worker = jobs(store).start(WorkerOptions::new()).unwrap();
        let panicking = store.enqueue(&PanicNow {}).run().unwrap().id;
        let slow = store.enqueue(&SleepLong {}).run().unwrap().id;
        until_state(store, panicking, JobState::Failed);
        until_state(store, slow, JobState::Failed);
        assert_eq!(row(store, panicking).error.unwrap(), "the function panicked: what a day");
        assert_eq!(row(store, slow).error.unwrap(), "the attempt took longer than 50ms");
        worker.stop().unwrap();
    });
}

#[test]
fn blocking_functions_run_on_threads() {
    each_store(|store| {
        let (to, texts) = channel();
        let to = sender(to);
        let worker = jobs(store).start(WorkerOptions::new().threads(1, 4)).unwrap();
        for _ in 0..20 {
            store.enqueue(&Block { to }).run().unwrap();
        }
        for _ in 0..20 {
            assert_eq!(texts.recv_timeout(DEADLINE).unwrap(), "1 in threads");
        }
        worker.stop().unwrap();
    });
}

#[test]
fn delays_and_priorities_are_kept() {
    each_store(|store| {
        let (to, texts) = channel();
        let to = sender(to);
        let report = |text: &str| Report { to, text: text.into() };
        let late = store.enqueue(&report("late")).delay(Duration::from_millis(400)).run().unwrap();
        assert_eq!(state(store, late.id), JobState::Scheduled);
        store.enqueue(&report("low")).priority(-5).run().unwrap();
        store.enqueue(&report("normal")).run().unwrap();
        store.enqueue(&report("high")).priority(5).run().unwrap();
        let never =
            store.enqueue(&report("never")).delay(Duration::from_secs(3_600)).run().unwrap();
        let worker = jobs(store).start(WorkerOptions::new().queue("default", 1)).unwrap();
        let got: Vec<String> = (0..4).map(|_| texts.recv_timeout(DEADLINE).unwrap()).collect();
        assert_eq!(got, ["high", "normal", "low", "late"]);
        let row = row(store, late.id);
        assert!(row.started_at.unwrap() >= row.run_at);
        assert_eq!(state(store, never.id), JobState::Scheduled);
        worker.stop().unwrap();
    });
}

#[test]
fn an_input_that_is_too_large_is_refused() {
    let store = memory();
    let report = Report { to: 0, text: "x".repeat(INPUT_BYTES_MAX) };
    let error = store.enqueue(&report).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("the input of a job `report` has 2621"), "{error}");
    let error = store.enqueue_many(&[report]).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let small = Report { to: 0, text: String::new() };
    let error = store.enqueue(&small).queue(&"q".repeat(101)).run().unwrap_err();
    assert!(error.message().contains("has 101"), "{error}");
    assert_eq!(store.count::<marmota_jobs::JobRow>().run().unwrap(), 0);
}

#[test]
fn a_job_without_its_function_waits_and_is_visible() {
    each_store(|store| {
        let (to, texts) = channel();
        let to = sender(to);
        let others = Jobs::new(store).register::<Block>().unwrap();
        let worker = others.start(WorkerOptions::new().queue("default", 10)).unwrap();
        let id = store.enqueue(&Report { to, text: "found".into() }).run().unwrap().id;
        let of_worker = store.enqueue(&Block { to }).queue("default").run().unwrap().id;
        until_state(store, of_worker, JobState::Succeeded);
        assert_eq!(state(store, id), JobState::Pending);
        let statistics = JobAdmin::new(store).statistics().run().unwrap();
        assert_eq!((statistics[0].pending, statistics[0].succeeded), (1, 1));
        assert!(statistics[0].oldest_pending_ms.is_some());
        let second = jobs(store).start(WorkerOptions::new()).unwrap();
        until_state(store, id, JobState::Succeeded);
        assert_eq!(texts.try_iter().last().unwrap(), "found");
        second.stop().unwrap();
        worker.stop().unwrap();
    });
}

#[job]
async fn advance(context: JobContext) -> Result<()> {
    context.progress(40, "reading");
    context.cancelled().await;
    Err(Error::new(ErrorKind::Invalid, "it was cancelled"))
}

#[test]
fn progress_is_stored_while_a_job_runs() {
    each_store(|store| {
        let worker =
            Jobs::new(store).register::<Advance>().unwrap().start(WorkerOptions::new()).unwrap();
        let id = store.enqueue(&Advance {}).run().unwrap().id;
        until("the progress is stored", || row(store, id).progress == Some(40));
        assert_eq!(row(store, id).progress_text.unwrap(), "reading");
        JobAdmin::new(store).cancel(id).run().unwrap();
        until_state(store, id, JobState::Cancelled);
        worker.stop().unwrap();
    });
}

static RUNNING: AtomicU32 = AtomicU32::new(0);
static RUNNING_MAX: AtomicU32 = AtomicU32::new(0);

#[job(queue = "narrow")]
async fn overlap(context: JobContext) -> Result<()> {
    let running = RUNNING.fetch_add(1, Ordering::SeqCst) + 1;
    RUNNING_MAX.fetch_max(running, Ordering::SeqCst);
    context.sleep(Duration::from_millis(5)).await;
    RUNNING.fetch_sub(1, Ordering::SeqCst);
    Ok(())
}

#[test]
fn a_queue_has_its_concurrency() {
    let store = memory();
    let ids = store.enqueue_many(&vec![Overlap {}; 30]).run().unwrap();
    let jobs = Jobs::new(&store).register::<Overlap>().unwrap();
    let worker = jobs.start(WorkerOptions::new().queue("narrow", 3)).unwrap();
    ids.into_iter().for_each(|id| until_state(&store, id, JobState::Succeeded));
    assert_eq!(RUNNING_MAX.load(Ordering::SeqCst), 3);
    worker.stop().unwrap();
    assert_eq!(Overlap::NAME, "overlap");
}

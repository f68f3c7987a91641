//! A worker that stops: it waits for jobs in progress, and hands back the others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use marmota_jobs::{EnqueueJobs as _, JobAdmin, JobContext, JobState, Jobs, WorkerOptions, job};
use marmota_model::{ErrorKind, Result};

use crate::harness::{count, each_store, memory, row, until, until_state};

static RELEASE: AtomicBool = AtomicBool::new(false);

#[job(queue = "slow")]
async fn wait_for_release(context: JobContext) -> Result<()> {
    while !RELEASE.load(Ordering::SeqCst) {
        context.sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

#[job(queue = "endless")]
async fn never_end(context: JobContext) -> Result<()> {
    loop {
        context.sleep(Duration::from_secs(1)).await;
    }
}

#[job(queue = "polite")]
async fn end_at_stop(context: JobContext) -> Result<()> {
    while !context.is_stopping() {
        context.sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

#[test]
fn a_stop_waits_for_jobs_in_progress() {
    RELEASE.store(false, Ordering::SeqCst);
    let store = memory();
    let jobs = Jobs::new(&store).register::<WaitForRelease>().unwrap();
    let worker = jobs.register::<EndAtStop>().unwrap().start(WorkerOptions::new()).unwrap();
    let slow = store.enqueue(&WaitForRelease {}).run().unwrap().id;
    let polite = store.enqueue(&EndAtStop {}).run().unwrap().id;
    until_state(&store, slow, JobState::Running);
    until_state(&store, polite, JobState::Running);
    let stopping = std::thread::spawn(move || worker.stop());
    until_state(&store, polite, JobState::Succeeded);
    assert!(!stopping.is_finished());
    RELEASE.store(true, Ordering::SeqCst);
    stopping.join().unwrap().unwrap();
    assert_eq!(row(&store, slow).state, JobState::Succeeded);
    assert!(JobAdmin::new(&store).workers().run().unwrap().is_empty());
}

#[test]
fn a_job_that_does_not_end_is_handed_back() {
    each_store(|store| {
        let options =
            WorkerOptions::new().queue("endless", 2).stop_limit(Duration::from_millis(100));
        let jobs = Jobs::new(store).register::<NeverEnd>().unwrap();
        let worker = jobs.start(options).unwrap();
        store.enqueue_many(&vec![NeverEnd {}; 10]).run().unwrap();
        until("two jobs run", || count(store, JobState::Running) == 2);
        worker.stop().unwrap();
        // The attempts of the two do not count.
        assert_eq!(count(store, JobState::Pending), 10);
        let rows = JobAdmin::new(store).list(&Default::default()).run().unwrap();
        assert!(rows.iter().all(|row| row.attempts == 0 && row.holder.is_none()));
    });
}

#[test]
fn a_worker_needs_tables_and_functions() {
    let store = memory();
    let error = Jobs::new(&store).start(WorkerOptions::new()).unwrap_err();
    assert!(error.message().contains("Jobs::register"), "{error}");
    let twice = Jobs::new(&store).register::<NeverEnd>().unwrap().register::<NeverEnd>();
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::Invalid);
    let plain = marmota_store::Store::builder(marmota_memory::Memory::new()).open().unwrap();
    let jobs = Jobs::new(&plain).register::<NeverEnd>().unwrap();
    let error = jobs.start(WorkerOptions::new()).unwrap_err();
    assert!(error.message().contains("jobs::models"), "{error}");
}

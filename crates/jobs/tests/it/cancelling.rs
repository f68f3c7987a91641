//! Cancelling a job in each state.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use marmota_jobs::{
    Cancellation, EnqueueJobs as _, JobAdmin, JobContext, JobId, JobState, Jobs, WorkerOptions, job,
};
use marmota_model::{Error, ErrorKind, Result, Uuid};

use crate::harness::{each_store, row, state, until_state};

static STARTED: AtomicU32 = AtomicU32::new(0);

#[job]
async fn wait_for_end(context: JobContext) -> Result<()> {
    STARTED.fetch_add(1, Ordering::SeqCst);
    context.cancelled().await;
    Err(Error::new(ErrorKind::Closed, "ended early"))
}

#[job]
async fn end_well(context: JobContext) -> Result<()> {
    context.cancelled().await;
    Ok(())
}

#[job]
async fn at_once() -> Result<()> {
    Ok(())
}

/// A function that does not wait for the cancellation but looks for it.
#[job]
fn look_for_end(context: JobContext) -> Result<()> {
    while !context.is_cancelled() {
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(Error::new(ErrorKind::Closed, "seen"))
}

fn jobs(store: &marmota_store::Store) -> Jobs {
    let jobs = Jobs::new(store).register::<WaitForEnd>().unwrap().register::<EndWell>().unwrap();
    jobs.register::<AtOnce>().unwrap().register::<LookForEnd>().unwrap()
}

#[test]
fn a_waiting_job_is_cancelled_at_once() {
    each_store(|store| {
        let admin = JobAdmin::new(store);
        let pending = store.enqueue(&AtOnce {}).run().unwrap().id;
        let later = store.enqueue(&AtOnce {}).delay(Duration::from_millis(1)).run().unwrap().id;
        for id in [pending, later] {
            assert_eq!(admin.cancel(id).run().unwrap(), Cancellation::Cancelled);
            assert_eq!(state(store, id), JobState::Cancelled);
            let again = admin.cancel(id).run().unwrap();
            assert_eq!(again, Cancellation::TooLate(JobState::Cancelled));
        }
        let worker = jobs(store).start(WorkerOptions::new()).unwrap();
        let last = store.enqueue(&AtOnce {}).run().unwrap().id;
        until_state(store, last, JobState::Succeeded);
        let too_late = admin.cancel(last).run().unwrap();
        assert_eq!(too_late, Cancellation::TooLate(JobState::Succeeded));
        for id in [pending, later] {
            assert_eq!((row(store, id).state, row(store, id).attempts), (JobState::Cancelled, 0));
        }
        worker.stop().unwrap();
        let missing = admin.cancel(JobId(Uuid::now_v7())).run().unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_running_job_ends_itself() {
    each_store(|store| {
        let admin = JobAdmin::new(store);
        let worker = jobs(store).start(WorkerOptions::new()).unwrap();
        let waiting = store.enqueue(&WaitForEnd {}).run().unwrap().id;
        let well = store.enqueue(&EndWell {}).run().unwrap().id;
        let looking = store.enqueue(&LookForEnd {}).run().unwrap().id;
        for (id, end) in [
            (waiting, JobState::Cancelled),
            (well, JobState::Succeeded),
            (looking, JobState::Cancelled),
        ] {
            until_state(store, id, JobState::Running);
            assert_eq!(admin.cancel(id).run().unwrap(), Cancellation::Requested);
            until_state(store, id, end);
        }
        assert!(row(store, looking).error.unwrap().contains("seen"));
        // A cancelled job is not repeated.
        assert_eq!(row(store, waiting).attempts, 1);
        worker.stop().unwrap();
    });
}

/// Another process has no access to the worker: it finds the request in the table.
#[test]
fn a_job_of_another_process_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, others) =
        (crate::harness::sqlite(folder.path()), crate::harness::sqlite(folder.path()));
    let worker = jobs(&ours).start(WorkerOptions::new()).unwrap();
    let id = others.enqueue(&WaitForEnd {}).run().unwrap().id;
    until_state(&others, id, JobState::Running);
    assert_eq!(JobAdmin::new(&others).cancel(id).run().unwrap(), Cancellation::Requested);
    until_state(&others, id, JobState::Cancelled);
    worker.stop().unwrap();
}

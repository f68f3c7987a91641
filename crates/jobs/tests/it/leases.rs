//! Leases: jobs of a worker that does not renew its lease are taken, and what it writes later is
//! refused.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use marmota_derive::Model;
use marmota_jobs::{
    EnqueueJobs as _, JobAdmin, JobContext, JobState, Jobs, Worker, WorkerOptions, WorkerRow, job,
};
use marmota_model::{ErrorKind, Result, Timestamp};
use marmota_store::Store;

use crate::harness::{row, until, until_state};

static RELEASE: AtomicBool = AtomicBool::new(false);
/// The kinds of errors of attempts that had lost their job.
static REFUSED: LazyLock<Mutex<Vec<ErrorKind>>> = LazyLock::new(Mutex::default);

#[derive(Clone, Debug, Model)]
struct Effect {
    id: i64,
    attempt: i64,
}

/// The first attempt waits until it is released, and has lost its lease then.
async fn hold_first(context: &JobContext) {
    while context.attempt() == 1 && !RELEASE.load(Ordering::SeqCst) {
        context.sleep(Duration::from_millis(1)).await;
    }
}

#[job]
async fn plain(context: JobContext) -> Result<()> {
    hold_first(&context).await;
    Ok(())
}

#[job]
async fn exact(context: JobContext) -> Result<()> {
    hold_first(&context).await;
    let transaction = context.store().begin().await?;
    let attempt = i64::from(context.attempt());
    transaction.insert(&Effect { id: 0, attempt }).await?;
    if let Err(error) = context.finish_in(&transaction).await {
        REFUSED.lock().unwrap().push(error.kind());
        return Err(error);
    }
    transaction.commit().await
}

/// The first attempt ends only with its lease.
#[job]
async fn wait_for_loss(context: JobContext) -> Result<()> {
    if context.attempt() == 1 {
        context.sleep(Duration::from_secs(3_600)).await;
    }
    Ok(())
}

fn open(folder: &std::path::Path) -> Store {
    let url = format!("sqlite:{}", folder.join("jobs.db").display());
    let builder = Store::builder(marmota_sqlite::Sqlite::from_url(&url).unwrap());
    marmota_jobs::models(builder).model::<Effect>().open().unwrap()
}

/// A worker whose lease ends after an hour, by a clock that is this much ahead.
fn start(store: &Store, ahead: Duration) -> Worker {
    let jobs = Jobs::new(store).register::<Plain>().unwrap().register::<Exact>().unwrap();
    let ahead = ahead.as_micros() as i64;
    let clock = move || Timestamp::from_micros(Timestamp::now().micros() + ahead).unwrap();
    jobs.start(WorkerOptions::new().lease(Duration::from_secs(3_600)).clock(clock)).unwrap()
}

fn lost(worker: &Worker) -> u64 {
    worker.metrics().statistics().iter().map(|queue| queue.lost).sum()
}

#[test]
fn a_worker_that_lost_its_lease_cannot_end_a_job() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let slow = start(&store, Duration::ZERO);
    let plain = store.enqueue(&Plain {}).run().unwrap().id;
    let exact = store.enqueue(&Exact {}).run().unwrap().id;
    until_state(&store, plain, JobState::Running);
    until_state(&store, exact, JobState::Running);
    // To another process, two hours have passed.
    let others = open(folder.path());
    let second = start(&others, Duration::from_secs(7_200));
    until_state(&others, plain, JobState::Succeeded);
    until_state(&others, exact, JobState::Succeeded);
    let finished = |id| (row(&others, id).finished_at, row(&others, id).attempts);
    let before = (finished(plain), finished(exact));
    assert_eq!((before.0.1, before.1.1), (2, 2));
    RELEASE.store(true, Ordering::SeqCst);
    until("both attempts of the first worker are refused", || lost(&slow) == 1);
    until("the transaction is refused", || REFUSED.lock().unwrap().len() == 1);
    assert_eq!(REFUSED.lock().unwrap()[0], ErrorKind::Stale);
    slow.stop().unwrap();
    assert_eq!((finished(plain), finished(exact)), before);
    let effects = others.list::<Effect>().run().unwrap();
    assert_eq!(effects.iter().map(|effect| effect.attempt).collect::<Vec<_>>(), [2]);
    second.stop().unwrap();
}

/// A worker that notices the loss begins a new lease, and its attempts end.
#[test]
fn a_worker_that_lost_its_lease_continues_with_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let jobs = Jobs::new(&store).register::<WaitForLoss>().unwrap();
    let worker = jobs.start(WorkerOptions::new().lease(Duration::from_secs(1))).unwrap();
    let id = store.enqueue(&WaitForLoss {}).run().unwrap().id;
    until_state(&store, id, JobState::Running);
    // As another worker does after the end of the lease.
    let holder = row(&store, id).holder.unwrap();
    store.delete::<WorkerRow>(holder).run().unwrap();
    until_state(&store, id, JobState::Succeeded);
    let row = row(&store, id);
    assert_eq!(row.attempts, 2);
    let workers = JobAdmin::new(&store).workers().run().unwrap();
    assert!(workers.len() == 1 && workers[0].id != holder);
    worker.stop().unwrap();
}

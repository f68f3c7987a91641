//! What a job function gets: its attempt, cancellation, progress, and a way to end the job in a
//! transaction.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, Timestamp, Uuid};
use marmota_store::action::block_on;
use marmota_store::{Store, Transaction};
use parking_lot::Mutex;

use crate::models::column::{PROGRESS, PROGRESS_TEXT};
use crate::models::writes;
use crate::models::{JobRow, JobState, KeyRow};
use crate::options::{JobId, JobOptions};
use crate::timers::{Sleep, Timers};

/// The maximum length of a text of progress, in characters.
const PROGRESS_CHARS_MAX: usize = 500;

/// What all attempts of a worker share.
pub(crate) struct Host {
    pub(crate) store: Store,
    pub(crate) table: Arc<marmota_model::Table>,
    pub(crate) timers: Arc<Timers>,
    /// The attempts with progress to be stored.
    pub(crate) reported: Mutex<Vec<Arc<Attempt>>>,
    /// True if succeeded jobs are kept.
    pub(crate) keeps_succeeded: bool,
    pub(crate) clock: Clock,
}

/// The clock of a worker.
pub(crate) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The reason why an attempt ends before its function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abort {
    /// Its time is over.
    Timeout,
    /// The worker stops.
    Stop,
    /// The worker has lost its lease: another one may execute the job.
    Lost,
}

/// One execution of a job.
pub(crate) struct Attempt {
    pub(crate) host: Arc<Host>,
    pub(crate) id: Uuid,
    pub(crate) queue: Arc<str>,
    pub(crate) kind: &'static str,
    pub(crate) number: i32,
    pub(crate) number_max: i32,
    pub(crate) holder: Uuid,
    pub(crate) options: JobOptions,
    pub(crate) has_key: bool,
    pub(crate) deadline: Instant,
    /// The version of the row, as far as this process knows.
    pub(crate) version: AtomicI64,
    pub(crate) control: Mutex<Control>,
}

/// The part of an attempt that changes.
#[derive(Default)]
pub(crate) struct Control {
    /// Polls the function again.
    pub(crate) waker: Option<Waker>,
    /// True once the keeper watches the attempt.
    pub(crate) is_watched: bool,
    pub(crate) abort: Option<Abort>,
    pub(crate) is_cancelled: bool,
    pub(crate) is_stopping: bool,
    /// The futures that wait for a cancellation.
    cancel_wakers: Vec<Waker>,
    /// A failure of this attempt is final.
    pub(crate) is_final: bool,
    pub(crate) retry_in: Option<Duration>,
    /// True if a committed transaction has ended the job.
    pub(crate) is_finished: bool,
    /// True if a transaction was to end the job, whether or not it was committed.
    pub(crate) was_finished_in: bool,
    /// Progress that is not stored yet.
    pub(crate) progress: Option<(i32, String)>,
}

impl Attempt {
    pub(crate) fn abort(&self, why: Abort) {
        let mut control = self.control.lock();
        control.abort.get_or_insert(why);
        let waker = control.waker.take();
        drop(control);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Requests the cancellation.
    pub(crate) fn cancel(&self) {
        let mut control = self.control.lock();
        control.is_cancelled = true;
        let wakers = std::mem::take(&mut control.cancel_wakers);
        drop(control);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn stopping(&self) {
        self.control.lock().is_stopping = true;
    }

    /// Returns the row if this attempt still has the job.
    async fn held(&self, store: &Store) -> Result<Option<JobRow>> {
        let row = store.get::<JobRow>(self.id).optional().await?;
        Ok(row.filter(|row| row.holder == Some(self.holder) && row.state.is_claimed()))
    }

    /// Stores the progress that was reported last.
    pub(crate) async fn store_progress(&self) -> Result<()> {
        let Some((percent, text)) = self.control.lock().progress.take() else { return Ok(()) };
        let store = &self.host.store;
        for _ in 0..3 {
            let version = self.version.load(Ordering::Acquire);
            let values = [
                (PROGRESS, marmota_model::Value::Int(percent.into())),
                (PROGRESS_TEXT, marmota_model::Value::Text(text.clone())),
            ];
            let write = [writes::update(&self.host.table, self.id, version, values)];
            match writes::all(store, &write).await {
                Ok(_) => {
                    self.version.fetch_max(version + 1, Ordering::AcqRel);
                    return Ok(());
                }
                Err(error) if is_other_version(&error) => match self.held(store).await? {
                    Some(row) => self.version.store(row.version, Ordering::Release),
                    None => return Ok(()),
                },
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns true if a row has another version, or is missing.
pub(crate) fn is_other_version(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Stale | ErrorKind::NotFound)
}

/// The attempt that a job function executes.
///
/// A clone refers to the same attempt.
#[derive(Clone)]
pub struct JobContext(pub(crate) Arc<Attempt>);

impl JobContext {
    /// Returns the id of the job.
    #[must_use]
    pub fn id(&self) -> JobId {
        JobId(self.0.id)
    }

    /// Returns the name of the queue.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.0.queue
    }

    /// Returns the number of this attempt; the first is 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.number.unsigned_abs()
    }

    /// Returns true if no attempt follows when this one fails.
    #[must_use]
    pub fn is_last_attempt(&self) -> bool {
        self.0.number >= self.0.number_max
    }

    /// Returns the store of the worker.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.0.host.store
    }

    /// Returns true if the job is to be cancelled. The function then returns an error, which
    /// ends the job as cancelled. If it returns `Ok`, the job has succeeded.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.control.lock().is_cancelled
    }

    /// Returns true if the worker stops. The function can save its state and return; otherwise it
    /// is dropped after the worker's time limit, and the job is executed again.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.0.control.lock().is_stopping
    }

    /// Waits until the job is to be cancelled.
    pub async fn cancelled(&self) {
        poll_fn(|context| {
            let mut control = self.0.control.lock();
            if control.is_cancelled {
                return Poll::Ready(());
            }
            if !control.cancel_wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                control.cancel_wakers.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Waits. Unlike the timers of other crates it needs no runtime.
    pub async fn sleep(&self, time: Duration) {
        Sleep::new(&self.0.host.timers, time).await;
    }

    /// Reports the progress: a number from 0 to 100, and a text of at most 500 characters. It is
    /// stored within half a second; of several reports in this time, the last one is stored.
    pub fn progress(&self, percent: u8, text: impl Into<String>) {
        let text: String = text.into();
        let text = text.chars().take(PROGRESS_CHARS_MAX).collect();
        let progress = Some((i32::from(percent.min(100)), text));
        let before = std::mem::replace(&mut self.0.control.lock().progress, progress);
        if before.is_none() {
            self.0.host.reported.lock().push(Arc::clone(&self.0));
        }
    }

    /// Makes a failure of this attempt final: the job is not executed again.
    pub fn no_retry(&self) {
        self.0.control.lock().is_final = true;
    }

    /// Sets the pause before the next attempt if this one fails, instead of the kind's.
    pub fn retry_in(&self, pause: Duration) {
        self.0.control.lock().retry_in = Some(pause);
    }

    /// Ends the job as succeeded in a transaction: its writes and the end of the job are committed
    /// together, so they take effect exactly once, also if the process is killed at any moment.
    ///
    /// The function commits the transaction and then returns `Ok`.
    ///
    /// # Errors
    /// [`ErrorKind::Stale`] if this process has lost the job: do not commit then. Errors of the
    /// store.
    pub async fn finish_in(&self, transaction: &Transaction) -> Result<()> {
        let attempt = &self.0;
        let host = &attempt.host;
        attempt.control.lock().was_finished_in = true;
        // Read in the transaction, as progress or a cancellation may have changed the version.
        let row = attempt.held(transaction).await?.ok_or_else(|| lost(attempt.id))?;
        let ended = (row.id, row.version);
        let now = ((host.clock)(), host.keeps_succeeded);
        let write = [writes::end(&host.table, ended, JobState::Succeeded, now, [])];
        writes::all(transaction, &write)
            .await
            .map_err(|error| if is_other_version(&error) { lost(attempt.id) } else { error })?;
        if attempt.has_key {
            let freed = KeyRow::JOB.eq(attempt.id).and(KeyRow::UNTIL.le(now.0));
            transaction.delete_where(freed).await?;
        }
        let attempt = Arc::clone(attempt);
        transaction.after_commit(move || attempt.control.lock().is_finished = true);
        Ok(())
    }

    /// Executes `work` in a transaction that also ends the job as succeeded, for blocking
    /// functions: see [`JobContext::finish_in`] and [`Store::transaction`]. `work` may run more
    /// than once.
    ///
    /// # Errors
    /// Those of `work`, of [`JobContext::finish_in`] and [`Store::transaction`].
    pub fn transaction<T>(&self, mut work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        self.store().transaction(|transaction| {
            let done = work(transaction)?;
            block_on(self.finish_in(transaction))?;
            Ok(done)
        })
    }
}

#[cold]
fn lost(id: Uuid) -> Error {
    let message = format!(
        "another process has taken the job {id}, because this one did not renew its lease in time"
    );
    Error::new(ErrorKind::Stale, message)
}

impl fmt::Debug for JobContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Attempt { id, kind, number, .. } = &*self.0;
        write!(f, "JobContext({kind} {id}, attempt {number})")
    }
}

//! Looking at jobs, and changing them: list, show, retry, cancel, statistics.

use std::fmt;

use marmota_model::{Error, ErrorKind, Result, Timestamp, Value};
use marmota_store::Store;

use crate::context::is_other_version;
use crate::models::column::{
    ATTEMPTS_MAX, FINISHED_AT, PROGRESS, PROGRESS_TEXT, RANK, RUN_AT, STATE,
};
use crate::models::writes::{self, value};
use crate::models::{
    JobRow, JobState, KeyRow, ScheduleRow, WorkerRow, distinct_time, pending_rank,
};
use crate::options::JobId;
use crate::request::JobRequest;
use crate::statistics::{self, QueueStatistics};
use crate::wakeup;

/// How often a change is tried again if the job changes meanwhile.
const ATTEMPTS: u32 = 20;

/// Which jobs to list.
///
/// ```
/// use marmota_jobs::{JobQuery, JobState};
/// let query = JobQuery::new().queue("mail").state(JobState::Failed).limit(20);
/// # let _ = query;
/// ```
#[derive(Clone, Debug)]
pub struct JobQuery {
    queue: Option<String>,
    state: Option<JobState>,
    limit: u64,
}

impl JobQuery {
    /// Creates a query for the last 100 jobs of all queues.
    #[must_use]
    pub const fn new() -> Self {
        Self { queue: None, state: None, limit: 100 }
    }

    /// Selects the jobs of a queue.
    #[must_use]
    pub fn queue(mut self, queue: &str) -> Self {
        self.queue = Some(queue.to_owned());
        self
    }

    /// Selects the jobs in a state.
    #[must_use]
    pub const fn state(mut self, state: JobState) -> Self {
        self.state = Some(state);
        self
    }

    /// Sets the maximum number of jobs. Default: 100.
    #[must_use]
    pub const fn limit(mut self, jobs: u64) -> Self {
        self.limit = jobs;
        self
    }
}

impl Default for JobQuery {
    fn default() -> Self {
        Self::new()
    }
}

/// What a cancellation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancellation {
    /// The job was waiting, and is cancelled.
    Cancelled,
    /// The job is running: its function is notified, and ends it.
    Requested,
    /// The job has ended before.
    TooLate(JobState),
}

/// The jobs of a store, for operators.
///
/// ```
/// # use marmota_jobs::{EnqueueJobs as _, JobAdmin, JobQuery, JobState, job};
/// # use marmota_memory::Memory;
/// # use marmota_store::Store;
/// # #[job]
/// # async fn send_mail(to: String) -> marmota_model::Result<()> { Ok(()) }
/// # let store = marmota_jobs::models(Store::builder(Memory::new())).open()?;
/// let job = store.enqueue(&SendMail { to: "ada@example.org".into() }).run()?;
/// let admin = JobAdmin::new(&store);
/// assert_eq!(admin.list(&JobQuery::new().state(JobState::Pending)).run()?.len(), 1);
/// admin.cancel(job.id).run()?;
/// assert_eq!(admin.get(job.id).run()?.state, JobState::Cancelled);
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone)]
pub struct JobAdmin {
    store: Store,
}

impl JobAdmin {
    /// Creates an access to the jobs of a store.
    #[must_use]
    pub fn new(store: &Store) -> Self {
        Self { store: store.clone() }
    }

    /// Returns jobs. With a queue and a state they are in the order in which they were or will be
    /// claimed; otherwise the last ones come first.
    ///
    /// # Errors
    /// Those of the store.
    pub fn list(&self, query: &JobQuery) -> JobRequest<'_, Vec<JobRow>> {
        let JobQuery { queue, state, limit } = query.clone();
        JobRequest::new(async move {
            let mut list = self.store.list::<JobRow>().limit(limit);
            let is_range = queue.is_some() && state.is_some();
            if let Some(queue) = queue {
                list = list.filter(JobRow::QUEUE.eq(&*queue));
            }
            if let Some(state) = state {
                list = list.filter(JobRow::STATE.eq(state));
            }
            let order = if is_range { JobRow::RANK.ascending() } else { JobRow::ID.descending() };
            list.order(order).await
        })
    }

    /// Returns a job.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if it does not exist: it was never enqueued, or its time after the
    /// end is over.
    pub fn get(&self, id: JobId) -> JobRequest<'_, JobRow> {
        JobRequest::new(self.read(id))
    }

    async fn read(&self, id: JobId) -> Result<JobRow> {
        self.store.get::<JobRow>(id.0).optional().await?.ok_or_else(|| {
            let message = format!(
                "no job has the id {id}: it was not enqueued here, or was deleted some time after \
                 its end"
            );
            Error::new(ErrorKind::NotFound, message)
        })
    }

    /// Makes a job pending again that has failed, was cancelled or has succeeded, or that waits for
    /// a later time. It gets one more attempt if it has none left.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] for a job that is running or pending, [`ErrorKind::NotFound`].
    pub fn retry(&self, id: JobId) -> JobRequest<'_, JobRow> {
        JobRequest::new(async move {
            for _ in 0..ATTEMPTS {
                let row = self.read(id).await?;
                if row.state.is_claimed() || row.state == JobState::Pending {
                    let message =
                        format!("the job {id} is {}: it needs no retry", row.state.name());
                    return Err(Error::new(ErrorKind::Conflict, message));
                }
                let due = distinct_time(Timestamp::now());
                let values = [
                    (STATE, value(&JobState::Pending)),
                    (RANK, Value::Int(pending_rank(row.priority, due))),
                    (RUN_AT, Value::Timestamp(due)),
                    (ATTEMPTS_MAX, Value::Int(row.attempts_max.max(row.attempts + 1).into())),
                    (FINISHED_AT, Value::Null),
                    (PROGRESS, Value::Null),
                    (PROGRESS_TEXT, Value::Null),
                ];
                if self.change(&row, values).await? {
                    wakeup::notify(self.store.number(), &row.queue, due);
                    return self.read(id).await;
                }
            }
            Err(busy(id))
        })
    }

    /// Cancels a job. One that waits does not run any more. The function of one that runs is
    /// notified ([`crate::JobContext::is_cancelled`]): in this process at once, in others within a
    /// second.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; errors of the store.
    pub fn cancel(&self, id: JobId) -> JobRequest<'_, Cancellation> {
        JobRequest::new(async move {
            for _ in 0..ATTEMPTS {
                let row = self.read(id).await?;
                let now = Timestamp::now();
                match row.state {
                    JobState::Scheduled | JobState::Pending => {
                        let values = [
                            (STATE, value(&JobState::Cancelled)),
                            (RANK, Value::Int(now.micros())),
                            (FINISHED_AT, Value::Timestamp(now)),
                        ];
                        if self.change(&row, values).await? {
                            if row.unique_key.is_some() {
                                let freed = KeyRow::JOB.eq(row.id).and(KeyRow::UNTIL.le(now));
                                self.store.delete_where(freed).await?;
                            }
                            return Ok(Cancellation::Cancelled);
                        }
                    }
                    JobState::Running => {
                        let values = [(STATE, value(&JobState::Cancelling))];
                        if self.change(&row, values).await? {
                            wakeup::cancel(self.store.number(), row.id);
                            return Ok(Cancellation::Requested);
                        }
                    }
                    JobState::Cancelling => {
                        wakeup::cancel(self.store.number(), row.id);
                        return Ok(Cancellation::Requested);
                    }
                    ended => return Ok(Cancellation::TooLate(ended)),
                }
            }
            Err(busy(id))
        })
    }

    /// Counts the jobs of each queue, by state.
    ///
    /// # Errors
    /// Those of the store.
    pub fn statistics(&self) -> JobRequest<'_, Vec<QueueStatistics>> {
        JobRequest::new(statistics::count(&self.store))
    }

    /// Returns the workers of all processes.
    ///
    /// # Errors
    /// Those of the store.
    pub fn workers(&self) -> JobRequest<'_, Vec<WorkerRow>> {
        JobRequest::new(async move { self.store.list::<WorkerRow>().await })
    }

    /// Returns the schedules with their next times.
    ///
    /// # Errors
    /// Those of the store.
    pub fn schedules(&self) -> JobRequest<'_, Vec<ScheduleRow>> {
        JobRequest::new(async move { self.store.list::<ScheduleRow>().await })
    }

    /// Updates a job at the version that was read. Returns false if it has changed since.
    async fn change(
        &self,
        row: &JobRow,
        values: impl IntoIterator<Item = (usize, Value)>,
    ) -> Result<bool> {
        let table = self.store.registry().of::<JobRow>()?;
        let write = [writes::update(table, row.id, row.version, values)];
        match writes::each(&self.store, &write).await?.pop() {
            Some(Err(error)) if is_other_version(&error) => Ok(false),
            Some(Err(error)) => Err(error),
            _ => Ok(true),
        }
    }
}

impl fmt::Debug for JobAdmin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JobAdmin").field(&self.store).finish()
    }
}

#[cold]
fn busy(id: JobId) -> Error {
    let message = format!("the job {id} changed {ATTEMPTS} times meanwhile; try again");
    Error::new(ErrorKind::Busy, message)
}

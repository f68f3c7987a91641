//! Enqueueing jobs: alone, several at once, in the caller's transaction, or in a batch.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result, Timestamp, Uuid};
use marmota_store::action::block_on;
use marmota_store::batch::Batch;
use marmota_store::{Store, Transaction};

use crate::job::Job;
use crate::models::{JobRow, JobState, KeyRow, distinct_time, pending_rank};
use crate::options::{JobId, JobOptions};
use crate::request::JobRequest;
use crate::wakeup::notify;

/// The maximum size of an input, as JSON.
pub const INPUT_BYTES_MAX: usize = 256 * 1024;
/// The maximum length of a unique key, with the name of the kind.
const KEY_BYTES_MAX: usize = 500;
/// The maximum length of the name of a queue or a kind.
pub(crate) const NAME_BYTES_MAX: usize = 100;
/// How often a unique key is tried again if its holder ends meanwhile.
const KEY_ATTEMPTS: u32 = 5;
/// On an engine without transactions, a key is written before its job: for this time, a key without
/// a job is taken for one whose job comes.
const KEY_GRACE: Duration = Duration::from_secs(10);

/// The result of enqueueing a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// The id of the job, or of the job that has the same unique key.
    pub id: JobId,
    /// False if a job with the same unique key exists: nothing was enqueued.
    pub is_new: bool,
}

/// Enqueues jobs: a method of [`Store`] and [`Transaction`].
///
/// In a transaction, the job exists exactly if the transaction is committed.
///
/// ```
/// use marmota_jobs::{EnqueueJobs as _, JobContext, job};
/// use marmota_memory::Memory;
/// use marmota_model::Result;
/// use marmota_store::Store;
///
/// #[job]
/// async fn send_mail(to: String) -> Result<()> {
///     println!("Dear {to}");
///     Ok(())
/// }
///
/// let store = marmota_jobs::models(Store::builder(Memory::new())).open()?;
/// store.enqueue(&SendMail { to: "ada@example.org".into() }).run()?; // in async code: `.await?`
/// store.transaction(|transaction| {
///     // … other writes
///     transaction.enqueue(&SendMail { to: "emmy@example.org".into() }).run()
/// })?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub trait EnqueueJobs {
    /// Returns the enqueueing of a job, which is executed by `.await` or [`Enqueue::run`].
    fn enqueue<J: Job>(&self, job: &J) -> Enqueue<'_>;

    /// Enqueues several jobs of one kind, all or none. Returns their ids, in the same order.
    ///
    /// # Errors
    /// Those of [`Enqueue::run`]. The kind must not have unique keys.
    fn enqueue_many<J: Job>(&self, jobs: &[J]) -> JobRequest<'_, Vec<JobId>>;
}

impl EnqueueJobs for Store {
    fn enqueue<J: Job>(&self, job: &J) -> Enqueue<'_> {
        Enqueue::new(self, None, job)
    }

    fn enqueue_many<J: Job>(&self, jobs: &[J]) -> JobRequest<'_, Vec<JobId>> {
        many(self, None, jobs)
    }
}

impl EnqueueJobs for Transaction {
    fn enqueue<J: Job>(&self, job: &J) -> Enqueue<'_> {
        Enqueue::new(self, Some(self), job)
    }

    fn enqueue_many<J: Job>(&self, jobs: &[J]) -> JobRequest<'_, Vec<JobId>> {
        many(self, Some(self), jobs)
    }
}

/// Enqueues jobs as writes of a [`Batch`].
pub trait EnqueueInBatch {
    /// Adds the insert of a job to the batch. Returns its id.
    ///
    /// # Errors
    /// Those of [`Enqueue::run`]. The kind must not have unique keys.
    fn enqueue<J: Job>(&mut self, job: &J) -> Result<JobId>;
}

impl EnqueueInBatch for Batch<'_> {
    fn enqueue<J: Job>(&mut self, job: &J) -> Result<JobId> {
        let row = plain_row(job, Timestamp::now())?;
        self.insert(&row);
        Ok(JobId(row.id))
    }
}

/// The enqueueing of one job.
#[must_use = "nothing is enqueued until it is awaited or run"]
pub struct Enqueue<'s> {
    store: &'s Store,
    transaction: Option<&'s Transaction>,
    row: Result<JobRow>,
    run_at: Option<Timestamp>,
    unique_for: Option<Duration>,
}

impl<'s> Enqueue<'s> {
    fn new<J: Job>(store: &'s Store, transaction: Option<&'s Transaction>, job: &J) -> Self {
        let options = J::options();
        let row = row_of(job, &options, Timestamp::now());
        Self { store, transaction, row, run_at: None, unique_for: options.unique_for }
    }

    fn change(mut self, change: impl FnOnce(&mut JobRow)) -> Self {
        if let Ok(row) = &mut self.row {
            change(row);
        }
        self
    }

    /// Sets the time from now after which the job is due. Default: it is due at once.
    pub fn delay(self, time: Duration) -> Self {
        let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let due = Timestamp::now().micros().saturating_add(micros);
        match Timestamp::from_micros(due) {
            Ok(due) => self.run_at(due),
            Err(error) => {
                Self { row: Err(Error::new(ErrorKind::Invalid, error.to_string())), ..self }
            }
        }
    }

    /// Sets the time at which the job is due. Default: it is due at once.
    pub fn run_at(mut self, time: Timestamp) -> Self {
        self.run_at = Some(time);
        self
    }

    /// Sets the priority, instead of the kind's.
    pub fn priority(self, priority: i8) -> Self {
        self.change(|row| row.priority = priority)
    }

    /// Sets the queue, instead of the kind's.
    pub fn queue(self, queue: &str) -> Self {
        self.change(|row| queue.clone_into(&mut row.queue))
    }

    /// Sets how often a failed attempt is repeated, instead of the kind's number.
    pub fn retries(self, retries: u32) -> Self {
        let attempts = retries.min(JobOptions::RETRIES_MAX) as i32 + 1;
        self.change(|row| row.attempts_max = attempts)
    }

    /// Sets a unique key. While a job of this kind with this key has not ended, no other is
    /// enqueued.
    pub fn unique(self, key: &str) -> Self {
        self.change(|row| row.unique_key = Some(key.to_owned()))
    }

    /// Sets a time since now for which the unique key blocks equal jobs, also if the job ends
    /// earlier.
    pub fn unique_for(mut self, time: Duration) -> Self {
        self.unique_for = Some(time);
        self
    }

    /// Enqueues the job, and blocks the thread while it waits.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an input that has no JSON form or more than [`INPUT_BYTES_MAX`]
    /// bytes, a name of a queue or a unique key that is empty or too long; errors of the store.
    pub fn run(self) -> Result<Enqueued> {
        block_on(self.enqueue())
    }

    async fn enqueue(self) -> Result<Enqueued> {
        let Self { store, transaction, row, run_at, unique_for } = self;
        let mut row = row?;
        check_name("queue", &row.queue)?;
        let now = row.created_at;
        place(&mut row, run_at.filter(|at| *at > now));
        let due = row.run_at;
        let enqueued = match row.unique_key.clone() {
            None => {
                let id = JobId(store.insert(&row).await?);
                Enqueued { id, is_new: true }
            }
            Some(key) => unique(store, &row, &key, unique_for).await?,
        };
        if enqueued.is_new {
            announce(store, transaction, row.queue, due);
        }
        Ok(enqueued)
    }
}

impl<'s> IntoFuture for Enqueue<'s> {
    type Output = Result<Enqueued>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Enqueued>> + Send + 's>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.enqueue())
    }
}

/// Wakes the workers of this process, once the job is committed.
fn announce(store: &Store, transaction: Option<&Transaction>, queue: String, due: Timestamp) {
    let number = store.number();
    match transaction {
        Some(transaction) => transaction.after_commit(move || notify(number, &queue, due)),
        None => notify(number, &queue, due),
    }
}

fn many<'s, J: Job>(
    store: &'s Store,
    transaction: Option<&'s Transaction>,
    jobs: &[J],
) -> JobRequest<'s, Vec<JobId>> {
    let now = Timestamp::now();
    let rows: Result<Vec<JobRow>> = jobs.iter().map(|job| plain_row(job, now)).collect();
    JobRequest::new(async move {
        let rows = rows?;
        let Some(last) = rows.last() else { return Ok(Vec::new()) };
        let ids = store.insert_many(&rows).await?;
        announce(store, transaction, last.queue.clone(), last.run_at);
        Ok(ids.into_iter().map(JobId).collect())
    })
}

/// Returns the row of a job that is due now and has no unique key.
fn plain_row<J: Job>(job: &J, now: Timestamp) -> Result<JobRow> {
    let mut row = row_of(job, &J::options(), now)?;
    if row.unique_key.is_some() {
        let message = format!(
            "jobs of the kind `{}` have unique keys: enqueue them one by one with `Store::enqueue`",
            row.kind
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    place(&mut row, None);
    Ok(row)
}

/// Sets the state and the rank of a new job.
pub(crate) fn place(row: &mut JobRow, later: Option<Timestamp>) {
    match later {
        Some(at) => (row.state, row.rank, row.run_at) = (JobState::Scheduled, at.micros(), at),
        None => {
            row.run_at = distinct_time(row.created_at);
            row.state = JobState::Pending;
            row.rank = pending_rank(row.priority, row.run_at);
        }
    }
}

/// Returns the row of a job, without its place.
pub(crate) fn row_of<J: Job>(job: &J, options: &JobOptions, now: Timestamp) -> Result<JobRow> {
    let input = serde_json::to_string(job).map_err(|error| {
        let message = format!("the input of a job `{}` has no JSON form: {error}", J::NAME);
        Error::new(ErrorKind::Invalid, message).with_source(error)
    })?;
    if input.len() > INPUT_BYTES_MAX {
        let message = format!(
            "the input of a job `{}` has {} bytes as JSON; at most {INPUT_BYTES_MAX} are allowed: \
             store large data in a row, and pass its key",
            J::NAME,
            input.len()
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(JobRow {
        id: Uuid::now_v7(),
        queue: options.queue.to_owned(),
        kind: J::NAME.to_owned(),
        input,
        state: JobState::Pending,
        rank: 0,
        priority: options.priority,
        attempts: 0,
        attempts_max: options.retries as i32 + 1,
        holder: None,
        unique_key: job.unique_key()?,
        progress: None,
        progress_text: None,
        error: None,
        created_at: now,
        run_at: now,
        started_at: None,
        finished_at: None,
        version: 0,
    })
}

/// Checks the name of a queue or a kind.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let message = format!(
            "the name of a {what} must have 1 to {NAME_BYTES_MAX} bytes; `{}` has {}",
            marmota_model::text::excerpt(name),
            name.len()
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(())
}

/// Inserts a job with a unique key, unless another job has the key.
async fn unique(
    store: &Store,
    row: &JobRow,
    key: &str,
    unique_for: Option<Duration>,
) -> Result<Enqueued> {
    let id = format!("{}:{key}", row.kind);
    if key.is_empty() || id.len() > KEY_BYTES_MAX {
        let message = format!(
            "the unique key of a job `{}` must have 1 to {} bytes; it has {}: use fewer fields in \
             `unique(…)`",
            row.kind,
            KEY_BYTES_MAX - row.kind.len() - 1,
            key.len()
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let until = unique_for.map_or(0, |time| {
        row.created_at.micros().saturating_add(i64::try_from(time.as_micros()).unwrap_or(i64::MAX))
    });
    let until = Timestamp::from_micros(until).unwrap_or_default();
    let held = KeyRow { id, job: row.id, until, at: row.created_at };
    for _ in 0..KEY_ATTEMPTS {
        let inserted = if store.capability().transactions {
            let mut batch = store.batch();
            batch.insert(&held);
            batch.insert(row);
            batch.all_or_nothing().await.map(drop)
        } else {
            match store.insert(&held).await {
                Ok(_) => store.insert(row).await.map(drop),
                Err(error) => Err(error),
            }
        };
        match inserted {
            Ok(()) => return Ok(Enqueued { id: JobId(row.id), is_new: true }),
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            Err(error) => return Err(error),
        }
        let Some(other) = store.get::<KeyRow>(&*held.id).optional().await? else { continue };
        if blocks(store, &other, row.created_at).await? {
            return Ok(Enqueued { id: JobId(other.job), is_new: false });
        }
        let stale = KeyRow::ID.eq(other.id).and(KeyRow::JOB.eq(other.job));
        store.delete_where(stale).await?;
    }
    let message = format!(
        "the unique key `{}` changed its holder {KEY_ATTEMPTS} times meanwhile; try again",
        marmota_model::text::excerpt(key)
    );
    Err(Error::new(ErrorKind::Busy, message))
}

/// Returns true if a key still blocks other jobs.
async fn blocks(store: &Store, key: &KeyRow, now: Timestamp) -> Result<bool> {
    if key.until > now {
        return Ok(true);
    }
    Ok(match store.get::<JobRow>(key.job).optional().await? {
        Some(job) => !job.state.is_finished(),
        None => {
            let age = now.micros() - key.at.micros();
            !store.capability().transactions && age < KEY_GRACE.as_micros() as i64
        }
    })
}

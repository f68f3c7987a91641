//! The tables of jobs: rows of the store.
//!
//! | table | a row is |
//! |---|---|
//! | `marmota_job` | a job: its input, its state, and who executes it |
//! | `marmota_job_key` | the unique key of a job, while it blocks others with this key |
//! | `marmota_job_worker` | a worker, with the end of its lease |
//! | `marmota_job_schedule` | a schedule, with the time of its next job |
//!
//! The index `(queue, state, rank)` of jobs serves everything: claiming reads the range of pending
//! jobs, which has no finished rows, retention reads the range of finished ones. The meaning of
//! `rank` depends on the state:
//!
//! | state | rank |
//! |---|---|
//! | scheduled | the time at which the job is due, in microseconds |
//! | pending | the priority in the upper bits, highest first, then the time at which it was due |
//! | running, cancelling | the time of the start |
//! | succeeded, failed, cancelled | the time of the end |
#![allow(unreachable_pub, reason = "the derive gives columns the visibility of their fields")]

pub(crate) mod writes;

use std::sync::atomic::{AtomicI64, Ordering};

use marmota_derive::{Model, ModelEnum};
use marmota_model::{Timestamp, Uuid};
use marmota_store::StoreBuilder;

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ModelEnum)]
#[model(integer)]
pub enum JobState {
    /// It is due at a later time: enqueued with a delay, or to be repeated after a failure.
    Scheduled = 0,
    /// It is due, and a worker can claim it.
    Pending = 1,
    /// A worker has claimed it.
    Running = 2,
    /// A worker has claimed it, and it is to be cancelled.
    Cancelling = 3,
    /// It has succeeded.
    Succeeded = 4,
    /// All of its attempts have failed.
    Failed = 5,
    /// It was cancelled.
    Cancelled = 6,
}

impl JobState {
    /// All states, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Scheduled,
        Self::Pending,
        Self::Running,
        Self::Cancelling,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Returns true if the job has ended.
    ///
    /// ```
    /// use marmota_jobs::JobState;
    /// assert!(JobState::Failed.is_finished() && !JobState::Scheduled.is_finished());
    /// ```
    #[must_use]
    pub const fn is_finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }

    /// Returns true if a worker has the job.
    #[must_use]
    pub const fn is_claimed(self) -> bool {
        matches!(self, Self::Running | Self::Cancelling)
    }

    /// Returns the name in lower case, as the command line has it.
    ///
    /// ```
    /// assert_eq!(marmota_jobs::JobState::Pending.name(), "pending");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Cancelling => "cancelling",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A job, as the store has it.
#[derive(Clone, Debug, Model)]
#[model(table = "marmota_job", index(queue, state, rank))]
pub struct JobRow {
    /// The primary key. Keys of later jobs are higher.
    pub id: Uuid,
    /// The queue.
    pub queue: String,
    /// The name of the function.
    pub kind: String,
    /// The input, as JSON.
    pub input: String,
    /// The state.
    pub state: JobState,
    /// The place within the state; see the module.
    pub(crate) rank: i64,
    /// The priority: jobs with a higher number are claimed first.
    pub priority: i8,
    /// The number of attempts that have begun.
    pub attempts: i32,
    /// The number of attempts after which a failure is final.
    pub attempts_max: i32,
    /// The worker that has the job.
    pub holder: Option<Uuid>,
    /// The unique key.
    pub unique_key: Option<String>,
    /// The progress in percent, as the job has reported it.
    pub progress: Option<i32>,
    /// The text of the progress.
    pub progress_text: Option<String>,
    /// The error of the last attempt that failed.
    pub error: Option<String>,
    /// The time at which it was enqueued.
    pub created_at: Timestamp,
    /// The time at which it is due.
    pub run_at: Timestamp,
    /// The start of the last attempt.
    pub started_at: Option<Timestamp>,
    /// The end.
    pub finished_at: Option<Timestamp>,
    /// The number of writes to this row.
    #[model(version)]
    pub version: i64,
}

/// The columns of the table of jobs, by place.
pub(crate) mod column {
    pub(crate) const ID: usize = 0;
    pub(crate) const QUEUE: usize = 1;
    pub(crate) const KIND: usize = 2;
    pub(crate) const INPUT: usize = 3;
    pub(crate) const STATE: usize = 4;
    pub(crate) const RANK: usize = 5;
    pub(crate) const PRIORITY: usize = 6;
    pub(crate) const ATTEMPTS: usize = 7;
    pub(crate) const ATTEMPTS_MAX: usize = 8;
    pub(crate) const HOLDER: usize = 9;
    pub(crate) const UNIQUE_KEY: usize = 10;
    pub(crate) const PROGRESS: usize = 11;
    pub(crate) const PROGRESS_TEXT: usize = 12;
    pub(crate) const ERROR: usize = 13;
    pub(crate) const RUN_AT: usize = 15;
    pub(crate) const STARTED_AT: usize = 16;
    pub(crate) const FINISHED_AT: usize = 17;
    pub(crate) const VERSION: usize = 18;
    pub(crate) const COUNT: usize = 19;
}

/// The unique key of a job.
#[derive(Clone, Debug, Model)]
#[model(table = "marmota_job_key")]
pub(crate) struct KeyRow {
    /// The key, after the kind of the job.
    pub(crate) id: String,
    #[model(index)]
    pub(crate) job: Uuid,
    /// It blocks others until then, also if its job has ended.
    #[model(index)]
    pub(crate) until: Timestamp,
    pub(crate) at: Timestamp,
}

/// A worker of a process.
#[derive(Clone, Debug, Model)]
#[model(table = "marmota_job_worker")]
pub struct WorkerRow {
    /// The primary key: the holder of its jobs.
    pub id: Uuid,
    /// The machine and the process.
    pub name: String,
    /// The names of its queues, as a JSON array.
    pub(crate) queues: String,
    /// The start.
    pub started_at: Timestamp,
    /// The end of its lease. After that, other workers take its jobs.
    pub until: Timestamp,
    #[model(version)]
    pub(crate) version: i64,
}

/// A schedule.
#[derive(Clone, Debug, Model)]
#[model(table = "marmota_job_schedule")]
pub struct ScheduleRow {
    /// The name.
    pub id: String,
    /// The pattern and the time zone.
    pub pattern: String,
    /// The time of the next job.
    pub next_at: Timestamp,
    /// The time for which the last job was enqueued.
    pub last_at: Option<Timestamp>,
    #[model(version)]
    pub(crate) version: i64,
}

/// Adds the tables of jobs to a store's builder, unless it has them.
///
/// ```
/// use marmota_memory::Memory;
/// use marmota_store::Store;
/// let store = marmota_jobs::models(Store::builder(Memory::new())).open()?;
/// assert!(store.table("marmota_job").is_ok());
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[must_use]
pub fn models(builder: StoreBuilder) -> StoreBuilder {
    if builder.has_model("marmota_job") {
        return builder;
    }
    builder.model::<JobRow>().model::<KeyRow>().model::<WorkerRow>().model::<ScheduleRow>()
}

/// The bits of a rank that have the time: enough until the year 2112.
const TIME_BITS: u32 = 52;

/// The first rank of a priority, among pending jobs.
pub(crate) const fn rank_of_priority(priority: i8) -> i64 {
    (i8::MAX as i64 - priority as i64) << TIME_BITS
}

/// The rank of a pending job that is due at this time.
pub(crate) fn pending_rank(priority: i8, due: Timestamp) -> i64 {
    rank_of_priority(priority) | due.micros().clamp(0, (1 << TIME_BITS) - 1)
}

/// The time in the rank of a pending job.
pub(crate) fn due_of_rank(rank: i64) -> Timestamp {
    Timestamp::from_micros(rank & ((1 << TIME_BITS) - 1)).unwrap_or_default()
}

/// Returns a time that no other call of this process has returned: jobs that are enqueued one after
/// the other are claimed in this order.
pub(crate) fn distinct_time(now: Timestamp) -> Timestamp {
    static LAST: AtomicI64 = AtomicI64::new(0);
    let now_us = now.micros();
    let next = |last: i64| {
        // A clock that was set back starts a new sequence.
        let is_ahead = last >= now_us && last - now_us < 1_000_000;
        Some(if is_ahead { last + 1 } else { now_us })
    };
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(now_us);
    Timestamp::from_micros(next(last).unwrap_or(now_us)).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_jobs_are_ordered_by_priority_and_then_by_time() {
        let at = |us| Timestamp::from_micros(us).unwrap();
        let now = 1_800_000_000_000_000;
        assert!(pending_rank(1, at(now + 5)) < pending_rank(0, at(now)));
        assert!(pending_rank(0, at(now)) < pending_rank(0, at(now + 1)));
        assert!(pending_rank(i8::MAX, at(now)) < pending_rank(i8::MIN, at(now)));
        assert_eq!(due_of_rank(pending_rank(-7, at(now))), at(now));
    }

    #[test]
    fn the_places_of_columns_are_those_of_the_schema() {
        use marmota_model::Model as _;
        let fields = &JobRow::schema().fields;
        assert_eq!(fields.len(), column::COUNT);
        for (place, name) in [
            (column::ID, "id"),
            (column::QUEUE, "queue"),
            (column::KIND, "kind"),
            (column::INPUT, "input"),
            (column::STATE, "state"),
            (column::RANK, "rank"),
            (column::PRIORITY, "priority"),
            (column::ATTEMPTS, "attempts"),
            (column::ATTEMPTS_MAX, "attempts_max"),
            (column::HOLDER, "holder"),
            (column::UNIQUE_KEY, "unique_key"),
            (column::PROGRESS, "progress"),
            (column::PROGRESS_TEXT, "progress_text"),
            (column::ERROR, "error"),
            (column::RUN_AT, "run_at"),
            (column::STARTED_AT, "started_at"),
            (column::FINISHED_AT, "finished_at"),
            (column::VERSION, "version"),
        ] {
            assert_eq!(fields[place].name, name);
        }
    }
}

//! Numbers of jobs: of the whole store by queue and state, and of one worker for metrics.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use marmota_model::{Filter, Result};
use marmota_store::Store;
use parking_lot::Mutex;

use crate::models::{JobRow, JobState, due_of_rank, rank_of_priority};
use crate::worker::Worker;
use crate::worker::shared::Shared;

/// The jobs of a queue, as the store has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct QueueStatistics {
    /// The name of the queue.
    pub queue: String,
    /// Jobs that are due later, also those that wait for a retry.
    pub scheduled: u64,
    /// Jobs that are due.
    pub pending: u64,
    /// Jobs that a worker has claimed.
    pub running: u64,
    /// Jobs that have succeeded and are still kept.
    pub succeeded: u64,
    /// Jobs that have failed and are still kept.
    pub failed: u64,
    /// Jobs that were cancelled and are still kept.
    pub cancelled: u64,
    /// How long the oldest pending job has been due, in milliseconds.
    pub oldest_pending_ms: Option<u64>,
}

/// Counts the jobs of each queue.
///
/// Queues are found by the index, without reading all jobs.
pub(crate) async fn count(store: &Store) -> Result<Vec<QueueStatistics>> {
    let mut queues = Vec::new();
    let mut last: Option<String> = None;
    loop {
        let mut list = store.list::<JobRow>().order(JobRow::QUEUE.ascending()).limit(1);
        if let Some(last) = &last {
            list = list.filter(JobRow::QUEUE.gt(&**last));
        }
        let Some(queue) = list.column(JobRow::QUEUE).await?.pop() else { return Ok(queues) };
        queues.push(count_queue(store, &queue).await?);
        last = Some(queue);
    }
}

/// Counts the jobs of a queue.
pub(crate) async fn count_queue(store: &Store, queue: &str) -> Result<QueueStatistics> {
    let mut statistics = QueueStatistics { queue: queue.to_owned(), ..Default::default() };
    for state in JobState::ALL {
        let count = store.count::<JobRow>().filter(of(queue, state)).await?;
        match state {
            JobState::Scheduled => statistics.scheduled = count,
            JobState::Pending => statistics.pending = count,
            JobState::Running | JobState::Cancelling => statistics.running += count,
            JobState::Succeeded => statistics.succeeded = count,
            JobState::Failed => statistics.failed = count,
            JobState::Cancelled => statistics.cancelled = count,
        }
    }
    statistics.oldest_pending_ms = oldest(store, queue).await?;
    Ok(statistics)
}

fn of(queue: &str, state: JobState) -> Filter<JobRow> {
    JobRow::QUEUE.eq(queue).and(JobRow::STATE.eq(state))
}

/// Returns the age of the oldest pending job. The first job of each priority is its oldest.
async fn oldest(store: &Store, queue: &str) -> Result<Option<u64>> {
    let (mut oldest, mut from) = (None, i64::MIN);
    loop {
        let rest = of(queue, JobState::Pending).and(JobRow::RANK.ge(from));
        let first = store.list::<JobRow>().filter(rest).order(JobRow::RANK.ascending()).limit(1);
        let Some(first) = first.await?.pop() else { break };
        let due = due_of_rank(first.rank);
        oldest = Some(oldest.map_or(due, |known: marmota_model::Timestamp| known.min(due)));
        if first.priority == i8::MIN {
            break;
        }
        from = rank_of_priority(first.priority - 1);
    }
    let now = marmota_model::Timestamp::now().micros();
    Ok(oldest.map(|due| u64::try_from(now - due.micros()).unwrap_or(0) / 1_000))
}

/// The numbers of one worker: what it has done since its start.
///
/// A clone refers to the same worker. It does not keep the worker alive.
#[derive(Clone)]
pub struct WorkerMetrics {
    shared: Weak<Shared>,
    /// The numbers of the store, which are read at most every 5 seconds.
    stored: Arc<Mutex<Stored>>,
}

#[derive(Default)]
struct Stored {
    at: Option<std::time::Instant>,
    queues: Vec<QueueStatistics>,
}

/// What a worker has done with the jobs of a queue since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct WorkerStatistics {
    /// The name of the queue.
    pub queue: String,
    /// The number of jobs that are executed at this moment.
    pub executing: u64,
    /// Attempts that have succeeded.
    pub succeeded: u64,
    /// Attempts that have failed and are repeated.
    pub retried: u64,
    /// Jobs whose last attempt has failed.
    pub failed: u64,
    /// Jobs that were cancelled while they ran.
    pub cancelled: u64,
    /// Attempts whose job another worker has taken.
    pub lost: u64,
}

impl Worker {
    /// Returns the numbers of this worker, for metrics.
    #[must_use]
    pub fn metrics(&self) -> WorkerMetrics {
        WorkerMetrics::new(&self.shared)
    }
}

impl WorkerMetrics {
    fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::downgrade(shared), stored: Arc::default() }
    }

    /// Returns what the worker has done, by queue; empty after its end.
    #[must_use]
    pub fn statistics(&self) -> Vec<WorkerStatistics> {
        let Some(shared) = self.shared.upgrade() else { return Vec::new() };
        let get = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let queues = shared.queues.iter().map(|queue| WorkerStatistics {
            queue: queue.name.to_string(),
            executing: queue.state.lock().slots as u64,
            succeeded: get(&queue.counts.succeeded),
            retried: get(&queue.counts.retried),
            failed: get(&queue.counts.failed),
            cancelled: get(&queue.counts.cancelled),
            lost: get(&queue.counts.lost),
        });
        queues.collect()
    }

    /// Returns the jobs of the worker's queues as the store has them. They are read at most every 5
    /// seconds; if the store is not available, the last numbers are returned.
    #[must_use]
    pub fn queues(&self) -> Vec<QueueStatistics> {
        const KEPT: Duration = Duration::from_secs(5);
        let Some(shared) = self.shared.upgrade() else { return Vec::new() };
        let mut stored = self.stored.lock();
        if stored.at.is_none_or(|at| at.elapsed() >= KEPT) {
            let store = &shared.host.store;
            let names = shared.queues.iter().map(|queue| &*queue.name);
            let counted: Result<Vec<_>> = names
                .map(|name| marmota_store::action::block_on(count_queue(store, name)))
                .collect();
            match counted {
                Ok(queues) => stored.queues = queues,
                Err(error) => log::warn!("jobs cannot be counted: {error}"),
            }
            stored.at = Some(std::time::Instant::now());
        }
        stored.queues.clone()
    }

    /// Appends the numbers in the text format of Prometheus, for a collector of the server's
    /// metrics. Rates follow from the counters: `rate(marmota_job_attempts_total[1m])`.
    ///
    /// ```
    /// # use marmota_jobs::{Jobs, WorkerOptions, job};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[job]
    /// # async fn send_mail(to: String) -> marmota_model::Result<()> { Ok(()) }
    /// # let store = marmota_jobs::models(Store::builder(Memory::new())).open()?;
    /// let worker = Jobs::new(&store).register::<SendMail>()?.start(WorkerOptions::new())?;
    /// let mut text = String::new();
    /// worker.metrics().write_prometheus(&mut text);
    /// assert!(text.contains("marmota_jobs{queue=\"default\",state=\"pending\"} 0\n"));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn write_prometheus(&self, text: &mut String) {
        let workers = self.statistics();
        if workers.is_empty() {
            return;
        }
        let queues = self.queues();
        text.push_str(
            "# HELP marmota_jobs Jobs of the store, by queue and state.\n\
             # TYPE marmota_jobs gauge\n",
        );
        for of in &queues {
            let queue = escaped(&of.queue);
            for (state, count) in [
                ("scheduled", of.scheduled),
                ("pending", of.pending),
                ("running", of.running),
                ("succeeded", of.succeeded),
                ("failed", of.failed),
                ("cancelled", of.cancelled),
            ] {
                let labels = format_args!("queue=\"{queue}\",state=\"{state}\"");
                let _ = writeln!(text, "marmota_jobs{{{labels}}} {count}");
            }
        }
        text.push_str(
            "# HELP marmota_job_oldest_seconds How long the oldest pending job has been due.\n\
             # TYPE marmota_job_oldest_seconds gauge\n",
        );
        for of in &queues {
            let age = of.oldest_pending_ms.unwrap_or(0) as f64 / 1e3;
            let queue = escaped(&of.queue);
            let _ = writeln!(text, "marmota_job_oldest_seconds{{queue=\"{queue}\"}} {age}");
        }
        text.push_str(
            "# HELP marmota_job_attempts_total Attempts of this process that have ended.\n\
             # TYPE marmota_job_attempts_total counter\n",
        );
        for of in &workers {
            let queue = escaped(&of.queue);
            for (end, count) in [
                ("succeeded", of.succeeded),
                ("retried", of.retried),
                ("failed", of.failed),
                ("cancelled", of.cancelled),
                ("lost", of.lost),
            ] {
                let labels = format_args!("queue=\"{queue}\",end=\"{end}\"");
                let _ = writeln!(text, "marmota_job_attempts_total{{{labels}}} {count}");
            }
        }
        text.push_str(
            "# HELP marmota_jobs_executing Jobs that this process executes.\n\
             # TYPE marmota_jobs_executing gauge\n",
        );
        for of in &workers {
            let (queue, count) = (escaped(&of.queue), of.executing);
            let _ = writeln!(text, "marmota_jobs_executing{{queue=\"{queue}\"}} {count}");
        }
    }
}

impl std::fmt::Debug for WorkerMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("WorkerMetrics").field(&self.statistics()).finish()
    }
}

/// Returns the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

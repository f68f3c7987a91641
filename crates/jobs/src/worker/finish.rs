//! The thread that writes the ends of attempts, many in one commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use marmota_model::text::counted;
use marmota_model::{Error, ErrorKind, Result, Timestamp, Uuid, Value};
use marmota_store::backoff::Backoff;
use marmota_store::operation::Write;

use super::claim::{Claimed, is_postgres};
use super::shared::{Queue, Shared};
use crate::context::{Attempt, is_other_version};
use crate::models::column::{
    ATTEMPTS, ERROR, HOLDER, PROGRESS, PROGRESS_TEXT, RANK, RUN_AT, STATE,
};
use crate::models::writes::{self, value};
use crate::models::{JobRow, JobState, KeyRow, pending_rank};

/// The most ends of one commit.
const COMMIT_MAX: usize = 2_000;
/// The maximum length of a stored error, in characters.
const ERROR_CHARS_MAX: usize = 2_000;

/// A job that this worker gives up.
pub(crate) struct Ended {
    pub(crate) queue: usize,
    pub(crate) job: Claimed,
    /// `None` if it was never started.
    pub(crate) attempt: Option<Arc<Attempt>>,
    pub(crate) end: End,
}

/// How an attempt has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Succeeded,
    /// A transaction of the function has ended the job.
    InTransaction,
    /// It is executed again at this time.
    Retry(Timestamp, String),
    Failed(String),
    Cancelled(String),
    /// The worker stops: the attempt does not count.
    HandedBack,
    /// Another worker has the job.
    Lost,
}

impl Ended {
    fn version(&self) -> i64 {
        self.attempt
            .as_ref()
            .map_or(self.job.version, |attempt| attempt.version.load(Ordering::Acquire))
    }

    fn state(&self) -> JobState {
        match self.end {
            End::Succeeded | End::InTransaction | End::Lost => JobState::Succeeded,
            End::Retry(..) => JobState::Scheduled,
            End::Failed(_) => JobState::Failed,
            End::Cancelled(_) => JobState::Cancelled,
            End::HandedBack => JobState::Pending,
        }
    }
}

impl Shared {
    /// Writes ends until the worker is over.
    pub(crate) fn write_ends(&self) {
        loop {
            let batch: Vec<Ended> = {
                let mut ended = self.ended.lock();
                while ended.is_empty() {
                    if self.is_over.load(Ordering::Acquire) {
                        return;
                    }
                    self.has_ended.wait(&mut ended);
                }
                let count = ended.len().min(COMMIT_MAX);
                ended.drain(..count).collect()
            };
            self.write_batch(&batch);
            self.made_room();
        }
    }

    /// Writes some ends; repeats it while the store is not available.
    fn write_batch(&self, batch: &[Ended]) {
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(2));
        // After the worker was stopped.
        let mut attempts = 5_u32;
        let jobs = counted(batch.len() as u64, "job");
        loop {
            match self.try_to_write(batch) {
                Ok(()) => return,
                Err(error) if error.kind() == ErrorKind::Closed => {
                    log::warn!("{jobs} ended after the store: {error}");
                    return;
                }
                // Their lease ends, and they are executed again.
                Err(error) if self.is_over.load(Ordering::Acquire) && attempts == 0 => {
                    log::error!("could not store the end of {jobs}: {error}");
                    return;
                }
                Err(error) => {
                    attempts -= u32::from(self.is_over.load(Ordering::Acquire));
                    log::warn!("trying again to store the end of {jobs}: {error}");
                    thread::sleep(backoff.pause());
                }
            }
        }
    }

    fn try_to_write(&self, batch: &[Ended]) -> Result<()> {
        let now = self.now();
        let (mut writes, mut written) = (Vec::with_capacity(batch.len()), Vec::new());
        let mut lost = self.end_by_sql(batch, now)?;
        for ended in batch.iter().filter(|ended| !self.is_ended_by_sql(ended)) {
            if let Some(write) = self.write_of(ended, ended.version(), now) {
                writes.push(write);
                written.push(ended);
            }
        }
        let store = &self.host.store;
        let at_once = match store.capability().transactions {
            true => writes::all(store, &writes).run(),
            false => Err(Error::new(ErrorKind::Stale, "each write is alone")),
        };
        match at_once {
            Ok(_) => {}
            Err(error) if is_transient(&error) => return Err(error),
            Err(_) => {
                let results = writes::each(store, &writes).run()?;
                for (ended, result) in written.iter().zip(results) {
                    match result {
                        Ok(_) => {}
                        Err(error) if is_other_version(&error) => {
                            if !self.write_again(ended, now)? {
                                lost.push(ended.job.id);
                            }
                        }
                        Err(error) if is_transient(&error) => return Err(error),
                        Err(error) => {
                            log::error!("the end of the job {} is lost: {error}", ended.job.id);
                            lost.push(ended.job.id);
                        }
                    }
                }
            }
        }
        self.free_keys(batch, now)?;
        for ended in batch {
            self.count(ended, lost.contains(&ended.job.id));
        }
        Ok(())
    }

    /// Returns true if [`Shared::end_by_sql`] writes the end.
    fn is_ended_by_sql(&self, ended: &Ended) -> bool {
        let is_kept = ended.end == End::Succeeded && self.host.keeps_succeeded;
        is_kept && is_postgres(&self.host.store)
    }

    /// Writes the ends of succeeded jobs by one statement, on PostgreSQL. The holder is the fence.
    /// Returns the jobs that other workers have taken.
    fn end_by_sql(&self, batch: &[Ended], now: Timestamp) -> Result<Vec<Uuid>> {
        /// The numbers of ids in a statement, so that few statements are prepared.
        const SIZES: [usize; 4] = [1, 30, 300, COMMIT_MAX];
        let ended: Vec<&Ended> = batch.iter().filter(|ended| self.is_ended_by_sql(ended)).collect();
        let mut lost = Vec::new();
        // After a lost lease, two holders are possible.
        for of_holder in ended.chunk_by(|a, b| a.job.holder == b.job.holder) {
            let count = of_holder.len();
            let size = SIZES.into_iter().find(|size| *size >= count).unwrap_or(count);
            let ids = of_holder.iter().map(|ended| ended.job.id);
            let holder = of_holder[0].job.holder;
            let end = self.host.store.execute(format!(
                "UPDATE marmota_job SET state = {}, rank = ?, holder = NULL, finished_at = ?, \
                 error = NULL, version = version + 1 WHERE holder = ? AND id IN ({})",
                JobState::Succeeded as i64,
                vec!["?"; size].join(",")
            ));
            let end = end.bind(now.micros()).bind(now).bind(holder);
            // The first id again fills the statement.
            let filling = std::iter::repeat_n(of_holder[0].job.id, size - count);
            let end = ids.clone().chain(filling).fold(end, |end, id| end.bind(id));
            if end.run()? < count as u64 {
                let ended_here = JobRow::ID.is_in(ids.clone().collect::<Vec<Uuid>>());
                let ended_here = ended_here.and(JobRow::FINISHED_AT.eq(now));
                let list = self.host.store.list::<JobRow>().filter(ended_here);
                let ended_here: Vec<Uuid> = list.column(JobRow::ID).run()?;
                lost.extend(ids.filter(|id| !ended_here.contains(id)));
            }
        }
        Ok(lost)
    }

    /// Writes the end of a job whose row has another version than expected, if this worker still
    /// has the job.
    fn write_again(&self, ended: &Ended, now: Timestamp) -> Result<bool> {
        let store = &self.host.store;
        for _ in 0..10 {
            let row = store.get::<JobRow>(ended.job.id).optional().run()?;
            let held =
                |row: &JobRow| row.holder == Some(ended.job.holder) && row.state.is_claimed();
            let Some(row) = row.filter(held) else { return Ok(false) };
            let end = match (&ended.end, row.state) {
                // It was to be cancelled while it ran, and this process did not know yet.
                (End::Retry(_, error), JobState::Cancelling) => End::Cancelled(error.clone()),
                (End::HandedBack, JobState::Cancelling) => {
                    End::Cancelled("it was cancelled while the worker stopped".to_owned())
                }
                (end, _) => end.clone(),
            };
            let again = Ended { queue: ended.queue, job: ended.job.clone(), attempt: None, end };
            let Some(write) = self.write_of(&again, row.version, now) else { return Ok(true) };
            let result = writes::each(store, &[write]).run()?.pop();
            match result {
                Some(Err(error)) if is_other_version(&error) => {}
                Some(Err(error)) => return Err(error),
                _ => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Returns the write of an end; `None` if nothing is to be written.
    fn write_of(&self, ended: &Ended, version: i64, now: Timestamp) -> Option<Write> {
        let (table, job) = (&self.host.table, &ended.job);
        let keeps = !self.options.keep_failed.is_zero();
        let id = (job.id, version);
        Some(match &ended.end {
            End::InTransaction | End::Lost => return None,
            End::Succeeded => {
                let no_error = [(ERROR, Value::Null)];
                writes::end(
                    table,
                    id,
                    JobState::Succeeded,
                    (now, self.host.keeps_succeeded),
                    no_error,
                )
            }
            End::Failed(error) => {
                let error = [(ERROR, Value::Text(shortened(error)))];
                writes::end(table, id, JobState::Failed, (now, keeps), error)
            }
            End::Cancelled(error) => {
                let error = [(ERROR, Value::Text(shortened(error)))];
                writes::end(table, id, JobState::Cancelled, (now, keeps), error)
            }
            End::Retry(at, error) => {
                let values = [
                    (STATE, value(&JobState::Scheduled)),
                    (RANK, Value::Int(at.micros())),
                    (RUN_AT, Value::Timestamp(*at)),
                    (HOLDER, Value::Null),
                    (ERROR, Value::Text(shortened(error))),
                    (PROGRESS, Value::Null),
                    (PROGRESS_TEXT, Value::Null),
                ];
                writes::update(table, job.id, version, values)
            }
            End::HandedBack => {
                let values = [
                    (STATE, value(&JobState::Pending)),
                    (RANK, Value::Int(pending_rank(job.priority, job.run_at))),
                    (HOLDER, Value::Null),
                    (ATTEMPTS, Value::Int((job.attempt - 1).into())),
                ];
                writes::update(table, job.id, version, values)
            }
        })
    }

    /// Deletes the unique keys of jobs that have ended, unless they block others for longer.
    fn free_keys(&self, batch: &[Ended], now: Timestamp) -> Result<()> {
        let is_freed = |ended: &&Ended| ended.job.has_key && ended.state().is_finished();
        let jobs: Vec<Uuid> = batch.iter().filter(is_freed).map(|ended| ended.job.id).collect();
        if !jobs.is_empty() {
            let freed = KeyRow::JOB.is_in(jobs).and(KeyRow::UNTIL.le(now));
            self.host.store.delete_where(freed).run()?;
        }
        Ok(())
    }

    fn count(&self, ended: &Ended, is_lost: bool) {
        let Queue { counts, .. } = &self.queues[ended.queue];
        let add = |to: &AtomicU64| to.fetch_add(1, Ordering::Relaxed);
        // Of a transaction whose commit got lost it is unknown whether it ended the job.
        let is_known =
            ended.attempt.as_ref().is_none_or(|attempt| !attempt.control.lock().was_finished_in);
        if is_lost && is_known {
            log::warn!(
                "another worker has taken the job {} while it ran here: its result is ignored",
                ended.job.id
            );
            add(&counts.lost);
            return;
        }
        match &ended.end {
            End::Succeeded | End::InTransaction => add(&counts.succeeded),
            End::Retry(at, error) => {
                log::info!("{} {}: {error}; it is repeated at {at}", ended.job.kind, ended.job.id);
                let mut signal = self.signal.lock();
                signal.due = Some(signal.due.map_or(*at, |known| known.min(*at)));
                drop(signal);
                self.signalled.notify_one();
                add(&counts.retried)
            }
            End::Failed(error) => {
                log::error!("{} {} has failed: {error}", ended.job.kind, ended.job.id);
                add(&counts.failed)
            }
            End::Cancelled(_) => add(&counts.cancelled),
            End::Lost => add(&counts.lost),
            End::HandedBack => 0,
        };
    }
}

/// Returns true if the same writes can succeed later.
fn is_transient(error: &Error) -> bool {
    use ErrorKind::{Busy, Closed, Engine, Io, Lost};
    error.is_retryable() || matches!(error.kind(), Busy | Io | Lost | Closed | Engine)
}

/// Returns a text that every engine stores.
fn shortened(error: &str) -> String {
    error.chars().filter(|letter| *letter != '\0').take(ERROR_CHARS_MAX).collect()
}

//! The thread that keeps a worker's lease, takes the jobs of workers whose lease has ended, and
//! finds cancellations.
//!
//! A worker has one lease for all of its jobs, so its renewal is one write. A worker that does not
//! renew it is removed from the table of workers, by another worker and only at the version that
//! was read: a renewal at the same time wins. Jobs whose holder is not in the table are pending
//! again. If the worker was only slow, it finds at its next renewal that it is not in the table,
//! and ends its attempts. What it writes meanwhile fails, because the versions of the rows differ.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use marmota_model::{ErrorKind, Result, Timestamp, Uuid, Value};
use marmota_store::Store;

use super::shared::Shared;
use crate::context::{Abort, Attempt, is_other_version};
use crate::models::column::{ERROR, HOLDER, PROGRESS, PROGRESS_TEXT, RANK, RUN_AT, STATE};
use crate::models::writes::{self, value};
use crate::models::{JobRow, JobState, WorkerRow, pending_rank};

/// How often the worker looks for cancellations by other processes.
const CANCELLATIONS: Duration = Duration::from_secs(1);
/// How often progress is stored.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);
/// The most rows that are read at once.
const PAGE: u64 = 1_000;

/// The times of the keeper's duties.
struct Duties {
    renewal: Instant,
    progress: Instant,
    cancellations: Instant,
    schedules: Instant,
    retention: Instant,
}

impl Shared {
    /// Performs the duties until the worker is over.
    pub(crate) fn keep(&self, schedules: &mut super::schedules::Schedules) {
        let now = Instant::now();
        let third = self.options.lease / 3;
        let mut duties = Duties {
            renewal: now + third,
            progress: now + PROGRESS_EVERY,
            cancellations: now + CANCELLATIONS,
            schedules: now,
            retention: now,
        };
        let mut last_key = String::new();
        while !self.is_over.load(Ordering::Acquire) {
            let now = Instant::now();
            let report = |what: &str, result: Result<()>| match result {
                Err(error) if error.kind() != ErrorKind::Closed => {
                    log::warn!("{what} of jobs: {error}");
                }
                _ => {}
            };
            if now >= duties.renewal {
                report("the lease", self.renew());
                report("the take-over", self.take_over());
                duties.renewal = now + third;
            }
            if now >= duties.progress {
                report("the progress", self.store_progress());
                duties.progress = now + PROGRESS_EVERY;
            }
            if now >= duties.cancellations {
                report("the cancellation", self.find_cancelled());
                duties.cancellations = now + CANCELLATIONS;
            }
            if now >= duties.schedules && !self.is_stopping() {
                let wait = schedules.run(self).unwrap_or_else(|error| {
                    report("the schedules", Err(error));
                    self.options.poll_max
                });
                duties.schedules = now + wait.min(self.options.poll_max);
            }
            if now >= duties.retention {
                let kept = self.delete_finished(&mut last_key);
                let is_more = kept.as_ref().is_ok_and(|is_more| *is_more);
                report("the retention", kept.map(drop));
                duties.retention = now + super::retention::pause(is_more);
            }
            let next = [
                duties.renewal,
                duties.progress,
                duties.cancellations,
                duties.schedules,
                duties.retention,
            ];
            let next = next.into_iter().min().unwrap_or(now);
            let mut signal = self.duty_signal.lock();
            if !self.is_over.load(Ordering::Acquire) {
                self.duty_signalled.wait_until(&mut signal, next);
            }
        }
    }

    /// Rings alarms, and ends attempts whose time is over, until the worker is over.
    pub(crate) fn time(&self) {
        /// Deadlines of attempts that begin meanwhile are noticed by then at the latest.
        const IDLE: Duration = Duration::from_secs(1);
        while !self.is_over.load(Ordering::Acquire) {
            let now = Instant::now();
            let mut next = now + IDLE;
            let mut over = Vec::new();
            for attempt in self.watched.lock().values() {
                if attempt.deadline <= now {
                    over.push(Arc::clone(attempt));
                } else {
                    next = next.min(attempt.deadline);
                }
            }
            over.iter().for_each(|attempt| attempt.abort(Abort::Timeout));
            self.host.timers.sleep_until(next);
        }
    }

    /// Renews the lease. If it is lost, ends all attempts, and begins a new one.
    fn renew(&self) -> Result<()> {
        let holder = *self.holder.lock();
        let renewed = self
            .host
            .store
            .patch::<WorkerRow>(holder)
            .set(WorkerRow::UNTIL, self.lease_end())
            .run();
        match renewed {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        log::warn!("the worker did not renew its lease in time: others have taken its jobs");
        *self.holder.lock() = self.enter()?;
        for queue in &self.queues {
            queue.state.lock().jobs.retain(|job| job.holder != holder);
        }
        let attempts: Vec<Arc<Attempt>> = self.watched.lock().values().cloned().collect();
        for attempt in attempts.iter().filter(|attempt| attempt.holder == holder) {
            attempt.cancel();
            attempt.abort(Abort::Lost);
        }
        Ok(())
    }

    fn lease_end(&self) -> Timestamp {
        let until = self.now().micros() + self.options.lease.as_micros() as i64;
        Timestamp::from_micros(until).unwrap_or_default()
    }

    /// Adds the worker to the table of workers.
    pub(crate) fn enter(&self) -> Result<Uuid> {
        let queues: Vec<&str> = self.queues.iter().map(|queue| &*queue.name).collect();
        self.host
            .store
            .insert(&WorkerRow {
                id: Uuid::now_v7(),
                name: process_name(),
                queues: serde_json::to_string(&queues).unwrap_or_default(),
                started_at: self.now(),
                until: self.lease_end(),
                version: 0,
            })
            .run()
    }

    /// Makes the jobs of workers that have no lease pending again.
    pub(crate) fn take_over(&self) -> Result<()> {
        let store = &self.host.store;
        // Jobs first: the worker of a job that is claimed later is in the list of workers.
        let me = *self.holder.lock();
        let mut claimed = Vec::new();
        for queue in &self.queues {
            for state in [JobState::Running, JobState::Cancelling] {
                let held = JobRow::QUEUE.eq(&*queue.name).and(JobRow::STATE.eq(state));
                let by_others = held.and(!JobRow::HOLDER.eq(me));
                claimed.extend(store.list::<JobRow>().filter(by_others).limit(PAGE).run()?);
            }
        }
        let now = self.now();
        let mut live = HashSet::from([me]);
        for worker in store.list::<WorkerRow>().run()? {
            if worker.id == me || worker.until > now {
                live.insert(worker.id);
                continue;
            }
            match store.delete::<WorkerRow>(worker.id).version(worker.version).run() {
                Ok(()) => log::warn!("the worker {} has ended without a stop", worker.name),
                // It was renewed, or removed by another worker.
                Err(error) if error.kind() == ErrorKind::Stale => {
                    live.insert(worker.id);
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        claimed.retain(|job| job.holder.is_none_or(|holder| !live.contains(&holder)));
        if claimed.is_empty() {
            return Ok(());
        }
        let writes: Vec<_> = claimed.iter().map(|job| self.returned(job, now)).collect();
        for result in writes::each(store, &writes).run()? {
            match result {
                Err(error) if !is_other_version(&error) => return Err(error),
                _ => {}
            }
        }
        self.wake();
        Ok(())
    }

    /// Returns the write that takes a job from a worker without a lease.
    fn returned(&self, job: &JobRow, now: Timestamp) -> marmota_store::operation::Write {
        let table = &self.host.table;
        let keeps = !self.options.keep_failed.is_zero();
        let error = (ERROR, Value::Text("the process ended while the job ran".to_owned()));
        let ended = |state| {
            let id = (job.id, job.version);
            writes::end(table, id, state, (now, keeps), [error.clone()])
        };
        if job.state == JobState::Cancelling {
            return ended(JobState::Cancelled);
        }
        if job.attempts >= job.attempts_max {
            return ended(JobState::Failed);
        }
        let values = [
            (STATE, value(&JobState::Pending)),
            (RANK, Value::Int(pending_rank(job.priority, job.run_at))),
            (RUN_AT, Value::Timestamp(job.run_at)),
            (HOLDER, Value::Null),
            (PROGRESS, Value::Null),
            (PROGRESS_TEXT, Value::Null),
            error,
        ];
        writes::update(table, job.id, job.version, values)
    }

    fn store_progress(&self) -> Result<()> {
        let reported = std::mem::take(&mut *self.host.reported.lock());
        reported
            .iter()
            .try_for_each(|attempt| marmota_store::action::block_on(attempt.store_progress()))
    }

    /// Notifies attempts that other processes have cancelled.
    fn find_cancelled(&self) -> Result<()> {
        if self.in_progress() == 0 {
            return Ok(());
        }
        for queue in &self.queues {
            let of = JobRow::QUEUE.eq(&*queue.name).and(JobRow::STATE.eq(JobState::Cancelling));
            for row in self.host.store.list::<JobRow>().filter(of).limit(PAGE).run()? {
                self.cancel(row.id);
            }
        }
        Ok(())
    }

    /// Notifies an attempt that its job is to be cancelled.
    pub(crate) fn cancel(&self, job: Uuid) {
        let attempt = self.watched.lock().get(&job).cloned();
        attempt.into_iter().for_each(|attempt| attempt.cancel());
    }

    /// Removes the worker from the table of workers.
    pub(crate) fn leave(&self, store: &Store) -> Result<()> {
        match store.delete::<WorkerRow>(*self.holder.lock()).run() {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Returns the machine and the process, such as `web1:4711`.
fn process_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim().chars().take(80).collect::<String>();
    format!("{host}:{}", std::process::id())
}

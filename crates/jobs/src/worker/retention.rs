//! Deleting finished jobs after their time, and unique keys that block no other job any more.

use std::time::Duration;

use marmota_model::{Result, Uuid};

use super::shared::Shared;
use crate::models::{JobRow, JobState, KeyRow};

/// The rows of one delete. The number is fixed, so that engines keep the prepared statement.
const PAGE: usize = 500;
/// The deletes of a pass, so that other duties are performed in between.
const PAGES: usize = 20;

/// Returns the time until the next pass.
pub(super) const fn pause(is_more: bool) -> Duration {
    if is_more { Duration::from_millis(20) } else { Duration::from_secs(10) }
}

impl Shared {
    /// Deletes finished jobs of this worker's queues. Returns true if there are more.
    pub(crate) fn delete_finished(&self, last_key: &mut String) -> Result<bool> {
        let (succeeded, failed) = (self.options.keep_succeeded, self.options.keep_failed);
        let mut is_more = false;
        for queue in &self.queues {
            for (state, keep) in [
                (JobState::Succeeded, succeeded),
                (JobState::Failed, failed),
                (JobState::Cancelled, failed),
            ] {
                is_more |= self.delete_older(&queue.name, state, keep)?;
            }
        }
        self.delete_keys(last_key)?;
        Ok(is_more)
    }

    fn delete_older(&self, queue: &str, state: JobState, keep: Duration) -> Result<bool> {
        let store = &self.host.store;
        let keep = i64::try_from(keep.as_micros()).unwrap_or(i64::MAX);
        let before = self.now().micros().saturating_sub(keep);
        for _ in 0..PAGES {
            let old = JobRow::QUEUE.eq(queue).and(JobRow::STATE.eq(state));
            let old = old.and(JobRow::RANK.lt(before));
            let list = store.list::<JobRow>().filter(old).order(JobRow::RANK.ascending());
            let ids: Vec<Uuid> = list.limit(PAGE as u64).column(JobRow::ID).run()?;
            if ids.is_empty() {
                return Ok(false);
            }
            let is_last = ids.len() < PAGE;
            // A job that was enqueued again meanwhile is not finished.
            store.delete_where(JobRow::ID.is_in(ids).and(JobRow::STATE.eq(state))).run()?;
            if is_last {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Deletes a page of keys whose time is over and whose job has ended: those that a process
    /// left when it was killed, and those that block for a time.
    fn delete_keys(&self, last: &mut String) -> Result<()> {
        let store = &self.host.store;
        let now = self.now();
        let over = KeyRow::UNTIL.le(now).and(KeyRow::ID.gt(&**last));
        let list = store.list::<KeyRow>().filter(over).order(KeyRow::ID.ascending());
        let keys = list.limit(PAGE as u64).run()?;
        *last = match keys.last() {
            Some(key) if keys.len() == PAGE => key.id.clone(),
            _ => String::new(),
        };
        // A key is written before its job on an engine without transactions.
        let is_old = |key: &&KeyRow| now.micros() - key.at.micros() > 60_000_000;
        let keys: Vec<&KeyRow> = keys.iter().filter(is_old).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let jobs: Vec<Uuid> = keys.iter().map(|key| key.job).collect();
        let unfinished = JobRow::ID.is_in(jobs).and(JobRow::STATE.lt(JobState::Succeeded));
        let used: Vec<Uuid> = store.list().filter(unfinished).column(JobRow::ID).run()?;
        let free: Vec<Uuid> =
            keys.iter().map(|key| key.job).filter(|job| !used.contains(job)).collect();
        if !free.is_empty() {
            store.delete_where(KeyRow::JOB.is_in(free).and(KeyRow::UNTIL.le(now))).run()?;
        }
        Ok(())
    }
}

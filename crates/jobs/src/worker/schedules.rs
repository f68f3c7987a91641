//! Enqueueing the jobs of schedules.
//!
//! A schedule has a row with the time of its next job. Each process that has the schedule reads it;
//! at that time it moves the row to the next time and inserts the job, in one transaction and at
//! the version that it read. So one process enqueues each job, and there is no leader to lose.

use std::time::Duration;

use marmota_model::{ErrorKind, Result, Timestamp};

use super::shared::Shared;
use crate::jobs::Schedule;
use crate::models::ScheduleRow;

/// The schedules of a worker.
pub(crate) struct Schedules {
    schedules: Vec<Schedule>,
    /// True once the patterns are stored.
    are_stored: bool,
}

impl Schedules {
    pub(crate) const fn new(schedules: Vec<Schedule>) -> Self {
        Self { schedules, are_stored: false }
    }

    /// Enqueues the jobs that are due. Returns the time until the next one.
    pub(crate) fn run(&mut self, shared: &Shared) -> Result<Duration> {
        let mut wait = Duration::MAX;
        if !self.are_stored {
            self.schedules.iter().try_for_each(|schedule| store(shared, schedule))?;
            self.are_stored = true;
        }
        for schedule in &self.schedules {
            let next = advance(shared, schedule)?;
            let micros = next.micros().saturating_sub(shared.now().micros());
            wait = wait.min(Duration::from_micros(u64::try_from(micros).unwrap_or(0)));
        }
        Ok(wait)
    }
}

/// Makes the row of a schedule, or gives it the pattern of this program.
fn store(shared: &Shared, schedule: &Schedule) -> Result<()> {
    let store = &shared.host.store;
    let pattern = schedule.pattern.to_string();
    let next_at = schedule.pattern.next_after(shared.now())?;
    loop {
        let Some(row) = store.get::<ScheduleRow>(&*schedule.name).optional().run()? else {
            let id = schedule.name.clone();
            let row =
                ScheduleRow { id, pattern: pattern.clone(), next_at, last_at: None, version: 0 };
            match store.insert(&row).run() {
                Err(error) if error.kind() == ErrorKind::Conflict => continue,
                done => return done.map(drop),
            }
        };
        if row.pattern == pattern {
            return Ok(());
        }
        let changed = store
            .patch::<ScheduleRow>(&*schedule.name)
            .set(ScheduleRow::PATTERN, &*pattern)
            .set(ScheduleRow::NEXT_AT, next_at)
            .version(row.version)
            .run();
        match changed {
            Err(error) if error.kind() == ErrorKind::Stale => {}
            done => return done.map(drop),
        }
    }
}

/// Enqueues the job of a schedule if it is due. Returns the time of the next one.
fn advance(shared: &Shared, schedule: &Schedule) -> Result<Timestamp> {
    let store = &shared.host.store;
    let row = store.get::<ScheduleRow>(&*schedule.name).run()?;
    let now = shared.now();
    if row.next_at > now {
        return Ok(row.next_at);
    }
    // Times that were missed are one job.
    let next = schedule.pattern.next_after(now)?;
    let job = (schedule.job)(now)?;
    let enqueued = if store.capability().transactions {
        let mut batch = store.batch();
        batch
            .patch::<ScheduleRow>(&*schedule.name)
            .set(ScheduleRow::NEXT_AT, next)
            .set(ScheduleRow::LAST_AT, row.next_at)
            .version(row.version)
            .insert(&job);
        batch.all_or_nothing().run().map(drop)
    } else {
        // A process that is killed between the two writes loses this job.
        let moved = store
            .patch::<ScheduleRow>(&*schedule.name)
            .set(ScheduleRow::NEXT_AT, next)
            .set(ScheduleRow::LAST_AT, row.next_at)
            .version(row.version);
        moved.run().and_then(|_| store.insert(&job).run().map(drop))
    };
    match enqueued {
        Ok(()) => {
            crate::wakeup::notify(store.number(), &job.queue, job.run_at);
            Ok(next)
        }
        // Another process was faster.
        Err(error) if error.kind() == ErrorKind::Stale || error.is_retryable() => Ok(now),
        Err(error) => Err(error),
    }
}

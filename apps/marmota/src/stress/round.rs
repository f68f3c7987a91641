//! One run in this process: threads connect, insert and read their rows, then all rows are compared
//! together.

use std::time::{Duration, SystemTime};

use super::crew::{self, Plan, Step};
use super::line::Line;
use super::stand::{Failed, Stand};
use super::tally::Tally;

/// The results of a run.
pub(super) struct ThreadsRun {
    pub(super) insert: Duration,
    pub(super) read: Duration,
    pub(super) tally: Tally,
}

/// Returns a number that no previous run has used.
pub(super) fn run_number() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or_default()
}

/// Executes a run.
pub(super) fn run(stand: &Stand, plan: &Plan) -> Result<ThreadsRun, Failed> {
    let what = format!("{}, {} threads", stand.name, plan.threads);
    let line = Line::new(what, u64::from(plan.clients) + 2 * u64::from(plan.rows));
    let (mut insert, mut read) = (Duration::ZERO, Duration::ZERO);
    let results = crew::run(stand, plan, &line, |lead| {
        lead.take(Step::Connect)?;
        insert = lead.take(Step::Insert)?;
        read = lead.take(Step::Read)?;
        Ok(())
    })?;
    let mut tally = results.tally;
    let store = stand.client(None)?;
    tally.check_all(&store, plan.seed, plan.run, plan.rows, &results.ids)?;
    Ok(ThreadsRun { insert, read, tally })
}

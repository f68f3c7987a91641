//! `job`: the durable jobs of a database, for operators: list, show, retry, cancel, statistics.
//!
//! ```text
//! $ people job list --state failed --limit 1
//! 0198c5b2-63f1-7d05-a7b5-0c3f4b0a8d11  failed  mail  send_digest  11 of 11  2026-11-25T21:40:03Z  no connection
//! $ people job retry 0198c5b2-63f1-7d05-a7b5-0c3f4b0a8d11
//! 0198c5b2-63f1-7d05-a7b5-0c3f4b0a8d11 is pending
//! ```

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use marmota_jobs::{Cancellation, JobAdmin, JobId, JobQuery, JobRow, JobState, QueueStatistics};
use marmota_model::{Error, ErrorKind, Result, Timestamp, text};
use marmota_store::{Store, StoreBuilder};
use serde_json::{Value, json};

use super::{Command, Database, Done, report};

/// Shows and changes the durable jobs of the database
#[derive(Args)]
pub(super) struct Job {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List jobs; the last ones first, or in the order of their execution with --queue and --state
    List {
        #[command(flatten)]
        database: Database,
        /// Jobs of this queue
        #[arg(long)]
        queue: Option<String>,
        /// Jobs in this state
        #[arg(long)]
        state: Option<State>,
        /// The maximum number of jobs
        #[arg(long, default_value_t = 100)]
        limit: u64,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Show a job with its input and error
    Show {
        #[command(flatten)]
        job: Selected,
    },
    /// Make a finished or scheduled job pending again
    Retry {
        #[command(flatten)]
        job: Selected,
    },
    /// Cancel a job; the function of a running one is notified
    Cancel {
        #[command(flatten)]
        job: Selected,
    },
    /// Count the jobs of each queue by state
    Statistics {
        #[command(flatten)]
        database: Database,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
}

/// A job of a database.
#[derive(Args)]
struct Selected {
    /// The id of the job
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    database: Database,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum State {
    Scheduled,
    Pending,
    Running,
    Cancelling,
    Succeeded,
    Failed,
    Cancelled,
}

impl From<State> for JobState {
    fn from(state: State) -> Self {
        Self::ALL[state as usize]
    }
}

impl Job {
    pub(super) fn run(&self, command: &Command) -> Done {
        match &self.action {
            Action::List { database, queue, state, limit, json } => {
                let store = open(command, command.url(database))?;
                let mut query = JobQuery::new().limit(*limit);
                if let Some(queue) = queue {
                    query = query.queue(queue);
                }
                if let Some(state) = state {
                    query = query.state((*state).into());
                }
                let jobs = JobAdmin::new(&store).list(&query).run()?;
                store.close()?;
                if *json {
                    report(Value::Array(jobs.iter().map(described).collect()))?;
                } else {
                    jobs.iter().try_for_each(|job| report(line(job)))?;
                }
            }
            Action::Show { job } => {
                let (store, id) = job.open(command)?;
                let row = JobAdmin::new(&store).get(id).run()?;
                store.close()?;
                job.print(&row, || details(&row))?;
            }
            Action::Retry { job } => {
                let (store, id) = job.open(command)?;
                let row = JobAdmin::new(&store).retry(id).run()?;
                store.close()?;
                job.print(&row, || format!("{id} is {}", row.state.name()))?;
            }
            Action::Cancel { job } => {
                let (store, id) = job.open(command)?;
                let admin = JobAdmin::new(&store);
                let done = admin.cancel(id).run()?;
                let row = admin.get(id).run()?;
                store.close()?;
                if let Cancellation::TooLate(state) = done {
                    let message =
                        format!("the job {id} is {}: it cannot be cancelled", state.name());
                    return Err(Error::new(ErrorKind::Conflict, message).into());
                }
                job.print(&row, || format!("{id} is {}", row.state.name()))?;
            }
            Action::Statistics { database, json } => {
                let store = open(command, command.url(database))?;
                let queues = JobAdmin::new(&store).statistics().run()?;
                store.close()?;
                if *json {
                    report(json!(queues))?;
                } else {
                    queues.iter().try_for_each(|queue| report(counts(queue)))?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Selected {
    fn open(&self, command: &Command) -> Result<(Store, JobId)> {
        let id = self.id.parse()?;
        Ok((open(command, command.url(&self.database))?, id))
    }

    fn print(
        &self,
        row: &JobRow,
        text: impl FnOnce() -> String,
    ) -> std::result::Result<(), super::OutputError> {
        if self.json { report(described(row)) } else { report(text()) }
    }
}

/// Opens a database that has tables of jobs, with the models of the program if it has jobs, and
/// otherwise with these tables alone: the database of another program is not changed.
fn open(command: &Command, url: &str) -> Result<Store> {
    let of_program = (command.models)("memory:")?.open()?;
    let has_jobs = of_program.table("marmota_job").is_ok();
    of_program.close()?;
    let builder = || -> Result<StoreBuilder> {
        if has_jobs { command.builder(url) } else { Ok(marmota_jobs::models(crate::open(url)?)) }
    };
    if !crate::restore::is_there(url) && (url.starts_with("sqlite:") || url.starts_with("memory:"))
    {
        return Err(no_jobs(url));
    }
    if !has_jobs && builder()?.plan()?.steps.iter().any(|step| step.blocking_reason().is_none()) {
        return Err(no_jobs(url));
    }
    builder()?.open()
}

#[cold]
fn no_jobs(url: &str) -> Error {
    // The query may contain a password.
    let shown = text::excerpt(url.split(['?', '@']).next().unwrap_or_default());
    let message = format!(
        "the database {shown} has no jobs: no program has opened it with the tables of jobs \
         (`jobs::models`); is --db right?"
    );
    Error::new(ErrorKind::NotFound, message)
}

/// Returns a job as one line: id, state, queue, function, attempts, time, error or progress.
fn line(job: &JobRow) -> String {
    let JobRow { id, queue, kind, attempts, attempts_max, .. } = job;
    let at = job.finished_at.or(job.started_at).unwrap_or(job.run_at);
    let at = if job.state == JobState::Scheduled { job.run_at } else { at };
    let note = match (&job.error, job.progress) {
        (Some(error), _) => text::excerpt(error).to_string(),
        (None, Some(percent)) => {
            format!("{percent} % {}", job.progress_text.as_deref().unwrap_or_default())
        }
        (None, None) => String::new(),
    };
    let state = job.state.name();
    let line = format!("{id}  {state}  {queue}  {kind}  {attempts} of {attempts_max}  {at}  {note}");
    line.trim_end().to_owned()
}

/// Returns a job as lines of names and values.
fn details(job: &JobRow) -> String {
    let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
    let progress = job.progress.map(|percent| {
        format!("{percent} % {}", job.progress_text.as_deref().unwrap_or_default())
    });
    let lines = [
        ("id", Some(job.id.to_string())),
        ("state", Some(job.state.name().to_owned())),
        ("queue", Some(job.queue.clone())),
        ("function", Some(job.kind.clone())),
        ("priority", Some(job.priority.to_string())),
        ("attempts", Some(format!("{} of {}", job.attempts, job.attempts_max))),
        ("unique key", job.unique_key.clone()),
        ("enqueued", Some(job.created_at.to_string())),
        ("due", Some(job.run_at.to_string())),
        ("started", time(job.started_at)),
        ("finished", time(job.finished_at)),
        ("worker", job.holder.map(|holder| holder.to_string())),
        ("progress", progress),
        ("error", job.error.clone()),
        ("input", Some(job.input.clone())),
    ];
    let shown = lines.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}", value?)));
    shown.collect::<Vec<_>>().join("\n")
}

/// Returns a job as JSON.
fn described(job: &JobRow) -> Value {
    let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
    let input: Value = serde_json::from_str(&job.input).unwrap_or(Value::Null);
    json!({
        "id": job.id.to_string(),
        "state": job.state.name(),
        "queue": job.queue,
        "function": job.kind,
        "input": input,
        "priority": job.priority,
        "attempts": job.attempts,
        "attempts_max": job.attempts_max,
        "unique_key": job.unique_key,
        "progress": job.progress,
        "progress_text": job.progress_text,
        "error": job.error,
        "worker": job.holder.map(|holder| holder.to_string()),
        "enqueued_at": job.created_at.to_string(),
        "run_at": job.run_at.to_string(),
        "started_at": time(job.started_at),
        "finished_at": time(job.finished_at),
    })
}

/// Returns the numbers of a queue as one line.
fn counts(of: &QueueStatistics) -> String {
    let oldest = of.oldest_pending_ms.map(|ms| format!(" (oldest {:.1} s)", ms as f64 / 1e3));
    format!(
        "{}: {} pending{}, {} scheduled, {} running, {} succeeded, {} failed, {} cancelled",
        of.queue,
        of.pending,
        oldest.unwrap_or_default(),
        of.scheduled,
        of.running,
        of.succeeded,
        of.failed,
        of.cancelled
    )
}

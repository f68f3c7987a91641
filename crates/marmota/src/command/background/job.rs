//! `job`: the durable jobs of a database, for operators: list, show, retry, cancel, statistics.
//!
//! ```text
//! $ people job list --state failed --limit 1
//! 0198c5b2-63f1-7d05-a7b5-0c3f4b0a8d11  failed  mail  send_digest  11 of 11  2026-11-25T21:40:03Z  no connection
//! $ people job retry 0198c5b2-63f1-7d05-a7b5-0c3f4b0a8d11
//! 0198c5b2-63f1-7d05-a7b5-0c3f4b0a8d11 is pending
//! ```
//!
//! | action | what it does | fails |
//! |---|---|---|
//! | `list` | a line or an object for each job | |
//! | `show` | all values of a job | without the job |
//! | `retry` | makes a finished or scheduled job pending | for a running or pending job |
//! | `cancel` | cancels a waiting job, notifies a running one | for a finished job |
//! | `statistics` | the number of jobs of each queue, by state | |
//!
//! All actions take `--db` and `--json`. The JSON of a job has these members:
//!
//! | member | value |
//! |---|---|
//! | `id`, `queue`, `function` | texts |
//! | `state` | `scheduled`, `pending`, `running`, `cancelling`, `succeeded`, `failed`, `cancelled` |
//! | `input` | the parameters of the function |
//! | `priority`, `attempts`, `attempts_max` | numbers |
//! | `unique_key`, `error`, `progress_text` | texts or null |
//! | `progress` | a number of percent, or null |
//! | `worker` | the worker that has the job, or null |
//! | `enqueued_at`, `run_at` | times |
//! | `started_at`, `finished_at` | times or null |
//!
//! The database may be that of another program: it is opened with the tables of jobs alone. If that
//! program sets a schema version, only its own subcommand can open the database.

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use marmota_jobs::{Cancellation, JobAdmin, JobId, JobQuery, JobRow, JobState};
use marmota_model::{Error, ErrorKind, Result, text};
use marmota_store::{Store, StoreBuilder};
use serde_json::json;

use crate::command::{Command, Database, Done, JsonOutput, aligned};

/// Shows and changes the durable jobs of the database
#[derive(Args)]
pub(in crate::command) struct Job {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Lists jobs; the last ones first, or in the order of their execution with --queue and --state
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
        #[command(flatten)]
        output: JsonOutput,
    },
    /// Shows a job with its input and error
    Show {
        #[command(flatten)]
        job: Selected,
    },
    /// Makes a finished or scheduled job pending again
    Retry {
        #[command(flatten)]
        job: Selected,
    },
    /// Cancels a job; the function of a running one is notified
    Cancel {
        #[command(flatten)]
        job: Selected,
    },
    /// Counts the jobs of each queue by state
    Statistics {
        #[command(flatten)]
        database: Database,
        #[command(flatten)]
        output: JsonOutput,
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
    #[command(flatten)]
    output: JsonOutput,
}

/// A state of jobs, as a value of `--state`.
///
/// The variants are in the order of [`JobState::ALL`].
#[derive(Clone, Copy, ValueEnum)]
enum State {
    /// Due at a later time
    Scheduled,
    /// Due, and not claimed
    Pending,
    /// Claimed by a worker
    Running,
    /// Claimed, and to be cancelled
    Cancelling,
    /// Ended well
    Succeeded,
    /// Ended with an error, after all attempts
    Failed,
    /// Ended by a cancellation
    Cancelled,
}

impl From<State> for JobState {
    fn from(state: State) -> Self {
        Self::ALL[state as usize]
    }
}

impl Job {
    /// Executes the action, and prints its result.
    ///
    /// # Errors
    /// A database without jobs, a missing job, or a job whose state does not fit the action.
    pub(in crate::command) fn run(&self, command: &Command) -> Done {
        match &self.action {
            Action::List { database, queue, state, limit, output } => {
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
                output.report(
                    || jobs.iter().map(JobRow::to_json).collect(),
                    || aligned(jobs.iter().map(JobRow::columns)),
                )?;
            }
            Action::Show { job } => {
                let (store, id) = job.open(command)?;
                let row = JobAdmin::new(&store).get(id).run()?;
                store.close()?;
                job.print(&row, || row.details())?;
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
            Action::Statistics { database, output } => {
                let store = open(command, command.url(database))?;
                let queues = JobAdmin::new(&store).statistics().run()?;
                store.close()?;
                output.report(
                    || json!(queues),
                    || queues.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
                )?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Selected {
    /// Opens the database, and reads the id.
    fn open(&self, command: &Command) -> Result<(Store, JobId)> {
        let id = self.id.parse()?;
        Ok((open(command, command.url(&self.database))?, id))
    }

    /// Prints a job as JSON or as text.
    fn print(
        &self,
        row: &JobRow,
        text: impl FnOnce() -> String,
    ) -> std::result::Result<(), crate::command::OutputError> {
        self.output.report(|| row.to_json(), text)
    }
}

/// Opens a database that has tables of jobs, with the models of the program if it has jobs, and
/// otherwise with these tables alone: the database of another program is not changed.
fn open(command: &Command, url: &str) -> Result<Store> {
    let of_program = (command.models)("memory:")?.models_alone().open()?;
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

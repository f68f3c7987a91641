//! Durable jobs: functions that run later, in any process that uses the database, at least once.
//!
//! A job is a row of the store. A [`Worker`] claims rows and calls the function that
//! is registered under the job's name. It works on every engine.
//!
//! ```
//! use marmota_jobs::{EnqueueJobs as _, JobContext, Jobs, WorkerOptions, job};
//! use marmota_memory::Memory;
//! use marmota_model::Result;
//! use marmota_store::Store;
//!
//! #[job(queue = "mail", retries = 3)]
//! async fn send_digest(user: i64, context: JobContext) -> Result<()> {
//!     context.progress(50, "half of it");
//!     println!("the digest of {user}");
//!     Ok(())
//! }
//!
//! let store = marmota_jobs::models(Store::builder(Memory::new())).open()?;
//! let jobs = Jobs::new(&store).register::<SendDigest>()?;
//! let worker = jobs.start(WorkerOptions::new())?;
//! store.enqueue(&SendDigest { user: 7 }).run()?;
//! worker.stop()?;
//! # Ok::<(), marmota_model::Error>(())
//! ```
#![forbid(unsafe_code)]

mod admin;
mod context;
mod cron;
mod enqueue;
mod job;
mod jobs;
mod models;
mod options;
mod report;
mod request;
mod statistics;
mod timers;
mod wakeup;
mod worker;

pub use admin::{Cancellation, JobAdmin, JobQuery};
pub use context::JobContext;
pub use cron::CronPattern;
pub use enqueue::{Enqueue, EnqueueInBatch, EnqueueJobs, Enqueued, INPUT_BYTES_MAX};
pub use job::Job;
pub use jobs::{Jobs, WorkerOptions};
pub use marmota_derive::job;
pub use models::{JobRow, JobState, ScheduleRow, WorkerRow, models};
pub use options::{JobFailure, JobId, JobOptions};
pub use request::JobRequest;
pub use statistics::{QueueStatistics, WorkerMetrics, WorkerStatistics};
pub use worker::Worker;

/// What the code that `#[job]` generates uses.
#[doc(hidden)]
pub mod generated {
    pub use marmota_model::{Error, ErrorKind, Result};
    pub use serde;

    use crate::options::JobFailure;

    /// Returns the unique key of some fields: their JSON.
    ///
    /// # Errors
    /// A field without a JSON form.
    pub fn key(fields: &impl serde::Serialize) -> Result<Option<String>> {
        serde_json::to_string(fields).map(Some).map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("a unique key has no JSON form: {error}"))
        })
    }

    /// Returns the result of a function with any error.
    ///
    /// # Errors
    /// The text of the error.
    pub fn ended<E: std::fmt::Display>(
        result: std::result::Result<(), E>,
    ) -> std::result::Result<(), JobFailure> {
        result.map_err(JobFailure::new)
    }
}

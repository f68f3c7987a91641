//! The definition of a kind of job: its name, its options, and the function that executes it.

use std::future::Future;

use marmota_model::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::JobContext;
use crate::options::{JobFailure, JobOptions};

/// A kind of job. A value is the input of one job.
///
/// `#[job]` on a function implements it for a struct with the function's parameters.
///
/// ```
/// use marmota_jobs::{Job, JobContext, JobFailure, JobOptions};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct SendMail {
///     to: String,
/// }
///
/// impl Job for SendMail {
///     const NAME: &'static str = "send_mail";
///
///     fn options() -> JobOptions {
///         JobOptions::new().queue("mail").retries(3)
///     }
///
///     async fn run(self, _: JobContext) -> Result<(), JobFailure> {
///         println!("Dear {}", self.to);
///         Ok(())
///     }
/// }
/// ```
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// The name under which the store has jobs of this kind. It has to stay the same as long as
    /// such jobs exist.
    const NAME: &'static str;

    /// Returns the options of jobs of this kind.
    #[must_use]
    fn options() -> JobOptions {
        JobOptions::new()
    }

    /// Returns the unique key of a job with this input; `None` if there can be any number of equal
    /// jobs. Default: `None`.
    ///
    /// # Errors
    /// An input that has no JSON form.
    fn unique_key(&self) -> Result<Option<String>> {
        Ok(None)
    }

    /// Executes a job. A returned failure and a panic end the attempt, and it is repeated later.
    fn run(
        self,
        context: JobContext,
    ) -> impl Future<Output = std::result::Result<(), JobFailure>> + Send;
}

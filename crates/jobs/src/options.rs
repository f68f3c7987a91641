//! The options of a kind of job, the id of a job, and the reason of a failure.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result, Uuid};

/// The reason why an attempt has failed: a text, made of any error.
///
/// ```
/// use marmota_jobs::JobFailure;
/// fn parse(text: &str) -> Result<u32, JobFailure> {
///     text.parse().map_err(JobFailure::new)
/// }
/// assert_eq!(parse("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFailure(String);

impl JobFailure {
    /// Creates a failure with the text of an error.
    #[allow(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
    pub fn new(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

impl From<Error> for JobFailure {
    fn from(error: Error) -> Self {
        Self::new(error)
    }
}

impl fmt::Display for JobFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The options of a kind of job.
///
/// | option | default |
/// |---|---|
/// | queue | `default` |
/// | retries | 10 |
/// | timeout of an attempt | 30 minutes |
/// | priority | 0 |
/// | pause before the first retry | 5 s, doubled each time |
/// | maximum pause | 1 hour |
/// | unique for | until the job has ended |
///
/// ```
/// use std::time::Duration;
/// use marmota_jobs::JobOptions;
/// let options = JobOptions::new().queue("mail").retries(3).timeout(Duration::from_secs(10));
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobOptions {
    pub(crate) queue: &'static str,
    pub(crate) retries: u32,
    pub(crate) timeout: Duration,
    pub(crate) priority: i8,
    pub(crate) pause: Duration,
    pub(crate) pause_max: Duration,
    pub(crate) unique_for: Option<Duration>,
    pub(crate) is_blocking: bool,
}

impl JobOptions {
    /// The highest number of retries.
    pub(crate) const RETRIES_MAX: u32 = 10_000;

    /// Creates options with the defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            queue: "default",
            retries: 10,
            timeout: Duration::from_secs(30 * 60),
            priority: 0,
            pause: Duration::from_secs(5),
            pause_max: Duration::from_secs(60 * 60),
            unique_for: None,
            is_blocking: false,
        }
    }

    /// Sets the queue. Default: `default`.
    #[must_use]
    pub const fn queue(mut self, queue: &'static str) -> Self {
        self.queue = queue;
        self
    }

    /// Sets how often a failed attempt is repeated, at most 10,000 times. Default: 10.
    #[must_use]
    pub const fn retries(mut self, retries: u32) -> Self {
        self.retries = if retries > Self::RETRIES_MAX { Self::RETRIES_MAX } else { retries };
        self
    }

    /// Sets the time after which an attempt fails. Default: 30 minutes.
    ///
    /// An asynchronous function is dropped then. The thread of a blocking function cannot be ended:
    /// its result is ignored.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the priority. Jobs with a higher number are claimed first. Default: 0.
    #[must_use]
    pub const fn priority(mut self, priority: i8) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the pause before the first retry, and the maximum. Each pause is twice as long as the
    /// one before, and shortened by a random part of up to a half. Default: 5 s and 1 hour.
    #[must_use]
    pub const fn backoff(mut self, first: Duration, maximum: Duration) -> Self {
        (self.pause, self.pause_max) = (first, maximum);
        self
    }

    /// Sets a time since the enqueueing for which a unique key blocks equal jobs, also if the job
    /// ends earlier. Default: until the job has ended.
    #[must_use]
    pub const fn unique_for(mut self, time: Duration) -> Self {
        self.unique_for = Some(time);
        self
    }

    /// Declares that the function blocks its thread: it is executed by a pool of threads.
    #[must_use]
    pub const fn blocking(mut self) -> Self {
        self.is_blocking = true;
        self
    }

    /// Returns the pause before the next attempt, after this number of attempts.
    pub(crate) fn pause_after(&self, attempts: i32) -> Duration {
        let doublings = u32::try_from(attempts - 1).unwrap_or(0).min(30);
        let pause = self.pause.saturating_mul(1 << doublings).min(self.pause_max);
        marmota_store::backoff::Backoff::new(pause, pause).pause()
    }
}

impl Default for JobOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// The id of a job: 32 hexadecimal digits with hyphens.
///
/// ```
/// use marmota_jobs::JobId;
/// let id: JobId = "01890a5d-ac96-774b-bcce-b302099a8057".parse()?;
/// assert_eq!(id.to_string(), "01890a5d-ac96-774b-bcce-b302099a8057");
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub Uuid);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.parse().map(Self).map_err(|_| {
            let message = format!(
                "`{}` is not the id of a job, such as 01890a5d-ac96-774b-bcce-b302099a8057",
                marmota_model::text::excerpt(text)
            );
            Error::new(ErrorKind::Invalid, message)
        })
    }
}

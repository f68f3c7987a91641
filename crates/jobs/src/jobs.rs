//! The functions and schedules of a program, and the options of its workers.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result, Timestamp};
use marmota_store::Store;

use crate::context::{Clock, JobContext};
use crate::cron::CronPattern;
use crate::enqueue::{check_name, place, row_of};
use crate::job::Job;
use crate::models::JobRow;
use crate::options::{JobFailure, JobOptions};

/// The future of a job function.
pub(crate) type Running = Pin<Box<dyn Future<Output = std::result::Result<(), JobFailure>> + Send>>;

/// Reads the input, and returns the future that executes the job.
type Start = dyn Fn(&str, JobContext) -> std::result::Result<Running, JobFailure> + Send + Sync;

/// A registered function.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) options: JobOptions,
    pub(crate) start: Box<Start>,
}

/// A schedule of the program.
pub(crate) struct Schedule {
    pub(crate) name: String,
    pub(crate) pattern: CronPattern,
    /// Makes the row of a job that is due at this time.
    pub(crate) job: Box<dyn Fn(Timestamp) -> Result<JobRow> + Send + Sync>,
}

/// The job functions and schedules of a program.
///
/// ```
/// use marmota_jobs::{EnqueueJobs as _, JobContext, Jobs, WorkerOptions, job};
/// use marmota_memory::Memory;
/// use marmota_model::Result;
/// use marmota_store::Store;
///
/// #[job(queue = "mail", retries = 3)]
/// async fn send_mail(to: String, context: JobContext) -> Result<()> {
///     println!("Dear {to}, this is attempt {}", context.attempt());
///     Ok(())
/// }
///
/// let store = marmota_jobs::models(Store::builder(Memory::new())).open()?;
/// let jobs = Jobs::new(&store).register::<SendMail>()?;
/// let worker = jobs.start(WorkerOptions::new())?;
/// store.enqueue(&SendMail { to: "ada@example.org".into() }).run()?;
/// worker.stop()?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
pub struct Jobs {
    pub(crate) store: Store,
    pub(crate) functions: BTreeMap<&'static str, Function>,
    pub(crate) schedules: Vec<Schedule>,
}

impl Jobs {
    /// Creates an empty set of functions for a store. The store has to have the tables of jobs
    /// ([`crate::models`]).
    #[must_use]
    pub fn new(store: &Store) -> Self {
        Self { store: store.clone(), functions: BTreeMap::new(), schedules: Vec::new() }
    }

    /// Adds a kind of job. A worker only claims jobs of its kinds; others wait for another process.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a name that is empty, longer than 100 bytes, or used twice.
    pub fn register<J: Job>(self) -> Result<Self> {
        self.register_with(J::run)
    }

    /// Adds a kind of job that is executed by this function instead of [`Job::run`]: a closure can
    /// have what a job needs but its input does not contain, such as a connection.
    ///
    /// ```
    /// use marmota_jobs::{EnqueueJobs as _, Jobs, WorkerOptions, job};
    /// use marmota_memory::Memory;
    /// use marmota_model::Result;
    /// use marmota_store::Store;
    ///
    /// #[job]
    /// async fn greet(name: String) -> Result<()> {
    ///     println!("Hello {name}");
    ///     Ok(())
    /// }
    ///
    /// let store = marmota_jobs::models(Store::builder(Memory::new())).open()?;
    /// let greeting = "Good morning".to_owned();
    /// let jobs = Jobs::new(&store).register_with(move |job: Greet, _| {
    ///     let greeting = greeting.clone();
    ///     async move {
    ///         println!("{greeting} {}", job.name);
    ///         Ok(())
    ///     }
    /// })?;
    /// let worker = jobs.start(WorkerOptions::new())?;
    /// store.enqueue(&Greet { name: "Ada".into() }).run()?;
    /// worker.stop()?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Jobs::register`].
    pub fn register_with<J: Job, F>(
        mut self,
        run: impl Fn(J, JobContext) -> F + Send + Sync + 'static,
    ) -> Result<Self>
    where
        F: Future<Output = std::result::Result<(), JobFailure>> + Send + 'static,
    {
        let options = J::options();
        check_name("job", J::NAME)?;
        check_name("queue", options.queue)?;
        let start = move |input: &str, context: JobContext| {
            let job: J = serde_json::from_str(input).map_err(|error| {
                JobFailure::new(format_args!("the input does not fit `{}`: {error}", J::NAME))
            })?;
            Ok(Box::pin(run(job, context)) as Running)
        };
        let function = Function { name: J::NAME, options, start: Box::new(start) };
        if self.functions.insert(J::NAME, function).is_some() {
            let message = format!("two jobs are registered under the name `{}`", J::NAME);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(self)
    }

    /// Adds a schedule: a job is enqueued at each time of the pattern, by one of the processes that
    /// have a schedule of this name.
    ///
    /// If no process was running at one or more times, one job is enqueued for all of them when a
    /// worker starts. The same holds if the clock is set forward. If it is set back, times are not
    /// repeated. A pattern that was changed applies from the start of the worker on.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a name that is empty, too long or used twice, or for an input that
    /// cannot be enqueued.
    pub fn schedule<J: Job + Sync>(
        mut self,
        name: &str,
        pattern: CronPattern,
        job: J,
    ) -> Result<Self> {
        check_name("schedule", name)?;
        if self.schedules.iter().any(|other| other.name == name) {
            let message = format!("two schedules have the name `{name}`");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let row = move |now| {
            let mut row = row_of(&job, &J::options(), now)?;
            // The schedule decides how many jobs there are.
            row.unique_key = None;
            place(&mut row, None);
            Ok(row)
        };
        row(Timestamp::now())?;
        self.schedules.push(Schedule { name: name.to_owned(), pattern, job: Box::new(row) });
        Ok(self)
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("functions", &self.functions.keys()).finish_non_exhaustive()
    }
}

/// The options of a worker.
///
/// | option | default |
/// |---|---|
/// | queues | those of the registered functions, each with 100 jobs at a time |
/// | threads for asynchronous functions | the number of processors |
/// | threads for blocking functions | 16 |
/// | lease | 30 s |
/// | maximum time between two looks for jobs of other processes | 1 s |
/// | time limit of a stop | 30 s |
/// | succeeded jobs are kept | 1 hour |
/// | failed and cancelled jobs are kept | 7 days |
///
/// ```
/// use std::time::Duration;
/// use marmota_jobs::WorkerOptions;
/// let options = WorkerOptions::new().queue("mail", 10).stop_limit(Duration::from_secs(5));
/// # let _ = options;
/// ```
#[derive(Clone)]
pub struct WorkerOptions {
    pub(crate) queues: Vec<(String, usize)>,
    pub(crate) concurrency: usize,
    pub(crate) threads: usize,
    pub(crate) blocking_threads: usize,
    pub(crate) lease: Duration,
    pub(crate) poll_max: Duration,
    pub(crate) stop_limit: Duration,
    pub(crate) keep_succeeded: Duration,
    pub(crate) keep_failed: Duration,
    pub(crate) clock: Clock,
}

impl WorkerOptions {
    /// Creates options with the defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            queues: Vec::new(),
            concurrency: 100,
            threads: std::thread::available_parallelism().map_or(2, usize::from),
            blocking_threads: 16,
            lease: Duration::from_secs(30),
            poll_max: Duration::from_secs(1),
            stop_limit: Duration::from_secs(30),
            keep_succeeded: Duration::from_secs(60 * 60),
            keep_failed: Duration::from_secs(7 * 24 * 60 * 60),
            clock: Arc::new(Timestamp::now),
        }
    }

    /// Adds a queue, with the number of its jobs that this worker executes at a time. A worker with
    /// this option executes only jobs of the queues that were added.
    #[must_use]
    pub fn queue(mut self, name: &str, concurrency: usize) -> Self {
        self.queues.retain(|(other, _)| other != name);
        self.queues.push((name.to_owned(), concurrency.max(1)));
        self
    }

    /// Sets the number of jobs of a queue that are executed at a time, for queues that were not
    /// added by [`WorkerOptions::queue`]. Default: 100.
    #[must_use]
    pub fn concurrency(mut self, jobs: usize) -> Self {
        self.concurrency = jobs.max(1);
        self
    }

    /// Sets the number of threads for asynchronous functions, and of those for blocking ones.
    /// Default: the number of processors, and 16.
    #[must_use]
    pub fn threads(mut self, asynchronous: usize, blocking: usize) -> Self {
        (self.threads, self.blocking_threads) = (asynchronous.max(1), blocking.max(1));
        self
    }

    /// Sets the lease: if a process ends without a stop, others take its jobs after this time.
    /// The clocks of all processes must agree within it. At least 1 second. Default: 30 s.
    #[must_use]
    pub fn lease(mut self, time: Duration) -> Self {
        self.lease = time.max(Duration::from_secs(1));
        self
    }

    /// Sets the maximum time between two looks for jobs that other processes have enqueued.
    /// Default: 1 s.
    #[must_use]
    pub fn poll_max(mut self, time: Duration) -> Self {
        self.poll_max = time.max(Duration::from_millis(1));
        self
    }

    /// Sets the time for which a stop waits for the jobs in progress. Default: 30 s.
    #[must_use]
    pub const fn stop_limit(mut self, time: Duration) -> Self {
        self.stop_limit = time;
        self
    }

    /// Sets how long succeeded jobs are kept, and how long failed and cancelled ones. Zero: they
    /// are deleted when they end. Default: 1 hour and 7 days.
    #[must_use]
    pub const fn keep(mut self, succeeded: Duration, failed: Duration) -> Self {
        (self.keep_succeeded, self.keep_failed) = (succeeded, failed);
        self
    }

    /// Sets the clock, instead of the system's: for tests of schedules and leases.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Checks the names of queues.
    pub(crate) fn check(&self) -> Result<()> {
        self.queues.iter().try_for_each(|(name, _)| check_name("queue", name))
    }
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for WorkerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerOptions").field("queues", &self.queues).finish_non_exhaustive()
    }
}

//! The worker of a process: it stores deliveries and sends them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use marmota_jobs::{JobFailure, Jobs, Worker, WorkerOptions};
use marmota_model::{Result, Timestamp};
use marmota_store::Store;
use marmota_store::hook::Hook;

use crate::deliver::{DeliverLane, Deliverer, QUEUE};
use crate::dispatch;
use crate::sender::Sender;
use crate::shared::{Clock, Version};
use crate::sweep::{SweepWebhooks, Sweeper};

/// The pattern of the sweep: each minute.
const SWEEP: &str = "* * * * *";

/// The options of [`Webhooks::start`](crate::Webhooks::start).
///
/// | option | default |
/// |---|---|
/// | time limit of a request | 15 s |
/// | requests at a time | 32, of them 16 to one webhook |
/// | private addresses and `http:` URLs | refused |
/// | a webhook that fails is disabled after | 3 days |
/// | deliveries that may wait for a webhook | 100,000 |
/// | deliveries that have ended are kept | 3 days |
///
/// ```
/// use std::time::Duration;
/// use marmota_webhooks::WebhookOptions;
/// let options = WebhookOptions::new().timeout(Duration::from_secs(5)).allow_private(true);
/// # let _ = options;
/// ```
#[derive(Clone)]
pub struct WebhookOptions {
    timeout: Duration,
    concurrency: usize,
    allows_private: bool,
    disable_after: Duration,
    pending_max: u64,
    keep: Duration,
    lease: Duration,
    clock: Clock,
}

impl WebhookOptions {
    /// Creates options with the defaults.
    #[must_use]
    pub fn new() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            timeout: Duration::from_secs(15),
            concurrency: 32,
            allows_private: false,
            disable_after: DAY.saturating_mul(3),
            pending_max: 100_000,
            keep: DAY.saturating_mul(3),
            lease: Duration::from_secs(30),
            clock: Arc::new(Timestamp::now),
        }
    }

    /// Sets the time limit of a request, from the look-up of the name to the end of the answer.
    /// Default: 15 s.
    #[must_use]
    pub const fn timeout(mut self, time: Duration) -> Self {
        self.timeout = time;
        self
    }

    /// Sets how many requests this process sends at a time. Each has a thread. Default: 32.
    #[must_use]
    pub fn concurrency(mut self, requests: usize) -> Self {
        self.concurrency = requests.max(1);
        self
    }

    /// Sets whether requests may be sent to addresses that are not on the public internet
    /// (loopback, private and link-local ones), and to `http:` URLs. Default: false.
    #[must_use]
    pub const fn allow_private(mut self, allows: bool) -> Self {
        self.allows_private = allows;
        self
    }

    /// Sets the time after which a webhook is disabled if no request succeeds. A single delivery
    /// that fails for this time, while others succeed, is given up. Default: 3 days.
    #[must_use]
    pub const fn disable_after(mut self, time: Duration) -> Self {
        self.disable_after = time;
        self
    }

    /// Sets how many deliveries may wait for a webhook. It is disabled if there are more; they are
    /// counted each minute. Default: 100,000.
    #[must_use]
    pub const fn pending_max(mut self, deliveries: u64) -> Self {
        self.pending_max = deliveries;
        self
    }

    /// Sets how long deliveries are kept after their end. Default: 3 days.
    #[must_use]
    pub const fn keep(mut self, time: Duration) -> Self {
        self.keep = time;
        self
    }

    /// Sets the lease of the jobs: if this process is killed, another one continues after this time.
    /// Default: 30 s.
    #[must_use]
    pub const fn lease(mut self, time: Duration) -> Self {
        self.lease = time;
        self
    }

    /// Sets the clock, instead of the system's: for tests of pauses and limits.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }
}

impl Default for WebhookOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for WebhookOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookOptions")
            .field("timeout", &self.timeout)
            .field("allows_private", &self.allows_private)
            .finish_non_exhaustive()
    }
}

/// A running worker of webhooks. Dropping it stops it.
#[must_use = "dropping a worker stops it"]
pub struct WebhookWorker {
    hook: Option<Hook>,
    jobs: Option<Worker>,
}

impl WebhookWorker {
    pub(crate) fn start(store: &Store, version: Version, options: WebhookOptions) -> Result<Self> {
        let deliverer = Arc::new(Deliverer {
            sender: Sender::new(options.timeout, options.allows_private),
            disable_after: options.disable_after,
            clock: Arc::clone(&options.clock),
        });
        let sweeper = Arc::new(Sweeper {
            keep: options.keep,
            pending_max: options.pending_max,
            clock: Arc::clone(&options.clock),
        });
        sweeper.sweep(store)?;
        let clock = options.clock;
        let of_jobs = WorkerOptions::new()
            .queue(QUEUE, options.concurrency)
            .threads(1, options.concurrency)
            .lease(options.lease)
            .stop_limit(options.timeout + Duration::from_secs(5))
            // Deliveries are the record; their jobs are of no interest.
            .keep(Duration::ZERO, Duration::from_secs(24 * 60 * 60))
            .clock(move || clock());
        let jobs = Jobs::new(store)
            .register_with(move |job: DeliverLane, context| {
                let deliverer = Arc::clone(&deliverer);
                async move { deliverer.deliver(job.lane, &context).map_err(JobFailure::from) }
            })?
            .register_with(move |_: SweepWebhooks, context| {
                let sweeper = Arc::clone(&sweeper);
                async move { sweeper.sweep(context.store()).map_err(JobFailure::from) }
            })?
            .schedule("marmota-webhooks", SWEEP.parse()?, SweepWebhooks {})?
            .start(of_jobs)?;
        let hook = dispatch::start(store, version)?;
        Ok(Self { hook: Some(hook), jobs: Some(jobs) })
    }

    /// Stops the deliveries: requests in progress end first. Changes are still dispatched, and their
    /// deliveries wait.
    ///
    /// # Errors
    /// Those of the store.
    pub fn stop_deliveries(&mut self) -> Result<()> {
        self.jobs.take().map_or(Ok(()), Worker::stop)
    }

    /// Stops the worker: requests in progress end first. What waits is sent by another process, or
    /// after the next start.
    ///
    /// # Errors
    /// Those of the store.
    pub fn stop(mut self) -> Result<()> {
        if let Some(hook) = self.hook.take() {
            hook.stop();
        }
        self.stop_deliveries()
    }
}

impl fmt::Debug for WebhookWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookWorker").finish_non_exhaustive()
    }
}

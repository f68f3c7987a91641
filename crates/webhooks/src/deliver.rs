//! The job that sends the deliveries of a lane, one after the other.
//!
//! A failed delivery blocks the later ones of its row, and no others. The job continues with other
//! rows, ends with an error, and is executed again after a pause.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use marmota_jobs::{Job, JobContext, JobFailure, JobOptions};
use marmota_model::{Error, ErrorKind, Result, Timestamp};
use marmota_store::Store;
use marmota_store::backoff::Backoff;
use serde::{Deserialize, Serialize};

use crate::models::{DeliveryRow, DeliveryState, LANES, WebhookRow, WebhookState};
use crate::sender::{Failure, Message, Sender};
use crate::shared::{Clock, disable};

/// The queue of the jobs.
pub(crate) const QUEUE: &str = "marmota_webhook";
/// The deliveries that are read at once.
const PAGE: u64 = 50;
/// The deliveries that a job reads at most after a failure, to find other rows.
const READ_MAX: u64 = 500;
/// The rows that may fail in one execution of a job.
const FAILURES_MAX: usize = 3;
/// The time after which a job lets others have its thread.
const TURN: Duration = Duration::from_secs(30);
/// The pauses after failures.
const PAUSE_MIN: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(10 * 60);
/// The maximum length of a stored error, in characters.
const ERROR_CHARS_MAX: usize = 1_000;
/// The answer of a receiver that wants no more requests.
const GONE: u16 = 410;

/// What the jobs of a worker share.
pub(crate) struct Deliverer {
    pub(crate) sender: Sender,
    pub(crate) disable_after: Duration,
    pub(crate) clock: Clock,
}

/// The job of a lane.
#[derive(Serialize, Deserialize)]
pub(crate) struct DeliverLane {
    pub(crate) lane: i64,
}

/// How an attempt has ended.
enum Attempt {
    Delivered,
    /// Other deliveries of the row wait.
    Failed {
        error: String,
        attempts: i32,
        is_answered: bool,
    },
    /// The delivery was given up: the next one of the row is sent.
    GivenUp,
    Disabled,
}

impl Job for DeliverLane {
    const NAME: &'static str = "marmota_webhook_deliver";

    fn options() -> JobOptions {
        // The thread of a job that is still running must not be followed by a second one.
        JobOptions::new()
            .queue(QUEUE)
            .retries(10_000)
            .timeout(Duration::from_secs(24 * 60 * 60))
            .blocking()
    }

    fn unique_key(&self) -> Result<Option<String>> {
        Ok(Some(self.lane.to_string()))
    }

    async fn run(self, _: JobContext) -> std::result::Result<(), JobFailure> {
        Err(not_here())
    }
}

/// Returns the failure of a job that was registered without the worker's data.
#[cold]
pub(crate) fn not_here() -> JobFailure {
    JobFailure::new("jobs of webhooks are executed by `Webhooks::start` alone")
}

impl Deliverer {
    pub(crate) fn deliver(&self, lane: i64, context: &JobContext) -> Result<()> {
        let began = Instant::now();
        loop {
            let store = context.store();
            let Some(webhook) = store.get::<WebhookRow>(lane / LANES).optional().run()? else {
                store.delete_where(DeliveryRow::LANE.eq(lane)).run()?;
                return Ok(());
            };
            if !self.deliver_all(webhook, lane, began, context)? {
                return Ok(());
            }
            // A delivery that was stored meanwhile has found this job, and no other one exists.
            let finished = context.transaction(|transaction| {
                match transaction.count::<DeliveryRow>().filter(pending(lane)).run()? {
                    0 => Ok(()),
                    _ => Err(Error::new(ErrorKind::Busy, "more deliveries were stored")),
                }
            });
            match finished {
                Err(error) if error.kind() == ErrorKind::Busy => {}
                finished => return finished,
            }
        }
    }

    /// Sends what waits in a lane. Returns false if the webhook was disabled.
    ///
    /// # Errors
    /// A delivery that failed, or a worker that stops.
    fn deliver_all(
        &self,
        mut webhook: WebhookRow,
        lane: i64,
        began: Instant,
        context: &JobContext,
    ) -> Result<bool> {
        let store = context.store();
        let mut blocked: HashSet<String> = HashSet::new();
        let (mut failure, mut last, mut read) = (None, 0, 0);
        'pages: while failure.is_none() || read < READ_MAX {
            let page = store
                .list::<DeliveryRow>()
                .filter(pending(lane).and(DeliveryRow::ID.gt(last)))
                .order(DeliveryRow::ID.ascending())
                .limit(PAGE)
                .run()?;
            let Some(end) = page.last() else { break };
            (last, read) = (end.id, read + PAGE);
            for delivery in page {
                if context.is_stopping() || context.is_cancelled() || began.elapsed() > TURN {
                    context.retry_in(Duration::ZERO);
                    return Err(Error::new(ErrorKind::Busy, "it continues later"));
                }
                if webhook.state == WebhookState::Disabled {
                    return Ok(false);
                }
                if blocked.contains(&delivery.row) {
                    continue;
                }
                match self.attempt(store, &mut webhook, &delivery)? {
                    Attempt::Delivered | Attempt::GivenUp => {}
                    Attempt::Disabled => return Ok(false),
                    Attempt::Failed { error, attempts, is_answered } => {
                        blocked.insert(delivery.row);
                        let (_, least) = failure.get_or_insert((error, attempts));
                        *least = attempts.min(*least);
                        if !is_answered || blocked.len() >= FAILURES_MAX {
                            break 'pages;
                        }
                    }
                }
            }
            // Another process may have disabled, changed or removed it.
            match store.get::<WebhookRow>(webhook.id).optional().run()? {
                Some(current) => webhook = current,
                None => break,
            }
        }
        let Some((error, attempts)) = failure else { return Ok(true) };
        context.retry_in(pause_after(attempts));
        Err(Error::new(ErrorKind::Io, error))
    }

    /// Sends one delivery, and stores the result.
    fn attempt(
        &self,
        store: &Store,
        webhook: &mut WebhookRow,
        delivery: &DeliveryRow,
    ) -> Result<Attempt> {
        let secret = webhook.secret.parse()?;
        let now = (self.clock)();
        let message = Message {
            id: &delivery.message,
            seconds: now.micros() / 1_000_000,
            body: &delivery.payload,
        };
        let sent = self.sender.send(&webhook.url, &secret, &message);
        let now = (self.clock)();
        match sent {
            Ok(status) => {
                store
                    .patch::<DeliveryRow>(delivery.id)
                    .set(DeliveryRow::STATE, DeliveryState::Delivered)
                    .set(DeliveryRow::ATTEMPTS, delivery.attempts.saturating_add(1))
                    .set(DeliveryRow::STATUS, Some(i32::from(status)))
                    .set(DeliveryRow::ENDED_AT, Some(now))
                    .run()?;
                if webhook.failing_since.take().is_some() {
                    let none: Option<Timestamp> = None;
                    let patch = store.patch::<WebhookRow>(webhook.id);
                    patch.set(WebhookRow::FAILING_SINCE, none).run()?;
                }
                Ok(Attempt::Delivered)
            }
            Err(failure) => self.failed(store, webhook, delivery, &failure, now),
        }
    }

    /// Stores a failure, and disables a webhook that has failed for too long.
    fn failed(
        &self,
        store: &Store,
        webhook: &mut WebhookRow,
        delivery: &DeliveryRow,
        failure: &Failure,
        now: Timestamp,
    ) -> Result<Attempt> {
        let error: String = failure.error.chars().take(ERROR_CHARS_MAX).collect();
        let attempts = delivery.attempts.saturating_add(1);
        let since = delivery.failing_since.unwrap_or(now);
        let is_long = |since: Timestamp| {
            now.micros().saturating_sub(since.micros()) >= self.disable_after.as_micros() as i64
        };
        // The receiver accepts others: this one would block its row forever.
        let is_given_up = is_long(since) && webhook.failing_since.is_none_or(|at| !is_long(at));
        let state = if is_given_up { DeliveryState::Failed } else { DeliveryState::Pending };
        store
            .patch::<DeliveryRow>(delivery.id)
            .set(DeliveryRow::STATE, state)
            .set(DeliveryRow::ATTEMPTS, attempts)
            .set(DeliveryRow::STATUS, failure.status.map(i32::from))
            .set(DeliveryRow::ERROR, Some(error.clone()))
            .set(DeliveryRow::FAILING_SINCE, Some(since))
            .set(DeliveryRow::ENDED_AT, is_given_up.then_some(now))
            .run()?;
        log::warn!("webhook `{}`: {}, attempt {attempts}: {error}", webhook.name, delivery.message);
        if failure.status == Some(GONE) {
            disable(store, webhook, "the receiver answered 410 Gone")?;
            return Ok(Attempt::Disabled);
        }
        let failing_since = webhook.failing_since.unwrap_or(now);
        if is_long(failing_since) {
            let reason = format!("no request has succeeded since {failing_since}; {error}");
            disable(store, webhook, &reason)?;
            return Ok(Attempt::Disabled);
        }
        if webhook.failing_since.is_none() {
            webhook.failing_since = Some(now);
            let patch = store.patch::<WebhookRow>(webhook.id);
            patch.set(WebhookRow::FAILING_SINCE, Some(now)).run()?;
        }
        if is_given_up {
            return Ok(Attempt::GivenUp);
        }
        Ok(Attempt::Failed { error, attempts, is_answered: failure.status.is_some() })
    }
}

/// Selects the deliveries of a lane that wait.
pub(crate) fn pending(lane: i64) -> marmota_model::Filter<DeliveryRow> {
    DeliveryRow::LANE.eq(lane).and(DeliveryRow::STATE.eq(DeliveryState::Pending))
}

/// Returns the pause before the next attempt.
fn pause_after(attempts: i32) -> Duration {
    let doublings = u32::try_from(attempts - 1).unwrap_or(0).min(16);
    let pause = PAUSE_MIN.saturating_mul(1 << doublings).min(PAUSE_MAX);
    Backoff::new(pause, pause).pause()
}

//! The job that is executed each minute: it finds deliveries without a job, limits the number of
//! deliveries, and removes old ones.

use std::time::Duration;

use marmota_jobs::{EnqueueJobs as _, Job, JobContext, JobFailure, JobOptions};
use marmota_model::{Result, Timestamp};
use marmota_store::Store;
use serde::{Deserialize, Serialize};

use crate::deliver::{DeliverLane, QUEUE, not_here, pending};
use crate::models::{DeliveryRow, DeliveryState, LANES, WebhookRow, WebhookState};
use crate::shared::{Clock, disable};

/// What the job has of the worker's options.
pub(crate) struct Sweeper {
    pub(crate) keep: Duration,
    pub(crate) pending_max: u64,
    pub(crate) clock: Clock,
}

/// The job.
#[derive(Serialize, Deserialize)]
pub(crate) struct SweepWebhooks {}

impl Job for SweepWebhooks {
    const NAME: &'static str = "marmota_webhook_sweep";

    fn options() -> JobOptions {
        JobOptions::new().queue(QUEUE).retries(0).priority(10).blocking()
    }

    async fn run(self, _: JobContext) -> std::result::Result<(), JobFailure> {
        Err(not_here())
    }
}

impl Sweeper {
    pub(crate) fn sweep(&self, store: &Store) -> Result<()> {
        for webhook in store.list::<WebhookRow>().run()? {
            if webhook.state == WebhookState::Disabled {
                continue;
            }
            let waiting = DeliveryRow::WEBHOOK
                .eq(webhook.id)
                .and(DeliveryRow::STATE.eq(DeliveryState::Pending));
            let waiting = store.count::<DeliveryRow>().filter(waiting).run()?;
            if waiting > self.pending_max {
                let reason =
                    format!("{waiting} changes wait, and at most {} may", self.pending_max);
                disable(store, &webhook, &reason)?;
                continue;
            }
            if waiting > 0 {
                wake(store, webhook.id)?;
            }
        }
        let now = (self.clock)().micros();
        let old = now.saturating_sub(self.keep.as_micros() as i64);
        let old = Timestamp::from_micros(old).unwrap_or_default();
        for state in [DeliveryState::Delivered, DeliveryState::Failed] {
            let ended = DeliveryRow::STATE.eq(state).and(DeliveryRow::ENDED_AT.lt(old));
            store.delete_where(ended).run()?;
        }
        Ok(())
    }
}

/// Enqueues the jobs of the lanes of a webhook in which deliveries wait.
pub(crate) fn wake(store: &Store, webhook: i64) -> Result<()> {
    for lane in webhook * LANES..(webhook + 1) * LANES {
        if store.list::<DeliveryRow>().filter(pending(lane)).limit(1).run()?.is_empty() {
            continue;
        }
        store.enqueue(&DeliverLane { lane }).run()?;
    }
    Ok(())
}

//! What the parts of a worker share: its clock, the version of the webhooks, disabling one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use marmota_model::{Result, Timestamp};
use marmota_store::Store;

use crate::models::{WebhookRow, WebhookState};

/// The clock of a worker.
pub(crate) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A number that is incremented when this process changes a webhook.
#[derive(Clone, Default)]
pub(crate) struct Version(Arc<AtomicU64>);

impl Version {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn increment(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Disables a webhook for a reason, which an operator finds in its row and in the log.
pub(crate) fn disable(store: &Store, webhook: &WebhookRow, reason: &str) -> Result<()> {
    log::error!(
        "webhook `{}` is disabled: {reason}; `webhook enable {}` enables it again",
        webhook.name,
        webhook.name
    );
    store
        .patch::<WebhookRow>(webhook.id)
        .set(WebhookRow::STATE, WebhookState::Disabled)
        .set(WebhookRow::REASON, Some(reason.to_owned()))
        .run()
        .map(drop)
}

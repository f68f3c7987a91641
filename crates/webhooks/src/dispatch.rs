//! From commits of the change feed to deliveries. One process at a time does it: the one with the
//! lease of the hook.

use std::time::{Duration, Instant};

use marmota_jobs::EnqueueJobs as _;
use marmota_model::Result;
use marmota_store::Store;
use marmota_store::change::Commit;
use marmota_store::hook::{Hook, HookOptions};

use crate::deliver::DeliverLane;
use crate::models::{DeliveryRow, WebhookRow, WebhookState};
use crate::shared::{Version, disable};
use crate::subscription::Subscription;

/// The name of the hook, under which the database has its cursor.
const HOOK: &str = "marmota-webhooks";
/// Webhooks that another process has changed apply after this time.
const READ_AFTER: Duration = Duration::from_secs(1);

/// The enabled webhooks, as they were read last.
struct Dispatcher {
    store: Store,
    version: Version,
    read: Option<(Instant, u64)>,
    subscriptions: Vec<Subscription>,
}

/// Starts to store deliveries of the changes from now on, or from where the last process ended.
pub(crate) fn start(store: &Store, version: Version) -> Result<Hook> {
    let mut dispatcher =
        Dispatcher { store: store.clone(), version, read: None, subscriptions: Vec::new() };
    // A change must not be lost because the database was not available for a while.
    let options = HookOptions::default().attempts(u32::MAX);
    store.after_each_commit(HOOK, options, move |commit| dispatcher.dispatch(commit))
}

impl Dispatcher {
    fn dispatch(&mut self, commit: &Commit) -> Result<()> {
        self.refresh()?;
        let mut deliveries = Vec::new();
        for (number, change) in commit.changes.iter().enumerate() {
            for subscription in &self.subscriptions {
                deliveries.extend(subscription.delivery(commit, number, change)?);
            }
        }
        match deliveries.is_empty() {
            true => Ok(()),
            false => self.save(&deliveries),
        }
    }

    /// Stores deliveries with the jobs that send them.
    fn save(&self, deliveries: &[DeliveryRow]) -> Result<()> {
        let mut lanes: Vec<i64> = deliveries.iter().map(|delivery| delivery.lane).collect();
        lanes.sort_unstable();
        lanes.dedup();
        self.store.transaction(|transaction| {
            for delivery in deliveries {
                transaction.insert(delivery).or_ignore().run()?;
            }
            for &lane in &lanes {
                transaction.enqueue(&DeliverLane { lane }).run()?;
            }
            Ok(())
        })
    }

    /// Reads the webhooks again if they may have changed.
    fn refresh(&mut self) -> Result<()> {
        let version = self.version.get();
        let is_fresh = |(at, of): (Instant, u64)| of == version && at.elapsed() < READ_AFTER;
        if self.read.is_some_and(is_fresh) {
            return Ok(());
        }
        let enabled = WebhookRow::STATE.eq(WebhookState::Enabled);
        let rows = self.store.list::<WebhookRow>().filter(enabled).run()?;
        self.subscriptions.clear();
        for row in rows {
            match Subscription::new(&self.store, &row) {
                Ok(subscription) => self.subscriptions.push(subscription),
                Err(error) => {
                    let reason = format!("it does not fit the tables: {}", error.message());
                    disable(&self.store, &row, &reason)?;
                }
            }
        }
        self.read = Some((Instant::now(), version));
        Ok(())
    }
}

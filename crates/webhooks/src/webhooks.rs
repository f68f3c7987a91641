//! The webhooks of a store, for programs and operators: define, list, enable, replay.

use std::fmt;

use marmota_jobs::{EnqueueJobs as _, JobAdmin};
use marmota_model::{Error, ErrorKind, Json, Result, Timestamp};
use marmota_store::Store;

use crate::definition::Webhook;
use crate::deliver::DeliverLane;
use crate::models::{DeliveryRow, DeliveryState, LANES, WebhookRow, WebhookState};
use crate::secret::WebhookSecret;
use crate::shared::Version;
use crate::subscription::Selection;
use crate::worker::{WebhookOptions, WebhookWorker};

/// The maximum number of webhooks of a store.
const WEBHOOKS_MAX: u64 = 1_000;
/// Why a webhook was disabled that a file does not have any more.
const NOT_DECLARED: &str = "the file of tables, or the program, does not define it any more";
/// The maximum number of deliveries of a list.
const DELIVERIES_MAX: u64 = 1_000;

/// The webhooks of a store. A clone refers to the same ones.
///
/// The methods are asynchronous; blocking callers use
/// [`block_on`](marmota_store::action::block_on).
///
/// ```
/// use marmota_derive::Model;
/// use marmota_memory::Memory;
/// use marmota_store::Store;
/// use marmota_store::action::block_on;
/// use marmota_webhooks::{Webhook, Webhooks};
///
/// #[derive(Clone, Debug, Model)]
/// struct Issue {
///     id: i64,
///     title: String,
/// }
///
/// let store = marmota_webhooks::models(Store::builder(Memory::new()).model::<Issue>()).open()?;
/// let webhooks = Webhooks::new(&store);
/// block_on(async {
///     webhooks.set(&Webhook::new("chat", "https://chat.example.org/hook", "issue")).await?;
///     let listed = webhooks.list().await?;
///     assert_eq!(listed[0].url, "https://chat.example.org/hook");
///     webhooks.remove("chat").await
/// })?;
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone)]
pub struct Webhooks {
    store: Store,
    version: Version,
}

/// Which deliveries to list.
///
/// ```
/// use marmota_webhooks::{DeliveryQuery, DeliveryState};
/// let query = DeliveryQuery::new().state(DeliveryState::Failed).limit(20);
/// # let _ = query;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DeliveryQuery {
    state: Option<DeliveryState>,
    before: Option<i64>,
    limit: u64,
}

impl DeliveryQuery {
    /// Selects the last 100 deliveries.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: None, before: None, limit: 100 }
    }

    /// Selects deliveries in this state. Default: all.
    #[must_use]
    pub const fn state(mut self, state: DeliveryState) -> Self {
        self.state = Some(state);
        self
    }

    /// Selects deliveries with lower keys, to continue a list. Default: all.
    #[must_use]
    pub const fn before(mut self, id: i64) -> Self {
        self.before = Some(id);
        self
    }

    /// Returns true if a list with this number of deliveries may have more.
    #[cfg(feature = "routes")]
    pub(crate) const fn is_full(&self, count: usize) -> bool {
        count as u64 >= self.limit
    }

    /// Sets the maximum number, at most 1,000. Default: 100.
    #[must_use]
    pub const fn limit(mut self, deliveries: u64) -> Self {
        self.limit = if deliveries > DELIVERIES_MAX { DELIVERIES_MAX } else { deliveries };
        self
    }
}

impl Default for DeliveryQuery {
    fn default() -> Self {
        Self::new()
    }
}

impl Webhooks {
    /// Returns the webhooks of a store with their tables ([`crate::models`]).
    #[must_use]
    pub fn new(store: &Store) -> Self {
        Self { store: store.clone(), version: Version::default() }
    }

    /// Returns the store.
    #[cfg(feature = "routes")]
    pub(crate) const fn store(&self) -> &Store {
        &self.store
    }

    /// Starts to store deliveries and to send them. Any number of processes can do so.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the store records no changes, [`ErrorKind::NotFound`] without
    /// the tables, errors of the store.
    pub fn start(&self, options: WebhookOptions) -> Result<WebhookWorker> {
        WebhookWorker::start(&self.store, self.version.clone(), options)
    }

    /// Adds a webhook, or replaces the one with this name, and enables it. Without a secret, it keeps
    /// the present one, or gets a new one. It gets changes that are made from now on; other
    /// processes apply it within a second.
    ///
    /// # Errors
    /// Those of [`Webhook::check`]; [`ErrorKind::Conflict`] for more than 1,000 webhooks.
    pub async fn set(&self, webhook: &Webhook) -> Result<WebhookRow> {
        self.write(webhook, false).await
    }

    async fn write(&self, webhook: &Webhook, is_declared: bool) -> Result<WebhookRow> {
        webhook.check(&self.store)?;
        let present = self.find(&webhook.name).await?;
        let secret = match (&webhook.secret, &present) {
            (Some(secret), _) => secret.clone(),
            (None, Some(present)) => present.secret.clone(),
            (None, None) => WebhookSecret::generate()?.to_text(),
        };
        let Webhook { name, url, table, filter, kinds, fields, .. } = webhook.clone();
        let mut row = WebhookRow {
            id: 0,
            name,
            url,
            of_table: table,
            filter,
            kinds: Json(Selection::kind_names(&kinds)),
            fields: Json(fields),
            secret,
            state: WebhookState::Enabled,
            reason: None,
            failing_since: None,
            created_at: Timestamp::default(),
            is_declared,
            version: 0,
        };
        match present {
            Some(present) => {
                row.id = present.id;
                (row.created_at, row.version) = (present.created_at, present.version);
                self.store.update(&row).await?;
            }
            None => {
                if self.store.count::<WebhookRow>().await? >= WEBHOOKS_MAX {
                    let message = format!("there are {WEBHOOKS_MAX} webhooks already; remove one");
                    return Err(Error::new(ErrorKind::Conflict, message));
                }
                row.id = self.store.insert(&row).await?;
            }
        }
        self.version.increment();
        self.wake(&row).await?;
        Ok(row)
    }

    /// Adds a webhook, or replaces the one with this name if it has another definition: for
    /// definitions in a program or a file, which are the same at each start. A webhook that was
    /// disabled stays disabled.
    ///
    /// # Errors
    /// Those of [`Webhooks::set`].
    pub async fn ensure(&self, webhook: &Webhook) -> Result<()> {
        self.ensure_as(webhook, false).await
    }

    /// Makes these the webhooks of a program or a file, which defines them completely: each is added
    /// or replaced as by [`Webhooks::ensure`]. Those that an earlier call has defined, and this one does
    /// not, are disabled, with a reason. They keep their secret and what waits, and are enabled again
    /// when they return. Webhooks that were added by [`Webhooks::set`] are not changed.
    ///
    /// # Errors
    /// Those of [`Webhooks::set`].
    pub async fn declare(&self, webhooks: &[Webhook]) -> Result<()> {
        for webhook in webhooks {
            let present = self.find(&webhook.name).await?;
            self.ensure_as(webhook, true).await?;
            if present.is_some_and(|row| row.reason.as_deref() == Some(NOT_DECLARED)) {
                self.enable(&webhook.name).await?;
            }
        }
        let is_gone =
            WebhookRow::IS_DECLARED.eq(true).and(WebhookRow::STATE.eq(WebhookState::Enabled));
        for row in self.store.list::<WebhookRow>().filter(is_gone).await? {
            if webhooks.iter().all(|webhook| webhook.name != row.name) {
                log::warn!(target: "marmota", "the webhook `{}` is disabled: {NOT_DECLARED}", row.name);
                self.disable_for(row.id, NOT_DECLARED).await?;
            }
        }
        Ok(())
    }

    async fn ensure_as(&self, webhook: &Webhook, is_declared: bool) -> Result<()> {
        webhook.check(&self.store)?;
        let is_same = self.find(&webhook.name).await?.is_some_and(|row| {
            row.is_declared == is_declared
                && row.url == webhook.url
                && row.of_table == webhook.table
                && row.filter == webhook.filter
                && row.kinds.0 == Selection::kind_names(&webhook.kinds)
                && row.fields.0 == webhook.fields
                && webhook.secret.as_ref().is_none_or(|secret| *secret == row.secret)
        });
        match is_same {
            true => Ok(()),
            false => self.write(webhook, is_declared).await.map(drop),
        }
    }

    /// Returns all webhooks, by name.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn list(&self) -> Result<Vec<WebhookRow>> {
        self.store.list::<WebhookRow>().order(WebhookRow::NAME.ascending()).await
    }

    /// Returns a webhook.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if no webhook has this name.
    pub async fn get(&self, name: &str) -> Result<WebhookRow> {
        self.find(name).await?.ok_or_else(|| {
            let name = marmota_model::text::excerpt(name);
            Error::new(ErrorKind::NotFound, format!("there is no webhook `{name}`"))
        })
    }

    /// Returns the secret of a webhook, for its receiver.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if no webhook has this name.
    pub async fn secret(&self, name: &str) -> Result<String> {
        Ok(self.get(name).await?.secret)
    }

    /// Removes a webhook with its deliveries.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if no webhook has this name.
    pub async fn remove(&self, name: &str) -> Result<()> {
        let webhook = self.get(name).await?;
        self.store.delete::<WebhookRow>(webhook.id).await?;
        self.version.increment();
        self.store.delete_where(DeliveryRow::WEBHOOK.eq(webhook.id)).await.map(drop)
    }

    /// Enables a webhook. Deliveries that wait are sent at once. Changes that were made while it was
    /// disabled are not sent.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if no webhook has this name.
    pub async fn enable(&self, name: &str) -> Result<WebhookRow> {
        let webhook = self.get(name).await?;
        let (no_reason, no_time): (Option<String>, Option<Timestamp>) = (None, None);
        self.store
            .patch::<WebhookRow>(webhook.id)
            .set(WebhookRow::STATE, WebhookState::Enabled)
            .set(WebhookRow::REASON, no_reason)
            .set(WebhookRow::FAILING_SINCE, no_time)
            .await?;
        self.version.increment();
        self.wake(&webhook).await?;
        self.get(name).await
    }

    /// Disables a webhook: it gets no changes, and what waits is not sent.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if no webhook has this name.
    pub async fn disable(&self, name: &str) -> Result<WebhookRow> {
        let webhook = self.get(name).await?;
        self.disable_for(webhook.id, "by an administrator").await?;
        self.get(name).await
    }

    async fn disable_for(&self, id: i64, reason: &str) -> Result<()> {
        self.store
            .patch::<WebhookRow>(id)
            .set(WebhookRow::STATE, WebhookState::Disabled)
            .set(WebhookRow::REASON, Some(reason.to_owned()))
            .await?;
        self.version.increment();
        Ok(())
    }

    /// Returns deliveries of a webhook, the last ones first.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if no webhook has this name.
    pub async fn deliveries(&self, name: &str, query: DeliveryQuery) -> Result<Vec<DeliveryRow>> {
        let mut filter = DeliveryRow::WEBHOOK.eq(self.get(name).await?.id);
        if let Some(state) = query.state {
            filter = filter.and(DeliveryRow::STATE.eq(state));
        }
        if let Some(before) = query.before {
            filter = filter.and(DeliveryRow::ID.lt(before));
        }
        let list = self.store.list::<DeliveryRow>().filter(filter);
        list.order(DeliveryRow::ID.descending()).limit(query.limit).await
    }

    /// Sends a delivery again, with its id and its payload. One that waits is sent at once.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the webhook has no such delivery: it may have been removed some
    /// days after its end.
    pub async fn replay(&self, name: &str, delivery: i64) -> Result<()> {
        let webhook = self.get(name).await?;
        let found = self.store.get::<DeliveryRow>(delivery).optional().await?;
        let Some(found) = found.filter(|found| found.webhook == webhook.id) else {
            let message = format!("the webhook `{name}` has no delivery {delivery}");
            return Err(Error::new(ErrorKind::NotFound, message));
        };
        self.make_pending(&found).await?;
        self.wake(&webhook).await
    }

    /// Sends the deliveries again that were given up, at most 1,000. Returns their number.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if no webhook has this name.
    pub async fn replay_failed(&self, name: &str) -> Result<usize> {
        let webhook = self.get(name).await?;
        let query = DeliveryQuery::new().state(DeliveryState::Failed).limit(DELIVERIES_MAX);
        let failed = self.deliveries(name, query).await?;
        for delivery in &failed {
            self.make_pending(delivery).await?;
        }
        self.wake(&webhook).await?;
        Ok(failed.len())
    }

    async fn make_pending(&self, delivery: &DeliveryRow) -> Result<()> {
        let none: Option<Timestamp> = None;
        self.store
            .patch::<DeliveryRow>(delivery.id)
            .set(DeliveryRow::STATE, DeliveryState::Pending)
            .set(DeliveryRow::FAILING_SINCE, none)
            .set(DeliveryRow::ENDED_AT, none)
            .await
            .map(drop)
    }

    async fn find(&self, name: &str) -> Result<Option<WebhookRow>> {
        let rows = self.store.list::<WebhookRow>().filter(WebhookRow::NAME.eq(name)).await?;
        Ok(rows.into_iter().next())
    }

    /// Has the deliveries sent that wait, also those that pause after a failure.
    async fn wake(&self, webhook: &WebhookRow) -> Result<()> {
        let jobs = JobAdmin::new(&self.store);
        for lane in webhook.id * LANES..(webhook.id + 1) * LANES {
            let waiting = self.store.list::<DeliveryRow>().filter(crate::deliver::pending(lane));
            if waiting.limit(1).await?.is_empty() {
                continue;
            }
            let job = self.store.enqueue(&DeliverLane { lane }).await?;
            if !job.is_new {
                match jobs.retry(job.id).await {
                    Err(error)
                        if !matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) =>
                    {
                        return Err(error);
                    }
                    // It is due, running, or has just ended.
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Webhooks").field(&self.store).finish()
    }
}

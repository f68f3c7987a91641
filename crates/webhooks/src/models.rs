//! The tables of webhooks: rows of the store.
//!
//! | table | a row is |
//! |---|---|
//! | `marmota_webhook` | a webhook, and whether it is enabled |
//! | `marmota_webhook_delivery` | a change that a webhook gets, and whether it was sent |
//!
//! Both are internal: they are not in the change feed, REST does not show them, and no grant opens
//! them.
#![allow(clippy::duplicated_attributes, reason = "several indexes have the same field")]
#![allow(unreachable_pub, reason = "the derive gives columns the visibility of their fields")]

use std::fmt;
use std::str::FromStr;

use marmota_derive::{Model, ModelEnum};
use marmota_model::{Error, ErrorKind, Json, Result, Timestamp};
use marmota_store::StoreBuilder;
use serde_json::{Value, json};

/// The number of lanes of a webhook. Deliveries of one row are in one lane, which has at most one
/// job; so it is also the maximum number of requests to a webhook at a time.
pub(crate) const LANES: i64 = 16;

/// The state of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ModelEnum)]
pub enum WebhookState {
    /// It gets changes.
    Enabled,
    /// It gets no changes, and nothing is sent.
    Disabled,
}

impl WebhookState {
    /// Returns the name in lower case.
    ///
    /// ```
    /// assert_eq!(marmota_webhooks::WebhookState::Enabled.name(), "enabled");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
        }
    }
}

/// The state of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ModelEnum)]
pub enum DeliveryState {
    /// It waits to be sent, for the first time or again.
    Pending,
    /// The receiver has acknowledged it.
    Delivered,
    /// It was given up after a long time. [`crate::Webhooks::replay`] sends it again.
    Failed,
}

impl DeliveryState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Delivered, Self::Failed];

    /// Returns the name in lower case, as the command line and REST have it.
    ///
    /// ```
    /// assert_eq!(marmota_webhooks::DeliveryState::Pending.name(), "pending");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }
}

impl FromStr for DeliveryState {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|state| state.name() == text).ok_or_else(|| {
            let text = marmota_model::text::excerpt(text);
            let message = format!("`state` is `{text}`; it must be pending, delivered or failed");
            Error::new(ErrorKind::Invalid, message)
        })
    }
}

/// A webhook, as the store has it. `Debug` and [`WebhookRow::to_json`] do not show the secret.
#[derive(Clone, Model)]
#[model(table = "marmota_webhook")]
pub struct WebhookRow {
    /// The primary key.
    pub id: i64,
    /// The name.
    #[model(unique, not_empty, max = 100)]
    pub name: String,
    /// Where changes are sent to.
    pub url: String,
    /// The table whose changes are sent.
    pub of_table: String,
    /// The filter that a row has to match.
    pub filter: Option<String>,
    /// The names of the kinds of change.
    pub kinds: Json<Vec<String>>,
    /// The names of the fields that are sent; empty for all fields.
    pub fields: Json<Vec<String>>,
    pub(crate) secret: String,
    /// Whether it gets changes.
    pub state: WebhookState,
    /// Why it was disabled.
    pub reason: Option<String>,
    /// The time of the first failure since the last success.
    pub failing_since: Option<Timestamp>,
    /// The time of creation.
    #[model(created_at)]
    pub created_at: Timestamp,
    /// True if [`crate::Webhooks::declare`] has defined it.
    #[model(default = false)]
    pub is_declared: bool,
    #[model(version)]
    pub(crate) version: i64,
}

/// A delivery: a change that a webhook gets.
#[derive(Clone, Debug, Model)]
#[model(
    table = "marmota_webhook_delivery",
    index(lane, state, id),
    index(webhook, state, id),
    index(state, ended_at)
)]
pub struct DeliveryRow {
    /// The primary key. Keys of later changes are higher.
    pub id: i64,
    /// The key of the webhook.
    pub webhook: i64,
    pub(crate) lane: i64,
    /// The header `webhook-id`: the same in each attempt.
    #[model(unique)]
    pub message: String,
    /// The key of the row that has changed, as text.
    pub row: String,
    /// The table and the kind of the change: `issue.update`.
    pub event: String,
    /// The body of the request: JSON.
    pub payload: String,
    /// Whether it was sent.
    pub state: DeliveryState,
    /// The number of requests.
    pub attempts: i32,
    /// The HTTP status of the last answer.
    pub status: Option<i32>,
    /// The error of the last attempt that failed.
    pub error: Option<String>,
    /// The time of the first failure.
    pub failing_since: Option<Timestamp>,
    /// The time at which it was stored.
    pub created_at: Timestamp,
    /// The time at which it was acknowledged or given up.
    pub ended_at: Option<Timestamp>,
}

/// Adds the tables of webhooks, and those of jobs, to a store's builder, unless it has them. The
/// store also needs a change feed ([`StoreBuilder::changes`]).
///
/// ```
/// use marmota_memory::Memory;
/// use marmota_store::Store;
/// let store = marmota_webhooks::models(Store::builder(Memory::new())).open()?;
/// assert!(store.table("marmota_webhook").is_ok());
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[must_use]
pub fn models(builder: StoreBuilder) -> StoreBuilder {
    let builder = marmota_jobs::models(builder);
    if builder.has_model("marmota_webhook") {
        return builder;
    }
    builder.model::<WebhookRow>().model::<DeliveryRow>()
}

impl WebhookRow {
    /// Returns the webhook as a JSON object without its secret.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "url": self.url,
            "table": self.of_table,
            "filter": self.filter,
            "kinds": self.kinds.0,
            "fields": self.fields.0,
            "state": self.state.name(),
            "reason": self.reason,
            "failing_since": self.failing_since,
            "created_at": self.created_at,
            "is_declared": self.is_declared,
        })
    }
}

impl DeliveryRow {
    /// Returns the delivery as a JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        // The payload was written by this crate, so it is JSON.
        let payload: Value = serde_json::from_str(&self.payload).unwrap_or_default();
        json!({
            "id": self.id,
            "message": self.message,
            "event": self.event,
            "row": self.row,
            "state": self.state.name(),
            "attempts": self.attempts,
            "status": self.status,
            "error": self.error,
            "created_at": self.created_at,
            "ended_at": self.ended_at,
            "payload": payload,
        })
    }
}

impl fmt::Debug for WebhookRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, name, url, of_table, state, .. } = self;
        f.debug_struct("WebhookRow")
            .field("id", id)
            .field("name", name)
            .field("url", url)
            .field("of_table", of_table)
            .field("state", state)
            .finish_non_exhaustive()
    }
}

//! Webhooks: changes of rows, sent to the URLs of other systems as signed HTTP requests.
//!
//! A [`Webhook`] names a URL, a table, and which changes it gets. Each change is stored as a
//! delivery with the position of the change feed, and durable jobs send it: at least once, and in
//! the order of the changes of each row. The requests are signed as Standard Webhooks
//! (<https://www.standardwebhooks.com>) describes it, so that receivers verify them with a library.
//!
//! ```no_run
//! use marmota_derive::Model;
//! use marmota_store::Store;
//! use marmota_store::action::block_on;
//! use marmota_store::change::ChangeRetention;
//! use marmota_webhooks::{Webhook, WebhookOptions, Webhooks};
//!
//! #[derive(Clone, Debug, Model)]
//! struct Issue {
//!     id: i64,
//!     title: String,
//!     state: String,
//! }
//!
//! # fn main() -> marmota_model::Result<()> {
//! # let engine = marmota_memory::Memory::new();
//! let builder = Store::builder(engine).model::<Issue>().changes(ChangeRetention::default());
//! let store = marmota_webhooks::models(builder).open()?;
//! let webhooks = Webhooks::new(&store);
//! let chat = Webhook::new("chat", "https://chat.example.org/hook", "issue").filter("state = 'open'");
//! block_on(webhooks.set(&chat))?;
//! let worker = webhooks.start(WebhookOptions::new())?;
//! // …
//! worker.stop()
//! # }
//! ```
//!
//! # From a change to a request
//! 1. One process follows the change feed (`dispatch.rs`) and stores a delivery for each webhook
//!    that a change concerns, in a transaction with the job that sends it.
//! 2. The deliveries of a webhook are divided into lanes by the key of the row. A lane has at most
//!    one job at a time, so the changes of a row are sent one after the other (`deliver.rs`).
//! 3. A delivery that fails is repeated after a pause, which doubles. A webhook that fails for
//!    three days is disabled.
#![forbid(unsafe_code)]

mod address;
mod definition;
mod deliver;
mod dispatch;
mod models;
#[cfg(feature = "routes")]
mod routes;
mod secret;
mod sender;
mod shared;
mod subscription;
mod sweep;
mod webhooks;
mod worker;

pub use definition::Webhook;
pub use models::{DeliveryRow, DeliveryState, WebhookRow, WebhookState, models};
pub use secret::WebhookSecret;
pub use webhooks::{DeliveryQuery, Webhooks};
pub use worker::{WebhookOptions, WebhookWorker};

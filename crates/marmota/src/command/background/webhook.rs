//! `webhook`: the webhooks of a database, for operators.
//!
//! ```text
//! $ marmota webhook list
//! chat  enabled  issue  https://chat.example.org/hook
//! $ marmota webhook deliveries chat --state failed
//! 17  failed  issue.update  42  432 attempts  2026-11-26T21:40:03Z  the receiver answered 500
//! $ marmota webhook replay chat 17
//! chat: 1 delivery is sent again
//! ```
//!
//! | action | what it does |
//! |---|---|
//! | `list` | a line or an object for each webhook |
//! | `secret` | the secret, for the receiver |
//! | `enable`, `disable` | changes the state; what waits is sent at once |
//! | `deliveries` | a line or an object for each delivery, the last ones first |
//! | `replay` | sends a delivery again, or all that were given up |
//!
//! A running server applies changes within a second. `ServeWebhooks` has the options of `serve`.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use marmota_model::{Error, ErrorKind, Result, text};
use marmota_store::action::block_on;
use marmota_store::{Store, StoreBuilder};
#[cfg(feature = "app")]
use marmota_webhooks::Webhook as Definition;
use marmota_webhooks::{
    DeliveryQuery, DeliveryRow, DeliveryState, WebhookOptions, WebhookRow, WebhookWorker, Webhooks,
};
use serde_json::{Value, json};

use crate::command::{Command, Database, Done, JsonOutput, aligned};

/// Shows and changes the webhooks of the database
#[derive(Args)]
pub(in crate::command) struct Webhook {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Lists webhooks
    List {
        #[command(flatten)]
        database: Database,
        #[command(flatten)]
        output: JsonOutput,
    },
    /// Prints the secret of a webhook, with which its receiver verifies signatures
    Secret {
        #[command(flatten)]
        webhook: Named,
    },
    /// Enables a webhook, and sends what waits
    Enable {
        #[command(flatten)]
        webhook: Named,
    },
    /// Disables a webhook: it gets no changes, and nothing is sent
    Disable {
        #[command(flatten)]
        webhook: Named,
    },
    /// Lists deliveries of a webhook, the last ones first
    Deliveries {
        #[command(flatten)]
        webhook: Named,
        /// Deliveries in this state: pending, delivered or failed
        #[arg(long)]
        state: Option<DeliveryState>,
        /// The maximum number of deliveries, at most 1000
        #[arg(long, default_value_t = 100)]
        limit: u64,
    },
    /// Sends a delivery again, or those that were given up
    Replay {
        #[command(flatten)]
        webhook: Named,
        /// The id of the delivery
        #[arg(value_name = "ID", required_unless_present = "failed")]
        id: Option<i64>,
        /// Send the deliveries again that were given up, at most 1000
        #[arg(long, conflicts_with = "id")]
        failed: bool,
    },
}

/// The options of `serve` for webhooks.
#[derive(Args)]
pub(in crate::command) struct ServeWebhooks {
    /// Sends changes to the URLs of webhooks, which the file of tables, administrators and the
    /// database have; implies --changes; see the guide, 49-webhooks.md
    #[arg(long)]
    webhooks: bool,
    /// Permits webhooks to addresses that are not on the public internet, and http: URLs: every
    /// service that this machine reaches
    #[arg(long)]
    webhook_allow_private: bool,
    /// The time limit of a request to a receiver
    #[arg(long, value_name = "SECONDS", default_value_t = 15,
          value_parser = clap::value_parser!(u64).range(1..))]
    webhook_timeout_s: u64,
    /// The number of requests to receivers at a time; each has a thread
    #[arg(long, value_name = "COUNT", default_value_t = 32,
          value_parser = clap::value_parser!(u16).range(1..))]
    webhook_concurrency: u16,
    /// The time after which a webhook is disabled if no request succeeds
    #[arg(long, value_name = "HOURS", default_value_t = 72,
          value_parser = clap::value_parser!(u64).range(1..))]
    webhook_disable_after_hours: u64,
    /// The number of deliveries that may wait for a webhook; it is disabled if there are more
    #[arg(long, value_name = "COUNT", default_value_t = 100_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    webhook_pending_max: u64,
    /// The time for which deliveries are kept after their end
    #[arg(long, value_name = "HOURS", default_value_t = 72,
          value_parser = clap::value_parser!(u64).range(1..))]
    webhook_keep_hours: u64,
    /// The time after which another process continues the deliveries of one that was killed
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..))]
    webhook_lease_s: u64,
}

impl ServeWebhooks {
    /// Returns true if webhooks are enabled by the option, or by the file of tables.
    #[cfg_attr(not(feature = "app"), allow(clippy::unnecessary_wraps, unused_variables))]
    pub(in crate::command) fn are_enabled(&self, command: &Command) -> Result<bool> {
        #[cfg(feature = "app")]
        if let Some(app) = command.files.app()? {
            return Ok(self.webhooks || !app.webhooks().is_empty());
        }
        Ok(self.webhooks)
    }

    /// Stores the webhooks of the file of tables, and starts to send changes.
    pub(in crate::command) fn start(
        &self,
        #[cfg_attr(not(feature = "app"), allow(unused_variables))] command: &Command,
        store: &Store,
    ) -> Result<(Webhooks, WebhookWorker)> {
        let webhooks = Webhooks::new(store);
        #[cfg(feature = "app")]
        if let Some(app) = command.files.app()? {
            let of_file: Result<Vec<_>> = app.webhooks().into_iter().map(of_file).collect();
            block_on(webhooks.declare(&of_file?))?;
        }
        let hours = |hours: u64| Duration::from_secs(hours.saturating_mul(3_600));
        let options = WebhookOptions::new()
            .allow_private(self.webhook_allow_private)
            .timeout(Duration::from_secs(self.webhook_timeout_s))
            .concurrency(self.webhook_concurrency.into())
            .disable_after(hours(self.webhook_disable_after_hours))
            .pending_max(self.webhook_pending_max)
            .keep(hours(self.webhook_keep_hours))
            .lease(Duration::from_secs(self.webhook_lease_s));
        let worker = webhooks.start(options)?;
        Ok((webhooks, worker))
    }
}

/// Returns the definition of a webhook of the file of tables.
#[cfg(feature = "app")]
fn of_file(webhook: marmota_app::AppWebhook) -> Result<Definition> {
    let marmota_app::AppWebhook { name, url, table, filter, kinds, fields, secret, secret_env } =
        webhook;
    let of_environment = secret_env.map(|variable| {
        std::env::var(&variable).map_err(|_| {
            let message = format!(
                "webhooks.{name}.secret_env: there is no environment variable `{variable}`, or it \
                 is not UTF-8"
            );
            Error::new(ErrorKind::Invalid, message)
        })
    });
    let secret = secret.or(of_environment.transpose()?);
    Ok(Definition { name, url, table, filter, kinds, fields, secret })
}

/// A webhook of a database.
#[derive(Args)]
struct Named {
    /// The name of the webhook
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    database: Database,
    #[command(flatten)]
    output: JsonOutput,
}

impl Webhook {
    /// Executes the action, and prints its result.
    ///
    /// # Errors
    /// A database without webhooks, a missing webhook or delivery.
    pub(in crate::command) fn run(&self, command: &Command) -> Done {
        let (database, output) = match &self.action {
            Action::List { database, output } => (database, output),
            Action::Secret { webhook }
            | Action::Enable { webhook }
            | Action::Disable { webhook }
            | Action::Deliveries { webhook, .. }
            | Action::Replay { webhook, .. } => (&webhook.database, &webhook.output),
        };
        let store = open(command, command.url(database))?;
        let done = block_on(self.execute(&Webhooks::new(&store)));
        store.close()?;
        let (json, text) = done?;
        output.report(|| json, || text)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Executes the action, and returns its result as JSON and as text.
    async fn execute(&self, webhooks: &Webhooks) -> Result<(Value, String)> {
        Ok(match &self.action {
            Action::List { .. } => {
                let rows = webhooks.list().await?;
                let json = rows.iter().map(WebhookRow::to_json).collect();
                (json, aligned(rows.iter().map(cells_of_webhook)))
            }
            Action::Secret { webhook } => {
                let secret = webhooks.secret(&webhook.name).await?;
                (json!({ "name": webhook.name, "secret": secret }), secret)
            }
            Action::Enable { webhook } => one(&webhooks.enable(&webhook.name).await?),
            Action::Disable { webhook } => one(&webhooks.disable(&webhook.name).await?),
            Action::Deliveries { webhook, state, limit } => {
                let mut query = DeliveryQuery::new().limit(*limit);
                if let Some(state) = state {
                    query = query.state(*state);
                }
                let rows = webhooks.deliveries(&webhook.name, query).await?;
                let json = rows.iter().map(DeliveryRow::to_json).collect();
                (json, aligned(rows.iter().map(cells_of_delivery)))
            }
            Action::Replay { webhook, id, .. } => {
                let count = match id {
                    Some(id) => {
                        webhooks.replay(&webhook.name, *id).await?;
                        1
                    }
                    None => webhooks.replay_failed(&webhook.name).await?,
                };
                let what = if count == 1 { "delivery is" } else { "deliveries are" };
                let text = format!("{}: {count} {what} sent again", webhook.name);
                (json!({ "name": webhook.name, "replayed": count }), text)
            }
        })
    }
}

/// Returns a webhook as JSON and as a line.
fn one(row: &WebhookRow) -> (Value, String) {
    (row.to_json(), aligned([cells_of_webhook(row)]))
}

fn cells_of_webhook(row: &WebhookRow) -> [String; 5] {
    let WebhookRow { name, state, of_table, url, reason, .. } = row;
    let reason = reason.as_ref().map(ToString::to_string).unwrap_or_default();
    [name.clone(), state.name().to_owned(), of_table.clone(), url.clone(), reason]
}

fn cells_of_delivery(row: &DeliveryRow) -> [String; 7] {
    let DeliveryRow { id, state, event, row, attempts, created_at, error, .. } = row;
    let error = error.as_ref().map(ToString::to_string).unwrap_or_default();
    let attempts = if *attempts == 1 { "1 attempt".into() } else { format!("{attempts} attempts") };
    let (id, state, at) = (id.to_string(), state.name().to_owned(), created_at.to_string());
    [id, state, event.to_string(), row.to_string(), attempts, at, error]
}

/// Opens a database that has webhooks. Their tables are not made in another one.
fn open(command: &Command, url: &str) -> Result<Store> {
    let builder =
        || -> Result<StoreBuilder> { Ok(marmota_webhooks::models(command.builder(url)?)) };
    let is_file = url.starts_with("sqlite:") || url.starts_with("memory:");
    let is_missing = is_file && !crate::restore::is_there(url);
    let has_webhooks = |builder: StoreBuilder| -> Result<bool> {
        let tables = builder.existing_tables()?;
        Ok(tables.is_none_or(|tables| tables.iter().any(|table| table == "marmota_webhook")))
    };
    if is_missing || !has_webhooks(builder()?)? {
        // The query may contain a password.
        let shown = text::excerpt(url.split(['?', '@']).next().unwrap_or_default());
        let message = format!(
            "the database {shown} has no webhooks: start the program with `serve --webhooks`; is \
             --db right?"
        );
        return Err(Error::new(ErrorKind::NotFound, message));
    }
    builder()?.open()
}

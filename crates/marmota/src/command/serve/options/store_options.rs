//! The options of `serve` for the store: durability, the cache, idempotency keys, the change feed and
//! the age of history.

use clap::Args;
use marmota_model::{Error, ErrorKind, Result};
use marmota_store::change::ChangeRetention;
use marmota_store::{Idempotency, StoreBuilder};

use crate::command::serve::option_values::{days, hours, positive};

/// The options of the store.
#[derive(Args)]
#[command(next_help_heading = "Store")]
pub(crate) struct StoreOptions {
    /// When a write is answered: full (it is on the disk), relaxed (a power cut may lose the last
    /// second) or none; see the guide, 36-durability.md. Default: that of the database's URL, or full
    #[arg(long, value_name = "LEVEL", value_parser = ["full", "relaxed", "none"])]
    durability: Option<String>,
    /// Caches rows in memory, up to this size; see the guide, 38-cache.md. Default: no cache
    #[arg(long, value_name = "BYTES", value_parser = positive::<u64>)]
    cache_bytes_max: Option<u64>,
    /// Keeps the answers to requests with an `Idempotency-Key`, so that they can be sent again;
    /// without this option such requests are refused with 501
    #[arg(long)]
    idempotency: bool,
    /// The time for which those answers are kept
    #[arg(long, value_name = "HOURS", default_value_t = 24, value_parser = positive::<u64>)]
    idempotency_hours: u64,
    /// The number of those answers, the newest
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = positive::<u64>)]
    idempotency_keys_max: u64,
    /// The number of those answers for one caller, the newest
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = positive::<u64>)]
    idempotency_caller_keys_max: u64,
    /// Records changes: responses to writes have `Marmota-Position`, and lists can be followed; see
    /// the guide, 19-change-feed.md
    #[arg(long)]
    changes: bool,
    /// The time for which changes are kept
    #[arg(long, value_name = "HOURS", default_value_t = 24, value_parser = positive::<u64>)]
    changes_hours: u64,
    /// The size of the changes that are kept, the newest
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20, value_parser = positive::<u64>)]
    changes_bytes_max: u64,
    /// The age at which entries of the history are removed. Default: they are kept
    #[arg(long, value_name = "DAYS", value_parser = positive::<u64>)]
    history_days: Option<u64>,
}

impl StoreOptions {
    /// Returns the URL of the database with the durability.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the URL names a durability too.
    pub(crate) fn with_durability(&self, url: &str) -> Result<String> {
        let Some(level) = &self.durability else { return Ok(url.to_owned()) };
        let options = url.split_once('?').map(|(_, options)| options);
        let is_named = |options: &str| options.split('&').any(|one| one.starts_with("durability="));
        match options {
            Some(options) if is_named(options) => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "`--durability {level}` and the URL of the database name a durability: leave one out"
                ),
            )),
            Some(_) => Ok(format!("{url}&durability={level}")),
            None => Ok(format!("{url}?durability={level}")),
        }
    }

    /// Returns the builder with these options. `has_webhooks`: changes are recorded in any case.
    pub(crate) fn apply_to(&self, builder: StoreBuilder, has_webhooks: bool) -> StoreBuilder {
        let mut builder = builder;
        if let Some(bytes) = self.cache_bytes_max {
            builder = builder.cache(bytes);
        }
        if self.idempotency {
            builder = builder.idempotency(Idempotency {
                kept_for: hours(self.idempotency_hours),
                keys_max: self.idempotency_keys_max,
                caller_keys_max: self.idempotency_caller_keys_max,
            });
        }
        if self.changes || has_webhooks {
            let retention = ChangeRetention::default()
                .age_max(hours(self.changes_hours))
                .bytes_max(self.changes_bytes_max);
            builder = builder.changes(retention);
        }
        if let Some(age) = self.history_days {
            builder = builder.history_age_max(days(age));
        }
        builder
    }
}

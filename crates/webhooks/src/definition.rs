//! The definition of a webhook, and its checks.

use marmota_model::Result;
use marmota_store::Store;
use marmota_store::change::ChangeKind;
use serde::{Deserialize, Serialize};
use ureq::http::Uri;

use crate::secret::WebhookSecret;
use crate::subscription::{Selection, invalid};

/// The maximum length of a URL in bytes.
const URL_BYTES_MAX: usize = 2_000;
/// The maximum length of a filter in bytes.
const FILTER_BYTES_MAX: usize = 4_000;

/// The definition of a webhook.
///
/// | member | default |
/// |---|---|
/// | `filter` | all rows |
/// | `kinds` | inserts, updates and deletes |
/// | `fields` | all fields |
/// | `secret` | the present one, or a new one |
///
/// ```
/// use marmota_store::change::ChangeKind;
/// use marmota_webhooks::Webhook;
/// let webhook = Webhook::new("chat", "https://chat.example.org/hook", "issue")
///     .filter("state = 'open'")
///     .kinds(&[ChangeKind::Insert, ChangeKind::Update])
///     .fields(&["title", "state"]);
/// assert_eq!(webhook.name, "chat");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// The name, which is unique: 1 to 100 letters, digits, `-`, `_` and `.`.
    #[serde(default)]
    pub name: String,
    /// Where changes are sent to: an `https:` URL. `http:` is permitted with
    /// [`WebhookOptions::allow_private`](crate::WebhookOptions::allow_private).
    pub url: String,
    /// The table whose changes are sent.
    pub table: String,
    /// A filter, as in REST: the row after the change has to match it; for a delete, the row before.
    #[serde(default)]
    pub filter: Option<String>,
    /// The names of the kinds of change that are sent: `insert`, `update`, `delete`.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// The fields that are sent, in addition to the key.
    #[serde(default)]
    pub fields: Vec<String>,
    /// The secret, `whsec_…`.
    #[serde(default)]
    pub secret: Option<String>,
}

impl Webhook {
    /// Creates the definition of a webhook that gets all changes of a table.
    #[must_use]
    pub fn new(name: &str, url: &str, table: &str) -> Self {
        Self {
            name: name.to_owned(),
            url: url.to_owned(),
            table: table.to_owned(),
            filter: None,
            kinds: Vec::new(),
            fields: Vec::new(),
            secret: None,
        }
    }

    /// Sets the filter. Default: all rows.
    #[must_use]
    pub fn filter(mut self, filter: &str) -> Self {
        self.filter = Some(filter.to_owned());
        self
    }

    /// Sets the kinds of change. Default: all kinds.
    #[must_use]
    pub fn kinds(mut self, kinds: &[ChangeKind]) -> Self {
        self.kinds = kinds.iter().map(|kind| kind.name().to_owned()).collect();
        self
    }

    /// Sets the fields that are sent, in addition to the key. Default: all fields.
    #[must_use]
    pub fn fields(mut self, fields: &[&str]) -> Self {
        self.fields = fields.iter().map(|&field| field.to_owned()).collect();
        self
    }

    /// Sets the secret. Default: the present one, or a new one.
    #[must_use]
    pub fn secret(mut self, secret: &WebhookSecret) -> Self {
        self.secret = Some(secret.to_text());
        self
    }

    /// Checks the definition against the tables of a store.
    ///
    /// # Errors
    /// [`marmota_model::ErrorKind::Invalid`] with the member, its value, and what is permitted;
    /// [`marmota_model::ErrorKind::NotFound`] for an unknown table.
    pub fn check(&self, store: &Store) -> Result<()> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.name.is_empty() || self.name.len() > 100 || !self.name.chars().all(is_plain) {
            let message = "must have 1 to 100 letters, digits, `-`, `_` or `.`";
            return Err(invalid("name", &self.name, message));
        }
        check_url(&self.url)?;
        if self.filter.as_ref().is_some_and(|filter| filter.len() > FILTER_BYTES_MAX) {
            let message = format!("must have at most {FILTER_BYTES_MAX} bytes");
            return Err(invalid("filter", self.filter.as_deref().unwrap_or_default(), &message));
        }
        if let Some(secret) = &self.secret {
            secret.parse::<WebhookSecret>()?;
        }
        Selection::of(store, &self.table, self.filter.as_deref(), &self.kinds, &self.fields)
            .map(drop)
    }
}

/// Checks a URL. Whether its address is permitted is known when a connection is made.
fn check_url(url: &str) -> Result<()> {
    if url.len() > URL_BYTES_MAX {
        return Err(invalid("url", url, &format!("must have at most {URL_BYTES_MAX} bytes")));
    }
    let wrong = |what: &str| Err(invalid("url", url, what));
    let Ok(parsed) = url.parse::<Uri>() else {
        return wrong("must be a URL such as https://example.org/hook");
    };
    let Some(authority) = parsed.authority() else {
        return wrong("must be a URL such as https://example.org/hook");
    };
    if authority.as_str().contains('@') {
        return wrong("must not have a user or a password: the receiver verifies the signature");
    }
    match parsed.scheme_str() {
        Some("https" | "http") => Ok(()),
        _ => wrong("must begin with https://"),
    }
}

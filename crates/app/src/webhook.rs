//! The webhooks of an application file.

use indexmap::IndexMap;
use marmota_model::{Schema, Table, parse_filter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fault::Fault;

/// A webhook.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhookDocument {
    /// Where changes are sent to: an https: URL.
    url: String,
    /// The table whose changes are sent.
    table: String,
    /// A filter that the row after the change has to match; for a delete, the row before. Default:
    /// all rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filter: Option<String>,
    /// The kinds of change that are sent. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    kinds: Vec<ChangeName>,
    /// The fields that are sent, in addition to the key. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    fields: Vec<String>,
    /// The secret that signs requests, `whsec_` and base64. Default: one is generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    /// The environment variable with the secret, instead of the secret itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret_env: Option<String>,
}

/// A kind of change.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum ChangeName {
    Insert,
    Update,
    Delete,
}

/// A webhook in an application file: a URL that gets the changes of a table.
///
/// ```
/// use marmota_app::AppFile;
/// let app = AppFile::parse_toml(r#"
///     [tables.note.fields]
///     id = { kind = "integer", role = "key" }
///     done = "boolean"
///
///     [webhooks.chat]
///     url = "https://chat.example.org/hook"
///     table = "note"
///     filter = "done = true"
///     kinds = ["update"]
/// "#)?;
/// let chat = &app.webhooks()[0];
/// assert_eq!((&*chat.name, &*chat.table, chat.kinds.len()), ("chat", "note", 1));
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppWebhook {
    /// The name.
    pub name: String,
    /// Where changes are sent to.
    pub url: String,
    /// The table whose changes are sent.
    pub table: String,
    /// The filter that a row has to match; `None` for all rows.
    pub filter: Option<String>,
    /// The names of the kinds of change; empty for all.
    pub kinds: Vec<String>,
    /// The fields that are sent, in addition to the key; empty for all.
    pub fields: Vec<String>,
    /// The secret; `None` if it is generated, or in an environment variable.
    pub secret: Option<String>,
    /// The environment variable with the secret.
    pub secret_env: Option<String>,
}

/// Returns the webhooks of a file.
pub(crate) fn webhooks(documents: &IndexMap<String, WebhookDocument>) -> Vec<AppWebhook> {
    let name_of = |kind: &ChangeName| match kind {
        ChangeName::Insert => "insert".to_owned(),
        ChangeName::Update => "update".to_owned(),
        ChangeName::Delete => "delete".to_owned(),
    };
    let webhook = |(name, document): (&String, &WebhookDocument)| {
        let document = document.clone();
        AppWebhook {
            name: name.clone(),
            url: document.url,
            table: document.table,
            filter: document.filter,
            kinds: document.kinds.iter().map(name_of).collect(),
            fields: document.fields,
            secret: document.secret,
            secret_env: document.secret_env,
        }
    };
    documents.iter().map(webhook).collect()
}

/// Returns the document of a webhook; `None` for a kind of change that does not exist.
pub(crate) fn document(webhook: AppWebhook) -> Option<WebhookDocument> {
    let kind_of = |name: &String| {
        Some(match &**name {
            "insert" => ChangeName::Insert,
            "update" => ChangeName::Update,
            "delete" => ChangeName::Delete,
            _ => return None,
        })
    };
    Some(WebhookDocument {
        url: webhook.url,
        table: webhook.table,
        filter: webhook.filter,
        kinds: webhook.kinds.iter().map(kind_of).collect::<Option<_>>()?,
        fields: webhook.fields,
        secret: webhook.secret,
        secret_env: webhook.secret_env,
    })
}

/// Checks that the tables and fields of webhooks exist, and that filters fit them.
pub(crate) fn check(
    webhooks: &IndexMap<String, WebhookDocument>,
    schemas: &[Schema],
) -> Result<(), Fault> {
    for (name, webhook) in webhooks {
        let fault =
            |key: &'static str, message: String| Fault::new(["webhooks", name, key], message);
        let Some(schema) = schemas.iter().find(|schema| schema.name == webhook.table) else {
            let message = format!("there is no table `{}` in this file", webhook.table);
            return Err(fault("table", message));
        };
        let table = Table::new(schema.clone())
            .map_err(|error| fault("table", error.message().to_owned()))?;
        if let Some(field) = webhook.fields.iter().find(|field| table.find(field).is_none()) {
            let names = table.field_names().join(", ");
            let message = format!("`{}` has no field `{field}`; there are: {names}", webhook.table);
            return Err(fault("fields", message));
        }
        if let Some(filter) = &webhook.filter {
            parse_filter(&table, filter).map(drop).map_err(|error| {
                let what = error.violations().first().map(|first| first.message.to_string());
                let what = what.unwrap_or_else(|| error.message().to_owned());
                fault("filter", format!("`{filter}`: {what}"))
            })?;
        }
        if webhook.secret.is_some() && webhook.secret_env.is_some() {
            return Err(fault("secret_env", "leave it or `secret` out".to_owned()));
        }
    }
    Ok(())
}

//! Which changes a webhook gets, and what is sent of them.

use std::sync::Arc;

use marmota_model::{
    Error, ErrorKind, FieldSet, Result, Table, Timestamp, Value, ValueRef, json, parse_filter,
};
use marmota_store::Store;
use marmota_store::change::{Change, ChangeKind, Commit};
use marmota_store::predicate::Condition;
use marmota_store::rights::is_internal;
use serde_json::json;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use crate::models::{DeliveryRow, DeliveryState, LANES, WebhookRow};

/// The maximum size of the rows of a payload. Larger ones are left out: the receiver reads the row.
const ROWS_BYTES_MAX: usize = 256 * 1024;
const KINDS: [ChangeKind; 3] = [ChangeKind::Insert, ChangeKind::Update, ChangeKind::Delete];

/// The part of a definition that selects changes, made ready for rows.
pub(crate) struct Selection {
    table: Arc<Table>,
    condition: Option<Condition>,
    kinds: Vec<ChangeKind>,
    fields: FieldSet,
}

/// A webhook that is enabled.
pub(crate) struct Subscription {
    webhook: i64,
    selection: Selection,
}

impl Selection {
    /// # Errors
    /// A table, a kind or a field that does not exist, and a filter that cannot be evaluated on a
    /// changed row.
    pub(crate) fn of(
        store: &Store,
        table: &str,
        filter: Option<&str>,
        kinds: &[String],
        fields: &[String],
    ) -> Result<Self> {
        let table = Arc::clone(store.exposed_table(table)?);
        if is_internal(&table) {
            return Err(invalid("table", table.name(), "must not be an internal table"));
        }
        let condition = filter
            .map(|text| {
                let filter = parse_filter(&table, text)?.into_expr_for(&table)?;
                let condition = Condition::new(filter, &table);
                // A filter on related rows is refused here.
                condition.asked(&table).map_err(|error| {
                    let message =
                        format!("must be on the fields of the row alone: {}", error.message());
                    invalid("filter", text, &message)
                })?;
                Ok::<_, Error>(condition)
            })
            .transpose()?;
        let kind = |name: &String| {
            let found = KINDS.into_iter().find(|kind| kind.name() == name);
            found.ok_or_else(|| invalid("kinds", name, "must be insert, update or delete"))
        };
        let kinds = match kinds {
            [] => KINDS.to_vec(),
            names => names.iter().map(kind).collect::<Result<_>>()?,
        };
        let fields = match fields {
            [] => table.read_by_default(),
            names => names.iter().try_fold(FieldSet::EMPTY.with(table.key()), |set, name| {
                table.position(name).map(|position| set.with(position))
            })?,
        };
        Ok(Self { table, condition, kinds, fields })
    }

    /// Returns the names of the kinds of change that a definition selects.
    pub(crate) fn kind_names(kinds: &[String]) -> Vec<String> {
        match kinds {
            [] => KINDS.iter().map(|kind| kind.name().to_owned()).collect(),
            kinds => kinds.to_vec(),
        }
    }

    fn selects(&self, change: &Change) -> Result<bool> {
        if change.table.name() != self.table.name() || !self.kinds.contains(&change.kind) {
            return Ok(false);
        }
        // An update of fields that are not sent is of no interest to the receiver.
        let is_update = change.kind == ChangeKind::Update;
        if is_update && change.changed.intersection(self.fields) == FieldSet::EMPTY {
            return Ok(false);
        }
        let (Some(condition), Some(row)) = (&self.condition, row_of(change)) else {
            return Ok(true);
        };
        let row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
        Ok(condition.asked(&self.table)?.selects(&row))
    }

    fn payload(&self, commit: &Commit, change: &Change, at: Timestamp) -> Result<String> {
        let (before, after) = (self.row(change.before.as_ref()), self.row(change.after.as_ref()));
        let is_too_large = before.len() + after.len() > ROWS_BYTES_MAX;
        let raw = |text: String| {
            let text = if is_too_large { "null".to_owned() } else { text };
            RawValue::from_string(text).map_err(|error| {
                Error::new(ErrorKind::Bug, format!("a row is not valid JSON: {error}"))
            })
        };
        let changed: Vec<&str> = (0..self.table.fields().len())
            .filter(|&position| change.changed.contains(position) && self.fields.contains(position))
            .map(|position| &*self.table.fields()[position].name)
            .collect();
        let key = key_value(change.key());
        let data = serde_json::to_string(&Data {
            table: self.table.name(),
            kind: change.kind.name(),
            key: &key,
            before: &raw(before)?,
            after: &raw(after)?,
            is_truncated: is_too_large,
            changed: &changed,
            actor: change.actor.as_deref(),
            position: &commit.position.to_string(),
        });
        let data = data.and_then(RawValue::from_string);
        let payload = data.and_then(|data| {
            serde_json::to_string(&Payload {
                r#type: &self.event(change),
                timestamp: at,
                data: &data,
            })
        });
        payload.map_err(|error| {
            Error::new(ErrorKind::Bug, format!("a change has no JSON form: {error}"))
        })
    }

    fn event(&self, change: &Change) -> String {
        format!("{}.{}", self.table.name(), change.kind.name())
    }

    /// Returns the fields of a row as JSON; `null` for a missing row.
    fn row(&self, row: Option<&Vec<Value>>) -> String {
        let Some(row) = row else { return "null".to_owned() };
        let row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
        let mut out = Vec::new();
        json::write_row(&mut out, &self.table, self.fields, &row);
        String::from_utf8(out).unwrap_or_default()
    }
}

/// The body of a request.
#[derive(serde::Serialize)]
struct Payload<'p> {
    r#type: &'p str,
    timestamp: Timestamp,
    data: &'p RawValue,
}

/// The change, in the body of a request.
#[derive(serde::Serialize)]
struct Data<'d> {
    table: &'d str,
    kind: &'d str,
    key: &'d serde_json::Value,
    before: &'d RawValue,
    after: &'d RawValue,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_truncated: bool,
    changed: &'d [&'d str],
    actor: Option<&'d str>,
    position: &'d str,
}

impl Subscription {
    /// # Errors
    /// A definition that does not fit the tables of the store any more.
    pub(crate) fn new(store: &Store, webhook: &WebhookRow) -> Result<Self> {
        let WebhookRow { id, of_table, filter, kinds, fields, .. } = webhook;
        let selection = Selection::of(store, of_table, filter.as_deref(), &kinds.0, &fields.0)?;
        Ok(Self { webhook: *id, selection })
    }

    /// Returns the delivery of a change; `None` if the webhook does not get it.
    pub(crate) fn delivery(
        &self,
        commit: &Commit,
        number: usize,
        change: &Change,
    ) -> Result<Option<DeliveryRow>> {
        if !self.selection.selects(change)? {
            return Ok(None);
        }
        let row = key_text(change.key());
        Ok(Some(DeliveryRow {
            id: 0,
            webhook: self.webhook,
            lane: lane_of(self.webhook, &row),
            // The same change has the same id if its commit is handled again after a crash.
            message: format!("msg_{}_{}_{number}", self.webhook, commit.position),
            row,
            event: self.selection.event(change),
            payload: self.selection.payload(commit, change, commit.at)?,
            state: DeliveryState::Pending,
            attempts: 0,
            status: None,
            error: None,
            failing_since: None,
            created_at: commit.at,
            ended_at: None,
        }))
    }
}

/// Returns the row that a filter is evaluated on.
fn row_of(change: &Change) -> Option<&Vec<Value>> {
    change.after.as_ref().or(change.before.as_ref())
}

/// Returns the lane of a row: always the same one, in all processes.
fn lane_of(webhook: i64, row: &str) -> i64 {
    webhook * LANES + (xxh3_64(row.as_bytes()) % LANES as u64) as i64
}

fn key_value(key: &Value) -> serde_json::Value {
    match key {
        Value::Int(key) => json!(key),
        key => json!(key_text(key)),
    }
}

fn key_text(key: &Value) -> String {
    match key {
        Value::Int(key) => key.to_string(),
        Value::Text(key) => key.clone(),
        Value::Uuid(key) => key.to_string(),
        key => format!("{key:?}"),
    }
}

#[cold]
pub(crate) fn invalid(member: &str, value: &str, what: &str) -> Error {
    let value = marmota_model::text::excerpt(value);
    Error::new(ErrorKind::Invalid, format!("`{member}` of the webhook is `{value}`; it {what}"))
}

//! One operation of a batch: parsing from JSON, and writing its result. Used for a batch in one
//! body and for one in lines.

use std::sync::Arc;

use marmota_http::Status;
use marmota_model::{Error, FieldSet, Scratch, Table, Value, ValueRef, Violation, json};
use marmota_store::Store;
use marmota_store::operation::{Link, LinkAt, OnConflict, Outcome, UpsertEffect, Write, key_made};
use marmota_store::prepare::{self, ValueSource, WriteTimestamp};
use marmota_store::write::check_version;
use marmota_web::{ApiError, ApiResult, ErrorDocument};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::batches::linked::{Linked, Made, operation_of};
use crate::protocol::body::{self, empty_row};
use crate::request::params;
use crate::rows::increment::read_by;

/// An operation; the member named after the verb holds the name of the table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Member<'a> {
    #[serde(borrow)]
    insert: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    update: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    patch: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    increment: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    delete: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    key: Option<&'a RawValue>,
    #[serde(borrow)]
    row: Option<&'a RawValue>,
    version: Option<i64>,
    #[serde(borrow)]
    field: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    by: Option<&'a RawValue>,
    #[serde(borrow)]
    on_conflict: Option<std::borrow::Cow<'a, str>>,
}

/// Validates an operation and converts it to a write of the store, linked to earlier ones.
pub(crate) fn write_of(
    store: &Store,
    json: &[u8],
    linked: &Linked,
) -> ApiResult<(Write, Vec<Link>)> {
    let none = |why: &dyn std::fmt::Display| {
        ApiError::bad_request(format!("the operation is not valid in a batch: {why}"))
    };
    // serde would also read the members from an array.
    if json.trim_ascii_start().first() != Some(&b'{') {
        return Err(none(&"it must be an object"));
    }
    let member: Member<'_> = serde_json::from_slice(json).map_err(|error| misread(&error))?;
    let Member { insert, update, patch, increment, delete, .. } = &member;
    match (insert, update, patch, increment, delete) {
        (Some(table), None, None, None, None) => {
            only(&member, ["row", "on_conflict"])?;
            of_insert(store.exposed_table(table)?, &member, linked)
        }
        (None, Some(table), None, None, None) => {
            only(&member, ["key", "row", "version"])?;
            of_update(store.exposed_table(table)?, &member, linked, true)
        }
        (None, None, Some(table), None, None) => {
            only(&member, ["key", "row", "version"])?;
            of_update(store.exposed_table(table)?, &member, linked, false)
        }
        (None, None, None, Some(table), None) => {
            only(&member, ["key", "field", "by"])?;
            of_increment(store.exposed_table(table)?, &member, linked)
        }
        (None, None, None, None, Some(table)) => {
            only(&member, ["key", "version"])?;
            let table = store.exposed_table(table)?;
            let (key, links) = key_of(table, &member, linked)?;
            let version = member.version;
            check_version(table, version)?;
            Ok((Write::Delete { table: Arc::clone(table), key, version }, links))
        }
        _ => Err(ApiError::bad_request(
            "an operation must have exactly one of insert, update, patch, increment and delete, \
             with the name of the table",
        )),
    }
}

/// Returns the error of an object that is not an operation. serde would list all members as if each
/// were an operation.
#[cold]
fn misread(error: &serde_json::Error) -> ApiError {
    let text = error.to_string();
    let unknown = text.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`'));
    ApiError::bad_request(match unknown {
        Some((name, _)) => format!(
            "`{name}` is neither an operation (insert, update, patch, increment, delete) nor a \
             member of one (key, row, version, field, by, on_conflict)"
        ),
        None => format!("the operation cannot be read: {error}"),
    })
}

/// Refuses members that belong to another verb.
fn only<const N: usize>(member: &Member<'_>, taken: [&str; N]) -> ApiResult<()> {
    let there = [
        ("key", member.key.is_some()),
        ("row", member.row.is_some()),
        ("version", member.version.is_some()),
        ("field", member.field.is_some()),
        ("by", member.by.is_some()),
        ("on_conflict", member.on_conflict.is_some()),
    ];
    match there.into_iter().find(|(name, there)| *there && !taken.contains(name)) {
        None => Ok(()),
        Some((name, _)) => Err(ApiError::bad_request(format!(
            "this operation accepts {}, but not `{name}`",
            taken.join(", ")
        ))),
    }
}

fn needed<'a, T: ?Sized>(member: Option<&'a T>, name: &str) -> ApiResult<&'a T> {
    member.ok_or_else(|| ApiError::bad_request(format!("the operation needs `{name}`")))
}

/// Returns the key, or the link to the operation that inserts it.
fn key_of(table: &Table, member: &Member<'_>, linked: &Linked) -> ApiResult<(Value, Vec<Link>)> {
    let json = needed(member.key, "key")?;
    if let Some(operation) = operation_of(json.get()) {
        return Ok(match linked.made(table, LinkAt::Key, operation)? {
            Made::Then(link) => (Value::Absent, vec![link]),
            Made::Identity(key) => (key.clone(), Vec::new()),
        });
    }
    let scratch = Scratch::new();
    let field = &table.fields()[table.key()];
    let key = json::read_value(field, json.get(), &scratch)
        .map_err(|violation| Error::invalid(vec![violation]))?;
    Ok((key.to_value(), Vec::new()))
}

fn of_insert(
    table: &Arc<Table>,
    member: &Member<'_>,
    linked: &Linked,
) -> ApiResult<(Write, Vec<Link>)> {
    let json = needed(member.row, "row")?;
    let on_conflict = match &member.on_conflict {
        None => OnConflict::Refuse,
        Some(word) => params::way(word)?,
    };
    insert_of(table, json.get().as_bytes(), on_conflict, linked)
}

/// Converts an object to an insert of the row.
pub(crate) fn insert_of(
    table: &Arc<Table>,
    json: &[u8],
    on_conflict: OnConflict,
    linked: &Linked,
) -> ApiResult<(Write, Vec<Link>)> {
    let scratch = Scratch::new();
    let mut row = empty_row(table);
    let mut violations = Vec::new();
    body::read_row(table, json, &scratch, &mut row, &mut violations)?;
    let links = linked.take(table, &mut row, &mut violations)?;
    let on_conflict = on_conflict.with_given(table, FieldSet::present(&row));
    let stamp = WriteTimestamp::now(table);
    prepare::insert_into(table, &mut row, ValueSource::Values, stamp, &mut violations);
    finish(table, violations, &links)?;
    let row = row.iter().map(ValueRef::to_value).collect();
    Ok((Write::Insert { table: Arc::clone(table), row, on_conflict }, links))
}

/// Returns the violations of a row, except for fields whose values are not available yet.
fn finish(table: &Table, mut violations: Vec<Violation>, links: &[Link]) -> ApiResult<()> {
    let is_linked = |name: &str| {
        links.iter().any(|link| match link.at {
            LinkAt::Field(field) => *table.fields()[field].name == *name,
            LinkAt::Key => false,
        })
    };
    violations.retain(|violation| !is_linked(&violation.field));
    Ok(prepare::finish(violations)?)
}

fn of_update(
    table: &Arc<Table>,
    member: &Member<'_>,
    linked: &Linked,
    whole: bool,
) -> ApiResult<(Write, Vec<Link>)> {
    let (key, mut links) = key_of(table, member, linked)?;
    let json = needed(member.row, "row")?;
    let scratch = Scratch::new();
    let mut row = empty_row(table);
    let mut violations = Vec::new();
    body::read_row(table, json.get().as_bytes(), &scratch, &mut row, &mut violations)?;
    links.extend(linked.take(table, &mut row, &mut violations)?);
    if !key.as_ref().is_absent() {
        body::check_same_key(table, &row, key.as_ref())?;
    }
    let version = body::take_version(table, &mut row, member.version, &mut violations)?;
    check_version(table, version)?;
    if whole {
        prepare::fill_for_replace(table, &mut row, &mut violations);
    }
    let stamp = WriteTimestamp::now(table);
    prepare::update_into(table, &mut row, ValueSource::Values, stamp, &mut violations);
    finish(table, violations, &links)?;
    let row = row.iter().map(ValueRef::to_value).collect();
    Ok((Write::Update { table: Arc::clone(table), key, row, version }, links))
}

fn of_increment(
    table: &Arc<Table>,
    member: &Member<'_>,
    linked: &Linked,
) -> ApiResult<(Write, Vec<Link>)> {
    let (key, links) = key_of(table, member, linked)?;
    let field = table.position(needed(member.field.as_deref(), "field")?)?;
    let by = read_by(table, field, needed(member.by, "by")?.get())?;
    let stamp = WriteTimestamp::now(table).value().to_value();
    Ok((Write::Increment { table: Arc::clone(table), key, field, by, stamp }, links))
}

fn write_outcome(write: &Write, outcome: &Outcome, body: &mut Vec<u8>) {
    let table = write.table();
    let status = match (write, outcome.effect) {
        (Write::Insert { .. }, UpsertEffect::Inserted | UpsertEffect::Replaced) => Status::CREATED,
        (Write::Delete { .. }, _) => Status::NO_CONTENT,
        _ => Status::OK,
    };
    body.extend_from_slice(format!("{{\"status\":{}", status.code()).as_bytes());
    let mut version = outcome.version;
    if let Write::Insert { row, on_conflict, .. } = write {
        let key = key_made(write, outcome).unwrap_or(&row[table.key()]);
        body.extend_from_slice(b",\"key\":");
        json::write_value(body, key.as_ref());
        if *on_conflict == OnConflict::Refuse {
            version = table.version().map(|_| 1);
        } else {
            let effect = format!(",\"effect\":\"{}\"", outcome.effect.name());
            body.extend_from_slice(effect.as_bytes());
        }
    }
    if let Write::Increment { .. } = write {
        body.extend_from_slice(b",\"value\":");
        json::write_value(body, outcome.value.as_ref());
    }
    if let Some(version) = version {
        body.extend_from_slice(format!(",\"version\":{version}").as_bytes());
    }
    body.push(b'}');
}

pub(crate) fn write_error(error: ErrorDocument<'_>, body: &mut Vec<u8>) {
    error.log();
    body.extend_from_slice(format!("{{\"status\":{},\"error\":", error.status().code()).as_bytes());
    error.write(body);
    body.push(b'}');
}

/// Writes the results of operations, including refused ones, with a separator.
pub(crate) fn write_results(
    refused: &[(usize, ApiError)],
    writes: &[Write],
    results: &[marmota_model::Result<Outcome>],
    between: u8,
    body: &mut Vec<u8>,
) {
    let total = refused.len() + results.len();
    let mut refused = refused.iter().peekable();
    let mut tried = writes.iter().zip(results);
    for index in 0..total {
        if index > 0 {
            body.push(between);
        }
        if let Some((_, error)) = refused.next_if(|(at, _)| *at == index) {
            write_error(error.document(), body);
            continue;
        }
        match tried.next() {
            Some((write, Ok(outcome))) => write_outcome(write, outcome, body),
            Some((_, Err(error))) => write_error(ErrorDocument::of(error), body),
            None => {}
        }
    }
}

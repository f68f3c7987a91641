//! One operation of a batch: parsing from JSON, and writing its result. Used for a batch in one
//! body and for one in lines.
//!
//! ```text
//! {"patch":"person","key":7,"row":{"name":"Ada"},"version":3}
//! {"status":200,"version":4}
//! ```
//!
//! | operation | members |
//! |---|---|
//! | `insert` | `row`; `on_conflict` |
//! | `update`, `patch` | `key`, `row`; `version` |
//! | `increment` | `key`, `field`, `by` |
//! | `delete` | `key`; `version` |
//!
//! [`write_of`] parses an operation to a [`Write`], with the same functions for rows, keys and
//! versions as the separate routes. The store executes it. [`write_results`] writes the outcomes in
//! the order of the request. `"key":{"$result":0}` and references in rows become a [`Link`].

use std::sync::Arc;

use marmota_http::Status;
use marmota_model::{Error, FieldSet, Scratch, Table, Value, ValueRef, Violation, json};
use marmota_store::Store;
use marmota_store::operation::{
    Link, LinkAt, OnConflict, Outcome, UpsertEffect, Write, complete_linked, key_made,
};
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
///
/// All members are optional here, and [`write_of`] checks their combination. Its errors are better
/// than those of an untagged enum, which cannot name the member at fault. Texts are borrowed from
/// the body unless they contain escapes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Member<'a> {
    /// The table of an insert.
    #[serde(borrow)]
    insert: Option<std::borrow::Cow<'a, str>>,
    /// The table of a write of the whole row, as PUT.
    #[serde(borrow)]
    update: Option<std::borrow::Cow<'a, str>>,
    /// The table of a write of some fields, as PATCH.
    #[serde(borrow)]
    patch: Option<std::borrow::Cow<'a, str>>,
    /// The table of an increment.
    #[serde(borrow)]
    increment: Option<std::borrow::Cow<'a, str>>,
    /// The table of a delete.
    #[serde(borrow)]
    delete: Option<std::borrow::Cow<'a, str>>,
    /// The key of the row, or `{"$result":n}`.
    #[serde(borrow)]
    key: Option<&'a RawValue>,
    /// The row as an object, as in the body of a POST, PUT or PATCH.
    #[serde(borrow)]
    row: Option<&'a RawValue>,
    /// The version that the row must have; otherwise the result is 412.
    #[serde(default, deserialize_with = "integer")]
    version: Option<i64>,
    /// The name of the field to increment.
    #[serde(borrow)]
    field: Option<std::borrow::Cow<'a, str>>,
    /// The amount to add: a number, or a text for currencies and large numbers.
    #[serde(borrow)]
    by: Option<&'a RawValue>,
    /// The conflict action, by its name.
    #[serde(borrow)]
    on_conflict: Option<std::borrow::Cow<'a, str>>,
}

/// Reads an integer, which may be written as `10.0`, as in rows.
fn integer<'de, D: serde::Deserializer<'de>>(json: D) -> Result<Option<i64>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(json)? else { return Ok(None) };
    let invalid = || serde::de::Error::custom(format!("`{number}` is not an integer"));
    marmota_model::text::integer(&number.to_string()).map(Some).ok_or_else(invalid)
}

/// Validates an operation and converts it to a write of the store, linked to earlier ones.
///
/// `json` is one operation, from the array or the line of a batch, and `linked` contains those
/// before it. The write owns its values, because the body of a batch in lines is discarded chunk by
/// chunk. Rules of fields are checked here; what depends on stored rows is checked by the store.
///
/// # Errors
/// - 400 if it is not an object with exactly one verb and that verb's members, or has a `$result`
///   that does not fit.
/// - 404 for an unknown table, 403 (401) for one on which the caller has no rights.
/// - 422 for a row, key or amount that breaks rules, with all violations of the row.
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
            Ok((Write::Delete { table: Table::original_of(table), key, version }, links))
        }
        _ => Err(ApiError::bad_request(
            "an operation must have exactly one of insert, update, patch, increment and delete, \
             with the name of the table",
        )),
    }
}

/// Returns the error of an object that is not an operation. serde would list all members as if each
/// were an operation, so the name of the unknown member is taken from its message; other messages
/// of serde are passed on.
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

/// Refuses members that belong to another verb. A `version` of an increment, for example, would
/// otherwise be ignored, and the client would rely on a check that does not happen.
///
/// # Errors
/// 400 with the name of the first such member, and those that the verb takes.
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

/// Returns a member that the verb requires.
///
/// # Errors
/// 400 with its name if it is missing.
fn needed<'a, T: ?Sized>(member: Option<&'a T>, name: &str) -> ApiResult<&'a T> {
    member.ok_or_else(|| ApiError::bad_request(format!("the operation needs `{name}`")))
}

/// Returns the key, or the link to the operation that inserts it.
///
/// The key of a linked operation is [`Value::Absent`] until the store executes the insert and sets
/// it. If the insert was in an earlier chunk of lines, its key is known, and no link is needed.
///
/// # Errors
/// 400 if it is missing or refers to an unsuitable operation, 422 if it is not of the key's type.
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

/// Converts the members of an insert. `on_conflict` has the names of the URL's parameter (`refuse`,
/// `ignore`, `replace`, `update`).
///
/// # Errors
/// 400 without `row` or for an unknown action, and those of [`insert_of`].
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
///
/// Missing fields get their defaults, and timestamps the current time. With `on_conflict: update`
/// the action keeps the set of fields that the object has: others keep their stored value.
///
/// # Errors
/// 422 with all violations of the row, or as `key_of` for a reference to another operation.
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
    let links = linked.take(table, &mut row, &scratch, &mut violations)?;
    let on_conflict = on_conflict.with_given(table, FieldSet::present(&row));
    let stamp = WriteTimestamp::now(table);
    prepare::insert_into(table, &mut row, ValueSource::Values, stamp, &scratch, &mut violations);
    finish(table, &mut row, violations, &links)?;
    let row = row.iter().map(ValueRef::to_value).collect();
    Ok((Write::Insert { table: Table::original_of(table), row, on_conflict }, links))
}

/// Returns the violations of a row, except for fields whose values are not available yet. A linked
/// field has a placeholder, which must not be checked: the real key is checked by the store.
///
/// # Errors
/// 422 with the remaining violations.
fn finish(
    table: &Table,
    row: &mut [ValueRef<'_>],
    mut violations: Vec<Violation>,
    links: &[Link],
) -> ApiResult<()> {
    complete_linked(table, links, row, &mut violations);
    Ok(prepare::finish(violations)?)
}

/// Converts the members of an update (`whole`) or a patch.
///
/// A whole write sets fields that the row does not have to their default or null, and keeps blobs.
/// The expected version is `version`, or the version field in the row, as it was read; both may be
/// given if they are equal.
///
/// # Errors
/// 400 for a row with another key or version than the operation, those of [`check_version`], and
/// 422 with the violations of the row.
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
    links.extend(linked.take(table, &mut row, &scratch, &mut violations)?);
    if !key.as_ref().is_absent() {
        body::check_same_key(table, &row, key.as_ref())?;
    }
    let version = body::take_version(table, &mut row, member.version, &mut violations)?;
    check_version(table, version)?;
    if whole {
        prepare::fill_for_replace(table, &mut row, &mut violations);
    }
    let stamp = WriteTimestamp::now(table);
    prepare::update_into(table, &mut row, ValueSource::Values, stamp, &scratch, &mut violations);
    finish(table, &mut row, violations, &links)?;
    let row = row.iter().map(ValueRef::to_value).collect();
    Ok((Write::Update { table: Table::original_of(table), key, row, version }, links))
}

/// Converts the members of an increment. The write has the current time for the table's update
/// time, as any other write.
///
/// # Errors
/// 400 without `field` or `by`, 422 for an unknown field or an amount of another type.
fn of_increment(
    table: &Arc<Table>,
    member: &Member<'_>,
    linked: &Linked,
) -> ApiResult<(Write, Vec<Link>)> {
    let (key, links) = key_of(table, member, linked)?;
    let field = table.position(needed(member.field.as_deref(), "field")?)?;
    let by = read_by(table, field, needed(member.by, "by")?.get())?;
    let stamp = WriteTimestamp::now(table).value().to_value();
    Ok((Write::Increment { table: Table::original_of(table), key, field, by, stamp }, links))
}

/// Writes the result of an executed operation, with the members that its verb has:
///
/// ```text
/// {"status":201,"key":2,"version":1}                     insert
/// {"status":200,"key":2,"effect":"updated","version":4}  insert with on_conflict
/// {"status":200,"version":6}                             update, patch
/// {"status":200,"value":1,"version":7}                   increment
/// {"status":204}                                         delete
/// ```
///
/// `version` is left out for tables without one. A plain insert starts at version 1; engines do not
/// report it, because it is always the same.
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

/// Writes the result of a failed operation: its status, and the problem document that the operation
/// alone would be answered with. Errors of the server are logged.
pub(crate) fn write_error(error: ErrorDocument<'_>, body: &mut Vec<u8>) {
    error.log();
    body.extend_from_slice(format!("{{\"status\":{},\"error\":", error.status().code()).as_bytes());
    error.write(body);
    body.push(b'}');
}

/// Writes the results of operations, including refused ones, with a separator.
///
/// `refused` has the positions of operations in the request, in ascending order. `writes` and
/// `results` have the others in their order, so both are merged. `between` is a comma in an array
/// and a newline between lines.
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

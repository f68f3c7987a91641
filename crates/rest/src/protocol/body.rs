//! Request bodies: checks for JSON, and parsing of rows; and the preferences of `Prefer`.
//!
//! ```text
//! PATCH /api/person/7 HTTP/1.1
//! Content-Type: application/json
//! Prefer: return=minimal, durability=relaxed
//!
//! {"name":"Ada","version":3}
//! ```
//!
//! A write parses its body with [`read_row`] into a [`Row`] of borrowed values, removes the
//! expected version with [`take_version`], compares the key with [`check_same_key`], and lets the
//! store check the rules of the fields. Violations are collected along the way, and an error lists
//! all of them.

use marmota_http::{Method, Request};
use marmota_model::rule::violation;
use marmota_model::{
    Error, ErrorKind, Kind, Result as ModelResult, Scratch, Table, ValueRef, Violation, json,
};
use marmota_store::Durability;
use marmota_web::{ApiError, ApiResult};
use smallvec::SmallVec;

use crate::protocol::refusal::of_url;

/// A row on the stack, unless the table is wide.
pub(crate) type Row<'a> = SmallVec<[ValueRef<'a>; 24]>;

/// Returns a row in which every field is absent. Absent is not NULL: an insert fills it with the
/// default, and an update leaves the stored value.
pub(crate) fn empty_row<'a>(table: &Table) -> Row<'a> {
    smallvec::smallvec![ValueRef::Absent; table.fields().len()]
}

/// Returns an error for a body with another media type than JSON.
///
/// # Errors
/// 415, as for [`Request::check_json`].
pub(crate) fn check_json(request: &Request) -> ApiResult<()> {
    Ok(request.check_json()?)
}

/// Returns true for `Prefer: return=minimal` (RFC 7240): the client does not need the written row,
/// and is answered with 204, or 201 without a body. The preference may be one of several.
pub(crate) fn wants_minimal(request: &Request) -> bool {
    prefers(request, "return=minimal")
}

/// Returns true if the request has this preference (`Prefer`, RFC 7240), alone or among others.
pub(crate) fn prefers(request: &Request, preference: &str) -> bool {
    request.header_text("prefer").is_some_and(|prefer| {
        prefer.split([',', ';']).any(|part| part.trim().eq_ignore_ascii_case(preference))
    })
}

/// Returns the word of a preference in `Prefer`, such as `relaxed` for `durability`.
pub(crate) fn preference(request: &Request, name: &str) -> Option<String> {
    let prefer = request.header_text("prefer")?;
    prefer.split([',', ';']).find_map(|part| {
        let (this, word) = part.split_once('=')?;
        let word = || word.trim().trim_matches('"').to_owned();
        this.trim().eq_ignore_ascii_case(name).then(word)
    })
}

/// Returns the durability requested by `Prefer: durability=…`; `None` for the store's own. Reads
/// ignore the preference. The words are `full`, `relaxed` and `none`:
///
/// ```text
/// Prefer: durability=relaxed, return=minimal
/// ```
///
/// RFC 7240 lets a server ignore preferences that it does not know. An unknown durability is
/// refused nevertheless: a client that sends `fulll` must not get less than it expects.
///
/// # Errors
/// 400 if it is not a known durability.
pub(crate) fn durability(request: &Request) -> ApiResult<Option<Durability>> {
    if let Method::Get | Method::Head = request.method() {
        return Ok(None);
    }
    match preference(request, "durability").as_deref() {
        None => Ok(None),
        Some("full") => Ok(Some(Durability::Full)),
        Some("relaxed") => Ok(Some(Durability::Relaxed)),
        Some("none") => Ok(Some(Durability::None)),
        Some(other) => Err(ApiError::bad_request(format!(
            "`Prefer: durability={}` must be full, relaxed or none",
            marmota_model::text::excerpt(other)
        ))),
    }
}

/// Reads an object into `row`. Violations of its members are added to `violations`, so that one
/// answer can list all of them; values for the creation and update times are ignored, so that a row
/// that was read can be sent back.
///
/// Texts are borrowed from the body, or from `scratch` if they contain escapes.
///
/// # Errors
/// If the body is not a JSON object.
pub(crate) fn read_row<'a>(
    table: &Table,
    body: &'a [u8],
    scratch: &'a Scratch,
    row: &mut [ValueRef<'a>],
    violations: &mut Vec<Violation>,
) -> ModelResult<()> {
    json::read_object(table, body, scratch, row, violations)?;
    for stamp in [table.created_at(), table.updated_at()].into_iter().flatten() {
        row[stamp] = ValueRef::Absent;
    }
    Ok(())
}

/// Removes the expected version from a row to be written, and combines it with a version elsewhere
/// in the request.
///
/// # Errors
/// 400 if the two differ, 422 if it is not a valid version.
pub(crate) fn take_version(
    table: &Table,
    row: &mut [ValueRef<'_>],
    elsewhere: Option<i64>,
    violations: &mut Vec<Violation>,
) -> ApiResult<Option<i64>> {
    let Some(position) = table.version() else { return Ok(elsewhere) };
    let field = &table.fields()[position];
    match (std::mem::take(&mut row[position]), elsewhere) {
        (ValueRef::Int(inside), Some(outside)) if inside != outside => {
            let message = format!("`{}` differs from the expected version, {outside}", field.name);
            let value = ValueRef::Int(inside);
            Err(of_url(Error::invalid(vec![violation(field, value, "version", message)])))
        }
        (ValueRef::Int(inside), _) => Ok(Some(inside)),
        (ValueRef::Null, _) => {
            let message = "must be the version that was read, or be left out";
            violations.push(violation(field, ValueRef::Null, "required", message));
            Ok(elsewhere)
        }
        _ => Ok(elsewhere),
    }
}

/// Returns an error if the row has another key than the request. A row that was read has its key,
/// so the same key is accepted. Another one could only mean a change of the key, which references
/// of other rows would not survive.
///
/// # Errors
/// 400.
pub(crate) fn check_same_key(
    table: &Table,
    row: &[ValueRef<'_>],
    key: ValueRef<'_>,
) -> ApiResult<()> {
    let inside = row[table.key()];
    if inside.is_absent() || inside == key {
        return Ok(());
    }
    let field = &table.fields()[table.key()];
    let message = format!(
        "the path has the key {}; a key cannot be changed",
        marmota_model::text::excerpt_of(key)
    );
    Err(of_url(Error::invalid(vec![violation(field, inside, "key", message)])))
}

/// Returns the position of the field named in the path, if it is a blob.
///
/// # Errors
/// 404 otherwise. The message distinguishes an unknown field, one of another kind, and `history`
/// for a table that is not audited.
pub(crate) fn blob_field(request: &Request, table: &Table) -> ApiResult<usize> {
    let name = request.param("field").unwrap_or_default();
    match table.find(&name) {
        Some(field) if table.fields()[field].kind == Kind::Blob => Ok(field),
        Some(field) => Err(no_resource(format!(
            "field `{name}` of `{}` is {}, not a blob; read and write the field with its row",
            table.name(),
            table.fields()[field].kind.name()
        ))),
        None if name == "history" => Err(no_resource(format!(
            "`{}` has no history: audit the model (`#[model(audit)]`) to keep one",
            table.name()
        ))),
        None => Err(no_resource(format!(
            "`{}` has no field `{}`",
            table.name(),
            marmota_model::text::excerpt(&name)
        ))),
    }
}

/// Returns a 404 error with this message, for a path to a part of a row.
pub(crate) fn no_resource(message: String) -> ApiError {
    Error::new(ErrorKind::NotFound, message).into()
}

//! `GET` and `PUT /api/{table}/{id}/{blob}`: the raw bytes of a blob field.
//!
//! ```text
//! PUT /api/person/1/photo HTTP/1.1
//! If-Match: "v4"
//! Content-Length: 20
//!
//! not really a picture
//!
//! HTTP/1.1 204 No Content
//! ETag: "v5"
//!
//! GET /api/person/1/photo HTTP/1.1
//!
//! HTTP/1.1 200 OK
//! Content-Type: application/octet-stream
//! ETag: "v5"
//!
//! not really a picture
//! ```
//!
//! A body is written as it is, for any `Content-Type`. Neither method has URL parameters.

use std::ops::ControlFlow;

use marmota_http::Status;
use marmota_model::{FieldSet, NoRows, Scratch, Table, Value, ValueRef};
use marmota_store::operation::Operation;
use marmota_store::prepare::{self, ValueSource, WriteTimestamp};
use marmota_web::ApiResult;

use crate::protocol::body::{self, blob_field, empty_row};
use crate::protocol::etag::{self, Condition, Etag};
use crate::protocol::key;
use crate::request::answer::{Answer, Head};
use crate::request::call::{Execute, Interrupt, Next, Verb};
use crate::request::params;
use crate::request::request_context::RequestContext;
use crate::rows::get::{no_row, version_tag};

/// The media type of all blobs: a field has no type of its own to report.
const BYTES: &str = "application/octet-stream";

/// The read of a blob field.
pub(crate) struct BlobGet {
    /// The key in the path.
    key: Value,
    /// The position of the blob field in its table.
    field: usize,
    /// The result of the read, for the status of the answer.
    found: Found,
}

/// The three results of a read.
#[derive(Clone, Copy, PartialEq)]
enum Found {
    /// No row has this key: 404.
    NoRow,
    /// The row exists and the field is NULL: 404, with another message.
    Null,
    /// The answer was written: 200 or 304.
    Bytes,
}

impl BlobGet {
    /// Parses the path of a GET.
    ///
    /// # Errors
    /// 400 for parameters or an invalid key, 404 if the table has no blob field of this name.
    pub(crate) fn of(context: RequestContext<'_>) -> ApiResult<Self> {
        params::none(context.request)?;
        let field = blob_field(context.request, context.table())?;
        Ok(Self {
            key: key::of_path(context.request, context.table())?,
            field,
            found: Found::NoRow,
        })
    }
}

impl Verb for BlobGet {
    type Subject = Table;

    /// Reads the blob and, for the tag, the version of its row; no other field is read.
    ///
    /// The bytes go directly from the engine's row into the response. The tag is the version of the
    /// row if the table has one, so a change of another field also changes it; otherwise it is a
    /// hash of the bytes. `If-None-Match` with this tag is answered with 304.
    ///
    /// # Errors
    /// 404 if the row does not exist or the field is NULL.
    fn step(
        &mut self,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        let table = context.table();
        let Self { key, field, found } = self;
        let fields = FieldSet::EMPTY.with(*field);
        let fields = table.version().map_or(fields, |version| fields.with(version));
        let mut sink = |row: &[ValueRef<'_>]| {
            *found = Found::Null;
            if let ValueRef::Blob(bytes) = row[*field] {
                *found = Found::Bytes;
                let etag = version_tag(table, row).unwrap_or_else(|| Etag::of_bytes(bytes));
                if etag::none_match(context.request, etag) {
                    answer.empty(Head::new(Status::NOT_MODIFIED, "").etag(Some(etag)));
                } else {
                    let head = Head::new(Status::OK, BYTES).etag(Some(etag));
                    answer.body(head).extend_from_slice(bytes);
                }
            }
            ControlFlow::Break(())
        };
        execute(&mut Operation::Get { table, key: key.as_ref(), fields }, &mut sink)?;
        match found {
            Found::Bytes => Ok(Next::Answered),
            Found::NoRow => Err(no_row(table, key.as_ref()).into()),
            Found::Null => {
                let name = &table.fields()[*field].name;
                Err(body::no_resource(format!("field `{name}` of this row is null")).into())
            }
        }
    }
}

/// The write of a blob field.
pub(crate) struct BlobPut {
    /// The key in the path.
    key: Value,
    /// The position of the blob field in its table.
    field: usize,
    /// The condition of `If-Match`.
    condition: Condition,
    /// The time of the write, taken once, so that a repeated step writes the same.
    stamp: WriteTimestamp,
}

impl BlobPut {
    /// Parses the path and the condition of a PUT.
    ///
    /// # Errors
    /// As [`BlobGet::of`]; 412 and 400 for an unsuitable `If-Match`.
    pub(crate) fn of(context: RequestContext<'_>) -> ApiResult<Self> {
        params::none(context.request)?;
        let table = context.table();
        let field = blob_field(context.request, table)?;
        let key = key::of_path(context.request, table)?;
        let condition = etag::condition(context.request, table)?;
        Ok(Self { key, field, condition, stamp: WriteTimestamp::now(table) })
    }
}

impl Verb for BlobPut {
    type Subject = Table;

    /// Writes the body into the field, and answers 204 with the new tag.
    ///
    /// It is a patch of one field, so that rules, timestamps, the version and the history apply as
    /// to any write. All other fields are absent from the row and keep their values.
    ///
    /// # Errors
    /// 404 if the row does not exist, 412 if it has another version, 422 if the bytes break a rule
    /// of the field.
    fn step(
        &mut self,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        let table = context.table();
        let scratch = Scratch::new();
        let mut row = empty_row(table);
        row[self.field] = ValueRef::Blob(context.request.body());
        prepare::update(table, &mut row, ValueSource::Values, self.stamp, &scratch)?;
        let (key, version) = (self.key.as_ref(), self.condition.version);
        let outcome =
            execute(&mut Operation::Update { table, key, row: &row, version }, &mut NoRows)?;
        answer.committed(context.store, &outcome);
        let etag = match outcome.version {
            Some(version) => Etag::Version(version),
            None => Etag::of_bytes(context.request.body()),
        };
        answer.empty(Head::new(Status::NO_CONTENT, "").etag(Some(etag)));
        Ok(Next::Answered)
    }
}

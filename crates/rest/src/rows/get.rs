//! `GET /api/{table}/{id}`: one row.
//!
//! ```text
//! GET /api/person/1?fields=id,name HTTP/1.1
//!
//! HTTP/1.1 200 OK
//! Content-Type: application/json
//! ETag: "v3"
//!
//! {"id":1,"name":"Ada Lovelace"}
//! ```
//!
//! | | |
//! |---|---|
//! | `fields` | the fields to return, separated by commas. Default: all but blobs |
//! | `expand` | the relations whose rows are added ([`crate::expand`]) |
//! | `If-None-Match` | 304 without a body if the row has this tag |
//!
//! HEAD has the same headers and no body.

use std::ops::ControlFlow;

use marmota_http::Status;
use marmota_model::{Error, ErrorKind, FieldSet, Table, Value, ValueRef, json};
use marmota_store::operation::Operation;
use marmota_web::ApiResult;

use crate::expand::read::Expansion;
use crate::protocol::etag::{self, Etag};
use crate::protocol::key;
use crate::protocol::scratch_buffer::ScratchBuffer;
use crate::request::answer::{Answer, Head, JSON};
use crate::request::call::{Execute, Interrupt, Next, Verb};
use crate::request::params;
use crate::request::request_context::RequestContext;

/// The read of one row.
pub(crate) struct Get {
    /// The key in the path.
    key: Value,
    /// The fields of the answer: those of `fields`, or all but blobs.
    shown: FieldSet,
    /// True once the engine returned the row.
    found: bool,
    /// True once the read of the row has ended, if relations are expanded.
    is_read: bool,
    /// The relations of `expand`, and their rows.
    expansion: Option<Box<Expansion>>,
}

impl Get {
    /// Parses the key and the parameters `fields` and `expand`.
    ///
    /// # Errors
    /// 400 for an invalid key or parameter, or an unknown field.
    pub(crate) fn of(context: RequestContext<'_>) -> ApiResult<Self> {
        let key = key::of_path(context.request, context.table())?;
        let (shown, expand) = params::of_row(context.request, context.table())?;
        let expansion = expand.map(|text| Expansion::of(context, &text)).transpose()?;
        Ok(Self { key, shown, found: false, is_read: false, expansion: expansion.map(Box::new) })
    }

    /// Reads the row, then the related rows, and writes them. The answer has no `ETag`, because it
    /// depends on more rows than the one that `If-Match` compares.
    fn step_expanded(
        &mut self,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        let table = context.table();
        let Self { key, shown, found, is_read, expansion: Some(expansion) } = self else {
            return Ok(Next::Step);
        };
        if !*is_read {
            let fields = shown.union(expansion.fields());
            let mut sink = |row: &[ValueRef<'_>]| {
                *found = true;
                expansion.add(row, |text| json::write_row(text, table, *shown, row));
                ControlFlow::Break(())
            };
            execute(&mut Operation::Get { table, key: key.as_ref(), fields }, &mut sink)?;
            *is_read = true;
            return if *found { Ok(Next::Step) } else { Err(no_row(table, key.as_ref()).into()) };
        }
        if !expansion.step(execute)? {
            return Ok(Next::Step);
        }
        let mut text = ScratchBuffer::take();
        expansion.write(&mut text)?;
        answer.whole(Head::new(Status::OK, JSON), &mut text);
        Ok(Next::Answered)
    }
}

impl Verb for Get {
    type Subject = Table;

    /// Reads the row and writes it.
    ///
    /// The version is read in addition to the shown fields, for the tag. The sink writes the row
    /// while the engine still holds it, so no copy of its values is needed.
    ///
    /// # Errors
    /// 404 if no row has the key.
    fn step(
        &mut self,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        if self.expansion.is_some() {
            return self.step_expanded(context, answer, execute);
        }
        let table = context.table();
        let Self { key, shown, found, .. } = self;
        let fields = table.version().map_or(*shown, |version| shown.with(version));
        let mut sink = |row: &[ValueRef<'_>]| {
            *found = true;
            write_row(context, *shown, row, Status::OK, answer);
            ControlFlow::Break(())
        };
        execute(&mut Operation::Get { table, key: key.as_ref(), fields }, &mut sink)?;
        if *found { Ok(Next::Answered) } else { Err(no_row(table, key.as_ref()).into()) }
    }
}

/// Writes a row with its `ETag`: 304 if `status` is 200 and the client has the row already. If the
/// tag is the version, the row is written directly into the response; if it is a hash, the row must
/// be complete before its head.
pub(crate) fn write_row(
    context: RequestContext<'_>,
    shown: FieldSet,
    row: &[ValueRef<'_>],
    status: Status,
    answer: &mut Answer<'_, '_>,
) {
    let table = context.table();
    let reads = status == Status::OK;
    if let Some(etag) = version_tag(table, row) {
        if reads && etag::none_match(context.request, etag) {
            return answer.empty(Head::new(Status::NOT_MODIFIED, "").etag(Some(etag)));
        }
        let out = answer.body(Head::new(status, JSON).etag(Some(etag)));
        return json::write_row(out, table, shown, row);
    }
    let mut buffer = ScratchBuffer::take();
    json::write_row(&mut buffer, table, shown, row);
    let etag = Etag::of_bytes(&buffer);
    if reads && etag::none_match(context.request, etag) {
        answer.empty(Head::new(Status::NOT_MODIFIED, "").etag(Some(etag)));
    } else {
        answer.whole(Head::new(status, JSON).etag(Some(etag)), &mut buffer);
    }
}

/// Returns the tag of a row with a version, or `None` if its table has no version field. The row
/// must have been read with that field.
pub(crate) fn version_tag(table: &Table, row: &[ValueRef<'_>]) -> Option<Etag> {
    row[table.version()?].as_int().map(Etag::Version)
}

/// Returns the error for a row that does not exist: 404, with the table and the key, shortened if
/// it is long.
#[cold]
pub(crate) fn no_row(table: &Table, key: ValueRef<'_>) -> Error {
    let key = marmota_model::text::excerpt_of(key);
    let name = &table.fields()[table.key()].name;
    Error::new(ErrorKind::NotFound, format!("there is no `{}` with {name} {key}", table.name()))
}

//! `GET /api/{table}/{id}`: one row.

use std::ops::ControlFlow;

use marmota_http::Status;
use marmota_model::{Error, ErrorKind, FieldSet, Table, Value, ValueRef, json};
use marmota_store::operation::Operation;
use marmota_web::ApiResult;

use crate::protocol::etag::{self, Etag};
use crate::protocol::key;
use crate::protocol::scratch_buffer::ScratchBuffer;
use crate::request::answer::{Answer, Head, JSON};
use crate::request::call::{Execute, Interrupt, Next, Verb};
use crate::request::params;
use crate::request::request_context::RequestContext;

pub(crate) struct Get {
    key: Value,
    shown: FieldSet,
    found: bool,
}

impl Get {
    pub(crate) fn of(context: RequestContext<'_>) -> ApiResult<Self> {
        let key = key::of_path(context.request, context.table())?;
        let shown = params::fields(context.request, context.table())?;
        Ok(Self { key, shown, found: false })
    }
}

impl Verb for Get {
    type Subject = Table;

    fn step(
        &mut self,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        let table = context.table();
        let Self { key, shown, found } = self;
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

/// Writes a row: 304 if the client has it already. If the tag is the version, the row is written
/// directly into the response; if it is a hash, the row must be complete before its head.
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

/// Returns the tag of a row with a version.
pub(crate) fn version_tag(table: &Table, row: &[ValueRef<'_>]) -> Option<Etag> {
    row[table.version()?].as_int().map(Etag::Version)
}

/// Returns the error for a row that does not exist.
#[cold]
pub(crate) fn no_row(table: &Table, key: ValueRef<'_>) -> Error {
    let key = marmota_model::text::excerpt_of(key);
    let name = &table.fields()[table.key()].name;
    Error::new(ErrorKind::NotFound, format!("there is no `{}` with {name} {key}", table.name()))
}

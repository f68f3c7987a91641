//! `GET` and `PUT /api/{table}/{id}/{blob}`: the raw bytes of a blob field.

use std::ops::ControlFlow;

use marmota_http::Status;
use marmota_model::{FieldSet, NoRows, Table, Value, ValueRef};
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

const BYTES: &str = "application/octet-stream";

pub(crate) struct BlobGet {
    key: Value,
    field: usize,
    found: Found,
}

#[derive(Clone, Copy, PartialEq)]
enum Found {
    NoRow,
    Null,
    Bytes,
}

impl BlobGet {
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

pub(crate) struct BlobPut {
    key: Value,
    field: usize,
    condition: Condition,
    stamp: WriteTimestamp,
}

impl BlobPut {
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

    fn step(
        &mut self,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        let table = context.table();
        let mut row = empty_row(table);
        row[self.field] = ValueRef::Blob(context.request.body());
        prepare::update(table, &mut row, ValueSource::Values, self.stamp)?;
        let (key, version) = (self.key.as_ref(), self.condition.version);
        let outcome =
            execute(&mut Operation::Update { table, key, row: &row, version }, &mut NoRows)?;
        let etag = match outcome.version {
            Some(version) => Etag::Version(version),
            None => Etag::of_bytes(context.request.body()),
        };
        answer.empty(Head::new(Status::NO_CONTENT, "").etag(Some(etag)));
        Ok(Next::Answered)
    }
}

//! `POST /api/{table}` with an object: one row.

use marmota_http::{Request, Status};
use marmota_model::{FieldSet, NoRows, Scratch, Table, Uuid, Value, ValueRef, json};
use marmota_store::operation::{Keys, OnConflict, Operation, Outcome, UpsertEffect};
use marmota_store::prepare::{self, ValueSource, WriteTimestamp};
use marmota_web::ApiResult;

use crate::protocol::body::{self, empty_row};
use crate::protocol::etag::Etag;
use crate::protocol::key;
use crate::protocol::scratch_buffer::ScratchBuffer;
use crate::request::answer::{Answer, Head, JSON};
use crate::request::call::{Execute, Interrupt, Next, Verb};
use crate::request::params;
use crate::request::request_context::RequestContext;
use crate::rows::get::version_tag;

pub(crate) struct Insert {
    stamp: WriteTimestamp,
    on_conflict: OnConflict,
    /// The row that existed already; it is read and returned.
    there: Option<There>,
    /// Kept, so that a repeated step uses the same key.
    uuid: Option<Uuid>,
}

/// A row that existed already.
struct There {
    key: Value,
    version: Option<i64>,
    /// True if it was read, maybe in an earlier step.
    found: bool,
}

impl Insert {
    pub(crate) fn of(context: RequestContext<'_>) -> ApiResult<Self> {
        let on_conflict = params::on_conflict(context.request)?;
        body::check_json(context.request)?;
        Ok(Self {
            stamp: WriteTimestamp::now(context.table()),
            on_conflict,
            there: None,
            uuid: None,
        })
    }

    /// Responds with the row that existed, in its current state.
    fn show(
        there: &mut There,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        let table = context.table();
        let location = location(context.request.path(), there.key.as_ref());
        if !body::wants_minimal(context.request) {
            let found = &mut there.found;
            let mut sink = |row: &[ValueRef<'_>]| {
                *found = true;
                write_stored(context, row, Status::OK, Some(location.clone()), answer);
                std::ops::ControlFlow::Break(())
            };
            let (key, fields) = (there.key.as_ref(), table.read_by_default());
            let fields = table.version().map_or(fields, |version| fields.with(version));
            execute(&mut Operation::Get { table, key, fields }, &mut sink)?;
        }
        if !there.found {
            // The client does not want it, or it was deleted concurrently.
            let mut head = Head::new(Status::OK, JSON).etag(there.version.map(Etag::Version));
            head.location = Some(location);
            write_minimal(context.request, head, answer);
        }
        Ok(Next::Answered)
    }
}

impl Verb for Insert {
    type Subject = Table;

    fn step(
        &mut self,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        if let Some(there) = &mut self.there {
            return Self::show(there, context, answer, execute);
        }
        let table = context.table();
        let scratch = Scratch::new();
        let mut row = empty_row(table);
        let mut violations = Vec::new();
        body::read_row(table, context.request.body(), &scratch, &mut row, &mut violations)?;
        let on_conflict = self.on_conflict.with_given(table, FieldSet::present(&row));
        if let Some(uuid) = self.uuid {
            row[table.key()] = ValueRef::Uuid(uuid);
        }
        prepare::insert_into(table, &mut row, ValueSource::Values, self.stamp, &mut violations);
        prepare::finish(violations)?;
        if let ValueRef::Uuid(uuid) = row[table.key()] {
            self.uuid = Some(uuid);
        }
        let mut operation = Operation::Insert { table, row: &row, on_conflict };
        let outcome = execute(&mut operation, &mut NoRows)?;
        if let (UpsertEffect::Ignored | UpsertEffect::Updated, Keys::One(key)) =
            (outcome.effect, &outcome.keys)
        {
            let (key, version) = (key.clone(), outcome.version);
            self.there = Some(There { key, version, found: false });
            return Ok(Next::Step);
        }
        give_key(table, &mut row, &outcome);
        let location = location(context.request.path(), row[table.key()]);
        write_stored(context, &row, Status::CREATED, Some(location), answer);
        Ok(Next::Answered)
    }
}

/// Sets the key that the engine has assigned in the row.
pub(crate) fn give_key(table: &Table, row: &mut [ValueRef<'_>], outcome: &Outcome) {
    if let Keys::One(Value::Int(key)) = outcome.keys {
        row[table.key()] = ValueRef::Int(key);
    }
}

pub(crate) fn location(collection: &str, key: ValueRef<'_>) -> String {
    let mut location = String::with_capacity(collection.len() + 40);
    location.push_str(collection);
    location.push('/');
    key::push_segment(&mut location, key);
    location
}

/// Responds to a write with the row as it is stored now, or without it if the client prefers that.
pub(crate) fn write_stored(
    context: RequestContext<'_>,
    row: &[ValueRef<'_>],
    status: Status,
    location: Option<String>,
    answer: &mut Answer<'_, '_>,
) {
    let table = context.table();
    let shown = table.read_by_default();
    let mut head = Head::new(status, JSON).etag(version_tag(table, row));
    head.location = location;
    if body::wants_minimal(context.request) {
        return write_minimal(context.request, head, answer);
    }
    if head.etag.is_some() {
        return json::write_row(answer.body(head), table, shown, row);
    }
    let mut buffer = ScratchBuffer::take();
    json::write_row(&mut buffer, table, shown, row);
    head.etag = Some(Etag::of_bytes(&buffer));
    answer.whole(head, &mut buffer);
}

/// Responds to a write without a body.
pub(crate) fn write_minimal(request: &Request, mut head: Head, answer: &mut Answer<'_, '_>) {
    head.minimal = body::wants_minimal(request);
    head.content_type = "";
    if head.status == Status::OK {
        head.status = Status::NO_CONTENT;
    }
    answer.empty(head);
}

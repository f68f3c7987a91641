//! `POST /api/{table}` with an object: one row.
//!
//! ```text
//! POST /api/person
//! Content-Type: application/json
//!
//! {"name":"Emmy Noether","year_of_birth":1882}
//!
//! HTTP/1.1 201 Created
//! Location: /api/person/1
//! ETag: "v1"
//! Content-Type: application/json
//!
//! {"id":1,"name":"Emmy Noether","year_of_birth":1882,"visits":0,"version":1}
//! ```
//!
//! | request | effect on the response |
//! |---|---|
//! | `?on_conflict=ignore`, `update` | 200 with the existing row instead of 409 |
//! | `?on_conflict=replace` | 201 with the new row instead of 409 |
//! | `Prefer: return=minimal` | no body; 200 becomes 204, 201 stays |
//!
//! The body is parsed into a row of borrowed values on the stack. Defaults, times and the key are
//! set in place, and the same row is passed to the engine and written into the response. It is not
//! read back: the row in memory has all values that the engine stores, except an automatic key,
//! which the engine returns. Only a row that existed already, or of a table with hooks, is read, in a
//! second step, because the request does not have all of its values.

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

/// The insert of one row, with the values that a repeated step must not generate again.
pub(crate) struct Insert {
    /// The time of the request, for the creation and update times of the row.
    stamp: WriteTimestamp,
    on_conflict: OnConflict,
    /// The row that existed already, or that hooks may have changed: the next step reads and
    /// returns it.
    there: Option<There>,
    /// The generated key. It is kept, so that a repeated step uses the same key.
    uuid: Option<Uuid>,
}

/// A row that is read to be returned.
struct There {
    key: Value,
    /// The version after the insert, if the table has versions.
    version: Option<i64>,
    /// True if it is new.
    is_new: bool,
    /// True if it was read, maybe in an earlier step.
    found: bool,
}

impl Insert {
    /// Checks the head of the request. The body is parsed by the first step.
    ///
    /// # Errors
    /// 400 for a parameter other than `on_conflict` or an unknown action, 415 for a body that is
    /// not JSON.
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

    /// Responds with 200 and the row that existed, or 201 and the new row, in its current state, with
    /// the fields that a GET returns.
    ///
    /// With `Prefer: return=minimal` nothing is read, and the response is 204 with the `ETag` of
    /// the outcome. A row that was deleted between the two steps is answered in the same way, since
    /// its values are unknown. Both have the `Location` of the row.
    fn show(
        there: &mut There,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        let table = context.table();
        let location = location(context.request.path(), there.key.as_ref());
        let status = if there.is_new { Status::CREATED } else { Status::OK };
        if !body::wants_minimal(context.request) {
            let found = &mut there.found;
            let mut sink = |row: &[ValueRef<'_>]| {
                *found = true;
                write_stored(context, row, status, Some(location.clone()), answer);
                std::ops::ControlFlow::Break(())
            };
            let (key, fields) = (there.key.as_ref(), table.read_by_default());
            let fields = table.version().map_or(fields, |version| fields.with(version));
            execute(&mut Operation::Get { table, key, fields }, &mut sink)?;
        }
        if !there.found {
            // The client does not want it, or it was deleted concurrently.
            let mut head = Head::new(status, JSON).etag(there.version.map(Etag::Version));
            head.location = Some(location);
            write_minimal(context.request, head, answer);
        }
        Ok(Next::Answered)
    }
}

impl Verb for Insert {
    type Subject = Table;

    /// Inserts the row and responds with 201, `Location`, `ETag` and the row; or continues with
    /// [`Insert::show`] if the row existed, and was ignored or updated. A replaced row has all of
    /// its values from the request, so it is answered like a new one.
    ///
    /// All violations of the row are reported together in one 422: those of its JSON and those of
    /// its rules. A unique value that exists is 409.
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
        prepare::insert_into(
            table,
            &mut row,
            ValueSource::Values,
            self.stamp,
            &scratch,
            &mut violations,
        );
        prepare::finish(violations)?;
        if let ValueRef::Uuid(uuid) = row[table.key()] {
            self.uuid = Some(uuid);
        }
        let mut operation = Operation::Insert { table, row: &row, on_conflict };
        let outcome = execute(&mut operation, &mut NoRows)?;
        answer.committed(context.store, &outcome);
        if let (UpsertEffect::Ignored | UpsertEffect::Updated, Keys::One(key)) =
            (outcome.effect, &outcome.keys)
        {
            let (key, version) = (key.clone(), outcome.version);
            self.there = Some(There { key, version, is_new: false, found: false });
            return Ok(Next::Step);
        }
        give_key(table, &mut row, &outcome);
        if context.store.has_hooks(table) {
            let (key, version) = (row[table.key()].to_value(), outcome.version);
            self.there = Some(There { key, version, is_new: true, found: false });
            return Ok(Next::Step);
        }
        let location = location(context.request.path(), row[table.key()]);
        write_stored(context, &row, Status::CREATED, Some(location), answer);
        Ok(Next::Answered)
    }
}

/// Sets the key that the engine has assigned in the row. Other keys are in the row before it is
/// passed to the engine.
pub(crate) fn give_key(table: &Table, row: &mut [ValueRef<'_>], outcome: &Outcome) {
    if let Keys::One(Value::Int(key)) = outcome.keys {
        row[table.key()] = ValueRef::Int(key);
    }
}

/// Returns the path of a row, for the `Location` header: the path of the collection and the key as
/// a segment, for example `/api/person/7`. The path of a tenant's API contains the tenant, so the
/// request's path is used instead of the API's prefix.
pub(crate) fn location(collection: &str, key: ValueRef<'_>) -> String {
    let mut location = String::with_capacity(collection.len() + 40);
    location.push_str(collection);
    location.push('/');
    key::push_segment(&mut location, key);
    location
}

/// Responds to a write with the row as it is stored now, or without it if the client prefers that.
///
/// Only the fields that a GET returns by default are written. The `ETag` is the row's version. For
/// a table without versions it is a hash of the body, and the body is collected first, because the
/// header precedes it. It equals the tag that a GET of the row returns.
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

/// Responds to a write without a body. 200 becomes 204, and 201 stays. `Preference-Applied` is set
/// only if the client requested it (RFC 7240): a row that cannot be read back is answered in this
/// way, too.
pub(crate) fn write_minimal(request: &Request, mut head: Head, answer: &mut Answer<'_, '_>) {
    head.minimal = body::wants_minimal(request);
    head.content_type = "";
    if head.status == Status::OK {
        head.status = Status::NO_CONTENT;
    }
    answer.empty(head);
}

//! `PUT` and `PATCH /api/{table}/{id}`: replaces a row, or changes the given fields.
//!
//! ```text
//! PATCH /api/person/1
//! If-Match: "v1"
//! Content-Type: application/json
//!
//! {"email":"emmy@example.org"}
//!
//! HTTP/1.1 200 OK
//! ETag: "v2"
//! Content-Type: application/json
//!
//! {"id":1,"name":"Emmy Noether","email":"emmy@example.org","visits":0,"version":2}
//! ```
//!
//! | request | effect |
//! |---|---|
//! | `If-Match: "v1"`, or `version` in the body | 412 if the row has another version |
//! | `If-Match: *` | 412 instead of an insert for a PUT to a missing row (RFC 9110, 13.1.1) |
//! | `If-None-Match: *` with PUT | 412 if the row exists |
//! | `Prefer: return=minimal` | 204 without the row |
//!
//! A PUT writes all fields: a field that the body does not have gets its default or null. A PATCH
//! writes the fields of the body. Both ignore the creation and update times in the body, so that a
//! row that was read can be sent back.
//!
//! A request takes up to three operations, each in a step of its own ([`Stage`]):
//!
//! 1. The update. A PUT to a missing row continues with an insert if clients provide the keys of
//!    the table.
//! 2. The insert, which is answered with 201 and `Location`.
//! 3. A read of the row, if the body did not have all fields of the response.
//!
//! The body is parsed again in each step instead of being kept: it is borrowed from the request,
//! and most requests need only one step.

use marmota_http::Status;
use marmota_model::{
    ErrorKind, FieldSet, KeyKind, NoRows, Scratch, Table, Value, ValueRef, Violation,
};
use marmota_store::operation::Operation;
use marmota_store::prepare::{self, ValueSource, WriteTimestamp};
use marmota_store::refusal;
use marmota_web::{ApiError, ApiResult};

use crate::protocol::body::{self, Row, empty_row};
use crate::protocol::etag::{self, Condition, Etag};
use crate::protocol::key;
use crate::request::answer::{Answer, Head, JSON};
use crate::request::call::{Execute, Interrupt, Next, Verb};
use crate::request::params;
use crate::request::request_context::RequestContext;
use crate::rows::insert::{write_minimal, write_stored};

/// A write to one row at a known key.
pub(crate) struct Update {
    /// The key in the path. A body with another key is refused.
    key: Value,
    /// True for PUT, false for PATCH.
    replace: bool,
    /// The condition of `If-Match`.
    condition: Condition,
    /// The time of the request, for the update time of the row.
    stamp: WriteTimestamp,
    stage: Stage,
    /// True if the row was read, maybe in an earlier step.
    found: bool,
}

/// The next operation of a request.
#[derive(Clone, Copy)]
enum Stage {
    /// Update the existing row.
    Update,
    /// The row does not exist: insert it. With `must_be_new`, a row with this key is 412 instead of
    /// 409.
    Insert { must_be_new: bool },
    /// Written, and has this version now; read the fields that the body did not contain, or that
    /// hooks have changed. `is_new` if it was inserted.
    Read { version: Option<i64>, is_new: bool },
}

impl Update {
    /// Creates the verb of a PUT.
    ///
    /// # Errors
    /// As for [`Update::patch`].
    pub(crate) fn replace(context: RequestContext<'_>) -> ApiResult<Self> {
        Self::of(context, true)
    }

    /// Creates the verb of a PATCH.
    ///
    /// # Errors
    /// 400 for a parameter, an invalid key or condition, 412 for an `If-Match` that is not a
    /// version of such a row, 415 for a body that is not JSON.
    pub(crate) fn patch(context: RequestContext<'_>) -> ApiResult<Self> {
        Self::of(context, false)
    }

    /// Checks the head of the request. `If-None-Match: *` starts with the insert, without an
    /// update; it is valid only for a PUT to a table whose keys clients provide.
    fn of(context: RequestContext<'_>, replace: bool) -> ApiResult<Self> {
        params::none(context.request)?;
        body::check_json(context.request)?;
        let key = key::of_path(context.request, context.table())?;
        let must_be_new =
            replace && etag::must_be_new(context.request) && can_create(context.table());
        let (condition, stage) = if must_be_new {
            (Condition::default(), Stage::Insert { must_be_new })
        } else {
            (etag::condition(context.request, context.table())?, Stage::Update)
        };
        Ok(Self {
            key,
            replace,
            condition,
            stamp: WriteTimestamp::now(context.table()),
            stage,
            found: false,
        })
    }

    /// Parses the row in the body and returns it with the expected version, from the body or from
    /// `If-Match`.
    ///
    /// Violations of fields are added to `violations`, to be reported together with those of the
    /// rules.
    ///
    /// # Errors
    /// 400 for a key or a version that differs from that of the request's head.
    fn read<'a>(
        &self,
        context: RequestContext<'a>,
        scratch: &'a Scratch,
        violations: &mut Vec<Violation>,
    ) -> Result<(Row<'a>, Option<i64>), Interrupt> {
        let table = context.table();
        let mut row = empty_row(table);
        body::read_row(table, context.request.body(), scratch, &mut row, violations)?;
        body::check_same_key(table, &row, self.key.as_ref())?;
        let version = body::take_version(table, &mut row, self.condition.version, violations)?;
        Ok((row, version))
    }

    /// Executes the update, and responds if the row is known: 204 for a client that prefers a
    /// minimal response, or 200 with the row if the body has all fields that a GET returns.
    /// Otherwise the next step reads the row.
    ///
    /// # Errors
    /// 404 for a missing row, 409 for a unique value that exists, 412 for another version, or for a
    /// PUT that requires a missing row to exist, 422 with all violations.
    fn update(
        &mut self,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        let table = context.table();
        let scratch = Scratch::new();
        let mut violations = Vec::new();
        let (mut row, version) = self.read(context, &scratch, &mut violations)?;
        if self.replace {
            prepare::fill_for_replace(table, &mut row, &mut violations);
        }
        prepare::update_into(
            table,
            &mut row,
            ValueSource::Values,
            self.stamp,
            &scratch,
            &mut violations,
        );
        prepare::finish(violations)?;
        let key = self.key.as_ref();
        let ran = execute(&mut Operation::Update { table, key, row: &row, version }, &mut NoRows);
        let outcome = match ran {
            Ok(outcome) => outcome,
            Err(Interrupt::Failed(error))
                if error.error().kind() == ErrorKind::NotFound
                    && self.replace
                    && can_create(table) =>
            {
                if self.condition.must_exist || version.is_some() {
                    let message = format!(
                        "there is no `{}` with this key; leave out the condition to insert it",
                        table.name()
                    );
                    return Err(etag::stale(message).into());
                }
                self.stage = Stage::Insert { must_be_new: false };
                return Ok(Next::Step);
            }
            Err(interrupt) => return Err(interrupt),
        };
        answer.committed(context.store, &outcome);
        if body::wants_minimal(context.request) {
            let etag = outcome.version.map(Etag::Version);
            write_minimal(context.request, Head::new(Status::OK, JSON).etag(etag), answer);
            return Ok(Next::Answered);
        }
        row[table.key()] = key;
        if let (Some(position), Some(version)) = (table.version(), outcome.version) {
            row[position] = ValueRef::Int(version);
        }
        let shown = table.read_by_default();
        if FieldSet::present(&row).union(shown) == FieldSet::present(&row)
            && !context.store.has_hooks(table)
        {
            // The body contains all fields.
            write_stored(context, &row, Status::OK, None, answer);
            return Ok(Next::Answered);
        }
        self.stage = Stage::Read { version: outcome.version, is_new: false };
        Ok(Next::Step)
    }

    /// Inserts the row under the key of the path and responds with 201 and `Location`.
    ///
    /// Between the update and this step another request may insert the row. The insert then fails
    /// with 409, and neither row is overwritten.
    fn insert(
        &mut self,
        context: RequestContext<'_>,
        must_be_new: bool,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        let table = context.table();
        let parts = table.key_values(self.key.as_ref());
        if parts.contains(&Value::Null) {
            return Err(refusal::not_found(table, self.key.as_ref()).into());
        }
        let scratch = Scratch::new();
        let mut violations = Vec::new();
        let (mut row, _) = self.read(context, &scratch, &mut violations)?;
        row[table.key()] = self.key.as_ref();
        // The path has the values of a composite key.
        for (&field, part) in table.key_fields().iter().zip(&parts) {
            if row[field].is_absent() {
                row[field] = part.as_ref();
            }
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
        let ran = execute(&mut Operation::insert(table, &row), &mut NoRows);
        let outcome = ran.map_err(|interrupt| match interrupt {
            Interrupt::Failed(error) if must_be_new && is_taken_key(table, &error) => {
                etag::stale(format!("there is a `{}` with this key already", table.name())).into()
            }
            interrupt => interrupt,
        })?;
        answer.committed(context.store, &outcome);
        if context.store.has_hooks(table) {
            self.stage = Stage::Read { version: outcome.version, is_new: true };
            return Ok(Next::Step);
        }
        write_stored(
            context,
            &row,
            Status::CREATED,
            Some(context.request.path().to_owned()),
            answer,
        );
        Ok(Next::Answered)
    }

    /// Responds to a write with the row, read after it. `written` is the version after the write,
    /// and `is_new` is true for an insert.
    ///
    /// Another write may happen in between; the response then has its values and its `ETag`, which
    /// match each other. If the row cannot be read, the response is 204 with `written` as the
    /// `ETag`: the write has succeeded, and an error would state the opposite.
    fn read_back(
        &mut self,
        context: RequestContext<'_>,
        (written, is_new): (Option<i64>, bool),
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        let table = context.table();
        let found = &mut self.found;
        let path = || is_new.then(|| context.request.path().to_owned());
        let status = if is_new { Status::CREATED } else { Status::OK };
        let mut sink = |row: &[ValueRef<'_>]| {
            *found = true;
            write_stored(context, row, status, path(), answer);
            std::ops::ControlFlow::Break(())
        };
        let (key, fields) = (self.key.as_ref(), table.read_by_default());
        let fields = table.version().map_or(fields, |version| fields.with(version));
        match execute(&mut Operation::Get { table, key, fields }, &mut sink) {
            // The row is written: a value that cannot be read does not make the write fail.
            Err(Interrupt::Failed(_)) if !self.found => {}
            ran => drop(ran?),
        }
        if !self.found {
            // Written, but deleted concurrently or not readable.
            let mut head = Head::new(status, JSON).etag(written.map(Etag::Version));
            head.location = path();
            write_minimal(context.request, head, answer);
        }
        Ok(Next::Answered)
    }
}

impl Verb for Update {
    type Subject = Table;

    fn step(
        &mut self,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        match self.stage {
            Stage::Update => self.update(context, answer, execute),
            Stage::Insert { must_be_new } => self.insert(context, must_be_new, answer, execute),
            Stage::Read { version, is_new } => {
                self.read_back(context, (version, is_new), answer, execute)
            }
        }
    }
}

/// Returns true if clients provide keys, so that a path can name a new row.
fn can_create(table: &Table) -> bool {
    table.key_kind() != KeyKind::Auto
}

/// Returns true for a conflict of the key with another row. A conflict of another unique field
/// stays 409, even under `If-None-Match: *`.
fn is_taken_key(table: &Table, error: &ApiError) -> bool {
    let blamed = |&field: &usize| {
        let name = &table.fields()[field].name;
        error.error().violations().iter().any(|violation| violation.field == **name)
    };
    error.error().kind() == ErrorKind::Conflict && table.key_order().iter().all(blamed)
}

//! `POST /api/{table}/{id}/{field}/increment`: an atomic addition to a number, so that concurrent
//! increments are not lost.
//!
//! ```text
//! POST /api/person/1/visits/increment
//! Content-Type: application/json
//!
//! {"by":2}
//!
//! HTTP/1.1 200 OK
//! ETag: "v5"
//! Content-Type: application/json
//!
//! {"visits":9}
//! ```
//!
//! The engine adds and returns the sum in one operation, so a client does not read the row first
//! and no expected version is needed. A missing row is 404. A sum outside of the field's range is
//! an error, and the field keeps its value. The route accepts no parameters.
//!
//! The response has an `ETag` only if the table has a version field, which the increment raises as
//! any other write does: the body is not the row, so its hash would not be the tag of the row.

use marmota_http::Status;
use marmota_model::{NoRows, Scratch, Table, Value, ValueRef, json};
use marmota_store::operation::Operation;
use marmota_store::prepare::WriteTimestamp;
use marmota_store::write::check_increment;
use marmota_web::{ApiError, ApiResult};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::protocol::body;
use crate::protocol::etag::Etag;
use crate::protocol::key;
use crate::request::answer::{Answer, Head, JSON};
use crate::request::call::{Execute, Interrupt, Next, Verb};
use crate::request::params;
use crate::request::request_context::RequestContext;

/// The body of the request: `{"by":2}`. Other members are an error.
///
/// `by` stays text until the field is known, because the field's kind decides how a number is read:
/// an integer of 64 bits, or an amount with four decimals.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body<'a> {
    #[serde(borrow)]
    by: &'a RawValue,
}

/// An addition to a field of one row, validated and ready to be executed.
pub(crate) struct Increment {
    key: Value,
    /// The position of the field in the table.
    field: usize,
    /// The amount to add, of the field's kind. It may be negative.
    by: Value,
    /// The time of the request, for the update time of the row. A repeated step writes the same
    /// time.
    stamp: WriteTimestamp,
}

impl Increment {
    /// Reads the key, the field and the amount from the request.
    ///
    /// # Errors
    /// - 400 for a parameter, an invalid key, an `If-Match` header, or a body of another form.
    /// - 404 for a field that the table does not have.
    /// - 415 for a body that is not JSON.
    /// - 422 for an amount that is not of the field's kind, and for a field that cannot be added
    ///   to: see [`read_by`].
    pub(crate) fn of(context: RequestContext<'_>) -> ApiResult<Self> {
        params::none(context.request)?;
        body::check_json(context.request)?;
        let table = context.table();
        let key = key::of_path(context.request, table)?;
        if context.request.header("if-match").is_some() {
            return Err(ApiError::bad_request(
                "an increment does not accept `If-Match`, because it adds to the stored value: \
                 leave the header out",
            ));
        }
        let name = context.request.param("field").unwrap_or_default();
        let field = table.find(&name).ok_or_else(|| {
            let name = marmota_model::text::excerpt(&name);
            body::no_resource(format!("`{}` has no field `{name}`", table.name()))
        })?;
        let read: Body<'_> = serde_json::from_slice(context.request.body()).map_err(|error| {
            ApiError::bad_request(format!("the body must have the form {{\"by\":1}}: {error}"))
        })?;
        let by = read_by(table, field, read.by.get())?;
        Ok(Self { key, field, by, stamp: WriteTimestamp::now(table) })
    }
}

/// Reads the amount to add to a field from its JSON. The increments of batches use it, too.
///
/// # Errors
/// 422 with the field and the value, if the value is not of the field's kind, or the field is not
/// an integer or currency field. Keys, versions and times are not added to.
pub(crate) fn read_by(table: &Table, field: usize, json: &str) -> ApiResult<Value> {
    let scratch = Scratch::new();
    let by = json::read_value(&table.fields()[field], json, &scratch)
        .map_err(|violation| marmota_model::Error::invalid(vec![violation]))?;
    check_increment(table, field, by)?;
    Ok(by.to_value())
}

impl Verb for Increment {
    type Subject = Table;

    /// Executes the addition and responds with 200 and an object that has one member: the field,
    /// with the sum. The object is written directly into the response, without a row in between.
    fn step(
        &mut self,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        let table = context.table();
        let (key, by, stamp): (_, _, ValueRef<'_>) =
            (self.key.as_ref(), self.by.as_ref(), self.stamp.value());
        let mut operation = Operation::Increment { table, key, field: self.field, by, stamp };
        let outcome = execute(&mut operation, &mut NoRows)?;
        answer.committed(context.store, &outcome);
        let head = Head::new(Status::OK, JSON).etag(outcome.version.map(Etag::Version));
        let out = answer.body(head);
        out.push(b'{');
        out.extend_from_slice(table.json_key(self.field));
        json::write_value(out, outcome.value.as_ref());
        out.push(b'}');
        Ok(Next::Answered)
    }
}

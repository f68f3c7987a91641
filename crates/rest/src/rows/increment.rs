//! `POST /api/{table}/{id}/{field}/increment`: an atomic addition to a number, so that concurrent
//! increments are not lost.

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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body<'a> {
    #[serde(borrow)]
    by: &'a RawValue,
}

pub(crate) struct Increment {
    key: Value,
    field: usize,
    by: Value,
    stamp: WriteTimestamp,
}

impl Increment {
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

/// Reads the amount to add to a field.
///
/// # Errors
/// 422 with the field and value.
pub(crate) fn read_by(table: &Table, field: usize, json: &str) -> ApiResult<Value> {
    let scratch = Scratch::new();
    let by = json::read_value(&table.fields()[field], json, &scratch)
        .map_err(|violation| marmota_model::Error::invalid(vec![violation]))?;
    check_increment(table, field, by)?;
    Ok(by.to_value())
}

impl Verb for Increment {
    type Subject = Table;

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
        let head = Head::new(Status::OK, JSON).etag(outcome.version.map(Etag::Version));
        let out = answer.body(head);
        out.push(b'{');
        out.extend_from_slice(table.json_key(self.field));
        json::write_value(out, outcome.value.as_ref());
        out.push(b'}');
        Ok(Next::Answered)
    }
}

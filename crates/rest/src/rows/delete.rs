//! `DELETE /api/{table}/{id}` and `DELETE /api/{table}?filter=…`.
//!
//! ```text
//! DELETE /api/person/3 HTTP/1.1
//! If-Match: "v2"
//!
//! HTTP/1.1 204 No Content
//!
//! DELETE /api/person?filter=visits=0 HTTP/1.1
//!
//! HTTP/1.1 200 OK
//! Content-Type: application/json
//!
//! {"deleted":2}
//! ```

use marmota_http::Status;
use marmota_model::{FilterExpr, NoRows, Table, Value};
use marmota_store::operation::Operation;
use marmota_web::ApiResult;

use crate::protocol::etag::{self, Condition};
use crate::protocol::key;
use crate::request::answer::{Answer, Head, JSON};
use crate::request::call::{Execute, Interrupt, Next, Verb};
use crate::request::params;
use crate::request::request_context::RequestContext;

/// The delete of one row.
pub(crate) struct Delete {
    /// The key in the path.
    key: Value,
    /// The condition of `If-Match`.
    condition: Condition,
}

impl Delete {
    /// Parses the path and the condition. A body is ignored.
    ///
    /// # Errors
    /// 400 for parameters, an invalid key or an unsuitable condition, 412 for a tag that cannot be
    /// a row's.
    pub(crate) fn of(context: RequestContext<'_>) -> ApiResult<Self> {
        params::none(context.request)?;
        let key = key::of_path(context.request, context.table())?;
        Ok(Self { key, condition: etag::condition(context.request, context.table())? })
    }
}

impl Verb for Delete {
    type Subject = Table;

    /// Deletes the row and answers 204.
    ///
    /// # Errors
    /// 404 if the row does not exist, 409 if other rows refer to it, 412 if it has another version.
    fn step(
        &mut self,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        let (key, version) = (self.key.as_ref(), self.condition.version);
        let mut operation = Operation::Delete { table: context.table(), key, version };
        let outcome = execute(&mut operation, &mut NoRows)?;
        answer.committed(context.store, &outcome);
        answer.empty(Head::new(Status::NO_CONTENT, ""));
        Ok(Next::Answered)
    }
}

/// The delete of all rows that a filter selects.
pub(crate) struct DeleteWhere {
    /// The filter of the URL; never empty.
    filter: FilterExpr,
}

impl DeleteWhere {
    /// Parses the filter, which is required: a DELETE without one is more likely a mistake than a
    /// request to empty the table.
    ///
    /// # Errors
    /// 400 for a missing or invalid filter, or another parameter.
    pub(crate) fn of(context: RequestContext<'_>) -> ApiResult<Self> {
        Ok(Self { filter: params::required_filter(context.request, context.table())? })
    }
}

impl Verb for DeleteWhere {
    type Subject = Table;

    /// Deletes the rows in one transaction and answers 200 with their number. No row is a success,
    /// too.
    ///
    /// # Errors
    /// 409 if rows that remain refer to one of them; no row is deleted then.
    fn step(
        &mut self,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        let filter = Some(&self.filter);
        let outcome =
            execute(&mut Operation::DeleteWhere { table: context.table(), filter }, &mut NoRows)?;
        answer.committed(context.store, &outcome);
        let out = answer.body(Head::new(Status::OK, JSON));
        out.extend_from_slice(format!("{{\"deleted\":{}}}", outcome.rows).as_bytes());
        Ok(Next::Answered)
    }
}

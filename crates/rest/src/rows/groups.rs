//! `GET /api/{table}?group=…&select=…`: groups of rows, with values that are computed for each.
//!
//! ```text
//! GET /api/issue?group=state&select=count,sum(estimate)&having=count>1&order=-count HTTP/1.1
//!
//! HTTP/1.1 200 OK
//! Content-Type: application/json
//!
//! {"rows":[{"state":"open","count":5,"sum_estimate":13},{"state":"done","count":2,"sum_estimate":3}]}
//! ```
//!
//! | parameter | |
//! |---|---|
//! | `group` | the fields to group by, separated by commas; a path leads to a related row. Default: all rows are one group |
//! | `select` | the values: `count`, `count(f)`, `sum(f)`, `avg(f)`, `min(f)`, `max(f)`, each with an optional name before a colon |
//! | `having` | a condition on the members of the groups |
//! | `order` | members of the groups, with `-` for descending |
//! | `limit` | the maximum number of groups, as for lists |
//! | `filter`, fields | the rows, as for lists |
//!
//! If the store has a cache, the answer has an `ETag` as a page has.

use std::ops::ControlFlow;

use marmota_http::Status;
use marmota_model::{GroupQuery, Table, ValueRef, json};
use marmota_store::operation::Operation;
use marmota_web::ApiResult;

use crate::protocol::etag;
use crate::protocol::scratch_buffer::ScratchBuffer;
use crate::request::answer::{Answer, Head, JSON};
use crate::request::call::{Execute, Interrupt, Next, Verb};
use crate::request::pages::PageName;
use crate::request::params;
use crate::request::request_context::RequestContext;

/// The begin of the answer; the groups follow, with commas between.
const BEGIN: &[u8] = b"{\"rows\":[";

/// A read of groups.
pub(crate) struct Groups {
    query: GroupQuery,
    /// The table of the groups.
    result: Table,
    /// The name of the answer, for its tag.
    name: Option<PageName>,
    /// True if the client has the answer.
    is_known: bool,
    writer: json::RowWriter,
    body: ScratchBuffer,
}

impl Groups {
    /// Parses the parameters.
    ///
    /// # Errors
    /// 400 for an invalid parameter, with its name, its value and the permitted values.
    pub(crate) fn of(context: RequestContext<'_>) -> ApiResult<Self> {
        let (table, request) = (context.table(), context.request);
        let (query, result) = params::groups(request.query(), table, context.api)?;
        let name = context.api.pages.name(context.store, table, request);
        // The version of the table does not cover related rows.
        let name = name.filter(|_| query.related.is_empty());
        let name = name.and_then(|name| name.filtered_by(query.filter.as_ref()));
        let is_known = name.is_some_and(|name| etag::none_match(request, name.etag));
        let mut body = ScratchBuffer::take();
        body.extend_from_slice(BEGIN);
        let writer = json::RowWriter::new();
        Ok(Self { query, result, name, is_known, writer, body })
    }
}

impl Verb for Groups {
    type Subject = Table;

    fn step(
        &mut self,
        context: RequestContext<'_>,
        answer: &mut Answer<'_, '_>,
        execute: &mut Execute<'_>,
    ) -> Result<Next, Interrupt> {
        let Self { query, result, name, writer, body, .. } = self;
        if self.is_known {
            let etag = name.map(|name| name.etag);
            answer.empty(Head::new(Status::NOT_MODIFIED, "").etag(etag).list());
            return Ok(Next::Answered);
        }
        let (table, result) = (context.table(), &*result);
        let mut sink = |row: &[ValueRef<'_>]| {
            if body.len() > BEGIN.len() {
                body.push(b',');
            }
            writer.write(body, result, result.all(), row);
            ControlFlow::Continue(())
        };
        execute(&mut Operation::Group { table, query, result }, &mut sink)?;
        body.extend_from_slice(b"]}");
        // Groups that were read during a write may match neither version, so they get no tag.
        let name = name.filter(|name| context.api.pages.matches(*name, context.store, table));
        let etag = name.map(|name| name.etag);
        answer.whole(Head::new(Status::OK, JSON).etag(etag).list(), body);
        Ok(Next::Answered)
    }
}

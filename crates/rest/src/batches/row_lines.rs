//! `GET /api/{table}` with `Accept: application/x-ndjson`: all rows that the query selects, one per
//! line, in any number.
//!
//! They are read in slices. Each slice starts after the last row of the previous one, and is read
//! after that one was sent. So a slow client holds no resources of the store, and memory is limited
//! to one slice.
//!
//! ```text
//! GET /api/person?visits=7&fields=name
//! Accept: application/x-ndjson
//!
//! HTTP/1.1 200 OK
//! Content-Type: application/x-ndjson
//! Vary: Accept, Prefer
//! Transfer-Encoding: chunked
//!
//! {"name":"Sofja Kowalewskaja"}
//! {"name":"Maria Mitchell"}
//! ```
//!
//! The parameters are those of a page without `count`; `limit` has no default and no maximum.
//!
//! The rows of the first slice are read before the head is written, so that an error has its own
//! status. A result of one slice is not streamed. A later error closes the connection before
//! the end of the body, so that a client does not take an incomplete list for a complete one.
//!
//! Each slice is a separate read: the list is not a snapshot. In the order of the key, each row
//! that exists during the whole transfer is returned once.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use marmota_http::{BodyStream, BoxError, Flow, IntoResponse, Producer, Response};
use marmota_model::{
    FieldSet, Result as ModelResult, RowQuery, SortKey, Table, Value, ValueRef, json,
};
use marmota_store::operation::Operation;
use marmota_web::{ApiError, ApiResult};

use crate::protocol::ndjson::NDJSON;
use crate::request::answer::{PRIVATE, VARY_CALLER, VARY_LIST};
use crate::request::params;
use crate::request::request_context::RequestContext;
use crate::request::submission::Submission;

/// The approximate limits of a slice, which ends after the row that reaches one of them.
#[derive(Clone, Copy)]
struct SliceLimits {
    /// The maximum number of rows, which is also the limit of the query.
    rows: u64,
    /// The number of bytes of lines after which the slice ends.
    bytes: usize,
}

/// In the order of the key, the next slice starts directly after the previous one.
const BY_KEY: SliceLimits = SliceLimits { rows: 2_000, bytes: 32 * 1024 };
/// In other orders the table may have to be sorted for each slice: use fewer and larger ones.
const SORTED: SliceLimits = SliceLimits { rows: 20_000, bytes: 1024 * 1024 };

/// The rows that remain to be written. They are read slice by slice, each when the client has
/// received the previous one.
pub(crate) struct RowLines {
    submission: Submission,
    table: Arc<Table>,
    query: RowQuery,
    /// The order of the query with the key as its last part.
    order: Vec<SortKey>,
    /// The fields to write; the query may read more, for the next cursor.
    shown: FieldSet,
    limits: SliceLimits,
    /// The number of rows that the request still selects.
    left: u64,
    slice: Slice,
    /// True if the rows are private to their caller.
    private: bool,
}

/// The slice that is being read. It is kept while the engine waits, because the sink may have
/// received a part of its rows.
#[derive(Default)]
struct Slice {
    rows: u64,
    bytes: usize,
    /// The values of its last row, after which the next slice starts, if it was ended by its
    /// limits.
    after: Option<Vec<Value>>,
}

impl RowLines {
    /// Parses the parameters.
    ///
    /// # Errors
    /// As [`params::lines`].
    pub(crate) fn new(context: RequestContext<'_>) -> ApiResult<Self> {
        let params = params::lines(context.request, context.table())?;
        let order = params.query.order_with_key(context.table());
        let limits = if order.len() == 1 { BY_KEY } else { SORTED };
        Ok(Self {
            submission: Submission::of_long(context, None),
            table: Arc::clone(context.subject),
            query: params.query,
            order,
            shown: params.shown,
            limits,
            left: params.rows_max,
            slice: Slice::default(),
            private: context.store.rights().is_some(),
        })
    }

    /// Returns the response once the first slice is read: errors in the query can still set the
    /// status.
    ///
    /// `Vary` is set because the same URL also returns pages (RFC 9110). If the rows depend
    /// on the caller's rights, `Cache-Control` excludes shared caches.
    pub(crate) fn answer(mut self) -> Flow {
        let private = self.private;
        Flow::Later(Box::pin(async move {
            let mut first = Vec::new();
            let read = std::future::poll_fn(|context| self.poll_slice(context, &mut first)).await;
            let response = match read {
                Err(error) => return ApiError::from(error).into_response(),
                Ok(ControlFlow::Break(())) => Response::with_body(NDJSON, first),
                Ok(ControlFlow::Continue(())) => {
                    Response::streamed(NDJSON, BodyStream::new(Begun { first, rest: self }))
                }
            };
            let response = match private {
                true => response
                    .with_header("Cache-Control", PRIVATE)
                    .and_then(|response| response.with_header("Vary", VARY_CALLER)),
                false => Ok(response),
            };
            // The same URL can also return JSON pages.
            response
                .and_then(|response| response.with_header("Vary", VARY_LIST))
                .unwrap_or_else(IntoResponse::into_response)
        }))
    }

    /// Appends the lines of the next slice. `Continue` means that more rows may follow.
    ///
    /// # Errors
    /// Those of the engine, and 401 or 403 if the caller has lost the right to read since the
    /// request began.
    fn poll_slice(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<ModelResult<ControlFlow<()>>> {
        let Self { submission, table, query, order, shown, limits, left, slice, .. } = self;
        query.limit = Some(limits.rows.min(*left));
        let rows_max = limits.rows.min(*left);
        let mut writer = json::RowWriter::new();
        let mut sink = |row: &[ValueRef<'_>]| {
            let before = out.len();
            writer.write(out, table, *shown, row);
            out.push(b'\n');
            slice.rows += 1;
            slice.bytes += out.len() - before;
            if slice.rows < rows_max && slice.bytes < limits.bytes {
                return ControlFlow::Continue(());
            }
            slice.after = Some(order.iter().map(|by| row[by.field].to_value()).collect());
            ControlFlow::Break(())
        };
        let mut operation = Operation::List { table, query };
        ready!(submission.poll(&mut operation, &mut sink, context))?;
        let read = std::mem::take(slice);
        *left -= read.rows;
        let more = read.after.is_some() && *left > 0;
        query.after = read.after;
        Poll::Ready(Ok(if more { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }))
    }
}

/// A response whose first lines are available.
///
/// The first piece of the body is these lines; then the next slices are read.
struct Begun {
    first: Vec<u8>,
    rest: RowLines,
}

impl Producer for Begun {
    /// Appends the first lines on the first call, and then one slice for each call.
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<ControlFlow<()>, BoxError>> {
        if !self.first.is_empty() {
            out.append(&mut self.first);
            self.first = Vec::new();
            return Poll::Ready(Ok(ControlFlow::Continue(())));
        }
        self.rest.poll_slice(context, out).map_err(BoxError::from)
    }
}

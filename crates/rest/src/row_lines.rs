//! `GET /api/{table}` with `Accept: application/x-ndjson`: all rows that the query selects, a line
//! each, however many they are.
//!
//! They are read slice by slice, each beginning behind the last row of the one before, and a
//! slice is read when the one before has been sent. So nothing of the store is held while a
//! client takes its time, and memory is one slice's.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use marmota_http::{BodyStream, BoxError, Flow, IntoResponse, Producer, Response};
use marmota_model::{
    FieldSet, Query, Result as ModelResult, SortKey, Table, Value, ValueRef, json,
};
use marmota_store::operation::Operation;

use crate::answer::PRIVATE;
use crate::ndjson::NDJSON;
use crate::params;
use crate::problem::{ApiError, Result};
use crate::request_context::RequestContext;
use crate::submission::Submission;

/// What a slice takes, more or less.
#[derive(Clone, Copy)]
struct SliceLimits {
    rows: u64,
    bytes: usize,
}

/// In the key's order the next slice begins where the last one ended.
const BY_KEY: SliceLimits = SliceLimits { rows: 2_000, bytes: 32 * 1024 };
/// In another one the table may have to be sorted for each slice: fewer and larger ones.
const SORTED: SliceLimits = SliceLimits { rows: 20_000, bytes: 1024 * 1024 };

/// The rows that are still to be written.
pub(crate) struct RowLines {
    submission: Submission,
    table: Arc<Table>,
    query: Query,
    order: Vec<SortKey>,
    shown: FieldSet,
    limits: SliceLimits,
    /// Rows that the request still asks for.
    left: u64,
    slice: Slice,
    /// They are for their caller alone.
    private: bool,
}

/// The slice that is being read.
#[derive(Default)]
struct Slice {
    rows: u64,
    bytes: usize,
    /// The values of its last row by which the next one begins, if it was ended by its limits.
    after: Option<Vec<Value>>,
}

impl RowLines {
    pub(crate) fn new(on: RequestContext<'_>) -> Result<Self> {
        let params = params::lines(on.request, on.table())?;
        let order = params.query.order_with_key(on.table());
        let limits = if order.len() == 1 { BY_KEY } else { SORTED };
        Ok(Self {
            submission: Submission::of_long(on, None),
            table: Arc::clone(on.subject),
            query: params.query,
            order,
            shown: params.shown,
            limits,
            left: params.rows_max,
            slice: Slice::default(),
            private: on.store.rights().is_some(),
        })
    }

    /// The answer, once its first slice is read: what is wrong with the query has a status.
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
                true => response.with_header("Cache-Control", PRIVATE),
                false => Ok(response),
            };
            // The same URL is answered by pages of JSON too.
            response
                .and_then(|response| response.with_header("Vary", "Accept"))
                .unwrap_or_else(IntoResponse::into_response)
        }))
    }

    /// Appends the lines of the next slice.
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

/// Lines of which the first are there.
struct Begun {
    first: Vec<u8>,
    rest: RowLines,
}

impl Producer for Begun {
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

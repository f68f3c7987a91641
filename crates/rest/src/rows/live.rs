//! `GET /api/{table}` with `Accept: text/event-stream`: a page of rows, and its changes.
//!
//! ```text
//! GET /api/person?order=-visits&limit=2&fields=name,visits
//! Accept: text/event-stream
//!
//! HTTP/1.1 200 OK
//! Content-Type: text/event-stream
//!
//! event: snapshot
//! id: 5f2b8e0c9a4d71630000000000000007
//! data: {"rows":[{"name":"Ada","visits":9},{"name":"Emmy","visits":4}],"next":null}
//!
//! event: patch
//! id: 5f2b8e0c9a4d71630000000000000009
//! data: [{"op":"replace","path":"/rows/1/visits","value":5}]
//! ```
//!
//! The parameters are those of a page, and the data of `snapshot` is the document that the plain
//! GET returns. The data of `patch` is a JSON Patch (RFC 6902) of that document. The id is a
//! position of the change feed: a client that sends it in `Last-Event-ID` continues with a patch, or
//! with a snapshot if the position is not known any more.
//!
//! An event is rendered once for all clients with the same URL and rights. Events of a client that
//! does not read them are dropped when they exceed 256 KiB; it gets a snapshot instead. If the
//! caller's login ends or other rows become readable, the response ends, and the client
//! reconnects.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use marmota_http::{BodyStream, BoxError, Event, Flow, IntoResponse, Producer, Request, Response};
use marmota_model::{FieldSet, RowQuery, SortKey, Table, json};
use marmota_store::change::Position;
use marmota_store::live::{LiveContent, LiveRow, LiveRows, LiveUpdate, PageEnd, RowPatch};
use marmota_web::ApiResult;

use crate::protocol::cursor;
use crate::protocol::refusal::of_url;
#[cfg(feature = "auth")]
use crate::request::authenticator::Reauthentication;
use crate::request::params;
use crate::request::request_context::RequestContext;
use crate::rows::page_document;

/// Subscribes to the page, and answers with its events.
///
/// # Errors
/// 400 for an invalid parameter, and for a `Last-Event-ID` that is not an id of an event.
pub(crate) fn begin(context: RequestContext<'_>) -> ApiResult<Flow> {
    let params = params::list(context.request, context.table(), context.api)?;
    let from = context.request.last_event_id().map(str::parse::<Position>);
    let from = from.transpose().map_err(of_url)?;
    let order = params.query.order_with_key(context.table());
    let (limit, fields) = (Some(params.rows_max), Some(params.shown));
    let query = RowQuery { limit, fields, ..params.query };
    let document = LiveDocument {
        table: Arc::clone(context.subject),
        shown: params.shown,
        order,
        request: context.request.clone(),
    };
    #[cfg(feature = "auth")]
    let again = context.api.again(context.request);
    let store = context.store.clone();
    Ok(Flow::Later(Box::pin(async move {
        let rows = store.live_rows(&document.table, query, params.count, from).await;
        let rows = match rows {
            Ok(rows) => rows,
            Err(error) => return of_url(error).into_response(),
        };
        let events = LiveEvents {
            rows,
            document,
            waiting: None,
            #[cfg(feature = "auth")]
            again,
        };
        let response = Response::event_stream(BodyStream::new(events));
        // The same URL can also return pages and lines.
        response.with_header("Vary", "Accept").unwrap_or_else(IntoResponse::into_response)
    })))
}

/// The events of one client.
struct LiveEvents {
    rows: LiveRows,
    document: LiveDocument,
    /// An update that waits for the authentication of the caller.
    waiting: Option<Arc<LiveUpdate>>,
    #[cfg(feature = "auth")]
    again: Option<Reauthentication>,
}

impl LiveEvents {
    /// Returns true if the caller may still read the rows.
    #[cfg(feature = "auth")]
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        let Some(again) = &mut self.again else { return Poll::Ready(true) };
        let store = ready!(again.poll(context));
        Poll::Ready(store.is_ok_and(|store| self.rows.is_readable_by(&store)))
    }

    #[cfg(not(feature = "auth"))]
    fn poll_readable(&mut self, _: &mut Context<'_>) -> Poll<bool> {
        Poll::Ready(true)
    }
}

impl Producer for LiveEvents {
    /// Appends the next event.
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<ControlFlow<()>, BoxError>> {
        if self.waiting.is_none() {
            self.waiting = match ready!(self.rows.poll_next(context)) {
                Ok(Some(update)) => Some(update),
                Ok(None) => return Poll::Ready(Ok(ControlFlow::Break(()))),
                Err(error) => return Poll::Ready(Err(error.into())),
            };
        }
        if !ready!(self.poll_readable(context)) {
            return Poll::Ready(Ok(ControlFlow::Break(())));
        }
        if let Some(update) = self.waiting.take() {
            let target = self.document.request.target();
            out.extend_from_slice(&update.rendered(target, |update| self.document.event(update)));
        }
        Poll::Ready(Ok(ControlFlow::Continue(())))
    }
}

/// The document of a page, whose changes are sent.
struct LiveDocument {
    table: Arc<Table>,
    /// The fields of the rows.
    shown: FieldSet,
    /// The order, with the key as its last part.
    order: Vec<SortKey>,
    /// The request, for the URL of the next page.
    request: Request,
}

impl LiveDocument {
    /// Returns an update as a server-sent event.
    fn event(&self, update: &LiveUpdate) -> Vec<u8> {
        let (name, data) = match &update.content {
            LiveContent::Snapshot(rows) => ("snapshot", self.page(rows, &update.end)),
            LiveContent::Patch { patches, before } => {
                ("patch", self.patch(patches, before, &update.end))
            }
        };
        let data = String::from_utf8_lossy(&data);
        let event = Event::new(data).name(name).id(&update.position.to_string());
        event.to_string().into_bytes()
    }

    /// Returns the document of a page.
    fn page(&self, rows: &[LiveRow], end: &PageEnd) -> Vec<u8> {
        let (mut body, mut writer) = (page_document::BEGIN.to_vec(), json::RowWriter::new());
        for (at, row) in rows.iter().enumerate() {
            if at > 0 {
                body.push(b',');
            }
            writer.write(&mut body, &self.table, self.shown, &LiveRows::borrowed(row));
        }
        page_document::write_end(&mut body, self.next(end).as_deref(), end.count);
        body
    }

    /// Returns the changes of a page as a JSON Patch.
    fn patch(&self, patches: &[RowPatch], before: &PageEnd, end: &PageEnd) -> Vec<u8> {
        let mut body = vec![b'['];
        let mut writer = json::RowWriter::new();
        for patch in patches {
            match patch {
                RowPatch::Remove { index } => {
                    begin_operation(&mut body, "remove", &format!("/rows/{index}"));
                    body.push(b'}');
                }
                RowPatch::Add { index, row } => {
                    begin_operation(&mut body, "add", &format!("/rows/{index}"));
                    body.extend_from_slice(b",\"value\":");
                    writer.write(&mut body, &self.table, self.shown, &LiveRows::borrowed(row));
                    body.push(b'}');
                }
                RowPatch::Update { index, row, changed } => {
                    for place in changed.iter() {
                        let field = &self.table.fields()[place];
                        let path = format!("/rows/{index}/{}", escaped(&field.name));
                        begin_operation(&mut body, "replace", &path);
                        body.extend_from_slice(b",\"value\":");
                        json::write_value_as(&mut body, &field.kind, row[place].as_ref());
                        body.push(b'}');
                    }
                }
            }
        }
        let next = self.next(end);
        if self.next(before) != next {
            begin_operation(&mut body, "replace", "/next");
            body.extend_from_slice(b",\"value\":");
            page_document::write_next(&mut body, next.as_deref());
            body.push(b'}');
        }
        if let Some(count) = end.count.filter(|_| end.count != before.count) {
            begin_operation(&mut body, "replace", "/count");
            body.extend_from_slice(format!(",\"value\":{count}}}").as_bytes());
        }
        body.push(b']');
        body
    }

    /// Returns the URL of the next page, if one follows.
    fn next(&self, end: &PageEnd) -> Option<String> {
        let last = end.last.as_ref().filter(|_| end.has_more)?;
        let cursor = cursor::write(&self.table, &self.order, &LiveRows::borrowed(last));
        Some(page_document::next_url(&self.request, &cursor))
    }
}

/// Appends the begin of an operation of a JSON Patch, up to its path.
fn begin_operation(body: &mut Vec<u8>, operation: &str, path: &str) {
    if body.last() == Some(&b'}') {
        body.push(b',');
    }
    body.extend_from_slice(format!("{{\"op\":\"{operation}\",\"path\":").as_bytes());
    json::write_string(body, path);
}

/// Returns a name as a part of a JSON Pointer (RFC 6901).
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

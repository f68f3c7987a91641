//! `GET /api/{table}` with `Accept: text/event-stream`: a live query as server-sent events.
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
//! does not read them are dropped when they exceed 256 KiB; it gets a snapshot instead. So does a
//! caller who may read other rows or fields than before. If the login ends, the response ends.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use marmota_http::{BodyStream, BoxError, Event, Flow, IntoResponse, Producer, Response};
use marmota_store::live::ResumePoint;
use marmota_web::ApiResult;

use super::caller_check::CallerCheck;
use super::page_url::PageUrl;
use super::subscription::LiveSubscription;
use crate::protocol::refusal::of_url;
use crate::request::answer::VARY_LIST;
use crate::request::request_context::RequestContext;

/// Subscribes to the page, and answers with its events.
///
/// # Errors
/// 400 for an invalid parameter, and for a `Last-Event-ID` that is not an id of an event.
pub(crate) fn begin(context: RequestContext<'_>) -> ApiResult<Flow> {
    let RequestContext { api, request, .. } = context;
    let from = request.last_event_id().map(str::parse::<ResumePoint>);
    let from = from.transpose().map_err(of_url)?;
    let (api_of_page, table) = (Arc::clone(api), context.table().name().into());
    let url = PageUrl { api: api_of_page, table, target: request.target().into() };
    #[cfg(feature = "auth")]
    let caller = api.again(request).map(CallerCheck::new);
    #[cfg(not(feature = "auth"))]
    let caller: Option<CallerCheck> = None;
    let store = context.store.clone();
    Ok(Flow::Later(Box::pin(async move {
        let events = match LiveSubscription::new(&store, url, from, caller).await {
            Ok(subscription) => LiveEvents(subscription),
            Err(error) => return error.into_response(),
        };
        let response = Response::event_stream(BodyStream::new(events));
        // The same URL can also return pages and lines.
        response.with_header("Vary", VARY_LIST).unwrap_or_else(IntoResponse::into_response)
    })))
}

/// The events of one client.
struct LiveEvents(LiveSubscription);

impl Producer for LiveEvents {
    /// Appends the next event.
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<ControlFlow<()>, BoxError>> {
        let Self(subscription) = self;
        let update = match ready!(subscription.poll_next(context)) {
            Ok(Some(update)) => update,
            Ok(None) => return Poll::Ready(Ok(ControlFlow::Break(()))),
            // The client reconnects, and the answer to that request has the reason.
            Err(error) if error.document().status().code() < 500 => {
                return Poll::Ready(Ok(ControlFlow::Break(())));
            }
            Err(error) => return Poll::Ready(Err(format!("{error:?}").into())),
        };
        let (id, document) = (subscription.resume_point(&update), &subscription.document);
        let event: Arc<[u8]> = update.rendered(document.target(), |update| {
            let (name, data) = document.render(update);
            let event = Event::new(String::from_utf8_lossy(&data)).name(name).id(&id.to_string());
            event.to_string().into_bytes()
        });
        out.extend_from_slice(&event);
        Poll::Ready(Ok(ControlFlow::Continue(())))
    }
}

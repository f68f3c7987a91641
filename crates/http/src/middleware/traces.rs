//! A span of the crate `tracing` for each request: the lines that its handler logs, and the spans
//! that it begins, are inside it.
//!
//! The layer of other frameworks wraps the handler's future; here [`Traced`] wraps the handler, so
//! that a handler that answers at once needs no future.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use tracing::field::Empty;
use tracing::{Instrument, Span};

use crate::message::added_headers::AddedHeaders;
use crate::message::request::Request;
use crate::message::response::Response;
use crate::message::writer::ResponseWriter;
use crate::routing::endpoint::Endpoint;
use crate::routing::handler::{Flow, Handler};
use crate::routing::router::Router;

/// A function that is called with each recorded span, before its handler runs.
type Begun = dyn Fn(&Request, &Span) + Send + Sync;

/// Begins a span for each request, with target `marmota_http` and level info; see
/// [`Router::traced`].
///
/// Its fields follow OpenTelemetry's conventions for HTTP servers: `http.request.method`,
/// `http.route`, `url.path`, `client.address`, `http.response.status_code`. Its exported name is
/// `GET /people/{id}` (`otel.name`). It has failed (`otel.status_code`) from status 500 on.
/// `request.id` is [`Request::id`].
///
/// The span ends when the answer is ready (of a stream: its head). It has no status if the client
/// disconnected before that, or the handler panicked. If no subscriber records it, a request costs
/// one check of a flag.
///
/// ```
/// use marmota_http::{Router, TestRequest, Traces};
///
/// async fn show() -> &'static str {
///     tracing::info!("this line is inside the request's span");
///     "shown"
/// }
///
/// let router = Router::new().get("/", |_| show()).traced(&Traces::new());
/// assert_eq!(router.call(TestRequest::get("/"))?.text(), "shown");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Default)]
pub struct Traces {
    begun: Option<Arc<Begun>>,
}

impl Traces {
    /// Returns spans without parents, unless the server's thread is inside a span.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls a function with each span before its handler runs: to record more fields, or to set
    /// the parent of the span, for example from `traceparent`.
    ///
    /// ```
    /// use marmota_http::Traces;
    /// let traces = Traces::new().begun(|request, span| {
    ///     span.record("request.id", request.header_text("x-trace").unwrap_or(request.id()));
    /// });
    /// ```
    #[must_use]
    pub fn begun(mut self, begun: impl Fn(&Request, &Span) + Send + Sync + 'static) -> Self {
        self.begun = Some(Arc::new(begun));
        self
    }

    /// Begins the span of a request; a disabled span if no subscriber records it.
    fn begin(&self, request: &Request, route: Option<&str>) -> Span {
        let method = request.method_name();
        let span = tracing::info_span!(
            target: "marmota_http",
            "request",
            otel.name = Empty,
            otel.kind = "server",
            otel.status_code = Empty,
            http.request.method = method,
            http.route = route,
            http.response.status_code = Empty,
            url.path = request.path(),
            client.address = Empty,
            request.id = Empty,
        );
        if !span.is_disabled() {
            match route {
                Some(route) => span.record("otel.name", format!("{method} {route}")),
                None => span.record("otel.name", method),
            };
            if let Some(address) = request.peer().ip() {
                span.record("client.address", address.to_string());
            }
            span.record("request.id", request.id());
            if let Some(begun) = &self.begun {
                begun(request, &span);
            }
        }
        span
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").finish_non_exhaustive()
    }
}

impl Router {
    /// Wraps each handler that was routed so far, the fallback's too, in a span. Call it last, so
    /// that routes have their final names and layers are inside the span. Requests without a route
    /// (404, 405) have no span.
    #[must_use]
    pub fn traced(self, traces: &Traces) -> Self {
        self.map(|pattern, mut endpoint: Endpoint| {
            let (traces, route) = (traces.clone(), pattern.map(Box::from));
            endpoint.handler = Arc::new(Traced { traces, route, inner: endpoint.handler });
            endpoint
        })
    }
}

/// A handler that runs inside a span.
struct Traced {
    traces: Traces,
    /// The pattern of its route.
    route: Option<Box<str>>,
    inner: Arc<dyn Handler>,
}

impl Handler for Traced {
    /// Records a span for a request that a layer refuses: its handler never runs.
    fn enter(&self, request: &Request, headers: &mut AddedHeaders) -> ControlFlow<Response> {
        let entered = self.inner.enter(request, headers);
        if let ControlFlow::Break(answer) = &entered {
            note(&self.traces.begin(request, self.route.as_deref()), answer.status().code());
        }
        entered
    }

    /// Runs the handler inside the span. A handler that answers later continues in it at each poll.
    fn handle(&self, request: &Request, out: &mut ResponseWriter<'_>) -> Flow {
        let span = self.traces.begin(request, self.route.as_deref());
        if span.is_disabled() {
            return self.inner.handle(request, out);
        }
        match span.in_scope(|| self.inner.handle(request, out)) {
            Flow::Done => {
                note(&span, out.written_status());
                Flow::Done
            }
            Flow::Later(answer) => {
                let inside = span.clone();
                let answer = async move {
                    let answer = answer.await;
                    note(&inside, answer.status().code());
                    answer
                };
                Flow::Later(Box::pin(answer.instrument(span)))
            }
        }
    }
}

/// Records the status of the answer.
fn note(span: &Span, status: u16) {
    // Signed, as exporters have numbers: others they take for texts.
    span.record("http.response.status_code", i64::from(status));
    if status >= 500 {
        span.record("otel.status_code", "ERROR");
    }
}

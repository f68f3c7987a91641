//! A span for each request, by the ecosystem's crate `tracing`: what its handler logs and the spans
//! that it begins stand inside.

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

/// Called with each span that is recorded, before its handler runs.
type Begun = dyn Fn(&Request, &Span) + Send + Sync;

/// Begins a span at target `marmota_http`, level info, for each request; see [`Router::traced`].
///
/// Its fields are named as OpenTelemetry's conventions for HTTP servers have it:
/// `http.request.method`, `http.route`, `url.path`, `client.address`, `http.response.status_code`;
/// the span is called `GET /people/{id}` where it is exported (`otel.name`), failed from status 500
/// on (`otel.status_code`), and `request.id` is [`Request::id`]. It ends when the answer is
/// made (of a stream: its head); without a status if the client went away before, or the
/// handler panicked. While nobody records it, a request pays for one look at a flag.
///
/// ```
/// use marmota_http::{Router, Traces};
/// async fn show() -> &'static str {
///     tracing::info!("this line stands inside of the request's span");
///     "shown"
/// }
/// let router = Router::new().get("/", |_| show()).traced(&Traces::new());
/// ```
#[derive(Clone, Default)]
pub struct Traces {
    begun: Option<Arc<Begun>>,
}

impl Traces {
    /// Spans without parents, unless the server's thread is inside of one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Has each span looked at before its handler runs: to record more, or to say whose child
    /// it is.
    #[must_use]
    pub fn begun(mut self, begun: impl Fn(&Request, &Span) + Send + Sync + 'static) -> Self {
        self.begun = Some(Arc::new(begun));
        self
    }

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
    /// Puts a span around each handler that was routed so far, the fallback's too. Last of all, so
    /// that routes are named as they are in the end, and what layers do is inside. What no
    /// route takes (404, 405) has none.
    #[must_use]
    pub fn traced(self, traces: &Traces) -> Self {
        self.map(|pattern, mut endpoint: Endpoint| {
            let (traces, route) = (traces.clone(), pattern.map(Box::from));
            endpoint.handler = Arc::new(Traced { traces, route, inner: endpoint.handler });
            endpoint
        })
    }
}

/// A handler inside of spans.
struct Traced {
    traces: Traces,
    /// The pattern of its route.
    route: Option<Box<str>>,
    inner: Arc<dyn Handler>,
}

impl Handler for Traced {
    fn enter(&self, request: &Request, headers: &mut AddedHeaders) -> ControlFlow<Response> {
        let entered = self.inner.enter(request, headers);
        if let ControlFlow::Break(answer) = &entered {
            note(&self.traces.begin(request, self.route.as_deref()), answer.status().code());
        }
        entered
    }

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

fn note(span: &Span, status: u16) {
    // Signed, as exporters have numbers: others they take for texts.
    span.record("http.response.status_code", i64::from(status));
    if status >= 500 {
        span.record("otel.status_code", "ERROR");
    }
}

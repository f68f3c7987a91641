//! What stands around handlers: a [`Layer`] sees each request before its handler does, may answer
//! in its place, and may add headers to whatever the answer will be. An endpoint without layers
//! pays nothing for them.

mod compression;
mod cors;
mod rate_limit;
mod request_id;
mod security_headers;
#[cfg(feature = "tracing")]
mod traces;

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

pub use compression::Compression;
pub use cors::Cors;
pub use rate_limit::RateLimit;
pub use request_id::RequestId;
pub use security_headers::SecurityHeaders;
#[cfg(feature = "tracing")]
pub use traces::Traces;

use crate::handler::{Endpoint, Flow, Handler, LaterResponse};
use crate::request::Request;
use crate::response::{HeaderError, Response, check_header};
use crate::writer::ResponseWriter;

/// Stands around handlers; see [`crate::Router::layer`].
///
/// A layer sees the head of a request, before any of its body is read: [`Request::body`] is empty
/// there. So a request that a layer refuses costs the server no memory.
///
/// ```
/// use std::ops::ControlFlow;
/// use marmota_http::{AddedHeaders, Layer, Request, Response, Router, Status};
///
/// struct Key(&'static str);
///
/// impl Layer for Key {
///     fn enter(&self, request: &Request, _: &mut AddedHeaders) -> ControlFlow<Response> {
///         match request.header("x-key") {
///             Some(key) if key == self.0.as_bytes() => ControlFlow::Continue(()),
///             _ => ControlFlow::Break(Response::from_status(Status::UNAUTHORIZED)),
///         }
///     }
/// }
///
/// let router = Router::new().get("/", |_| async { "in" }).layer(Key("k7"));
/// ```
pub trait Layer: Send + Sync + 'static {
    /// Looks at a request: `Continue` lets its handler answer, `Break` answers instead. What is
    /// added to `headers` goes with either answer.
    fn enter(&self, request: &Request, headers: &mut AddedHeaders) -> ControlFlow<Response>;

    /// Whether it answers OPTIONS of paths that have no handler for them.
    fn answers_options(&self) -> bool {
        false
    }

    /// The length in bytes from which it has answers compressed, as [`Compression`] does. None for
    /// other layers.
    fn compresses_from(&self) -> Option<usize> {
        None
    }
}

impl Layer for Compression {
    fn enter(&self, _: &Request, _: &mut AddedHeaders) -> ControlFlow<Response> {
        ControlFlow::Continue(())
    }

    fn compresses_from(&self) -> Option<usize> {
        Some(self.bytes_min)
    }
}

/// Headers that a layer adds to an answer it does not make.
#[derive(Debug, Default)]
pub struct AddedHeaders(Vec<(Cow<'static, str>, Cow<'static, [u8]>)>);

impl AddedHeaders {
    /// Adds one.
    ///
    /// # Errors
    /// As [`Response::with_header`].
    pub fn add(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Cow<'static, str>>,
    ) -> Result<(), HeaderError> {
        let (name, value) = (name.into(), value.into());
        check_header(&name, value.as_bytes())?;
        self.put(name, value);
        Ok(())
    }

    /// Adds one that is known to be fit for a head.
    pub(crate) fn put(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Cow<'static, str>>,
    ) {
        let value = match value.into() {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        };
        self.0.push((name.into(), value));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Takes those from number `from` on.
    fn split_off(&mut self, from: usize) -> Self {
        Self(self.0.split_off(from.min(self.0.len())))
    }

    /// The answer with these added.
    pub(crate) fn onto(self, mut answer: Response) -> Response {
        for (name, value) in self.0 {
            // They were looked at when they were added.
            let _ = answer.add_header(name, value);
        }
        answer
    }

    /// An answer that comes later with these added: it is written by another writer, which knows
    /// nothing of them.
    pub(crate) fn onto_later(self, answer: LaterResponse) -> LaterResponse {
        match self.is_empty() {
            true => answer,
            false => Box::pin(async move { self.onto(answer.await) }),
        }
    }
}

/// A handler inside of a layer.
pub(crate) struct Layered {
    layer: Arc<dyn Layer>,
    inner: Arc<dyn Handler>,
}

impl Layered {
    /// The endpoint with its handler inside of the layer.
    pub(crate) fn around(layer: &Arc<dyn Layer>, mut endpoint: Endpoint) -> Endpoint {
        if let Some(bytes) = layer.compresses_from() {
            // It has nothing to do before the answer is written.
            endpoint.compresses_from = Some(bytes);
            return endpoint;
        }
        let inner = endpoint.handler;
        endpoint.handler = Arc::new(Self { layer: Arc::clone(layer), inner });
        endpoint.is_layered = true;
        endpoint
    }
}

impl Handler for Layered {
    fn handle(&self, request: &Request, out: &mut ResponseWriter<'_>) -> Flow {
        if out.is_admitted {
            return self.inner.handle(request, out);
        }
        let before = out.added.len();
        match self.layer.enter(request, &mut out.added) {
            ControlFlow::Continue(()) => {}
            ControlFlow::Break(answer) => {
                out.respond(answer);
                return Flow::Done;
            }
        }
        match self.inner.handle(request, out) {
            Flow::Done => Flow::Done,
            Flow::Later(answer) => Flow::Later(out.added.split_off(before).onto_later(answer)),
        }
    }

    fn enter(&self, request: &Request, headers: &mut AddedHeaders) -> ControlFlow<Response> {
        self.layer.enter(request, headers)?;
        self.inner.enter(request, headers)
    }
}

//! Layers around handlers: a [`Layer`] sees each request before its handler, may answer instead of
//! it, and may add headers to the answer. An endpoint without layers has no cost by them.
//!
//! A layer does not see the answer. Middleware that changes answers (compression, metrics) works in
//! the writer or as an observer of the thread instead, so that streamed and direct answers pass it
//! too.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::message::added_headers::AddedHeaders;
use crate::message::request::Request;
use crate::message::response::{Response, later_with_added};
use crate::message::writer::ResponseWriter;
use crate::routing::handler::{Flow, Handler};

/// Middleware around handlers; see [`Router::layer`](crate::Router::layer).
///
/// A layer sees the head of a request, before any of its body is read: [`Request::body`] is empty
/// there. So a request that a layer refuses uses no memory for its body.
///
/// ```
/// use std::ops::ControlFlow;
/// use marmota_http::{AddedHeaders, Layer, Request, Response, Router, Status, TestRequest};
///
/// struct Key(&'static str);
///
/// impl Layer for Key {
///     fn enter(&self, request: &Request, headers: &mut AddedHeaders) -> ControlFlow<Response> {
///         let _ = headers.add("Vary", "X-Key");
///         match request.header("x-key") {
///             Some(key) if key == self.0.as_bytes() => ControlFlow::Continue(()),
///             _ => ControlFlow::Break(Response::from_status(Status::UNAUTHORIZED)),
///         }
///     }
/// }
///
/// let router = Router::new().get("/", |_| async { "in" }).layer(Key("k7"));
/// let refused = router.call(TestRequest::get("/"))?;
/// assert_eq!(refused.status(), Status::UNAUTHORIZED);
/// assert_eq!(refused.header("vary"), Some("X-Key"), "headers are added to each answer");
/// assert_eq!(router.call(TestRequest::get("/").header("X-Key", "k7"))?.text(), "in");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
pub trait Layer: Send + Sync + 'static {
    /// Decides on a request: `Continue` lets its handler answer, `Break` answers instead. Headers
    /// that are added to `headers` are part of either answer.
    fn enter(&self, request: &Request, headers: &mut AddedHeaders) -> ControlFlow<Response>;

    /// Returns true if the layer answers OPTIONS of paths that have no handler for them, as
    /// [`Cors`](crate::Cors) does. Default: false.
    fn answers_options(&self) -> bool {
        false
    }

    /// Returns the length in bytes from which answers are compressed, as
    /// [`Compression`](crate::Compression) does. Default: `None`, which compresses nothing.
    fn compresses_from(&self) -> Option<usize> {
        None
    }
}

/// A handler inside of a layer. Several layers are nested.
pub(crate) struct Layered {
    /// The layer.
    pub(super) layer: Arc<dyn Layer>,
    /// The handler, or the next layer.
    pub(super) inner: Arc<dyn Handler>,
}

impl Handler for Layered {
    fn handle(&self, request: &Request, out: &mut ResponseWriter<'_>) -> Flow {
        if out.layers_done {
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
            Flow::Later(answer) => {
                Flow::Later(later_with_added(answer, out.added.split_off(before)))
            }
        }
    }

    fn enter(&self, request: &Request, headers: &mut AddedHeaders) -> ControlFlow<Response> {
        self.layer.enter(request, headers)?;
        self.inner.enter(request, headers)
    }
}

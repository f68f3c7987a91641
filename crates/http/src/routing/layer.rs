//! What stands around handlers: a [`Layer`] sees each request before its handler does, may answer
//! in its place, and may add headers to whatever the answer will be. An endpoint without layers
//! pays nothing for them.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::message::added_headers::AddedHeaders;
use crate::message::request::Request;
use crate::message::response::{Response, later_with_added};
use crate::message::writer::ResponseWriter;
use crate::routing::handler::{Flow, Handler};

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

    /// The length in bytes from which it has answers compressed, as [`crate::Compression`] does. None for
    /// other layers.
    fn compresses_from(&self) -> Option<usize> {
        None
    }
}

/// A handler inside of a layer.
pub(crate) struct Layered {
    pub(super) layer: Arc<dyn Layer>,
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

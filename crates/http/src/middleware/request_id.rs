//! A name for each request, by which logs of several services tell of the same one.

use std::ops::ControlFlow;

use crate::message::added_headers::AddedHeaders;
use crate::message::request::Request;
use crate::message::response::Response;
use crate::routing::layer::Layer;

/// Says each request's [`Request::id`] in the answer, as `X-Request-Id`.
///
/// ```
/// use marmota_http::{Request, RequestId, Router};
/// async fn show(request: Request) -> String {
///     format!("this is request {}", request.id())
/// }
/// let router = Router::new().get("/", show).layer(RequestId);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestId;

impl Layer for RequestId {
    fn enter(&self, request: &Request, headers: &mut AddedHeaders) -> ControlFlow<Response> {
        headers.put("X-Request-Id", request.id().to_owned());
        ControlFlow::Continue(())
    }
}

//! A name for each request, by which logs of several services tell of the same one.

use std::ops::ControlFlow;

use super::{AddedHeaders, Layer};
use crate::request::Request;
use crate::response::Response;

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

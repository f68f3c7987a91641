//! A layer with an identifier for each request, by which the logs of several services name the same
//! one.

use std::ops::ControlFlow;

use crate::message::added_headers::AddedHeaders;
use crate::message::request::Request;
use crate::message::response::Response;
use crate::routing::layer::Layer;

/// A layer that adds [`Request::id`] to each answer, as `X-Request-Id`. The identifier is that of
/// the request's own `X-Request-Id`, or a new one.
///
/// ```
/// use marmota_http::{Request, RequestId, Router, TestRequest};
///
/// async fn show(request: Request) -> String {
///     format!("this is request {}", request.id())
/// }
///
/// let router = Router::new().get("/", show).layer(RequestId);
/// let answer = router.call(TestRequest::get("/"))?;
/// let id = answer.header("X-Request-Id").expect("an identifier");
/// assert_eq!(answer.text(), format!("this is request {id}"));
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestId;

impl Layer for RequestId {
    /// Adds the header.
    fn enter(&self, request: &Request, headers: &mut AddedHeaders) -> ControlFlow<Response> {
        headers.put("X-Request-Id", request.id().to_owned());
        ControlFlow::Continue(())
    }
}

//! Mounting a tower service, for example an `axum::Router`, under a prefix.
//!
//! The request is converted to the type of the `http` crate, with a copy of its body. An answer
//! whose length is known and small is collected and written like any other; others are streamed.
//! That costs allocations that Marmota's own handlers do not have.

use std::borrow::Cow;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use tower_service::Service;

use crate::body::Body;
use crate::body::producer::{BodyStream, BoxError, Producer};
use crate::message::request::Request;
use crate::message::response::Response;
use crate::proto::status::Status;
use crate::routing::endpoint::Endpoint;
use crate::routing::router::Router;

/// A longer answer is sent while the service produces it.
const COLLECTED_BYTES_MAX: u64 = 64 * 1024;

impl Router {
    /// Answers all methods and paths under `prefix` by a tower service, which sees the path without
    /// the prefix.
    ///
    /// The service gets whole bodies, limited by
    /// [`Limits::body_bytes_max`](crate::Limits::body_bytes_max); its answers may be streams. The
    /// client's address is an extension of type `SocketAddr`. An error of the service is answered
    /// with 500. Upgrades (WebSockets) do not work through it.
    ///
    /// ```
    /// use marmota_http::{Router, TestRequest};
    ///
    /// let inner = axum::Router::new().route("/hello", axum::routing::get(|| async { "hi" }));
    /// let router = Router::new().mount("/axum", inner);
    /// assert_eq!(router.call(TestRequest::get("/axum/hello"))?.text(), "hi");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[must_use]
    pub fn mount<S, B>(self, prefix: &str, service: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<B>>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: 'static,
        B: http_body::Body + 'static,
    {
        let prefix = prefix.trim_end_matches('/').to_owned();
        let skip = prefix.len();
        let endpoint =
            Endpoint::future(move |request: Request| call(service.clone(), request, skip));
        let router = if prefix.is_empty() { self } else { self.any(&prefix, endpoint.clone()) };
        router.any(&format!("{prefix}/{{rest:path}}"), endpoint)
    }
}

/// Waits until the service is ready, calls it, and converts its answer.
async fn call<S, B>(mut service: S, request: Request, skip: usize) -> Response
where
    S: Service<http::Request<Body>, Response = http::Response<B>>,
    B: http_body::Body + 'static,
{
    let Ok(request) = convert(&request, skip) else {
        return Response::from_status(Status::BAD_REQUEST);
    };
    let failed = || Response::from_status(Status::INTERNAL_SERVER_ERROR);
    if poll_fn(|cx| service.poll_ready(cx)).await.is_err() {
        return failed();
    }
    match service.call(request).await {
        Ok(response) => collect(response).await.unwrap_or_else(failed),
        Err(_) => failed(),
    }
}

/// Converts a request; `skip` is the length of the prefix.
///
/// # Errors
/// The path, a header or the method is valid here, but not for the `http` crate.
fn convert(request: &Request, skip: usize) -> Result<http::Request<Body>, http::Error> {
    let path = request.path().get(skip..).unwrap_or_default();
    let slash = if path.starts_with('/') { "" } else { "/" };
    let query = request.query();
    let mark = if query.is_empty() { "" } else { "?" };
    let mut builder = http::Request::builder()
        .method(request.method_name())
        .uri(format!("{slash}{path}{mark}{query}"));
    if let Some(peer) = request.peer().net() {
        builder = builder.extension(peer);
    }
    for (name, value) in request.headers() {
        builder = builder.header(name, value);
    }
    builder.body(Body::from(request.body().to_vec()))
}

/// Converts an answer. `None` if a collected body has failed.
async fn collect<B: http_body::Body + 'static>(response: http::Response<B>) -> Option<Response> {
    let (head, body) = response.into_parts();
    let length = body.size_hint().exact();
    let mut answer = match length {
        Some(0..=COLLECTED_BYTES_MAX) => {
            let mut bytes = Vec::new();
            let mut body = pin!(body);
            while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
                append(frame.ok()?, &mut bytes);
            }
            Response::new(Status::OK).with_whole_body(bytes)
        }
        _ => {
            let stream = BodyStream::new(Frames(Box::pin(body)));
            Response::streamed(
                "",
                match length {
                    Some(length) => stream.with_length(length),
                    None => stream,
                },
            )
        }
    };
    for (name, value) in &head.headers {
        // Length, coding and persistence are the server's; it refuses them here.
        let _ = answer.add_header(
            Cow::Owned(name.as_str().to_owned()),
            Cow::Owned(value.as_bytes().to_vec()),
        );
    }
    Some(answer.with_status(Status::new(head.status.as_u16())?))
}

/// A producer of the data in a service's body. Trailers are omitted.
struct Frames<B>(Pin<Box<B>>);

impl<B: http_body::Body + 'static> Producer for Frames<B> {
    /// Appends the data of the next frame. A failed body cuts off the answer.
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<ControlFlow<()>, BoxError>> {
        self.0.as_mut().poll_frame(context).map(|frame| match frame {
            None => Ok(ControlFlow::Break(())),
            Some(Ok(frame)) => {
                append(frame, out);
                Ok(ControlFlow::Continue(()))
            }
            Some(Err(_)) => Err("the body of the mounted service failed".into()),
        })
    }
}

/// Appends a frame's data; trailers are omitted.
fn append<D: bytes::Buf>(frame: http_body::Frame<D>, out: &mut Vec<u8>) {
    let Ok(mut data) = frame.into_data() else { return };
    while data.has_remaining() {
        let chunk = data.chunk();
        out.extend_from_slice(chunk);
        let count = chunk.len();
        data.advance(count);
    }
}

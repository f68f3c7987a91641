//! Mounting a tower service, an `axum::Router` for example, under a prefix.
//!
//! The request is copied into the `http` crate's representation, the answer is collected and
//! written like any other. That costs allocations that Marmota's own handlers do not have.

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::pin;

use http_body::Body as _;
use tower_service::Service;

use crate::body::Body;
use crate::handler::Endpoint;
use crate::request::Request;
use crate::response::Response;
use crate::router::Router;
use crate::status::Status;

impl Router {
    /// Answers everything under `prefix` by a tower service, which sees the path without the
    /// prefix. Bodies are whole on both sides: an answer that never ends cannot be mounted.
    ///
    /// ```
    /// use marmota_http::Router;
    /// let inner = axum::Router::new().route("/hello", axum::routing::get(|| async { "hi" }));
    /// let router = Router::new().mount("/axum", inner); // answers /axum/hello
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

async fn call<S, B>(mut service: S, request: Request, skip: usize) -> Response
where
    S: Service<http::Request<Body>, Response = http::Response<B>>,
    B: http_body::Body,
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

fn convert(request: &Request, skip: usize) -> Result<http::Request<Body>, http::Error> {
    let path = request.path().get(skip..).unwrap_or_default();
    let slash = if path.starts_with('/') { "" } else { "/" };
    let query = request.query();
    let mark = if query.is_empty() { "" } else { "?" };
    let mut builder = http::Request::builder()
        .method(request.method_name())
        .uri(format!("{slash}{path}{mark}{query}"))
        .extension(request.peer());
    for (name, value) in request.headers() {
        builder = builder.header(name, value);
    }
    builder.body(Body::from(request.body().to_vec()))
}

async fn collect<B: http_body::Body>(response: http::Response<B>) -> Option<Response> {
    let (head, body) = response.into_parts();
    let mut collected = Response::new(Status::new(head.status.as_u16())?);
    for (name, value) in &head.headers {
        // Length, coding and persistence are the server's; it refuses them here.
        let _ = collected.add_header(
            Cow::Owned(name.as_str().to_owned()),
            Cow::Owned(value.as_bytes().to_vec()),
        );
    }
    let mut body = pin!(body);
    let mut bytes = Vec::with_capacity(body.size_hint().lower().min(1 << 20) as usize);
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let Ok(mut data) = frame.ok()?.into_data() else { continue };
        while bytes::Buf::has_remaining(&data) {
            let chunk = bytes::Buf::chunk(&data);
            bytes.extend_from_slice(chunk);
            let count = chunk.len();
            bytes::Buf::advance(&mut data, count);
        }
    }
    Some(collected.with_whole_body(bytes))
}

//! `POST /mcp`: the protocol over HTTP (its transport "Streamable HTTP"), without sessions. Each request
//! has the token of its caller, and is answered by JSON.
//!
//! ```text
//! POST /mcp
//! Authorization: Bearer mk_…
//! Accept: application/json, text/event-stream
//! Content-Type: application/json
//!
//! {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_issue","arguments":{"limit":2}}}
//! ```
//!
//! A request makes the tools of its caller anew, so a change of the rights applies to the next one.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use marmota_http::{Endpoint, Method, RateLimit, Request, Response, Router, Status};
use marmota_model::{Error, ErrorKind, Result};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::sync::Semaphore;

use crate::agent_server::AgentServer;
use crate::api_client::ApiClient;
use crate::options::McpOptions;

/// The path of the route.
const PATH: &str = "/mcp";
/// The maximum size of a request in bytes.
const BODY_BYTES_MAX: usize = 1 << 20;
/// How many requests are executed at a time; each has a thread. Others wait.
const CALLS_MAX: usize = 16;
/// How many requests may wait.
const WAITING_MAX: usize = 64;
/// The requests of a token in a second, and at once.
const PER_SECOND: f64 = 10.0;
const BURST: u32 = 100;

/// The route `POST /mcp` for agents, over the routes of an API in this process.
///
/// ```
/// use marmota_http::{Router, Status, TestRequest};
/// use marmota_mcp::{AgentRoute, McpOptions};
///
/// let api = Router::new(); // such as `rest::Api::new(&store).auth(&auth).router()`
/// let router = AgentRoute::new(api, McpOptions::new()).require_token(true).router();
/// assert_eq!(router.call(TestRequest::post("/mcp"))?.status(), Status::UNAUTHORIZED);
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[must_use]
pub struct AgentRoute {
    routes: Arc<Router>,
    options: McpOptions,
    requires_token: bool,
    per_second: f64,
    burst: u32,
    calls: Arc<Semaphore>,
    /// The requests that are executed or wait.
    begun: AtomicUsize,
}

/// A request that is counted until it is answered.
struct Begun<'r>(&'r AtomicUsize);

impl<'r> Begun<'r> {
    /// Counts a request; `None` if too many wait.
    fn of(begun: &'r AtomicUsize) -> Option<Self> {
        let before = begun.fetch_add(1, Ordering::Relaxed);
        let counted = Self(begun);
        (before < CALLS_MAX + WAITING_MAX).then_some(counted)
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AgentRoute {
    /// Serves these routes, with REST at `/api`.
    pub fn new(routes: Router, options: McpOptions) -> Self {
        Self {
            routes: Arc::new(routes),
            options,
            requires_token: false,
            per_second: PER_SECOND,
            burst: BURST,
            begun: AtomicUsize::new(0),
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
        }
    }

    /// Sets whether requests without a token are refused (401). Default: false, for an API without
    /// accounts.
    pub const fn require_token(mut self, requires: bool) -> Self {
        self.requires_token = requires;
        self
    }

    /// Sets how many requests are answered for one token (without one, for one address): `per_second`, and
    /// up to `burst` at once. Others are answered 429 with `Retry-After`. Default: 10 and 100.
    pub const fn rate(mut self, per_second: f64, burst: u32) -> Self {
        (self.per_second, self.burst) = (per_second, burst);
        self
    }

    /// Returns a router with the route.
    #[must_use]
    pub fn router(self) -> Router {
        let limit = RateLimit::per(self.per_second, self.burst, |request| {
            let token = token(request).ok().flatten();
            token.or_else(|| request.client_ip().map(|address| address.to_string()))
        });
        let route = Arc::new(self);
        let endpoint =
            Endpoint::future(move |request: Request| answer(Arc::clone(&route), request));
        Router::new().on(Method::Post, PATH, endpoint.body_bytes_max(BODY_BYTES_MAX)).layer(limit)
    }

    /// Makes the server of a caller. It blocks the thread.
    fn agent(&self, token: Option<&str>) -> Result<AgentServer> {
        AgentServer::of_caller(ApiClient::of_shared(Arc::clone(&self.routes), token), self.options)
    }
}

impl fmt::Debug for AgentRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentRoute").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Answers a request. Cookies are not accepted, so no page of another site can act for a user.
async fn answer(route: Arc<AgentRoute>, request: Request) -> Response {
    let token = match token(&request) {
        Ok(None) if route.requires_token => {
            return unauthenticated("send the API key of a user: `Authorization: Bearer mk_…`");
        }
        Ok(token) => token,
        Err(detail) => return unauthenticated(detail),
    };
    let Some(_begun) = Begun::of(&route.begun) else {
        let busy = Response::problem(Status::SERVICE_UNAVAILABLE, "too many agents; try again");
        return busy
            .with_header("Retry-After", "1")
            .unwrap_or_else(|_| Response::from_status(Status::SERVICE_UNAVAILABLE));
    };
    // The semaphore is never closed.
    let Ok(_permit) = route.calls.acquire().await else {
        return Response::from_status(Status::SERVICE_UNAVAILABLE);
    };
    let of_caller = Arc::clone(&route);
    let agent = tokio::task::spawn_blocking(move || of_caller.agent(token.as_deref())).await;
    let agent = match agent {
        Ok(Ok(agent)) => agent,
        Ok(Err(error)) => return refused(&error),
        Err(error) => {
            log::error!(target: "marmota::mcp", "a request has failed: {error}");
            return Response::from_status(Status::INTERNAL_SERVER_ERROR);
        }
    };
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(BODY_BYTES_MAX)
        // The server has checked `Host`. Pages of browsers are refused by their `Origin`.
        .disable_allowed_hosts()
        .enforce_origin_validation();
    let sessions = Arc::new(NeverSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(agent.clone()), sessions, config);
    let Ok(request) = converted(&request) else {
        return Response::from_status(Status::BAD_REQUEST);
    };
    let (head, body) = service.handle(request).await.into_parts();
    let status = Status::new(head.status.as_u16()).unwrap_or(Status::INTERNAL_SERVER_ERROR);
    let Ok(body) = body.collect().await;
    let mut response = Response::new(status).with_whole_body(body.to_bytes().to_vec());
    if let Some(media_type) = head.headers.get(http::header::CONTENT_TYPE)
        && let Ok(media_type) = media_type.to_str()
    {
        response = match response.with_header("Content-Type", media_type.to_owned()) {
            Ok(response) => response,
            Err(_) => return Response::from_status(Status::INTERNAL_SERVER_ERROR),
        };
    }
    // Answers depend on the caller.
    response
        .with_header("Cache-Control", "no-store")
        .unwrap_or_else(|_| Response::from_status(Status::INTERNAL_SERVER_ERROR))
}

/// Returns the token of a request, if it has one.
fn token(request: &Request) -> std::result::Result<Option<String>, &'static str> {
    const FORM: &str = "`Authorization` must have the form `Bearer TOKEN`";
    if request.headers().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
        let text = request.header_text("authorization").ok_or(FORM)?;
        let (scheme, token) = text.split_once(' ').ok_or(FORM)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(FORM);
        }
        return Ok(Some(token.trim().to_owned()));
    }
    Ok(None)
}

/// Returns the request in the types of the protocol's library.
fn converted(request: &Request) -> std::result::Result<http::Request<Full<Bytes>>, http::Error> {
    let mut builder = http::Request::builder().method(request.method_name()).uri(PATH);
    for (name, value) in request.headers() {
        // The library has no use for it, and could log it.
        if !name.eq_ignore_ascii_case("authorization") && !name.eq_ignore_ascii_case("cookie") {
            builder = builder.header(name, value);
        }
    }
    builder.body(Full::new(Bytes::copy_from_slice(request.body())))
}

fn unauthenticated(detail: &str) -> Response {
    Response::problem(Status::UNAUTHORIZED, detail)
        .with_header("WWW-Authenticate", "Bearer")
        .unwrap_or_else(|_| Response::from_status(Status::UNAUTHORIZED))
}

fn refused(error: &Error) -> Response {
    match error.kind() {
        ErrorKind::Unauthenticated => unauthenticated(error.message()),
        ErrorKind::Denied => Response::problem(Status::FORBIDDEN, error.message()),
        _ => {
            log::error!(target: "marmota::mcp", "the tools cannot be made: {error}");
            Response::from_status(Status::INTERNAL_SERVER_ERROR)
        }
    }
}

//! Marmota's web server: HTTP/1.1, HTTP/2, WebSocket and TLS, with a thread per core.
//!
//! Each thread has its own listener on the shared port, its own io_uring (or an epoll instance
//! where the kernel does not allow a ring) and its own connections. The path of a request shares
//! nothing with other threads. All requests received by one read are answered into one buffer that
//! one write sends. The crate depends on no model and no store.
//!
//! ```no_run
//! use marmota_http::{Flow, Method, Request, Response, Router, Server, Status};
//!
//! /// Asynchronous, with an error that is an answer too.
//! async fn greet(request: Request) -> Result<Response, Status> {
//!     let name = request.param("name").ok_or(Status::NOT_FOUND)?;
//!     Ok(Response::text(format!("Hello, {name}!")))
//! }
//!
//! let router = Router::new()
//!     .get("/hello/{name}", greet)
//!     // Writes into the connection's buffer.
//!     .direct(Method::Get, "/count/{n:int}", |request, out| {
//!         let n = request.param_int_at(0).unwrap_or(0);
//!         let body = out.content_type("text/plain").body_mut();
//!         body.extend_from_slice((n + 1).to_string().as_bytes());
//!         Flow::Done
//!     });
//! Server::bind("127.0.0.1:8080")?.run(router)?;
//! # Ok::<(), marmota_http::ServerError>(())
//! ```
//!
//! # Where to start
//! - [`Router`] maps methods and paths to handlers; [`Endpoint`] is a handler with limits and
//!   layers.
//! - [`Request`] and [`Response`] are what an asynchronous handler gets and returns.
//!   [`ResponseWriter`] is for direct handlers.
//! - [`extract`] has typed arguments of handlers: [`Router::with_state`].
//! - [`Layer`] is middleware that decides by a request's head; [`Router::wrap`] adds asynchronous
//!   functions that see answers too. [`Cors`], [`Compression`], [`RateLimit`], [`SecurityHeaders`],
//!   [`AccessLog`] and [`Metrics`] are included, and [`Files`] serves a folder.
//! - [`BodyStream`] and [`BodyReader`] are bodies in pieces, [`Event`] is for server-sent events,
//!   [`WebSocket`] for both directions.
//! - [`Server`] listens on ports and Unix sockets ([`Address`]), with [`Tls`] and [`Limits`].
//! - [`Router::call`] answers a request without a socket, for tests:
//!
//! ```
//! use marmota_http::{Request, Router, TestRequest};
//! let router = Router::new().get("/ping", |_: Request| async { "pong" });
//! assert_eq!(router.call(TestRequest::get("/ping"))?.text(), "pong");
//! # Ok::<(), marmota_http::CallError>(())
//! ```
//!
//! # Features
//! | feature | default | adds |
//! |---|---|---|
//! | `extract` | yes | typed arguments of handlers, JSON |
//! | `http2` | yes | HTTP/2, by TLS' negotiation and by prior knowledge |
//! | `tls` | yes | TLS on the server's ports |
//! | `tokio` | yes | tokio's timers, sockets and tasks in handlers |
//! | `stream` | yes | bodies to and from `futures_core::Stream` |
//! | `tower` | yes | [`Router::mount`] takes any tower service, such as an `axum::Router` |
//! | `acme` | no | certificates that the server requests by itself |
//! | `compression` | no | gzip, brotli and zstd |
//! | `schemars` | no | descriptions of routes for OpenAPI |
//! | `tracing` | no | a span for each request |
//!
//! It is made for Linux, with io_uring or epoll ([`Backend`]). [`Backend::Portable`] is for
//! development on other Unix systems: the crate compiles for macOS, where it has never run. Windows
//! is not supported.

#[cfg(feature = "extract")]
pub mod extract;
#[cfg(feature = "multipart")]
pub mod multipart;
pub mod websocket;

mod body;
mod connection;
#[cfg(feature = "http2")]
mod http2;
mod in_process;
mod message;
mod middleware;
mod proto;
mod reactor;
mod routing;
mod server;
mod socket;

pub use body::Body;
pub use body::body_buffer::BodyError;
pub use body::body_sender::{BodySender, Gone};
pub use body::producer::{BodyStream, BoxError, Producer};
#[cfg(feature = "schemars")]
pub use extract::describe;
pub use in_process::error::CallError;
pub use in_process::request::TestRequest;
pub use in_process::response::TestResponse;
pub use message::added_headers::AddedHeaders;
pub use message::body_reader::BodyReader;
pub use message::events::{Event, EventSender};
pub use message::limits::Limits;
pub use message::problem::ProblemDocument;
pub use message::protocol::{Protocol, ProtocolStep, Turn};
pub use message::request::Request;
pub use message::response::{Html, IntoResponse, LaterResponse, Response};
pub use message::same_origin::{CrossSite, Initiator};
pub use message::sites::SiteError;
pub use message::writer::ResponseWriter;
pub use middleware::access_log::AccessLog;
pub use middleware::background_writer::BackgroundWriter;
pub use middleware::compression::Compression;
pub use middleware::cors::Cors;
pub use middleware::files::{Files, Symlinks};
pub use middleware::metrics::Metrics;
pub use middleware::rate_limit::RateLimit;
pub use middleware::request_id::RequestId;
pub use middleware::security_headers::SecurityHeaders;
#[cfg(feature = "tracing")]
pub use middleware::traces::Traces;
#[cfg(feature = "multipart")]
pub use multipart::{Multipart, MultipartError, MultipartLimits};
pub use proto::head::Version;
pub use proto::header::HeaderError;
pub use proto::method::Method;
pub use proto::percent::QueryParams;
pub use proto::range::RequestedRange;
pub use proto::status::Status;
pub use proto::{chunked, head};
pub use reactor::backend::Backend;
pub use reactor::batch_scheduling::{BatchScheduling, BatchSchedulingError};
pub use reactor::descriptors::raise_descriptors_max;
pub use reactor::readiness_watch::{ReadinessCallback, ReadinessWatch, watch};
pub use routing::admission::{Admission, LaterAdmission};
#[cfg(feature = "schemars")]
pub use routing::described::{DescribeHandler, DescribedHandler, Descriptions, described};
pub use routing::endpoint::Endpoint;
pub use routing::handler::{Flow, Handler};
pub use routing::layer::Layer;
pub use routing::router::{RouteError, Router};
#[cfg(feature = "extract")]
pub use routing::state_router::StateRouter;
#[cfg(feature = "extract")]
pub use routing::typed_handler::TypedHandler;
pub use routing::wrap::Next;
pub use server::Server;
pub use server::error::ServerError;
pub use server::route_changes::{RouteChanges, RoutePause};
pub use server::running::{RunningServer, ShutdownHandle};
pub use socket::address::{Address, Peer, ToAddresses};
pub use socket::proxies::{ForwardedHeader, ProxyError};
#[cfg(feature = "acme")]
pub use socket::tls::acme::Acme;
#[cfg(feature = "tls")]
pub use socket::tls::{Tls, TlsError};
pub use websocket::{Broadcast, Message, WebSocket, WebSocketOptions};

//! Marmota's HTTP/1.1 server: a thread per core, one read, one write.
//!
//! Each thread has its own listener on the shared port, its own io_uring (or epoll instance
//! where the kernel does not allow a ring) and its own connections; nothing in the road of a request is shared with another thread. All requests
//! that one read brought are answered into one buffer that one write sends. It knows no model
//! and no store.
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
//! It listens on ports and on Unix sockets ([`Address`]).
//!
//! Linux only: it stands on io_uring or epoll ([`Backend`]) and SO_REUSEPORT.

pub mod chunked;
pub mod head;
pub mod multipart;
pub mod websocket;

mod accepted;
mod access_log;
mod address;
mod admission;
mod backend;
mod background_writer;
mod batch_scheduling;
mod body;
mod body_sender;
mod bound;
mod budget;
mod claim;
#[cfg(feature = "compression")]
mod coding;
mod connection;
mod descriptors;
mod epoll;
mod events;
mod files;
mod handler;
mod health;
#[cfg(feature = "http2")]
mod http2;
mod inlet;
mod layer;
mod limits;
mod link;
mod listener;
mod local;
mod log_limit;
mod method;
mod metrics;
#[cfg(feature = "tower")]
mod mount;
mod observer;
mod percent;
mod problem;
mod producer;
mod protocol;
mod proxies;
mod proxy_header;
mod reactor;
mod request;
mod response;
#[allow(unsafe_code, reason = "the kernel reads and writes memory by its address")]
mod ring;
mod router;
mod same_origin;
mod seat;
mod server;
mod signpost;
mod slab;
#[allow(unsafe_code, reason = "a call of the allocator")]
mod slack;
mod status;
mod task;
#[allow(unsafe_code, reason = "two calls of the system")]
mod thread_policy;
#[cfg(feature = "tls")]
mod tls;
mod watch;
mod worker;
mod writer;

pub use access_log::AccessLog;
pub use address::{Address, Peer, ToAddresses};
pub use admission::{Admission, LaterAdmission};
pub use backend::Backend;
pub use background_writer::BackgroundWriter;
pub use batch_scheduling::{BatchScheduling, BatchSchedulingError};
pub use body::Body;
pub use body_sender::{BodySender, Gone};
pub use descriptors::raise_descriptors_max;
pub use events::{Event, EventSender};
pub use files::{Files, Symlinks};
pub use handler::{Endpoint, Flow, Handler, LaterResponse};
pub use head::Version;
pub use inlet::{BodyError, BodyReader};
#[cfg(feature = "tracing")]
pub use layer::Traces;
pub use layer::{AddedHeaders, Compression, Cors, Layer, RateLimit, RequestId, SecurityHeaders};
pub use limits::Limits;
pub use method::Method;
pub use metrics::Metrics;
pub use multipart::{Multipart, MultipartError, MultipartLimits};
pub use percent::QueryParams;
pub use producer::{BodyStream, BoxError, Producer};
pub use protocol::{Protocol, Step, Turn};
pub use proxies::{ForwardedHeader, ProxyError};
pub use request::Request;
pub use response::{HeaderError, IntoResponse, Response};
pub use router::{RouteError, Router};
pub use same_origin::{CrossSite, Initiator, SiteError};
pub use server::{RunningServer, Server, ServerError, ShutdownHandle};
pub use status::Status;
#[cfg(feature = "acme")]
pub use tls::acme::Acme;
#[cfg(feature = "tls")]
pub use tls::{Tls, TlsError};
pub use watch::{Happened, Watch, watch};
pub use websocket::{Broadcast, Message, WebSocket, WebSocketOptions};
pub use writer::ResponseWriter;

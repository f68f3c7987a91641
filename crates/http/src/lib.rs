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
//! Linux only: it stands on io_uring or epoll ([`Backend`]) and SO_REUSEPORT.

pub mod chunked;
pub mod head;

mod backend;
mod body;
mod body_sender;
mod connection;
mod epoll;
mod events;
mod handler;
mod inlet;
mod limits;
mod listener;
mod local;
mod method;
#[cfg(feature = "tower")]
mod mount;
mod percent;
mod producer;
mod reactor;
mod request;
mod response;
#[allow(unsafe_code, reason = "the kernel reads and writes memory by its address")]
mod ring;
mod router;
mod server;
mod slab;
mod status;
mod task;
mod worker;
mod writer;

pub use backend::Backend;
pub use body::Body;
pub use body_sender::{BodySender, Gone};
pub use events::{Event, EventSender};
pub use handler::{Endpoint, Flow, Handler, LaterResponse};
pub use head::Version;
pub use inlet::{BodyError, BodyReader};
pub use limits::Limits;
pub use method::Method;
pub use percent::QueryParams;
pub use producer::{BodyStream, BoxError, Producer};
pub use request::Request;
pub use response::{HeaderError, IntoResponse, Response};
pub use router::{RouteError, Router};
pub use server::{RunningServer, Server, ServerError, ShutdownHandle};
pub use status::Status;
pub use writer::ResponseWriter;

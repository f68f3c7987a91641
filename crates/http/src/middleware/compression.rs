//! A layer that compresses answers by the client's `Accept-Encoding`. It only marks its endpoints:
//! the writer of answers compresses (`message/writer/compress.rs`), since it sees answers of every
//! kind.

use std::ops::ControlFlow;

use crate::message::added_headers::AddedHeaders;
use crate::message::request::Request;
use crate::message::response::Response;
use crate::routing::layer::Layer;

/// Sends answers as zstd, brotli or gzip to clients whose `Accept-Encoding` accepts one of them
/// (RFC 9110, 12.5.3).
///
/// It compresses texts (`text/*`, JSON, XML, JavaScript, SVG, …) of at least 1 KiB
/// ([`Compression::bytes_min`]) and streams of them, at the fastest levels. Bodies of more than 32
/// KiB are compressed while they are sent, 64 KiB of them before other connections are served. A
/// strong `ETag` becomes a weak one, and `Vary: Accept-Encoding` is added.
///
/// These answers are not compressed: those with `Set-Cookie`, with `Cache-Control: no-store` or
/// `no-transform`, with a `Content-Encoding`, parts (206), and event streams. If an answer contains
/// both a secret and text from another person, its compressed length reveals the secret (BREACH):
/// mark such answers `no-store`.
///
/// Without the feature `compression` of the crate it does nothing.
///
/// ```
/// use marmota_http::{Compression, Request, Response, Router, TestRequest};
///
/// async fn list(_: Request) -> Response {
///     Response::json_bytes("[1,2,3]".repeat(1000))
/// }
///
/// let router = Router::new().get("/list", list).layer(Compression::new());
/// let answer = router.call(TestRequest::get("/list").header("Accept-Encoding", "gzip"))?;
/// # #[cfg(feature = "compression")]
/// assert_eq!(answer.header("Content-Encoding"), Some("gzip"));
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Compression {
    /// Bodies shorter than this are not compressed.
    pub(super) bytes_min: usize,
}

impl Default for Compression {
    fn default() -> Self {
        Self::new()
    }
}

impl Compression {
    /// Returns a layer that compresses answers of at least 1 KiB.
    pub const fn new() -> Self {
        Self { bytes_min: 1024 }
    }

    /// Sets the minimum length of a compressed body, in bytes. Default: 1024, because a shorter
    /// body fits into a packet anyway.
    ///
    /// ```
    /// use marmota_http::{Compression, Router};
    /// let router = Router::new().get("/", |_| async { "text" }).layer(Compression::new().bytes_min(256));
    /// ```
    pub const fn bytes_min(mut self, bytes: usize) -> Self {
        self.bytes_min = bytes;
        self
    }
}

impl Layer for Compression {
    /// Does nothing: the writer of the answer compresses.
    fn enter(&self, _: &Request, _: &mut AddedHeaders) -> ControlFlow<Response> {
        ControlFlow::Continue(())
    }

    /// Marks the endpoint.
    fn compresses_from(&self) -> Option<usize> {
        Some(self.bytes_min)
    }
}

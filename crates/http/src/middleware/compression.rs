//! Answers in the content coding that their client takes.

use std::ops::ControlFlow;

use crate::message::added_headers::AddedHeaders;
use crate::message::request::Request;
use crate::message::response::Response;
use crate::routing::layer::Layer;

/// Sends answers as zstd, brotli or gzip to clients whose `Accept-Encoding` takes one of them.
///
/// It compresses texts (`text/*`, JSON, XML, JavaScript, SVG, …) of at least 1 KiB
/// ([`Compression::bytes_min`]) and streams of them, at the quickest levels. Bodies of more than
/// 32 KiB are coded while they are sent, 64 KiB of them before other connections get their turn.
/// A strong `ETag` becomes a weak one, and `Vary: Accept-Encoding` is added.
///
/// These are sent as they are: answers with `Set-Cookie`, with `Cache-Control: no-store` or
/// `no-transform`, with a `Content-Encoding` already, parts (206), and event streams. Where an
/// answer has both a secret and text of a stranger, its compressed length reveals the secret
/// (BREACH): mark such answers `no-store`.
///
/// Without the feature `compression` of the crate it does nothing.
///
/// ```
/// use marmota_http::{Compression, Request, Response, Router};
///
/// async fn list(_: Request) -> Response {
///     Response::json_bytes("[1,2,3]".repeat(1000))
/// }
/// let router = Router::new().get("/list", list).layer(Compression::new());
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Compression {
    pub(super) bytes_min: usize,
}

impl Default for Compression {
    fn default() -> Self {
        Self::new()
    }
}

impl Compression {
    /// Compression of answers of at least 1 KiB.
    pub const fn new() -> Self {
        Self { bytes_min: 1024 }
    }

    /// Sets the length from which bodies are compressed, in bytes. Default: 1024.
    pub const fn bytes_min(mut self, bytes: usize) -> Self {
        self.bytes_min = bytes;
        self
    }
}

impl Layer for Compression {
    fn enter(&self, _: &Request, _: &mut AddedHeaders) -> ControlFlow<Response> {
        ControlFlow::Continue(())
    }

    fn compresses_from(&self) -> Option<usize> {
        Some(self.bytes_min)
    }
}

//! Answers that a handler compresses itself ([`Response::compressed`]).

use crate::body::coding::{self, BODY_BYTES_MIN, Coding};
use crate::message::request::Request;
use crate::message::response::{Payload, Response};
use crate::proto::status::Status;

impl Response {
    /// Sends the body as zstd, brotli or gzip if the request's `Accept-Encoding` permits one of
    /// them, and the body is streamed or has at least 1 KiB. A strong ETag becomes a weak one,
    /// because the bytes are different then. For all answers of a router use
    /// [`Compression`](crate::Compression).
    ///
    /// Do not use it where an answer contains both a secret and a text that an attacker can choose:
    /// the length of the answer reveals parts of the secret (the BREACH attack).
    ///
    /// ```
    /// use marmota_http::{Request, Response, Router, TestRequest};
    /// async fn list(request: Request) -> Response {
    ///     Response::json_bytes("[1,2,3]".repeat(1000)).compressed(&request)
    /// }
    /// let router = Router::new().get("/", list);
    /// let answer = router.call(TestRequest::get("/").header("Accept-Encoding", "gzip"))?;
    /// assert_eq!(answer.header("content-encoding"), Some("gzip"));
    /// assert!(answer.body().len() < 1000);
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[must_use]
    pub fn compressed(mut self, request: &Request) -> Self {
        let is_short = matches!(&self.body, Payload::Whole(body) if body.len() < BODY_BYTES_MIN);
        let is_coded =
            self.headers().any(|(name, _)| name.eq_ignore_ascii_case("content-encoding"));
        if is_coded || (is_short && self.status != Status::NOT_MODIFIED) {
            return self;
        }
        self.put("Vary", "Accept-Encoding");
        let header = request.header_text("accept-encoding").unwrap_or_default();
        let coding = if is_short { None } else { Coding::accepted(header) };
        let Some(coding) = coding else { return self };
        // Without memory for an encoder the plain body is sent.
        let (body, is_coded) = match self.body {
            Payload::Whole(body) => match coding::whole(body, coding) {
                Ok(coded) => (coded.into(), true),
                Err(body) => (Payload::Whole(body), false),
            },
            Payload::Stream(body) => match coding::streamed(body, coding) {
                Ok(coded) => (Payload::Stream(coded), true),
                Err(body) => (Payload::Stream(body), false),
            },
            successor @ Payload::UpgradedProtocol(_) => (successor, false),
        };
        self.body = body;
        if !is_coded {
            return self;
        }
        self.put("Content-Encoding", coding.name());
        for (name, tag) in &mut self.headers {
            if name.eq_ignore_ascii_case("etag") {
                *tag = coding::weak_tag(tag).into();
            }
        }
        self
    }

    /// Adds a header that is known to be valid.
    fn put(&mut self, name: &'static str, value: &'static str) {
        self.headers.push((name.into(), value.as_bytes().into()));
    }
}

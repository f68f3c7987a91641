//! A layer with headers that make browsers restrict what a page can do. Other clients ignore them.

use std::ops::ControlFlow;

use crate::message::added_headers::AddedHeaders;
use crate::message::request::Request;
use crate::message::response::Response;
use crate::proto::head::is_value;
use crate::routing::layer::Layer;

/// A layer that adds these headers to each answer: `X-Content-Type-Options: nosniff` (the media
/// type is not guessed), `X-Frame-Options: DENY` (no site may show it in a frame),
/// `Referrer-Policy: no-referrer` (links do not reveal the page), and those that are set by its
/// methods.
///
/// ```
/// use marmota_http::{Router, SecurityHeaders, TestRequest};
///
/// let headers = SecurityHeaders::new()
///     .content_security_policy("default-src 'self'")
///     .strict_transport_security_s(31_536_000);
/// let router = Router::new().get("/", |_| async { "page" }).layer(headers);
/// let answer = router.call(TestRequest::get("/"))?;
/// assert_eq!(answer.header("X-Frame-Options"), Some("DENY"));
/// assert_eq!(answer.header("Content-Security-Policy"), Some("default-src 'self'"));
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SecurityHeaders {
    frames: &'static str,
    policy: Option<String>,
    transport: Option<String>,
}

impl Default for SecurityHeaders {
    fn default() -> Self {
        Self::new()
    }
}

impl SecurityHeaders {
    /// Returns the headers that fit every service.
    pub fn new() -> Self {
        Self { frames: "DENY", policy: None, transport: None }
    }

    /// Allows pages of the same origin to show it in a frame (`X-Frame-Options: SAMEORIGIN`).
    ///
    /// ```
    /// use marmota_http::{Router, SecurityHeaders, TestRequest};
    ///
    /// let layer = SecurityHeaders::new().framed_by_itself();
    /// let router = Router::new().get("/", |_| async { "page" }).layer(layer);
    /// let answer = router.call(TestRequest::get("/"))?;
    /// assert_eq!(answer.header("X-Frame-Options"), Some("SAMEORIGIN"));
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[must_use]
    pub fn framed_by_itself(mut self) -> Self {
        self.frames = "SAMEORIGIN";
        self
    }

    /// Sets `Content-Security-Policy`: where scripts, styles and images may come from. Default: no
    /// such header.
    ///
    /// # Panics
    /// If the policy has a control character.
    #[must_use]
    pub fn content_security_policy(mut self, policy: impl Into<String>) -> Self {
        let policy = policy.into();
        assert!(is_value(policy.as_bytes()), "Content-Security-Policy: {policy:?}");
        self.policy = Some(policy);
        self
    }

    /// Makes browsers use only TLS for this host and the hosts below it, for this number of seconds
    /// (`Strict-Transport-Security`, RFC 6797). Default: no such header. It cannot be undone before
    /// the time has passed, so begin with a short one.
    #[must_use]
    pub fn strict_transport_security_s(mut self, seconds: u64) -> Self {
        self.transport = Some(format!("max-age={seconds}; includeSubDomains"));
        self
    }
}

impl Layer for SecurityHeaders {
    /// Adds the headers.
    fn enter(&self, _: &Request, headers: &mut AddedHeaders) -> ControlFlow<Response> {
        headers.put("X-Content-Type-Options", "nosniff");
        headers.put("X-Frame-Options", self.frames);
        headers.put("Referrer-Policy", "no-referrer");
        if let Some(policy) = &self.policy {
            headers.put("Content-Security-Policy", policy.clone());
        }
        if let Some(transport) = &self.transport {
            headers.put("Strict-Transport-Security", transport.clone());
        }
        ControlFlow::Continue(())
    }
}

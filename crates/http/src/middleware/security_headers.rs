//! Headers by which browsers do less than they would.

use std::ops::ControlFlow;

use crate::message::added_headers::AddedHeaders;
use crate::message::request::Request;
use crate::message::response::Response;
use crate::proto::head::is_value;
use crate::routing::layer::Layer;

/// Adds to every answer that its media type is not to be guessed, that no other site may frame
/// it, and that links say nothing of where they were followed; and what else is asked for.
///
/// ```
/// use marmota_http::{Router, SecurityHeaders};
/// let headers = SecurityHeaders::new()
///     .content_security_policy("default-src 'self'")
///     .strict_transport_security_s(31_536_000);
/// let router = Router::new().get("/", |_| async { "page" }).layer(headers);
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
    /// Those that fit every service.
    pub fn new() -> Self {
        Self { frames: "DENY", policy: None, transport: None }
    }

    /// Lets pages of the same origin frame it.
    #[must_use]
    pub fn framed_by_itself(mut self) -> Self {
        self.frames = "SAMEORIGIN";
        self
    }

    /// What `Content-Security-Policy` says.
    ///
    /// # Panics
    /// When the policy has a control character.
    #[must_use]
    pub fn content_security_policy(mut self, policy: impl Into<String>) -> Self {
        let policy = policy.into();
        assert!(is_value(policy.as_bytes()), "Content-Security-Policy: {policy:?}");
        self.policy = Some(policy);
        self
    }

    /// Has browsers use TLS alone for so long, for names below this one too.
    #[must_use]
    pub fn strict_transport_security_s(mut self, seconds: u64) -> Self {
        self.transport = Some(format!("max-age={seconds}; includeSubDomains"));
        self
    }
}

impl Layer for SecurityHeaders {
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

//! An answer as a value: status, headers, body. Handlers that return one are the common case;
//! those that write straight into the connection's buffer use [`crate::ResponseWriter`].

#[cfg(feature = "compression")]
mod compressed;

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;

use crate::body::Body;
use crate::body::body_buffer::BodyError;
#[cfg(feature = "compression")]
use crate::body::coding::CodedBody;
use crate::body::producer::BodyStream;
use crate::message::added_headers::AddedHeaders;
use crate::message::protocol::{Protocol, UpgradedProtocol};
use crate::message::request::Request;
use crate::proto::header::{HeaderError, check_header};
use crate::proto::method::Method;
use crate::proto::status::Status;

/// An answer that comes later. It is polled on the connection's own thread only.
pub type LaterResponse = Pin<Box<dyn Future<Output = Response>>>;

/// An answer. `Server`, `Date`, `Connection` and `Content-Length` are added when it is written.
///
/// ```
/// use marmota_http::{Response, Status};
/// let answer = Response::text("made").with_status(Status::CREATED).with_header("Location", "/a/7")?;
/// assert_eq!(answer.status(), Status::CREATED);
/// # Ok::<(), marmota_http::HeaderError>(())
/// ```
#[derive(Debug)]
pub struct Response {
    status: Status,
    content_type: Cow<'static, str>,
    headers: Vec<(Cow<'static, str>, Cow<'static, [u8]>)>,
    body: Payload,
}

/// What follows an answer's head.
#[derive(Debug)]
pub(crate) enum Payload {
    Whole(Body),
    Stream(BodyStream),
    /// None: another protocol goes on behind the head.
    UpgradedProtocol(UpgradedProtocol),
}

#[cfg(feature = "compression")]
impl From<CodedBody> for Payload {
    fn from(coded: CodedBody) -> Self {
        match coded {
            CodedBody::Whole(body) => Self::Whole(body),
            CodedBody::Stream(stream) => Self::Stream(stream),
        }
    }
}

impl Response {
    /// Returns an answer with this status, without a body.
    ///
    /// ```
    /// use marmota_http::{HeaderError, Response, Status};
    /// /// Redirects a browser after a form was sent.
    /// fn to_tasks() -> Result<Response, HeaderError> {
    ///     Response::new(Status::SEE_OTHER).with_header("Location", "/tasks")
    /// }
    /// # assert_eq!(to_tasks().unwrap().status().code(), 303);
    /// ```
    pub const fn new(status: Status) -> Self {
        let body = Payload::Whole(Body::empty());
        Self { status, content_type: Cow::Borrowed(""), headers: Vec::new(), body }
    }

    /// Returns a 200 with a body of this media type.
    ///
    /// ```
    /// use marmota_http::Response;
    /// let csv = Response::with_body("text/csv", "id,name\n1,Ada\n");
    /// assert_eq!(csv.content_type(), "text/csv");
    /// ```
    ///
    /// # Panics
    /// Never: a media type that cannot be sent is left out when the answer is written.
    pub fn with_body(content_type: impl Into<Cow<'static, str>>, body: impl Into<Body>) -> Self {
        let mut response = Self::new(Status::OK);
        response.content_type = content_type.into();
        response.body = Payload::Whole(body.into());
        response
    }

    /// Returns a 200 with a body of this media type that is produced while it is sent.
    pub fn streamed(content_type: impl Into<Cow<'static, str>>, body: BodyStream) -> Self {
        let mut response = Self::new(Status::OK);
        response.content_type = content_type.into();
        response.body = Payload::Stream(body);
        response
    }

    /// Returns a 200 with plain text.
    pub fn text(text: impl Into<Cow<'static, str>>) -> Self {
        Self::with_body("text/plain; charset=utf-8", cow_body(text.into()))
    }

    /// Returns a 200 with an HTML page.
    pub fn html(page: impl Into<Cow<'static, str>>) -> Self {
        Self::with_body("text/html; charset=utf-8", cow_body(page.into()))
    }

    /// Returns a 200 with serialized JSON.
    ///
    /// ```
    /// use marmota_http::Response;
    /// let answer = Response::json_bytes(r#"{"total":6}"#);
    /// assert_eq!(answer.content_type(), "application/json");
    /// ```
    pub fn json_bytes(json: impl Into<Body>) -> Self {
        Self::with_body("application/json", json)
    }

    /// Returns an answer with this status and its name as the body: a problem document
    /// ([`Response::problem`]) for errors, otherwise plain text.
    pub fn from_status(status: Status) -> Self {
        if status.code() >= 400 {
            return Self::of_problem(status, None);
        }
        if status.bodiless() {
            return Self::new(status);
        }
        Self::text(status.reason()).with_status(status)
    }

    /// Sets the status.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    /// Adds a header; `Content-Type` is replaced.
    ///
    /// ```
    /// use marmota_http::Response;
    /// let answer = Response::text("7").with_header("Cache-Control", "max-age=60")?;
    /// assert!(Response::text("7").with_header("Content-Length", "1").is_err());
    /// # Ok::<(), marmota_http::HeaderError>(())
    /// ```
    ///
    /// # Errors
    /// An invalid name, a value with a control character such as CR or LF, or a header that only the
    /// server writes (`Content-Length`, `Transfer-Encoding`, `Connection`).
    pub fn with_header(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Cow<'static, str>>,
    ) -> Result<Self, HeaderError> {
        let value = match value.into() {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        };
        self.add_header(name.into(), value)?;
        Ok(self)
    }

    /// Adds a header in place, with a value of any bytes; see [`Response::with_header`].
    ///
    /// # Errors
    /// As [`Response::with_header`].
    pub fn add_header(
        &mut self,
        name: Cow<'static, str>,
        value: Cow<'static, [u8]>,
    ) -> Result<(), HeaderError> {
        check_header(&name, &value)?;
        if name.eq_ignore_ascii_case("content-type") {
            self.content_type = Cow::Owned(String::from_utf8_lossy(&value).into_owned());
        } else {
            self.headers.push((name, value));
        }
        Ok(())
    }

    /// Adds an ETag (what stands between its quotes), and answers 304 without a body if the
    /// request's `If-None-Match` names it, with `W/` or without.
    ///
    /// ```
    /// use marmota_http::{HeaderError, Request, Response};
    /// async fn page(request: Request) -> Result<Response, HeaderError> {
    ///     Response::html("<p>Hello</p>").with_etag(&request, "7f3a")
    /// }
    /// ```
    ///
    /// # Errors
    /// A tag with blanks, quotes or control characters.
    pub fn with_etag(mut self, request: &Request, tag: &str) -> Result<Self, HeaderError> {
        if tag.bytes().any(|byte| byte <= b' ' || byte == b'"') {
            let name = "ETag".to_owned();
            return Err(HeaderError { name, reason: "a tag has no blanks and no quotes" });
        }
        let is_named = |known: &str| {
            let known = known.trim();
            let known = known.strip_prefix("W/").unwrap_or(known);
            known == "*" || known.trim_matches('"') == tag
        };
        let is_read = matches!(request.method(), Method::Get | Method::Head);
        let known = request.header_text("if-none-match").unwrap_or_default();
        self = self.with_header("ETag", format!("\"{tag}\""))?;
        if is_read && known.split(',').any(is_named) {
            (self.status, self.body) = (Status::NOT_MODIFIED, Payload::Whole(Body::empty()));
        }
        Ok(self)
    }

    /// Replaces the body and leaves the media type as it is.
    #[must_use]
    pub fn with_whole_body(mut self, body: impl Into<Body>) -> Self {
        self.body = Payload::Whole(body.into());
        self
    }

    /// The status.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The media type, empty when there is none.
    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    /// The headers beside `Content-Type`, in order.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.headers.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The body; empty if it is a [`BodyStream`].
    pub fn body(&self) -> &Body {
        static EMPTY: Body = Body::empty();
        match &self.body {
            Payload::Whole(body) => body,
            Payload::Stream(_) | Payload::UpgradedProtocol(_) => &EMPTY,
        }
    }

    /// Whether the body is made while it is sent.
    pub fn is_streamed(&self) -> bool {
        matches!(self.body, Payload::Stream(_))
    }

    /// A 101, behind which the protocol of this name goes on with the connection: the answer to a
    /// request whose `Upgrade` header names it.
    ///
    /// ```
    /// use marmota_http::{Protocol, Response, Status, ProtocolStep, Turn};
    ///
    /// /// Sends back what comes.
    /// struct Echo;
    ///
    /// impl Protocol for Echo {
    ///     fn advance(&mut self, turn: &mut Turn<'_>) -> ProtocolStep {
    ///         turn.output.extend_from_slice(turn.input);
    ///         turn.used = turn.input.len();
    ///         match turn.ended {
    ///             true => ProtocolStep::Close { linger: false },
    ///             false => ProtocolStep::Wait { hungry: true, deadline_ms: u64::MAX },
    ///         }
    ///     }
    /// }
    /// assert_eq!(Response::upgraded("echo", Echo).status(), Status::SWITCHING_PROTOCOLS);
    /// ```
    pub fn upgraded(name: &'static str, protocol: impl Protocol) -> Self {
        Self::taken_over(name, UpgradedProtocol(Box::new(protocol)))
    }

    /// A 101, behind which another protocol goes on.
    pub(crate) fn taken_over(name: &'static str, successor: UpgradedProtocol) -> Self {
        let mut response = Self::new(Status::SWITCHING_PROTOCOLS);
        response.headers.push(("Upgrade".into(), name.as_bytes().into()));
        response.body = Payload::UpgradedProtocol(successor);
        response
    }

    pub(crate) fn into_payload(self) -> Payload {
        self.body
    }
}

fn cow_body(text: Cow<'static, str>) -> Body {
    match text {
        Cow::Borrowed(text) => text.into(),
        Cow::Owned(text) => text.into(),
    }
}

/// The response with these headers added.
pub(crate) fn with_added(mut response: Response, headers: AddedHeaders) -> Response {
    for (name, value) in headers.into_inner() {
        // They were looked at when they were added.
        let _ = response.add_header(name, value);
    }
    response
}

/// A response that comes later with these headers added: it is written by another writer, which
/// knows nothing of them.
pub(crate) fn later_with_added(response: LaterResponse, headers: AddedHeaders) -> LaterResponse {
    match headers.is_empty() {
        true => response,
        false => Box::pin(async move { with_added(response.await, headers) }),
    }
}

impl IntoResponse for BodyError {
    fn into_response(self) -> Response {
        let mut answer = Response::problem(self.status(), &self.to_string());
        if self == Self::NoRoom {
            // A constant is always a header.
            let _ = answer.add_header("Retry-After".into(), b"1"[..].into());
        }
        answer
    }
}

/// What a handler may return.
pub trait IntoResponse {
    /// The answer that stands for this value.
    fn into_response(self) -> Response;
}

impl IntoResponse for Response {
    fn into_response(self) -> Response {
        self
    }
}

impl IntoResponse for Status {
    fn into_response(self) -> Response {
        Response::from_status(self)
    }
}

impl IntoResponse for &'static str {
    fn into_response(self) -> Response {
        Response::text(self)
    }
}

impl IntoResponse for String {
    fn into_response(self) -> Response {
        Response::text(self)
    }
}

impl IntoResponse for () {
    fn into_response(self) -> Response {
        Response::new(Status::NO_CONTENT)
    }
}

impl IntoResponse for HeaderError {
    fn into_response(self) -> Response {
        Response::from_status(Status::INTERNAL_SERVER_ERROR)
    }
}

impl IntoResponse for std::convert::Infallible {
    fn into_response(self) -> Response {
        match self {}
    }
}

impl<T: IntoResponse, E: IntoResponse> IntoResponse for Result<T, E> {
    fn into_response(self) -> Response {
        match self {
            Ok(value) => value.into_response(),
            Err(error) => error.into_response(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_break_framing_are_refused() {
        for (name, value) in [
            ("X", "a\r\nB: c"),
            ("X", "a\nb"),
            ("X", "\0"),
            ("X:", "a"),
            ("", "a"),
            ("Content-Length", "1"),
        ] {
            assert!(
                Response::new(Status::OK).with_header(name, value).is_err(),
                "{name:?} {value:?}"
            );
        }
        let answer = Response::text("a").with_header("content-type", "text/csv").unwrap();
        assert_eq!(answer.content_type(), "text/csv");
    }
}

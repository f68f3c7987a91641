//! An answer as a value: status, headers, body. Handlers that return one are the common case; those
//! that write directly into the connection's buffer use [`crate::ResponseWriter`]. Types that a
//! handler may return implement [`IntoResponse`].

#[cfg(feature = "compression")]
mod compressed;
mod into_response;

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;

use crate::body::Body;
#[cfg(feature = "compression")]
use crate::body::coding::CodedBody;
use crate::body::producer::BodyStream;
use crate::message::added_headers::AddedHeaders;
use crate::message::protocol::{Protocol, UpgradedProtocol};
use crate::message::request::Request;
use crate::proto::header::{HeaderError, check_header};
use crate::proto::method::Method;
use crate::proto::status::Status;
pub use into_response::{Html, IntoResponse};

/// An answer that comes later: the future of [`Flow::Later`](crate::Flow::Later). It is polled on
/// the connection's own thread only.
///
/// ```
/// use marmota_http::{LaterResponse, Response};
/// let later: LaterResponse = Box::pin(async { Response::text("done") });
/// ```
pub type LaterResponse = Pin<Box<dyn Future<Output = Response>>>;

/// An answer: status, headers and body. `Server`, `Date`, `Connection` and `Content-Length` are
/// added when it is written.
///
/// ```
/// use marmota_http::{Response, Status};
/// let answer = Response::text("made").with_status(Status::CREATED).with_header("Location", "/a/7")?;
/// assert_eq!(answer.status(), Status::CREATED);
/// # Ok::<(), marmota_http::HeaderError>(())
/// ```
#[derive(Debug)]
pub struct Response {
    /// The status.
    status: Status,
    /// The media type; empty for none. It is apart from the headers because the writer has prepared
    /// heads for media types.
    content_type: Cow<'static, str>,
    /// The other headers, which were checked.
    headers: Vec<(Cow<'static, str>, Cow<'static, [u8]>)>,
    /// The body, or its substitute.
    body: Payload,
}

/// The part of an answer after its head.
#[derive(Debug)]
pub(crate) enum Payload {
    /// A complete body.
    Whole(Body),
    /// A body that is produced while it is sent.
    Stream(BodyStream),
    /// No body: another protocol continues after the head.
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

    /// Returns a 200 with a body of this media type. A media type that cannot be sent in a header
    /// is left out when the answer is written.
    ///
    /// ```
    /// use marmota_http::Response;
    /// let csv = Response::with_body("text/csv", "id,name\n1,Ada\n");
    /// assert_eq!(csv.content_type(), "text/csv");
    /// ```
    pub fn with_body(content_type: impl Into<Cow<'static, str>>, body: impl Into<Body>) -> Self {
        let mut response = Self::new(Status::OK);
        response.content_type = content_type.into();
        response.body = Payload::Whole(body.into());
        response
    }

    /// Returns a 200 with a body of this media type that is produced while it is sent.
    ///
    /// ```
    /// use marmota_http::{BodyStream, Request, Response, Router, TestRequest};
    /// async fn lines(_: Request) -> Response {
    ///     let body = BodyStream::write(|mut out| async move {
    ///         out.send("a\n").await?;
    ///         out.send("b\n").await?;
    ///         Ok(())
    ///     });
    ///     Response::streamed("text/plain", body)
    /// }
    /// let router = Router::new().get("/", lines);
    /// assert_eq!(router.call(TestRequest::get("/"))?.text(), "a\nb\n");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn streamed(content_type: impl Into<Cow<'static, str>>, body: BodyStream) -> Self {
        let mut response = Self::new(Status::OK);
        response.content_type = content_type.into();
        response.body = Payload::Stream(body);
        response
    }

    /// Returns a 200 with plain text in UTF-8.
    ///
    /// ```
    /// use marmota_http::Response;
    /// let answer = Response::text("hello");
    /// assert_eq!(answer.content_type(), "text/plain; charset=utf-8");
    /// assert_eq!(answer.body().as_bytes(), b"hello");
    /// ```
    pub fn text(text: impl Into<Cow<'static, str>>) -> Self {
        Self::with_body("text/plain; charset=utf-8", cow_body(text.into()))
    }

    /// Returns a 200 with an HTML page in UTF-8. The text is sent as it is: escape values of users.
    ///
    /// ```
    /// use marmota_http::Response;
    /// assert_eq!(Response::html("<p>Hello</p>").content_type(), "text/html; charset=utf-8");
    /// ```
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
    ///
    /// ```
    /// use marmota_http::{Response, Status};
    /// assert_eq!(Response::from_status(Status::ACCEPTED).body().as_bytes(), b"Accepted");
    /// let error = Response::from_status(Status::CONFLICT);
    /// assert_eq!(error.content_type(), "application/problem+json");
    /// ```
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
    ///
    /// ```
    /// use marmota_http::{Response, Status};
    /// let answer = Response::json_bytes("{}").with_status(Status::CREATED);
    /// assert_eq!(answer.status(), Status::CREATED);
    /// ```
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
    /// An invalid name, a value with a control character such as CR or LF, or a header that only
    /// the server writes (`Content-Length`, `Transfer-Encoding`, `Connection`).
    pub fn with_header(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Cow<'static, str>>,
    ) -> Result<Self, HeaderError> {
        self.add_header(name.into(), text_bytes(value.into()))?;
        Ok(self)
    }

    /// Adds a header in place, with a value of any bytes; see [`Response::with_header`].
    ///
    /// ```
    /// use marmota_http::{Response, Status};
    /// let mut answer = Response::new(Status::OK);
    /// for cookie in [&b"a=1; HttpOnly"[..], b"b=2; HttpOnly"] {
    ///     answer.add_header("Set-Cookie".into(), cookie.into())?;
    /// }
    /// assert_eq!(answer.headers().count(), 2);
    /// # Ok::<(), marmota_http::HeaderError>(())
    /// ```
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

    /// Adds an ETag (`tag` without quotes), and answers 304 without a body if the request's
    /// `If-None-Match` has it, with `W/` or without (RFC 9110, 13.1.2). Only GET and HEAD are
    /// answered 304.
    ///
    /// ```
    /// use marmota_http::{HeaderError, Request, Response, Router, Status, TestRequest};
    /// async fn page(request: Request) -> Result<Response, HeaderError> {
    ///     Response::html("<p>Hello</p>").with_etag(&request, "7f3a")
    /// }
    /// let router = Router::new().get("/", page);
    /// let first = router.call(TestRequest::get("/"))?;
    /// assert_eq!(first.header("etag"), Some("\"7f3a\""));
    /// let second = router.call(TestRequest::get("/").header("If-None-Match", "\"7f3a\""))?;
    /// assert_eq!((second.status(), second.text()), (Status::NOT_MODIFIED, ""));
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    ///
    /// # Errors
    /// A tag with blanks, quotes or control characters.
    pub fn with_etag(mut self, request: &Request, tag: &str) -> Result<Self, HeaderError> {
        if tag.bytes().any(|byte| byte <= b' ' || byte == b'"') {
            let name = "ETag".to_owned();
            return Err(HeaderError { name, reason: "an ETag must not contain blanks or quotes" });
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

    /// Replaces the body and keeps the media type and the headers.
    ///
    /// ```
    /// use marmota_http::Response;
    /// let answer = Response::html("<p>a</p>").with_whole_body("<p>b</p>");
    /// assert_eq!(answer.body().as_bytes(), b"<p>b</p>");
    /// assert_eq!(answer.content_type(), "text/html; charset=utf-8");
    /// ```
    #[must_use]
    pub fn with_whole_body(mut self, body: impl Into<Body>) -> Self {
        self.body = Payload::Whole(body.into());
        self
    }

    /// Returns the status.
    ///
    /// ```
    /// use marmota_http::{Response, Status};
    /// assert_eq!(Response::text("a").status(), Status::OK);
    /// ```
    pub fn status(&self) -> Status {
        self.status
    }

    /// Returns the media type; empty for none.
    ///
    /// ```
    /// use marmota_http::{Response, Status};
    /// assert_eq!(Response::new(Status::OK).content_type(), "");
    /// ```
    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    /// Returns the value of the first header with this name. Case is ignored.
    ///
    /// ```
    /// use marmota_http::Response;
    /// let answer = Response::text("a").with_header("X-A", "1")?;
    /// assert_eq!(answer.header("x-a"), Some(&b"1"[..]));
    /// assert_eq!(answer.header("Content-Type"), Some(&b"text/plain; charset=utf-8"[..]));
    /// # Ok::<(), marmota_http::HeaderError>(())
    /// ```
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        if name.eq_ignore_ascii_case("content-type") {
            return Some(self.content_type.as_bytes()).filter(|value| !value.is_empty());
        }
        let mut headers = self.headers();
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Sets a header, in place of all headers with this name.
    ///
    /// ```
    /// use marmota_http::Response;
    /// let mut answer = Response::text("a").with_header("Cache-Control", "no-store")?;
    /// answer.set_header("cache-control", "max-age=60")?;
    /// assert!(answer.headers().eq([("cache-control", &b"max-age=60"[..])]));
    /// # Ok::<(), marmota_http::HeaderError>(())
    /// ```
    ///
    /// # Errors
    /// As [`with_header`](Self::with_header); nothing is changed then.
    pub fn set_header(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Cow<'static, str>>,
    ) -> Result<(), HeaderError> {
        let (name, value) = (name.into(), text_bytes(value.into()));
        check_header(&name, &value)?;
        self.remove_header(&name);
        self.add_header(name, value)
    }

    /// Removes all headers with this name. `Content-Length` and the other headers that the server
    /// writes by itself are not part of a response.
    ///
    /// ```
    /// use marmota_http::Response;
    /// let mut answer = Response::text("a").with_header("X-Powered-By", "a framework")?;
    /// answer.remove_header("x-powered-by");
    /// assert_eq!(answer.headers().count(), 0);
    /// # Ok::<(), marmota_http::HeaderError>(())
    /// ```
    pub fn remove_header(&mut self, name: &str) {
        if name.eq_ignore_ascii_case("content-type") {
            self.content_type = Cow::Borrowed("");
        }
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    }

    /// Returns the headers other than `Content-Type`, in order.
    ///
    /// ```
    /// use marmota_http::Response;
    /// let answer = Response::text("a").with_header("X-A", "1")?;
    /// assert!(answer.headers().eq([("X-A", &b"1"[..])]));
    /// # Ok::<(), marmota_http::HeaderError>(())
    /// ```
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.headers.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Returns the body; empty if it is a [`BodyStream`].
    ///
    /// ```
    /// use marmota_http::Response;
    /// assert_eq!(Response::text("abc").body().len(), 3);
    /// ```
    pub fn body(&self) -> &Body {
        static EMPTY: Body = Body::empty();
        match &self.body {
            Payload::Whole(body) => body,
            Payload::Stream(_) | Payload::UpgradedProtocol(_) => &EMPTY,
        }
    }

    /// Returns true if the body is produced while it is sent.
    ///
    /// ```
    /// use marmota_http::{BodyStream, Response};
    /// assert!(!Response::text("a").is_streamed());
    /// let (_sender, body) = BodyStream::channel(1024);
    /// assert!(Response::streamed("text/plain", body).is_streamed());
    /// ```
    pub fn is_streamed(&self) -> bool {
        matches!(self.body, Payload::Stream(_))
    }

    /// Returns a 101, after which the protocol with this name continues on the connection: the
    /// answer to a request whose `Upgrade` header names it (RFC 9110, 7.8). The handler checks that
    /// header. For WebSockets use [`Response::websocket`](crate::Response::websocket).
    ///
    /// ```
    /// use marmota_http::{Protocol, ProtocolStep, Response, Status, Turn};
    ///
    /// /// Sends back what arrives.
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

    /// Returns a 101 with a protocol that is boxed already.
    pub(crate) fn taken_over(name: &'static str, successor: UpgradedProtocol) -> Self {
        let mut response = Self::new(Status::SWITCHING_PROTOCOLS);
        response.headers.push(("Upgrade".into(), name.as_bytes().into()));
        response.body = Payload::UpgradedProtocol(successor);
        response
    }

    /// Returns an answer of parts that were checked already.
    pub(crate) fn of_parts(
        status: Status,
        content_type: Cow<'static, str>,
        headers: Vec<(Cow<'static, str>, Cow<'static, [u8]>)>,
        body: Payload,
    ) -> Self {
        Self { status, content_type, headers, body }
    }

    /// Returns the part after the head.
    pub(crate) fn into_payload(self) -> Payload {
        self.body
    }
}

/// Returns the bytes of a text.
fn text_bytes(text: Cow<'static, str>) -> Cow<'static, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// Returns a text as a body without a copy.
fn cow_body(text: Cow<'static, str>) -> Body {
    match text {
        Cow::Borrowed(text) => text.into(),
        Cow::Owned(text) => text.into(),
    }
}

/// Returns the response with the headers of layers added.
pub(crate) fn with_added(mut response: Response, headers: AddedHeaders) -> Response {
    for (name, value) in headers.into_inner() {
        // They were checked when they were added.
        let _ = response.add_header(name, value);
    }
    response
}

/// Returns a response that comes later with these headers added. It is written by another writer,
/// which does not have them.
pub(crate) fn later_with_added(response: LaterResponse, headers: AddedHeaders) -> LaterResponse {
    match headers.is_empty() {
        true => response,
        false => Box::pin(async move { with_added(response.await, headers) }),
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

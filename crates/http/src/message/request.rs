//! A request as a handler sees it: a handle on the read buffer of a connection, and the ranges of
//! its parts. Nothing is copied. The next request of a connection costs no allocation, because the
//! buffer, the ranges of headers and those of parameters are reused.
//!
//! The handle is `!Send`, like everything on a server thread. A handler may keep it as long as it
//! needs; the connection then takes a new buffer, and copies the bytes that belong to later
//! requests.

mod exchange;
mod extensions;

use std::borrow::Cow;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::proto::head::{Span, Version};
use crate::proto::method::Method;
use crate::proto::percent::{self, QueryParams};
use crate::proto::range::{self, RequestedRange};
use crate::socket::address::Peer;
pub(crate) use exchange::{Context, Exchange};

/// A request with its body: complete, or on a route with
/// [`Endpoint::streamed`](crate::Endpoint::streamed) read piece by piece by a
/// [`BodyReader`](crate::BodyReader).
///
/// A clone is another handle on the same request and costs a counter.
///
/// ```
/// use marmota_http::{Request, Response, Router, TestRequest};
/// async fn describe(request: Request) -> Response {
///     let agent = request.header_text("user-agent").unwrap_or("an unknown client");
///     Response::text(format!("{} {} by {agent}", request.method(), request.path()))
/// }
/// let router = Router::new().get("/a", describe);
/// let answer = router.call(TestRequest::get("/a?b=1").header("User-Agent", "test"))?;
/// assert_eq!(answer.text(), "GET /a by test");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Request(pub(crate) Rc<Exchange>);

impl Request {
    /// Returns the method. In the handler of a GET route it can be `Head`; the body of the answer
    /// is then not sent.
    ///
    /// ```
    /// use marmota_http::{Method, Request, Router, TestRequest};
    /// async fn report(request: Request) -> String {
    ///     match request.method() {
    ///         Method::Head => String::new(), // no need to make the body
    ///         _ => "a long report".to_owned(),
    ///     }
    /// }
    /// let router = Router::new().get("/report", report);
    /// assert_eq!(router.call(TestRequest::get("/report"))?.text(), "a long report");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn method(&self) -> Method {
        self.0.head.method
    }

    /// Returns the method's name as it was sent, for methods that [`Method`] does not have.
    ///
    /// ```
    /// use marmota_http::{Endpoint, Request, Router};
    /// async fn dav(request: Request) -> String {
    ///     match request.method_name() {
    ///         "PROPFIND" => "properties".to_owned(),
    ///         other => format!("no {other} here"),
    ///     }
    /// }
    /// let router = Router::new().any("/dav/{path:path}", Endpoint::future(dav));
    /// ```
    pub fn method_name(&self) -> &str {
        self.ascii(self.0.head.method_span)
    }

    /// Returns the request target as it was sent: path and query, or one of the other forms (RFC
    /// 9112, 3.2).
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    /// let router = Router::new()
    ///     .get("/a", |request: Request| async move { request.target().to_owned() });
    /// assert_eq!(router.call(TestRequest::get("/a?b=%20"))?.text(), "/a?b=%20");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn target(&self) -> &str {
        self.ascii(self.0.head.target)
    }

    /// Returns the path, percent-encoded. Default: `/`.
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    /// let router = Router::new()
    ///     .get("/{rest:path}", |request: Request| async move { request.path().to_owned() });
    /// assert_eq!(router.call(TestRequest::get("/a%20b/c?d=1"))?.text(), "/a%20b/c");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn path(&self) -> &str {
        match self.ascii(self.0.head.path) {
            "" => "/",
            path => path,
        }
    }

    /// Returns the decoded segments of the path: two for `/a/b`, an empty one for `/`.
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    /// async fn depth(request: Request) -> String {
    ///     request.segments().map(|segment| format!("[{segment}]")).collect()
    /// }
    /// let router = Router::new().get("/{rest:path}", depth);
    /// assert_eq!(router.call(TestRequest::get("/a%2Fb/c"))?.text(), "[a/b][c]");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn segments(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let path = self.path();
        path.strip_prefix('/')
            .unwrap_or(path)
            .split('/')
            .map(|segment| percent::decode(segment.as_bytes()))
    }

    /// Returns the query without its `?`, percent-encoded. Default: empty.
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    /// let router = Router::new()
    ///     .get("/", |request: Request| async move { request.query().to_owned() });
    /// assert_eq!(router.call(TestRequest::get("/?a=1&b=x+y"))?.text(), "a=1&b=x+y");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn query(&self) -> &str {
        self.0.head.query.map_or("", |span| self.ascii(span))
    }

    /// Returns the decoded pairs of the query in order.
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    /// async fn show(request: Request) -> String {
    ///     let mut lines = String::new();
    ///     for (name, value) in request.query_params() {
    ///         lines.push_str(&format!("{name} = {value}\n"));
    ///     }
    ///     lines
    /// }
    /// let router = Router::new().get("/", show);
    /// assert_eq!(router.call(TestRequest::get("/?a=1&b=x+y"))?.text(), "a = 1\nb = x y\n");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn query_params(&self) -> QueryParams<'_> {
        QueryParams::new(self.query())
    }

    /// Returns the decoded value of the first pair of the query with this name.
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    /// /// GET /search?q=marmot
    /// async fn search(request: Request) -> String {
    ///     let words = request.query_param("q").unwrap_or_default();
    ///     format!("searching for {words}")
    /// }
    /// let router = Router::new().get("/search", search);
    /// let answer = router.call(TestRequest::get("/search?q=marmot"))?;
    /// assert_eq!(answer.text(), "searching for marmot");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn query_param(&self, name: &str) -> Option<Cow<'_, str>> {
        self.query_params().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Returns the value of the first header with this name, as bytes. Case is ignored.
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    /// async fn length(request: Request) -> String {
    ///     request.header("X-Data").map_or(0, <[u8]>::len).to_string()
    /// }
    /// let router = Router::new().get("/", length);
    /// assert_eq!(router.call(TestRequest::get("/").header("x-data", [0xff, 0xfe]))?.text(), "2");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let buffer = &self.0.buffer;
        self.0
            .head
            .headers
            .iter()
            .find(|header| header.name.of(buffer).eq_ignore_ascii_case(name.as_bytes()))
            .map(|header| header.value.of(buffer))
    }

    /// Returns the value of the first header with this name, if it is UTF-8. Case is ignored.
    ///
    /// ```
    /// use marmota_http::{Request, Router, Status, TestRequest};
    /// async fn guarded(request: Request) -> Result<&'static str, Status> {
    ///     match request.header_text("x-key") {
    ///         Some("k7") => Ok("welcome"),
    ///         _ => Err(Status::UNAUTHORIZED),
    ///     }
    /// }
    /// let router = Router::new().get("/", guarded);
    /// assert_eq!(router.call(TestRequest::get("/").header("X-Key", "k7"))?.text(), "welcome");
    /// assert_eq!(router.call(TestRequest::get("/"))?.status(), Status::UNAUTHORIZED);
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn header_text(&self, name: &str) -> Option<&str> {
        self.header(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Returns all headers in order, with names as they were sent.
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    /// async fn cookies(request: Request) -> String {
    ///     let cookies = request.headers().filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
    ///     cookies.count().to_string()
    /// }
    /// let router = Router::new().get("/", cookies);
    /// let request = TestRequest::get("/").header("Cookie", "a=1").header("Cookie", "b=2");
    /// assert_eq!(router.call(request)?.text(), "2");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0
            .head
            .headers
            .iter()
            .map(|header| (self.ascii(header.name), header.value.of(&self.0.buffer)))
    }

    /// Returns the part of a representation that a GET wants (RFC 9110, 14): the whole of it, unless
    /// `Range` is understood and `If-Range`, if it is set, is `etag`. `length` is that of the
    /// representation in bytes.
    ///
    /// ```
    /// use marmota_http::{Request, RequestedRange, Router, TestRequest};
    /// async fn part(request: Request) -> String {
    ///     format!("{:?}", request.requested_range("\"v1\"", 10))
    /// }
    /// let router = Router::new().get("/", part);
    /// let answer = router.call(TestRequest::get("/").header("Range", "bytes=2-"))?;
    /// assert_eq!(answer.text(), "Part(2, 10)");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn requested_range(&self, etag: &str, length: u64) -> RequestedRange {
        let Some(range) = self.header_text("range") else { return RequestedRange::Whole };
        let is_same = self.header_text("if-range").is_none_or(|known| known.trim() == etag);
        match is_same && self.method() == Method::Get {
            true => range::wanted(range, length),
            false => RequestedRange::Whole,
        }
    }

    /// Returns the whole body. It is empty for a request without a body, and on a route that reads
    /// it in pieces ([`Endpoint::streamed`](crate::Endpoint::streamed)).
    ///
    /// ```
    /// use marmota_http::{Request, Router, Status, TestRequest};
    /// async fn upper(request: Request) -> Result<String, Status> {
    ///     let text = std::str::from_utf8(request.body()).map_err(|_| Status::BAD_REQUEST)?;
    ///     Ok(text.to_uppercase())
    /// }
    /// let router = Router::new().post("/upper", upper);
    /// assert_eq!(router.call(TestRequest::post("/upper").body("abc"))?.text(), "ABC");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn body(&self) -> &[u8] {
        self.0.body.of(&self.0.buffer)
    }

    /// Returns the decoded value of a parameter of the route's pattern; `None` if the pattern has
    /// no such parameter.
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    /// async fn greet(request: Request) -> String {
    ///     format!("Hello, {}!", request.param("name").unwrap_or_default())
    /// }
    /// let router = Router::new().get("/hello/{name}", greet);
    /// assert_eq!(router.call(TestRequest::get("/hello/Ada%20L."))?.text(), "Hello, Ada L.!");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn param(&self, name: &str) -> Option<Cow<'_, str>> {
        self.param_index(name).and_then(|index| self.param_at(index))
    }

    /// Returns the decoded value of the pattern's parameter number `index`, from 0. It saves the
    /// search for the name.
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    /// async fn join(request: Request) -> String {
    ///     let part = |index| request.param_at(index).unwrap_or_default();
    ///     format!("{}-{}", part(0), part(1))
    /// }
    /// let router = Router::new().get("/{a}/{b}", join);
    /// assert_eq!(router.call(TestRequest::get("/x/y"))?.text(), "x-y");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn param_at(&self, index: usize) -> Option<Cow<'_, str>> {
        Some(percent::decode(self.param_raw(index)?))
    }

    /// Returns a parameter of the kind `int` as a number; `None` if it does not fit an `i64`.
    ///
    /// ```
    /// use marmota_http::{Request, Router, Status, TestRequest};
    /// async fn double(request: Request) -> Result<String, Status> {
    ///     let number = request.param_int("n").ok_or(Status::NOT_FOUND)?;
    ///     Ok(number.saturating_mul(2).to_string())
    /// }
    /// let router = Router::new().get("/double/{n:int}", double);
    /// assert_eq!(router.call(TestRequest::get("/double/-4"))?.text(), "-8");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn param_int(&self, name: &str) -> Option<i64> {
        self.param_int_at(self.param_index(name)?)
    }

    /// Returns the pattern's parameter number `index` as a number, like [`Request::param_int`].
    ///
    /// ```
    /// use marmota_http::{Flow, Method, Router, TestRequest};
    /// let router = Router::new().direct(Method::Get, "/count/{n:int}", |request, out| {
    ///     let number = request.param_int_at(0).unwrap_or(0);
    ///     out.send("text/plain", (number + 1).to_string().as_bytes());
    ///     Flow::Done
    /// });
    /// assert_eq!(router.call(TestRequest::get("/count/41"))?.text(), "42");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn param_int_at(&self, index: usize) -> Option<i64> {
        std::str::from_utf8(self.param_raw(index)?).ok()?.parse().ok()
    }

    /// Returns the other end of the connection: the client, or the last proxy. For the client use
    /// [`Request::client_ip`].
    ///
    /// ```
    /// use marmota_http::{Peer, Request, Router, Status, TestRequest};
    /// async fn stop(request: Request) -> Result<&'static str, Status> {
    ///     match request.peer() {
    ///         Peer::Unix => Ok("stopping"),
    ///         _ => Err(Status::FORBIDDEN),
    ///     }
    /// }
    /// let router = Router::new().post("/stop", stop);
    /// assert_eq!(router.call(TestRequest::post("/stop").peer(Peer::Unix))?.text(), "stopping");
    /// assert_eq!(router.call(TestRequest::post("/stop"))?.status(), Status::FORBIDDEN);
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn peer(&self) -> Peer {
        self.0.peer
    }

    /// Returns true if the connection to this server uses TLS. [`Request::scheme`] also considers
    /// trusted proxies.
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    /// let router = Router::new()
    ///     .get("/", |request: Request| async move { request.is_encrypted().to_string() });
    /// assert_eq!(router.call(TestRequest::get("/"))?.text(), "false");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn is_encrypted(&self) -> bool {
        self.0.secured.is_some()
    }

    /// Returns the client's certificate (DER), if the server's TLS requests one
    /// ([`Tls::client_ca_file`](crate::Tls::client_ca_file)). It was verified in the handshake.
    ///
    /// ```
    /// use marmota_http::{Request, Status};
    /// async fn guarded(request: Request) -> Result<String, Status> {
    ///     let certificate = request.client_certificate().ok_or(Status::FORBIDDEN)?;
    ///     Ok(format!("a certificate of {} bytes", certificate.len()))
    /// }
    /// # marmota_http::Router::new().get("/", guarded);
    /// ```
    pub fn client_certificate(&self) -> Option<&[u8]> {
        self.0.secured.as_ref()?.certificate.as_deref()
    }

    /// Returns an id for logs and for other services: the header `X-Request-Id`, if it is up to 128
    /// letters, digits, `-`, `_`, `.` and `:`. Default: a new id, unique to this process and
    /// request.
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    /// let router = Router::new()
    ///     .get("/", |request: Request| async move { request.id().to_owned() });
    /// assert_eq!(router.call(TestRequest::get("/").header("X-Request-Id", "a-7"))?.text(), "a-7");
    /// assert_eq!(router.call(TestRequest::get("/"))?.text().len(), 25, "a new one");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn id(&self) -> &str {
        self.0.id.get_or_init(|| {
            let named = self.header_text("x-request-id").filter(|id| is_id(id));
            named.map_or_else(fresh_id, Box::from)
        })
    }

    /// Returns the client's version of HTTP.
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest, Version};
    /// let router = Router::new().get("/", |request: Request| async move {
    ///     (request.version() == Version::Http11).to_string()
    /// });
    /// assert_eq!(router.call(TestRequest::get("/"))?.text(), "true");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn version(&self) -> Version {
        self.0.head.version
    }

    /// Returns true if the client wants to keep the connection.
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    /// let router = Router::new()
    ///     .get("/", |request: Request| async move { request.keep_alive().to_string() });
    /// let answer = router.call(TestRequest::get("/").header("Connection", "close"))?;
    /// assert_eq!(answer.text(), "false");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn keep_alive(&self) -> bool {
        self.0.head.keep_alive
    }

    /// Returns a parameter, percent-encoded.
    pub(crate) fn param_raw(&self, index: usize) -> Option<&[u8]> {
        self.0.params.get(index).map(|span| span.of(&self.0.buffer))
    }

    /// Returns the names of the pattern's parameters, in its order.
    #[cfg(feature = "extract")]
    pub(crate) fn param_names(&self) -> &[String] {
        self.0.endpoint.map_or(&[], |endpoint| self.0.context.paths.param_names(endpoint))
    }

    /// Returns the index of the parameter with this name in the route's pattern.
    fn param_index(&self, name: &str) -> Option<usize> {
        self.0.context.paths.param_index(self.0.endpoint?, name)
    }

    /// Returns the text of a range that the parser of the head has found to be ASCII.
    fn ascii(&self, span: Span) -> &str {
        std::str::from_utf8(span.of(&self.0.buffer)).unwrap_or_default()
    }
}

/// Returns true if an `X-Request-Id` can be used: its length is limited, and it has only characters
/// that are safe in logs and headers.
fn is_id(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (1..=128).contains(&text.len()) && text.bytes().all(fits)
}

/// Returns an id that no other request has: a random number of this process, and a counter.
fn fresh_id() -> Box<str> {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let process = PROCESS.get_or_init(|| RandomState::new().hash_one(std::process::id()));
    format!("{process:016x}-{:08x}", NEXT.fetch_add(1, Ordering::Relaxed)).into()
}

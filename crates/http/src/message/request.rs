//! A request as a handler sees it: a handle on the connection's read buffer and the ranges in
//! it. Nothing is copied; making one for the next request of a connection costs no allocation,
//! because the buffer, the header ranges and the parameter ranges are used again.
//!
//! The handle is `!Send` like everything on a server thread. A handler may keep it as long as
//! it likes; the connection then takes a new buffer.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::body::body_buffer::BodyBuffer;
use crate::body::budget::Lease;
use crate::message::before_body::BeforeBody;
use crate::message::sites::Sites;
use crate::proto::head::{Head, Span, Version};
use crate::proto::method::Method;
use crate::proto::paths::PathTree;
use crate::proto::percent::{self, QueryParams};
use crate::socket::address::Peer;
use crate::socket::proxies::Proxies;
use crate::socket::socket_codec::TlsInfo;

/// A request with its body: whole, or on routes that ask for it as it comes
/// ([`crate::Endpoint::streamed`]) by a [`crate::BodyReader`].
#[derive(Clone, Debug)]
pub struct Request(pub(crate) Rc<Exchange>);

/// What is the same for all requests of a server.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) paths: PathTree,
    /// By endpoint: the least size in bytes of a body that is compressed; none is.
    #[cfg(feature = "compression")]
    pub(crate) compresses_from: Vec<Option<usize>>,
    /// Who may say for whom a request is.
    pub(crate) proxies: Proxies,
    /// The origins and hosts allowed in addition to the server's own.
    pub(crate) sites: Sites,
}

/// The read buffer of a connection and what is known about the request now served from it.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) buffer: Vec<u8>,
    /// Everything before this belongs to requests already answered.
    pub(crate) consumed: usize,
    pub(crate) head: Head,
    pub(crate) body: Span,
    /// Where the body is left as it comes, on a route that streams it.
    pub(crate) body_buffer: Option<Rc<BodyBuffer>>,
    /// Raw ranges of the route's parameters in the buffer, in the pattern's order.
    pub(crate) params: Vec<Span>,
    /// The matched endpoint of the routes, `None` while there is none.
    pub(crate) endpoint: Option<usize>,
    pub(crate) context: Arc<Context>,
    pub(crate) peer: Peer,
    /// What TLS says about the client, where it is spoken.
    pub(crate) secured: Option<Rc<TlsInfo>>,
    /// Its name, once somebody has asked for it.
    pub(crate) id: OnceCell<Box<str>>,
    /// True once a layer has allowed the origin that it names.
    pub(crate) origin_allowed: Cell<bool>,
    /// When its handler began, on the observers' clock; 0 if it has not.
    pub(crate) begun_us: Cell<u64>,
    /// What was found out about it before its handler runs.
    pub(crate) before_body: OnceCell<Rc<BeforeBody>>,
    /// What a body that did not come at once has of the budgets.
    pub(crate) lease: Option<Box<Lease>>,
}

impl Clone for Exchange {
    // Out of the way: the connection asks before each change whether it has to copy, and asking
    // is cheap only where it is inlined.
    #[cold]
    #[inline(never)]
    fn clone(&self) -> Self {
        Self {
            buffer: self.buffer.clone(),
            consumed: self.consumed,
            head: self.head.clone(),
            body: self.body,
            body_buffer: self.body_buffer.clone(),
            params: self.params.clone(),
            endpoint: self.endpoint,
            context: Arc::clone(&self.context),
            peer: self.peer,
            secured: self.secured.clone(),
            id: self.id.clone(),
            origin_allowed: self.origin_allowed.clone(),
            begun_us: self.begun_us.clone(),
            before_body: self.before_body.clone(),
            lease: None,
        }
    }
}

impl Exchange {
    pub(crate) fn new(context: Arc<Context>, peer: Peer) -> Self {
        Self {
            buffer: Vec::new(),
            consumed: 0,
            head: Head::default(),
            body: Span::default(),
            body_buffer: None,
            params: Vec::new(),
            endpoint: None,
            context,
            peer,
            secured: None,
            id: OnceCell::new(),
            origin_allowed: Cell::new(false),
            begun_us: Cell::new(0),
            before_body: OnceCell::new(),
            lease: None,
        }
    }

    /// Forgets what was found out about the request before.
    #[inline]
    pub(crate) fn forget(&mut self) {
        self.id.take();
        self.begun_us.set(0);
        self.before_body.take();
        self.lease = None;
        self.origin_allowed.set(false);
    }

    /// Bytes that belong to no answered request yet.
    pub(crate) fn unread(&self) -> usize {
        self.buffer.len() - self.consumed
    }

    /// Moves the unread bytes to the front of the buffer.
    pub(crate) fn compact(&mut self) {
        if self.consumed > 0 {
            self.buffer.drain(..self.consumed);
            self.consumed = 0;
        }
    }
}

impl Request {
    /// Returns the method. In the handler of a GET route it can be `Head`; the body of the answer is
    /// then not sent.
    pub fn method(&self) -> Method {
        self.0.head.method
    }

    /// Returns the method's name as it was sent, for methods that [`Method`] does not have.
    pub fn method_name(&self) -> &str {
        self.ascii(self.0.head.method_span)
    }

    /// Returns the request target as it was sent.
    pub fn target(&self) -> &str {
        self.ascii(self.0.head.target)
    }

    /// Returns the path, percent-encoded. Default: `/`.
    pub fn path(&self) -> &str {
        match self.ascii(self.0.head.path) {
            "" => "/",
            path => path,
        }
    }

    /// Returns the decoded segments of the path: two for `/a/b`, an empty one for `/`.
    pub fn segments(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let path = self.path();
        path.strip_prefix('/')
            .unwrap_or(path)
            .split('/')
            .map(|segment| percent::decode(segment.as_bytes()))
    }

    /// Returns the query without its `?`, percent-encoded. Default: empty.
    pub fn query(&self) -> &str {
        self.0.head.query.map_or("", |span| self.ascii(span))
    }

    /// Returns the decoded pairs of the query in order.
    ///
    /// ```
    /// use marmota_http::Request;
    /// async fn show(request: Request) -> String {
    ///     let mut lines = String::new();
    ///     for (name, value) in request.query_params() {
    ///         lines.push_str(&format!("{name} = {value}\n"));
    ///     }
    ///     lines
    /// }
    /// # marmota_http::Router::new().get("/", show);
    /// ```
    pub fn query_params(&self) -> QueryParams<'_> {
        QueryParams::new(self.query())
    }

    /// Returns the decoded value of the first pair of the query with this name.
    ///
    /// ```
    /// use marmota_http::Request;
    /// /// GET /search?q=marmot
    /// async fn search(request: Request) -> String {
    ///     let words = request.query_param("q").unwrap_or_default();
    ///     format!("searching for {words}")
    /// }
    /// # marmota_http::Router::new().get("/search", search);
    /// ```
    pub fn query_param(&self, name: &str) -> Option<Cow<'_, str>> {
        self.query_params().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Returns the value of the first header with this name. Case is ignored.
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
    /// use marmota_http::{Request, Status};
    /// async fn guarded(request: Request) -> Result<&'static str, Status> {
    ///     match request.header_text("x-key") {
    ///         Some("k7") => Ok("welcome"),
    ///         _ => Err(Status::UNAUTHORIZED),
    ///     }
    /// }
    /// # marmota_http::Router::new().get("/", guarded);
    /// ```
    pub fn header_text(&self, name: &str) -> Option<&str> {
        self.header(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Returns all headers in order, with names as they were sent.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0
            .head
            .headers
            .iter()
            .map(|header| (self.ascii(header.name), header.value.of(&self.0.buffer)))
    }

    /// Returns the whole body. It is empty for a request without a body, and on a route that reads it
    /// in pieces ([`crate::Endpoint::streamed`]).
    ///
    /// ```
    /// use marmota_http::{Request, Status};
    /// async fn upper(request: Request) -> Result<String, Status> {
    ///     let text = std::str::from_utf8(request.body()).map_err(|_| Status::BAD_REQUEST)?;
    ///     Ok(text.to_uppercase())
    /// }
    /// # marmota_http::Router::new().post("/upper", upper);
    /// ```
    pub fn body(&self) -> &[u8] {
        self.0.body.of(&self.0.buffer)
    }

    /// Returns the decoded value of a parameter of the route's pattern.
    ///
    /// ```
    /// use marmota_http::{Request, Router};
    /// async fn greet(request: Request) -> String {
    ///     format!("Hello, {}!", request.param("name").unwrap_or_default())
    /// }
    /// let router = Router::new().get("/hello/{name}", greet);
    /// ```
    pub fn param(&self, name: &str) -> Option<Cow<'_, str>> {
        self.param_index(name).and_then(|index| self.param_at(index))
    }

    /// Returns the decoded value of the pattern's parameter number `index`, from 0.
    pub fn param_at(&self, index: usize) -> Option<Cow<'_, str>> {
        Some(percent::decode(self.param_raw(index)?))
    }

    /// Returns a parameter of the kind `int` as a number; `None` if it does not fit an `i64`.
    ///
    /// ```
    /// use marmota_http::{Request, Router, Status};
    /// async fn double(request: Request) -> Result<String, Status> {
    ///     let number = request.param_int("n").ok_or(Status::NOT_FOUND)?;
    ///     Ok(number.saturating_mul(2).to_string())
    /// }
    /// let router = Router::new().get("/double/{n:int}", double);
    /// ```
    pub fn param_int(&self, name: &str) -> Option<i64> {
        self.param_int_at(self.param_index(name)?)
    }

    /// Returns the pattern's parameter number `index` as [`Request::param_int`] does.
    pub fn param_int_at(&self, index: usize) -> Option<i64> {
        std::str::from_utf8(self.param_raw(index)?).ok()?.parse().ok()
    }

    /// Returns the other end of the connection: the client, or the last proxy. For the client use
    /// [`Request::client_ip`].
    pub fn peer(&self) -> Peer {
        self.0.peer
    }

    /// Returns true if the connection to this server uses TLS. [`Request::scheme`] also trusts proxies.
    pub fn is_encrypted(&self) -> bool {
        self.0.secured.is_some()
    }

    /// Returns the client's verified certificate (DER), if the server's [`crate::Server::tls`] requests
    /// one.
    pub fn client_certificate(&self) -> Option<&[u8]> {
        self.0.secured.as_ref()?.certificate.as_deref()
    }

    /// Returns an id for logs and for other services: the header `X-Request-Id`, if it is up to 128
    /// letters, digits, `-`, `_`, `.` and `:`. Default: a new id.
    pub fn id(&self) -> &str {
        self.0.id.get_or_init(|| {
            let named = self.header_text("x-request-id").filter(|id| is_id(id));
            named.map_or_else(fresh_id, Box::from)
        })
    }

    /// Returns the client's version of HTTP.
    pub fn version(&self) -> Version {
        self.0.head.version
    }

    /// Returns true if the client wants to keep the connection.
    pub fn keep_alive(&self) -> bool {
        self.0.head.keep_alive
    }

    pub(crate) fn param_raw(&self, index: usize) -> Option<&[u8]> {
        self.0.params.get(index).map(|span| span.of(&self.0.buffer))
    }

    /// Returns the names of the pattern's parameters, in its order.
    #[cfg(feature = "extract")]
    pub(crate) fn param_names(&self) -> &[String] {
        self.0.endpoint.map_or(&[], |endpoint| self.0.context.paths.param_names(endpoint))
    }

    fn param_index(&self, name: &str) -> Option<usize> {
        self.0.context.paths.param_index(self.0.endpoint?, name)
    }

    /// Text of a range that the head's parser has found to be ASCII.
    fn ascii(&self, span: Span) -> &str {
        std::str::from_utf8(span.of(&self.0.buffer)).unwrap_or_default()
    }

    /// Leaves a value with the request, for its handler to find: who makes it, as
    /// [`crate::Endpoint::before_body`] has found out. A request has room for one; a second is
    /// given back.
    ///
    /// # Errors
    /// The value, if another was left before.
    pub fn set_extension<T: 'static>(&self, value: T) -> Result<(), T> {
        let slot = &self.0.before_body.get_or_init(Rc::default).extension;
        if slot.get().is_some() {
            return Err(value);
        }
        let _ = slot.set(Box::new(value));
        Ok(())
    }

    /// The value that [`Request::set_extension`] has left, if it is one of this type.
    pub fn extension<T: 'static>(&self) -> Option<&T> {
        self.0.before_body.get()?.extension.get()?.downcast_ref()
    }
}

fn is_id(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (1..=128).contains(&text.len()) && text.bytes().all(fits)
}

/// A name that no other request has: this process' own, and a number.
fn fresh_id() -> Box<str> {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let process = PROCESS.get_or_init(|| RandomState::new().hash_one(std::process::id()));
    format!("{process:016x}-{:08x}", NEXT.fetch_add(1, Ordering::Relaxed)).into()
}

//! A request made in the process: a builder that keeps method, target, headers and body, and writes
//! them as the head of an HTTP/1.1 request. Nothing is checked before the call: a test may send
//! what a client should not.

use std::net::{Ipv4Addr, SocketAddr};

use crate::in_process::error::CallError;
use crate::proto::method::Method;
use crate::socket::address::Peer;

/// A request for [`Router::call`](crate::Router::call). Default: from 127.0.0.1, with `Host:
/// localhost`, without a body.
///
/// ```
/// use marmota_http::{Request, Router, TestRequest};
///
/// async fn length(request: Request) -> String {
///     request.body().len().to_string()
/// }
///
/// let router = Router::new().post("/length", length);
/// let answer = router.call(TestRequest::post("/length").body("abc"))?;
/// assert_eq!(answer.text(), "3");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TestRequest {
    method: Method,
    /// The path with the query, percent-encoded.
    target: String,
    /// In the order of the calls; a name may occur several times.
    headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Vec<u8>,
    /// Bytes of the body that a handler which reads it as it arrives gets at a time.
    pub(super) piece_bytes: usize,
    pub(super) peer: Peer,
    /// The reason why a value could not be written as the body.
    fault: Option<String>,
}

macro_rules! methods {
    ($($name:ident $method:ident)*) => {
        $(#[doc = concat!("Returns a ", stringify!($method), " of this path and query.")]
        pub fn $name(target: impl Into<String>) -> Self {
            Self::new(Method::$method, target)
        })*
    };
}

impl TestRequest {
    /// Returns a request of this method and target: a path with an optional query, percent-encoded.
    ///
    /// ```
    /// use marmota_http::{Method, Router, TestRequest};
    ///
    /// let router = Router::new().get("/", |_| async { "text" });
    /// let answer = router.call(TestRequest::new(Method::Head, "/"))?;
    /// assert_eq!((answer.header("content-length"), answer.text()), (Some("4"), ""));
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn new(method: Method, target: impl Into<String>) -> Self {
        Self {
            method,
            target: target.into(),
            headers: Vec::new(),
            body: Vec::new(),
            piece_bytes: usize::MAX,
            peer: Peer::Net(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            fault: None,
        }
    }

    methods! { get Get post Post put Put patch Patch delete Delete }

    /// Adds a header; it may occur several times. `Host` and `Content-Type` replace those that are
    /// set otherwise.
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    ///
    /// async fn language(request: Request) -> String {
    ///     request.header_text("accept-language").unwrap_or("none").to_owned()
    /// }
    ///
    /// let router = Router::new().get("/", language);
    /// let answer = router.call(TestRequest::get("/").header("Accept-Language", "de"))?;
    /// assert_eq!(answer.text(), "de");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets the body. `Content-Length` is added, `Content-Type` is not.
    ///
    /// ```
    /// use marmota_http::{Request, Router, TestRequest};
    ///
    /// async fn kind(request: Request) -> String {
    ///     format!("{:?} {}", request.header_text("content-type"), request.body().len())
    /// }
    ///
    /// let router = Router::new().put("/", kind);
    /// let request = TestRequest::put("/").header("Content-Type", "text/csv").body("a,b\n1,2\n");
    /// assert_eq!(router.call(request)?.text(), "Some(\"text/csv\") 8");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Delivers the body in pieces of this many bytes, at least 1, to a handler that reads it as
    /// it arrives ([`Endpoint::streamed`](crate::Endpoint::streamed)). It gets the next piece when
    /// it waits for more. Default: all at once.
    ///
    /// ```
    /// use marmota_http::{BodyError, Endpoint, Method, Request, Router, TestRequest};
    ///
    /// async fn pieces(request: Request) -> Result<String, BodyError> {
    ///     let (mut reader, mut lengths) = (request.reader(), Vec::new());
    ///     loop {
    ///         match reader.read(&mut Vec::new()).await? {
    ///             0 => return Ok(format!("{lengths:?}")),
    ///             length => lengths.push(length),
    ///         }
    ///     }
    /// }
    ///
    /// let router = Router::new().on(Method::Put, "/", Endpoint::future(pieces).streamed(100));
    /// let answer = router.call(TestRequest::put("/").body("abcdefg").piece_bytes(3))?;
    /// assert_eq!(answer.text(), "[3, 3, 1]");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[must_use]
    pub fn piece_bytes(mut self, bytes: usize) -> Self {
        self.piece_bytes = bytes.max(1);
        self
    }

    /// Sets the body to a value as JSON, and `Content-Type: application/json` if none is set. A
    /// value that cannot be written as JSON fails the call with [`CallError::Request`].
    ///
    /// ```
    /// use marmota_http::extract::Json;
    /// use marmota_http::{Router, TestRequest};
    ///
    /// async fn sum(Json(numbers): Json<Vec<u32>>) -> String {
    ///     numbers.iter().sum::<u32>().to_string()
    /// }
    ///
    /// let router = Router::with_state(()).post("/sum", sum);
    /// assert_eq!(router.call(TestRequest::post("/sum").json(&[1, 2, 3]))?.text(), "6");
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[cfg(feature = "extract")]
    #[must_use]
    pub fn json(mut self, value: &(impl serde::Serialize + ?Sized)) -> Self {
        match serde_json::to_vec(value) {
            Ok(json) => self.body = json,
            Err(error) => self.fault = Some(format!("the value is not JSON: {error}")),
        }
        match self.has("content-type") {
            true => self,
            false => self.header("Content-Type", "application/json"),
        }
    }

    /// Sets the address of the client, for tests of limits by address. Default: 127.0.0.1.
    ///
    /// ```
    /// use marmota_http::{Peer, RateLimit, Router, Status, TestRequest};
    ///
    /// let router = Router::new().get("/", |_| async { "ok" }).layer(RateLimit::per_address(0.1, 1));
    /// let from = |address: &str| {
    ///     TestRequest::get("/").peer(Peer::Net(address.parse().expect("an address")))
    /// };
    /// assert_eq!(router.call(from("192.0.2.1:1000"))?.status(), Status::OK);
    /// assert_eq!(router.call(from("192.0.2.1:2000"))?.status(), Status::TOO_MANY_REQUESTS);
    /// assert_eq!(router.call(from("192.0.2.2:1000"))?.status(), Status::OK);
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    #[must_use]
    pub fn peer(mut self, peer: Peer) -> Self {
        self.peer = peer;
        self
    }

    /// Returns true if a header of this name was added.
    fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// Returns the head in the format of HTTP/1.1.
    pub(super) fn head(&self) -> Result<Vec<u8>, CallError> {
        if let Some(fault) = &self.fault {
            return Err(CallError::Request(fault.clone()));
        }
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method.name(), self.target).into_bytes();
        let mut line = |name: &str, value: &[u8]| {
            text.extend_from_slice(name.as_bytes());
            text.extend_from_slice(b": ");
            text.extend_from_slice(value);
            text.extend_from_slice(b"\r\n");
        };
        if !self.has("host") {
            line("Host", b"localhost");
        }
        for (name, value) in &self.headers {
            line(name, value);
        }
        if !self.body.is_empty() {
            line("Content-Length", self.body.len().to_string().as_bytes());
        }
        text.extend_from_slice(b"\r\n");
        Ok(text)
    }
}

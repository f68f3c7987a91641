//! A request made in the process.

use std::net::{Ipv4Addr, SocketAddr};

use crate::in_process::error::CallError;
use crate::proto::method::Method;
use crate::socket::address::Peer;

/// A request for [`Router::call`](crate::Router::call). Default: from 127.0.0.1, with
/// `Host: localhost`, without a body.
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
    target: String,
    headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Vec<u8>,
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
    pub fn new(method: Method, target: impl Into<String>) -> Self {
        Self {
            method,
            target: target.into(),
            headers: Vec::new(),
            body: Vec::new(),
            peer: Peer::Net(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            fault: None,
        }
    }

    methods! { get Get post Post put Put patch Patch delete Delete }

    /// Adds a header. `Host` and `Content-Type` replace those that are set otherwise.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets the body. `Content-Length` is added.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets the body to a value as JSON, and `Content-Type` if it is not set.
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

    /// Sets the client, for tests of limits by address.
    #[must_use]
    pub fn peer(mut self, peer: Peer) -> Self {
        self.peer = peer;
        self
    }

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

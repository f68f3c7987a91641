//! The request methods that have a name here (RFC 9110, 9, and PATCH of RFC 5789).
//!
//! All other methods are [`Method::Other`]. Only an endpoint of
//! [`Router::any`](crate::Router::any), a mounted service or a fallback receives them; other paths
//! answer 501.

use std::fmt;

/// A request method.
///
/// ```
/// use marmota_http::{Endpoint, Method, Request, Router, TestRequest};
/// async fn name(request: Request) -> String {
///     request.method().to_string()
/// }
/// let router = Router::new().on(Method::Put, "/a", Endpoint::future(name));
/// assert_eq!(router.call(TestRequest::put("/a"))?.text(), "PUT");
/// assert_eq!(router.call(TestRequest::post("/a"))?.status().code(), 405);
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Method {
    /// Reads a resource. Safe: it changes nothing.
    #[default]
    Get,
    /// Reads a resource's head. Default: the handler of GET answers, and its body is not sent.
    Head,
    /// Passes data to a resource.
    Post,
    /// Replaces a resource.
    Put,
    /// Changes a part of a resource (RFC 5789).
    Patch,
    /// Removes a resource.
    Delete,
    /// Requests the methods of a resource. Default: the router answers 204 with `Allow`.
    Options,
    /// Requests that the server returns the request. It is answered only by a route of it,
    /// otherwise by 405.
    Trace,
    /// Opens a tunnel. It is answered only by a route of it, otherwise by 501.
    Connect,
    /// A method without a name here; [`Request::method_name`](crate::Request::method_name) has it.
    Other,
}

impl Method {
    /// The number of methods with a name, without [`Method::Other`].
    pub(crate) const NAMED: usize = 9;

    /// The named methods, in the order of the `Allow` header.
    pub(crate) const ALL: [Method; Self::NAMED] = [
        Method::Get,
        Method::Head,
        Method::Post,
        Method::Put,
        Method::Patch,
        Method::Delete,
        Method::Options,
        Method::Trace,
        Method::Connect,
    ];

    /// Returns the method with this name, as it is sent. Names are case-sensitive (RFC 9110, 9.1).
    ///
    /// ```
    /// use marmota_http::Method;
    /// assert_eq!(Method::from_name(b"PATCH"), Method::Patch);
    /// assert_eq!(Method::from_name(b"patch"), Method::Other);
    /// ```
    pub fn from_name(name: &[u8]) -> Self {
        match name {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"PATCH" => Self::Patch,
            b"DELETE" => Self::Delete,
            b"OPTIONS" => Self::Options,
            b"TRACE" => Self::Trace,
            b"CONNECT" => Self::Connect,
            _ => Self::Other,
        }
    }

    /// Returns the name as it is sent, or `"?"` for [`Method::Other`].
    ///
    /// ```
    /// use marmota_http::Method;
    /// assert_eq!(Method::Delete.name(), "DELETE");
    /// assert_eq!(Method::Other.name(), "?");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
            Self::Trace => "TRACE",
            Self::Connect => "CONNECT",
            Self::Other => "?",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

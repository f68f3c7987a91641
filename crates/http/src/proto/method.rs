//! The request methods the server knows. Anything else is [`Method::Other`]: only a mounted
//! service or a fallback sees it, a plain route answers 501.

use std::fmt;

/// A request method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Method {
    /// Read a resource.
    #[default]
    Get,
    /// Read a resource's head; answered from the GET handler, without the body.
    Head,
    /// Hand data to a resource.
    Post,
    /// Replace a resource.
    Put,
    /// Change a part of a resource.
    Patch,
    /// Remove a resource.
    Delete,
    /// Ask what a resource can do; answered by the router unless a route does.
    Options,
    /// Loop the request back; never answered by itself.
    Trace,
    /// Open a tunnel; never answered by itself.
    Connect,
    /// A method this server has no name for.
    Other,
}

impl Method {
    /// How many methods have a name of their own, [`Method::Other`] left out.
    pub(crate) const NAMED: usize = 9;

    /// The named methods in the order in which `Allow` lists them.
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

    /// The method of a name as it stands on the wire; names are case-sensitive.
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

    /// The name on the wire, `"?"` for [`Method::Other`].
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

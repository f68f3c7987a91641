//! Errors of starting and running a server. They are for the operator, so each message names the
//! setting and a way out. An error of a request is an answer, and is never one of these.

use std::fmt;
use std::io;

use crate::message::sites::SiteError;
use crate::reactor::backend::{BackendError, VARIABLE};
use crate::routing::router::RouteError;
use crate::socket::bound::BindError;
use crate::socket::proxies::ProxyError;
#[cfg(feature = "tls")]
use crate::socket::tls::TlsError;

/// The reason why a server cannot start, or has ended early.
///
/// ```
/// use marmota_http::{Router, Server, ServerError};
///
/// let server = Server::bind("127.0.0.1:0")?.listeners(0);
/// let error = server.start(Router::new()).expect_err("0 listeners");
/// assert!(matches!(error, ServerError::Count("listeners")));
/// assert!(matches!(Server::bind("nowhere"), Err(ServerError::Bind { .. })));
/// # Ok::<(), ServerError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// The address is malformed, in use, or not allowed for this process.
    Bind {
        /// The address as it was passed.
        address: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A route is malformed or conflicts with another.
    Route(RouteError),
    /// The name for the `Server` header has a control character.
    Name(String),
    /// The named number, [`crate::Server::threads_per_listener`] or
    /// [`crate::Server::listeners`], is 0.
    Count(&'static str),
    /// The environment variable `MARMOTA_HTTP_BACKEND` names an unknown backend.
    Backend(String),
    /// [`Backend::Ring`](crate::Backend::Ring) is set, and the system has no io_uring or does not
    /// allow it.
    Ring(io::Error),
    /// A trusted proxy is neither an address nor a network nor `unix`.
    Proxy(ProxyError),
    /// An allowed origin or host is malformed.
    Site(SiteError),
    /// A certificate or key cannot be read or used.
    #[cfg(feature = "tls")]
    Tls(TlsError),
    /// The system refused something that a server thread needs, or a thread has failed.
    Thread(io::Error),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { address, source } => {
                let way_out = match source.kind() {
                    io::ErrorKind::InvalidInput => {
                        "write it such as 127.0.0.1:8080 or unix:/run/service.sock"
                    }
                    _ => "choose another address, or stop the program that uses it",
                };
                write!(f, "cannot listen on {address}: {source}; {way_out}")
            }
            Self::Route(error) => error.fmt(f),
            Self::Name(name) => {
                write!(f, "server name {name:?} has a control character; choose another")
            }
            Self::Count(name) => {
                write!(f, "`{name}` is 0; set at least 1, or leave `{name}` out for the default")
            }
            Self::Backend(value) => {
                write!(
                    f,
                    "{VARIABLE}={value:?}: unknown backend; use ring, epoll, portable or auto"
                )
            }
            Self::Ring(error) => {
                write!(
                    f,
                    "io_uring cannot be used: {error}; io_uring needs Linux 6.1 and permission; \
                     use Backend::Auto or Backend::Epoll instead"
                )
            }
            Self::Proxy(error) => error.fmt(f),
            Self::Site(error) => error.fmt(f),
            #[cfg(feature = "tls")]
            Self::Tls(error) => error.fmt(f),
            Self::Thread(error) => write!(f, "a server thread has failed: {error}"),
        }
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Bind { source, .. } | Self::Ring(source) | Self::Thread(source) => Some(source),
            Self::Route(error) => Some(error),
            Self::Proxy(error) => Some(error),
            Self::Site(error) => Some(error),
            #[cfg(feature = "tls")]
            Self::Tls(error) => Some(error),
            Self::Name(_) | Self::Count(_) | Self::Backend(_) => None,
        }
    }
}

impl From<RouteError> for ServerError {
    fn from(error: RouteError) -> Self {
        Self::Route(error)
    }
}

impl From<SiteError> for ServerError {
    fn from(error: SiteError) -> Self {
        Self::Site(error)
    }
}

impl From<ProxyError> for ServerError {
    fn from(error: ProxyError) -> Self {
        Self::Proxy(error)
    }
}

#[cfg(feature = "tls")]
impl From<TlsError> for ServerError {
    fn from(error: TlsError) -> Self {
        Self::Tls(error)
    }
}

impl From<BindError> for ServerError {
    fn from(BindError { address, source }: BindError) -> Self {
        Self::Bind { address, source }
    }
}

impl From<BackendError> for ServerError {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::Unknown(name) => Self::Backend(name),
            BackendError::Ring(error) => Self::Ring(error),
            BackendError::Poller(error) => Self::Thread(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_backend_is_named_with_those_that_there_are() {
        let error = ServerError::from(BackendError::Unknown("io_uring".to_owned())).to_string();
        assert!(error.contains("io_uring") && error.contains("use ring"), "{error}");
    }
}

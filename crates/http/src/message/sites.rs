//! The origins and hosts that a server allows in addition to its own
//! ([`Server::allowed_origins`](crate::Server::allowed_origins),
//! [`Server::allowed_hosts`](crate::Server::allowed_hosts)), for [`crate::message::same_origin`].

use std::fmt;

/// The origins and hosts that are allowed in addition to a server's own. Both are compared without
/// case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sites {
    /// Origins: scheme, host and port.
    origins: Vec<String>,
    /// Names of hosts, without ports.
    hosts: Vec<String>,
}

/// An allowed origin or host that does not have the required form. The error contains the text and
/// the form. [`Server::start`](crate::Server::start) returns it as a
/// [`ServerError`](crate::ServerError).
///
/// ```
/// use marmota_http::{Router, Server};
/// let server = Server::bind("127.0.0.1:0")?.allowed_origins(["app.example.org"]);
/// let error = server.start(Router::new()).unwrap_err();
/// assert!(error.to_string().contains("\"app.example.org\" is not an origin"), "{error}");
/// # Ok::<(), marmota_http::ServerError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteError {
    /// The text, as it was given.
    named: String,
    /// The form that is required, with an example.
    form: &'static str,
}

impl fmt::Display for SiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not {}", self.named, self.form)
    }
}

impl std::error::Error for SiteError {}

impl Sites {
    /// Adds origins.
    ///
    /// # Errors
    /// The first one that is not a scheme, a host and an optional port.
    pub(crate) fn allow_origins<N: AsRef<str>>(
        &mut self,
        origins: impl IntoIterator<Item = N>,
    ) -> Result<(), SiteError> {
        for origin in origins {
            let origin = origin.as_ref();
            let is_origin = origin.split_once("://").is_some_and(|(scheme, host)| {
                !scheme.is_empty()
                    && !host.is_empty()
                    && host.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#@*".contains(&byte))
            });
            if !is_origin {
                let form = "an origin: scheme, host and port, as https://app.example.org";
                return Err(SiteError { named: origin.to_owned(), form });
            }
            self.origins.push(origin.to_owned());
        }
        Ok(())
    }

    /// Adds hosts.
    ///
    /// # Errors
    /// The first one that is not the name of a host without a port.
    pub(crate) fn allow_hosts<N: AsRef<str>>(
        &mut self,
        hosts: impl IntoIterator<Item = N>,
    ) -> Result<(), SiteError> {
        for host in hosts {
            let host = host.as_ref();
            let fits = |byte: u8| byte.is_ascii_graphic() && !b"/?#@*:".contains(&byte);
            if host.is_empty() || !host.bytes().all(fits) {
                let form = "the name of a host without a port, as app.example.org";
                return Err(SiteError { named: host.to_owned(), form });
            }
            self.hosts.push(host.to_owned());
        }
        Ok(())
    }

    /// Returns true if an origin is allowed.
    pub(super) fn has_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }

    /// Returns true if a host, with or without a port, is allowed.
    pub(super) fn has_host(&self, host: &str) -> bool {
        let name = split_port(host).0;
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Splits the value of a `Host` header into the host and its port, if it has one.
pub(super) fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, Some(port)),
        _ => (host, None),
    }
}

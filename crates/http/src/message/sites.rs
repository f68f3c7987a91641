//! The origins and hosts that a server allows in addition to its own.

use std::fmt;

/// The origins and hosts that are allowed in addition to a server's own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sites {
    origins: Vec<String>,
    hosts: Vec<String>,
}

/// An allowed origin or host that is not of the form required.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteError {
    named: String,
    form: &'static str,
}

impl fmt::Display for SiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not {}", self.named, self.form)
    }
}

impl std::error::Error for SiteError {}

impl Sites {
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

    pub(super) fn has_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }

    pub(super) fn has_host(&self, host: &str) -> bool {
        let name = split_port(host).0;
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// A host and its port, if it names one.
pub(super) fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, Some(port)),
        _ => (host, None),
    }
}

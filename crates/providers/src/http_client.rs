//! Requests to providers: deadlines, limits of size, no redirects, and https unless the server is this
//! machine.

use std::time::Duration;

use marmota_model::text::excerpt;
use marmota_model::{Error, ErrorKind, Result};
use serde_json::Value;
use ureq::Agent;
use ureq::config::Config;
use ureq::http::Response;
use ureq::tls::{RootCerts, TlsConfig};
use url::{Host, Url};

/// The maximum time of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of an answer.
const ANSWER_BYTES_MAX: u64 = 512 * 1024;

/// The HTTP client for providers.
#[derive(Clone)]
pub(crate) struct HttpClient(Agent);

impl HttpClient {
    pub(crate) fn new() -> Self {
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let config = Config::builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(TIMEOUT))
            .max_response_header_size(16 * 1024)
            .user_agent(concat!("Marmota/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls)
            .build();
        Self(Agent::new_with_config(config))
    }

    /// Reads a JSON document, with an access token if the server needs one.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] without an answer in time, or for an answer that is not a JSON document.
    pub(crate) fn get(&self, url: &str, token: Option<&str>) -> Result<Value> {
        check_url(url)?;
        let mut request = self.0.get(url).header("accept", "application/json");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let (status, body) = read(url, request.call())?;
        match (200..300).contains(&status) {
            true => Ok(body),
            false => Err(failed(url, &format!("it answered {status}"))),
        }
    }

    /// Sends a form, and returns the status and the JSON document of the answer.
    ///
    /// # Errors
    /// As [`HttpClient::get`], except that each status is returned.
    pub(crate) fn post(
        &self,
        url: &str,
        form: &[(&str, &str)],
        authorization: Option<&str>,
    ) -> Result<(u16, Value)> {
        check_url(url)?;
        let mut request = self.0.post(url).header("accept", "application/json");
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        read(url, request.send_form(form.iter().copied()))
    }
}

fn read(
    url: &str,
    answer: std::result::Result<Response<ureq::Body>, ureq::Error>,
) -> Result<(u16, Value)> {
    let mut answer = answer.map_err(|error| failed(url, &error.to_string()))?;
    let status = answer.status().as_u16();
    let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
    let body = body.map_err(|error| failed(url, &error.to_string()))?;
    let json = serde_json::from_slice(&body);
    json.map(|json| (status, json)).map_err(|_| {
        failed(url, &format!("it answered {status} with something that is not a JSON document"))
    })
}

/// Checks that a URL is encrypted, unless it is one of this machine.
///
/// # Errors
/// [`ErrorKind::Invalid`] for another one.
pub(crate) fn check_url(url: &str) -> Result<Url> {
    let parsed = Url::parse(url).ok().filter(|parsed| {
        let is_local = match parsed.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        parsed.scheme() == "https" || (parsed.scheme() == "http" && is_local)
    });
    parsed.ok_or_else(|| {
        let message = format!("{} must be a URL that begins with https://", excerpt(url));
        Error::new(ErrorKind::Invalid, message)
    })
}

/// The error of a provider that cannot be used now. The details are for the log.
#[cold]
pub(crate) fn failed(url: &str, why: &str) -> Error {
    let host = Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned));
    let host = host.unwrap_or_else(|| excerpt(url));
    log::warn!("{host} cannot be used for sign-in: {why}");
    Error::new(ErrorKind::Io, format!("{host} cannot be reached; try again later"))
        .with_source(why.to_owned())
}

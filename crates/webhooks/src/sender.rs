//! Sending one request: addresses, deadlines, limits, and the result.

use std::time::Duration;

use marmota_model::text::excerpt;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Error};

use crate::address::is_public;
use crate::secret::WebhookSecret;

/// The maximum number of bytes that are read of an answer. More end the connection.
const ANSWER_BYTES_MAX: u64 = 16 * 1024;
/// The maximum number of characters of an answer in the error of a delivery.
const ANSWER_CHARS_MAX: usize = 200;

/// The HTTP client of a worker.
pub(crate) struct Sender(Agent);

/// Why an attempt has failed.
pub(crate) struct Failure {
    /// The status of the answer; `None` if there was no answer.
    pub(crate) status: Option<u16>,
    pub(crate) error: String,
}

/// A request.
pub(crate) struct Message<'m> {
    pub(crate) id: &'m str,
    /// Seconds since 1970.
    pub(crate) seconds: i64,
    pub(crate) body: &'m str,
}

impl Sender {
    pub(crate) fn new(timeout: Duration, allows_private: bool) -> Self {
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let config = Config::builder()
            .http_status_as_error(false)
            .https_only(!allows_private)
            .max_redirects(0)
            // A proxy of the environment would connect to addresses that are not checked here.
            .proxy(None)
            .timeout_global(Some(timeout))
            .max_response_header_size(16 * 1024)
            .user_agent(concat!("Marmota-Webhooks/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls)
            .build();
        let resolver = PublicResolver { resolver: DefaultResolver::default(), allows_private };
        Self(Agent::with_parts(config, DefaultConnector::default(), resolver))
    }

    /// Sends a message. Returns the status of an answer that acknowledges it (2xx).
    pub(crate) fn send(
        &self,
        url: &str,
        secret: &WebhookSecret,
        message: &Message<'_>,
    ) -> Result<u16, Failure> {
        let signature = secret.sign(message.id, message.seconds, message.body.as_bytes());
        let answer = self
            .0
            .post(url)
            .header("content-type", "application/json")
            .header("webhook-id", message.id)
            .header("webhook-timestamp", message.seconds.to_string())
            .header("webhook-signature", signature)
            .send(message.body);
        let mut answer =
            answer.map_err(|error| Failure { status: None, error: text_of(&error) })?;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).lossy_utf8(true);
        // A connection whose answer was read is used again. An answer that is cut off is one.
        let body = body.read_to_string().unwrap_or_default();
        if status.is_success() {
            return Ok(status.as_u16());
        }
        let shown: String = body.chars().take(ANSWER_CHARS_MAX).collect();
        let error = match shown.trim() {
            "" => format!("the receiver answered {status}"),
            shown => format!("the receiver answered {status}: {shown}"),
        };
        Err(Failure { status: Some(status.as_u16()), error })
    }
}

/// Returns the text of an error of the client.
fn text_of(error: &Error) -> String {
    match error {
        Error::HostNotFound => "the name of the host has no address".to_owned(),
        Error::Timeout(of) => format!("no answer in time ({of})"),
        Error::RequireHttpsOnly(url) => format!(
            "{url} is not https: use an https URL, or permit others (--webhook-allow-private)"
        ),
        error => error.to_string(),
    }
}

/// A resolver that returns public addresses only. Connections are made to what it returns, so a
/// name cannot have another address afterwards.
#[derive(Debug)]
struct PublicResolver {
    resolver: DefaultResolver,
    allows_private: bool,
}

impl Resolver for PublicResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let all = self.resolver.resolve(uri, config, timeout)?;
        if self.allows_private {
            return Ok(all);
        }
        let mut public = self.empty();
        for address in all.iter().filter(|address| is_public(address.ip())) {
            public.push(*address);
        }
        match (public.is_empty(), all.first()) {
            (true, Some(address)) => Err(refused(uri, address.ip())),
            _ => Ok(public),
        }
    }
}

#[cold]
fn refused(uri: &Uri, address: std::net::IpAddr) -> Error {
    let host = excerpt(uri.host().unwrap_or_default());
    let message = format!(
        "{host} has the address {address}, which is not on the public internet; \
         `--webhook-allow-private` (`WebhookOptions::allow_private`) permits it"
    );
    Error::Io(std::io::Error::new(std::io::ErrorKind::PermissionDenied, message))
}

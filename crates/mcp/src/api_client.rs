//! Requests to a REST API: to a running server, or to routes in this process.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use marmota_http::{Method, Router, TestRequest};
use marmota_model::{Error, ErrorKind, Result};
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

/// The time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum size of the OpenAPI document, and of an answer before its own limit is checked.
const BODY_BYTES_MAX: u64 = 16 << 20;

/// A client of a REST API, with the credential of its caller.
pub struct ApiClient {
    transport: Transport,
    /// The path of the API.
    prefix: String,
    key: Option<String>,
}

/// How requests reach the API.
enum Transport {
    Url { agent: Agent, origin: String },
    Routes(Arc<Router>),
}

/// An answer of the API.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl ApiClient {
    /// Returns a client of the API of a running server. `url` is that of the server, or of its API
    /// if this is not at `/api`. `key` is an API key or a token of a session.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a URL that is not `http:` or `https:`.
    pub fn at_url(url: &str, key: Option<&str>) -> Result<Self> {
        let wrong = || {
            let shown = marmota_model::text::excerpt(url);
            let message = format!("`{shown}` is not a URL such as https://example.org");
            Error::new(ErrorKind::Invalid, message)
        };
        let parsed: ureq::http::Uri = url.parse().map_err(|_| wrong())?;
        let (Some(scheme @ ("http" | "https")), Some(authority)) =
            (parsed.scheme_str(), parsed.authority())
        else {
            return Err(wrong());
        };
        let prefix = match parsed.path().trim_end_matches('/') {
            "" => "/api",
            prefix => prefix,
        };
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(TIMEOUT))
            .user_agent(concat!("Marmota-MCP/", env!("CARGO_PKG_VERSION")))
            .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
            .build();
        Ok(Self {
            transport: Transport::Url {
                agent: config.into(),
                origin: format!("{scheme}://{authority}"),
            },
            prefix: prefix.to_owned(),
            key: key.map(str::to_owned),
        })
    }

    /// Returns a client of routes in this process, with REST at `/api`.
    #[must_use]
    pub fn of_routes(routes: Router, key: Option<&str>) -> Self {
        Self::of_shared(Arc::new(routes), key)
    }

    pub(crate) fn of_shared(routes: Arc<Router>, key: Option<&str>) -> Self {
        Self {
            transport: Transport::Routes(routes),
            prefix: "/api".to_owned(),
            key: key.map(str::to_owned),
        }
    }

    /// Returns the path of the API.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Sends a request, and blocks the thread until its answer. `body` is JSON.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if there is no answer.
    pub(crate) fn send(&self, method: Method, target: &str, body: Option<&str>) -> Result<Answer> {
        match &self.transport {
            Transport::Routes(routes) => {
                let mut request = TestRequest::new(method, target);
                if let Some(key) = &self.key {
                    request = request.header("Authorization", format!("Bearer {key}"));
                }
                if let Some(body) = body {
                    request = request.header("Content-Type", "application/json").body(body);
                }
                let answer = routes.call(request).map_err(|error| no_answer(&error))?;
                Ok(Answer { status: answer.status().code(), body: answer.text().to_owned() })
            }
            Transport::Url { agent, origin } => {
                let mut request = ureq::http::Request::builder()
                    .method(method.name())
                    .uri(format!("{origin}{target}"));
                if let Some(key) = &self.key {
                    request = request.header("Authorization", format!("Bearer {key}"));
                }
                if body.is_some() {
                    request = request.header("Content-Type", "application/json");
                }
                let request =
                    request.body(body.unwrap_or_default().to_owned()).map_err(|error| {
                        Error::new(ErrorKind::Invalid, format!("no request can be made: {error}"))
                    })?;
                let mut answer = agent.run(request).map_err(|error| no_answer(&error))?;
                let status = answer.status().as_u16();
                let body = answer.body_mut().with_config().limit(BODY_BYTES_MAX).read_to_string();
                Ok(Answer { status, body: body.map_err(|error| no_answer(&error))? })
            }
        }
    }
}

#[cold]
fn no_answer(error: &dyn fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("the API does not answer: {error}"))
}

impl fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiClient").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

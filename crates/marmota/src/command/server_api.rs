//! The REST API of a running server, for commands.

use std::time::Duration;

use ureq::tls::{RootCerts, TlsConfig};

/// The time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum length of an answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// The API of a server at a URL.
pub(super) struct ServerApi {
    agent: ureq::Agent,
    /// The URL as it was given.
    url: String,
    /// The URL of the API.
    api: String,
    token: Option<String>,
}

/// The answer to a request.
pub(super) struct ServerAnswer {
    pub(super) status: u16,
    pub(super) body: String,
}

impl ServerApi {
    /// Checks the URL, which may have a path if the API is not at `/api`. Sends nothing.
    pub(super) fn new(url: &str, token: Option<&str>) -> Result<Self, String> {
        let address: ureq::http::Uri = url
            .parse()
            .map_err(|_| format!("`{url}` is not a URL such as https://shop.example.org"))?;
        let trimmed = url.trim_end_matches('/');
        let api = if address.path() == "/" { format!("{trimmed}/api") } else { trimmed.to_owned() };
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT))
            .tls_config(tls)
            .build();
        let agent = ureq::Agent::new_with_config(config);
        Ok(Self { agent, url: url.to_owned(), api, token: token.map(str::to_owned) })
    }

    /// Sends a request, with a body as JSON if there is one.
    pub(super) fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> Result<ServerAnswer, String> {
        let failed =
            |error: &dyn std::fmt::Display| format!("{} does not answer: {error}", self.url);
        let mut request =
            ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.api));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let sent = match body {
            Some(body) => {
                let request = request.header("Content-Type", "application/json").body(body);
                self.agent.run(request.map_err(|error| failed(&error))?)
            }
            None => self.agent.run(request.body(()).map_err(|error| failed(&error))?),
        };
        let mut answer = sent.map_err(|error| failed(&error))?;
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        Ok(ServerAnswer { status, body: body.map_err(|error| failed(&error))? })
    }

    /// Returns the message for an answer that is not a success.
    pub(super) fn refusal(&self, answer: &ServerAnswer) -> String {
        let (url, status) = (&self.url, answer.status);
        let problem: Option<serde_json::Value> = serde_json::from_str(&answer.body).ok();
        match (status, problem.as_ref().and_then(|problem| problem["detail"].as_str())) {
            (401 | 403, _) => format!(
                "{url} has answered {status}: give the key of a user with --token or MARMOTA_API_KEY"
            ),
            (404, _) | (_, None) => {
                format!("{url} has answered {status}: is this the URL of the server?")
            }
            (_, Some(detail)) => detail.to_owned(),
        }
    }
}
